//! The way to the upstream: its addresses and its certificates, settled once before anything starts.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::socket::{Socket, StopSign};
use crate::upstream::{Authorities, Upstream};

/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 8;

/// An upstream whose name was looked up. The addresses hold for the whole run.
#[derive(Clone)]
pub struct Route {
    pub(crate) upstream: Upstream,
    addresses: Vec<SocketAddr>,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// Why there is no way to the upstream. It never names it.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    #[error("the endpoint's name could not be looked up")]
    Lookup(#[source] io::Error),
    #[error("the endpoint's name has no address")]
    NoAddress,
    #[error("certificates could not be read from `{path}`")]
    AuthorityFile {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("no certificate authority could be found: name a `ca_file` for the provider")]
    NoAuthorities,
    #[error("TLS could not be set up")]
    Tls(#[source] rustls::Error),
    #[error("the endpoint's name can't be checked by TLS")]
    TlsName,
}

impl Route {
    /// Looks the upstream up and reads the certificates that vouch for it.
    pub fn open(upstream: Upstream) -> Result<Self, RouteError> {
        let addresses: Vec<_> = (upstream.host.as_str(), upstream.port)
            .to_socket_addrs()
            .map_err(RouteError::Lookup)?
            .take(ADDRESSES_MAX)
            .collect();
        if addresses.is_empty() {
            return Err(RouteError::NoAddress);
        }
        let tls = match upstream.is_tls {
            false => None,
            true => {
                let name = ServerName::try_from(upstream.host.clone());
                Some((
                    client_config(&upstream.authorities)?,
                    name.map_err(|_| RouteError::TlsName)?,
                ))
            }
        };
        Ok(Self {
            upstream,
            addresses,
            tls,
        })
    }

    /// Returns all that gives the endpoint away, its addresses too.
    #[must_use]
    pub fn telling_words(&self) -> Vec<String> {
        let mut words = self.upstream.telling_words();
        for address in &self.addresses {
            words.push(address.to_string());
            if !address.ip().is_loopback() {
                words.push(address.ip().to_string());
            }
        }
        words
    }

    pub(crate) fn connect(&self, stop: &StopSign, patience: Duration) -> io::Result<Link> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for &address in &self.addresses {
            match Socket::connect(address, Arc::clone(stop), patience) {
                Ok(socket) => return self.dress(socket),
                Err(error) if crate::socket::is_stop(&error) => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn dress(&self, socket: Socket) -> io::Result<Link> {
        let Some((config, name)) = &self.tls else {
            return Ok(Link::Plain(socket));
        };
        let connection = ClientConnection::new(Arc::clone(config), name.clone());
        let connection = connection.map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, socket);
        // Now, so that a bad certificate is known before a key is sent.
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Link::Tls(Box::new(stream)))
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

fn client_config(authorities: &Authorities) -> Result<Arc<ClientConfig>, RouteError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Authorities::System => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
        Authorities::File(path) => {
            let unreadable = |source| RouteError::AuthorityFile {
                path: path.clone(),
                source,
            };
            let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
                .map_err(unreadable)?
                .collect();
            roots.add_parsable_certificates(all.map_err(unreadable)?);
        }
    }
    if roots.is_empty() {
        return Err(RouteError::NoAuthorities);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(RouteError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// An open connection to the upstream.
#[derive(Debug)]
pub(crate) enum Link {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Link {
    pub(crate) fn socket(&mut self) -> &mut Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &mut stream.sock,
        }
    }
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
