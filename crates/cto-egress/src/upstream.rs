//! The one endpoint: where it is, how it is spoken to, and the words that give it away.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use crate::keys::Keys;
use crate::secret::Secret;

const URL_BYTES_MAX: usize = 2 * 1024;
const HOST_BYTES_MAX: usize = 253;

/// A fixed upstream. Its base path stands for `/v1` inside.
#[derive(Clone)]
pub struct Upstream {
    pub(crate) is_tls: bool,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Empty, or begins with a slash and does not end with one.
    pub(crate) base_path: String,
    pub(crate) keys: Keys,
    pub(crate) authorities: Authorities,
    url: String,
}

/// Who may vouch for the name of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authorities {
    /// Those of the system.
    #[default]
    System,
    /// Those of a PEM file and nobody else.
    File(PathBuf),
}

/// Why a base URL cannot be used. It never quotes the URL.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UpstreamError {
    #[error("the base URL begins with neither http:// nor https://")]
    Scheme,
    #[error("the base URL holds a user name or password; a key comes from the provider's settings")]
    UserInfo,
    #[error("the base URL holds a query or a fragment")]
    Query,
    #[error("the base URL's host is not a name or an address")]
    Host,
    #[error("the base URL's port is not a number between 1 and 65535")]
    Port,
    #[error("the base URL's path holds something other than plain segments")]
    Path,
    #[error("the base URL is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
}

impl Upstream {
    /// Reads a base URL such as `https://models.example.org/v1`.
    pub fn parse(url: &str) -> Result<Self, UpstreamError> {
        if url.len() > URL_BYTES_MAX {
            return Err(UpstreamError::TooLong);
        }
        let (is_tls, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some(_) | None => return Err(UpstreamError::Scheme),
        };
        if rest.contains(['?', '#']) {
            return Err(UpstreamError::Query);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(UpstreamError::UserInfo);
        }
        let (host, port) = split_port(authority)?;
        let default = if is_tls { 443 } else { 80 };
        let port = match port {
            None => default,
            Some(text) => port_number(text).ok_or(UpstreamError::Port)?,
        };
        let base_path = path.trim_end_matches('/');
        let plain = |segment: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
            !segment.is_empty() && segment != "." && segment != ".." && segment.bytes().all(allowed)
        };
        if !base_path.split('/').skip(1).all(plain) {
            return Err(UpstreamError::Path);
        }
        Ok(Self {
            is_tls,
            host: host.to_ascii_lowercase(),
            port,
            base_path: base_path.to_owned(),
            keys: Keys::default(),
            authorities: Authorities::System,
            url: url.to_owned(),
        })
    }

    /// Adds the key that every request carries as its bearer.
    #[must_use]
    pub fn with_key(self, key: Option<Secret>) -> Self {
        self.with_keys(Keys::fixed(key))
    }

    /// Adds where the keys come from.
    #[must_use]
    pub fn with_keys(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }

    #[must_use]
    pub fn with_authorities(self, authorities: Authorities) -> Self {
        Self {
            authorities,
            ..self
        }
    }

    /// Returns the spellings that give the endpoint away and occur in no honest text: for whoever takes secrets out.
    ///
    /// A loopback address alone is no secret: it is what an agent sees itself.
    #[must_use]
    pub fn telling_words(&self) -> Vec<String> {
        let host = self.host_in_url();
        let mut words = vec![self.url.clone(), format!("{host}:{}", self.port)];
        if !self.is_loopback() {
            words.push(self.host.clone());
        }
        words
    }

    /// The value of `Host`.
    pub(crate) fn host_header(&self) -> String {
        let host = self.host_in_url();
        match (self.is_tls, self.port) {
            (false, 80) | (true, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    fn host_in_url(&self) -> String {
        if self.host.parse::<Ipv6Addr>().is_ok() {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }

    fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("is_tls", &self.is_tls)
            .field("has_key", &self.keys.are_there())
            .finish_non_exhaustive()
    }
}

/// Splits host and port; the host is checked and without brackets.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), UpstreamError> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(UpstreamError::Host)?;
        if host.parse::<Ipv6Addr>().is_err() {
            return Err(UpstreamError::Host);
        }
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(UpstreamError::Host),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let label = |label: &str| {
        let letters = label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-');
        !label.is_empty() && label.len() <= 63 && letters && !label.starts_with('-')
    };
    if host.len() > HOST_BYTES_MAX || !host.split('.').all(label) {
        return Err(UpstreamError::Host);
    }
    Ok((host, port))
}

fn port_number(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&port| digits && port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> String {
        match Upstream::parse(url) {
            Ok(up) => format!(
                "{} {} {} `{}`",
                if up.is_tls { "tls" } else { "plain" },
                up.host,
                up.port,
                up.base_path
            ),
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn a_base_url_is_scheme_host_port_and_plain_path() {
        let cases = [
            ("http://127.0.0.1:8080/v1", "plain 127.0.0.1 8080 `/v1`"),
            (
                "https://Models.Example.org",
                "tls models.example.org 443 ``",
            ),
            ("http://[::1]:9/a/v1/", "plain ::1 9 `/a/v1`"),
            ("HTTPS://x", "tls x 443 ``"),
            ("ftp://x", "Scheme"),
            ("x/v1", "Scheme"),
            ("http://u:p@x/", "UserInfo"),
            ("http://x?y", "Query"),
            ("http://x#y", "Query"),
            ("http://", "Host"),
            ("http://a..b", "Host"),
            ("http://a b", "Host"),
            ("http://[::1", "Host"),
            ("http://[zz]", "Host"),
            ("http://x:0", "Port"),
            ("http://x:+1", "Port"),
            ("http://x:99999", "Port"),
            ("http://x:1:2", "Port"),
            ("http://x/a//b", "Path"),
            ("http://x/../b", "Path"),
            ("http://x/%2e", "Path"),
            ("http://x/a b", "Path"),
        ];
        for (url, expected) in cases {
            assert_eq!(read(url), expected, "{url}");
        }
        assert_eq!(read(&format!("http://x/{}", "a".repeat(3000))), "TooLong");
    }

    #[test]
    fn nothing_of_it_is_shown() {
        let key = Secret::new("sk-very-secret").ok();
        let up = Upstream::parse("http://hidden.example:81/v1").unwrap();
        let shown = format!("{:?}", up.with_key(key));
        assert_eq!(shown, "Upstream { is_tls: false, has_key: true, .. }");
    }

    #[test]
    fn a_name_is_telling_and_loopback_alone_is_not() {
        let words = |url: &str| Upstream::parse(url).unwrap().telling_words().join(" ");
        assert_eq!(
            words("https://m.example/v1"),
            "https://m.example/v1 m.example:443 m.example"
        );
        assert_eq!(
            words("http://127.0.0.1:8080/v1"),
            "http://127.0.0.1:8080/v1 127.0.0.1:8080"
        );
    }
}
