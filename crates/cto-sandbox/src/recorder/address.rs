//! Socket addresses as they lie in another process's memory (pure). They are its own words: anything may be in them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest address that the kernel takes.
pub(super) const ADDRESS_BYTES_MAX: usize = 128;
/// Where names are looked up. There is no name server inside, so who asks one asks for the outside.
const NAME_SERVER_PORT: u16 = 53;

/// Where a socket is to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Internet(SocketAddr),
    /// A path.
    Local(Vec<u8>),
    /// A name without a path.
    Abstract(Vec<u8>),
    /// None at all, or of a kind that needs no look.
    Other,
}

impl Address {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self::parsed(bytes).unwrap_or(Self::Other)
    }

    fn parsed(bytes: &[u8]) -> Option<Self> {
        let (family, rest) = bytes.split_first_chunk::<2>()?;
        let family = i32::from(u16::from_ne_bytes(*family));
        Some(match family {
            libc::AF_INET => {
                let (port, rest) = rest.split_first_chunk::<2>()?;
                let (ip, _) = rest.split_first_chunk::<4>()?;
                let ip = IpAddr::V4(Ipv4Addr::from(*ip));
                Self::Internet(SocketAddr::new(ip, u16::from_be_bytes(*port)))
            }
            libc::AF_INET6 => {
                let (port, rest) = rest.split_first_chunk::<2>()?;
                let ip = rest.get(4..)?.first_chunk::<16>()?;
                let ip = IpAddr::V6(Ipv6Addr::from(*ip)).to_canonical();
                Self::Internet(SocketAddr::new(ip, u16::from_be_bytes(*port)))
            }
            libc::AF_UNIX => match rest.split_first()? {
                (0, []) => return None,
                (0, name) => Self::Abstract(name.to_vec()),
                _ => {
                    let end = rest.iter().position(|&byte| byte == 0);
                    Self::Local(rest.get(..end.unwrap_or(rest.len()))?.to_vec())
                }
            },
            _ => return None,
        })
    }

    /// Returns whether an internet address lies beyond a network that is loopback only.
    pub(super) fn is_outside(&self) -> bool {
        match self {
            // The unspecified address means this host.
            Self::Internet(to) => {
                let here = to.ip().is_loopback() || to.ip().is_unspecified();
                !here || to.port() == NAME_SERVER_PORT
            }
            Self::Local(_) | Self::Abstract(_) | Self::Other => false,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Internet(to) => write!(f, "{to}"),
            Self::Local(path) => f.write_str(&String::from_utf8_lossy(path)),
            Self::Abstract(name) => write!(f, "@{}", String::from_utf8_lossy(name)),
            Self::Other => f.write_str("no address"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(family: i32, rest: &[u8]) -> Vec<u8> {
        let family = u16::try_from(family).unwrap().to_ne_bytes();
        [&family[..], rest].concat()
    }

    fn v4(ip: [u8; 4], port: u16) -> Vec<u8> {
        bytes(
            libc::AF_INET,
            &[&port.to_be_bytes()[..], &ip, &[0; 8]].concat(),
        )
    }

    fn v6(ip: &str, port: u16) -> Vec<u8> {
        let ip: Ipv6Addr = ip.parse().unwrap();
        bytes(
            libc::AF_INET6,
            &[&port.to_be_bytes()[..], &[0; 4], &ip.octets(), &[0; 4]].concat(),
        )
    }

    #[test]
    fn loopback_is_inside_but_for_the_name_server() {
        let outside = |bytes: &[u8]| Address::parse(bytes).is_outside();
        assert!(!outside(&v4([127, 0, 0, 1], 80)) && !outside(&v4([0; 4], 80)));
        assert!(!outside(&v6("::1", 80)) && !outside(&v6("::", 80)));
        assert!(!outside(&v6("::ffff:127.0.0.1", 80)));
        assert!(outside(&v4([127, 0, 0, 1], 53)) && outside(&v6("::1", 53)));
        assert!(outside(&v4([169, 254, 169, 254], 80)) && outside(&v6("2001:db8::1", 80)));
        assert!(outside(&v6("::ffff:192.0.2.1", 80)));
    }

    #[test]
    fn addresses_read_as_people_write_them() {
        let shown = |bytes: &[u8]| Address::parse(bytes).to_string();
        assert_eq!(shown(&v4([192, 0, 2, 1], 80)), "192.0.2.1:80");
        assert_eq!(shown(&v6("2001:db8::1", 443)), "[2001:db8::1]:443");
        assert_eq!(shown(&bytes(libc::AF_UNIX, b"/run/x\0zz")), "/run/x");
        assert_eq!(shown(&bytes(libc::AF_UNIX, b"\0name")), "@name");
        assert_eq!(shown(&bytes(libc::AF_UNIX, b"\0")), "no address");
        assert_eq!(shown(&bytes(libc::AF_UNIX, b"")), "no address");
        assert_eq!(shown(&bytes(libc::AF_NETLINK, &[0; 12])), "no address");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..140)) {
            Address::parse(&bytes).to_string();
        }
    }
}
