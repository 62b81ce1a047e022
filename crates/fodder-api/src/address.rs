//! Where a node listens, as a person writes it.

use crate::{Error, Result};
use std::{
    fmt, io,
    net::IpAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

/// The longest path a Unix socket can have: the kernel's field has 108 bytes, the last of them zero.
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Where a node listens: a Unix socket, or host and port.
///
/// Both speak gRPC and frames. Written `unix:/run/fodder.sock`, `/run/fodder.sock`, `127.0.0.1:18284` or
/// `http://127.0.0.1:18284`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// `host:port`; a host that is an IPv6 address stands in brackets.
    Tcp(String),
}

impl Address {
    /// The Unix socket at a path.
    pub fn unix(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let length = path.as_os_str().len();
        if length > MAX_SOCKET_PATH_BYTES {
            return Err(Error::Invalid(format!(
                "the path of the socket {} has {length} bytes, and the system allows {MAX_SOCKET_PATH_BYTES}: choose a shorter one",
                path.display(),
            )));
        }
        Ok(Self::Unix(path))
    }

    fn tcp(text: &str) -> Result<Self> {
        let wrong = || {
            Error::Invalid(format!(
                "{text:?} is not an address: write HOST:PORT such as 127.0.0.1:18284, or unix:PATH for a socket"
            ))
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || (host.contains(':') && !bracketed) || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        if host.chars().any(|c| c.is_whitespace() || c.is_control() || c == '@') {
            return Err(wrong());
        }
        Ok(Self::Tcp(text.to_owned()))
    }
}

impl Address {
    /// What to do when no connection is made, for a reason.
    pub(crate) fn advice(kind: io::ErrorKind) -> &'static str {
        match kind {
            io::ErrorKind::PermissionDenied => {
                "the node belongs to another user: run this command as that user or as root"
            }
            _ => "check that it is running",
        }
    }

    /// What to look at when the node there took a connection and said nothing on it.
    pub(crate) fn advice_when_mute(&self) -> &'static str {
        let is_elsewhere = match self {
            Self::Unix(_) => false,
            Self::Tcp(address) => {
                let host = address.rsplit_once(':').map_or(&address[..], |(host, _)| host);
                let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
                host != "localhost" && !ip.is_ok_and(|ip| ip.is_loopback())
            }
        };
        match is_elsewhere {
            true => {
                "check that it is running, and whether it has certificates (cluster.tls): such a node answers other machines \
                 over TLS only, and its clients must run on its own machine"
            }
            false => "check that it is running",
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(Error::Invalid("unix: must be followed by a path".into()));
            }
            return Self::unix(path);
        }
        if let Some(rest) = text.strip_prefix("http://") {
            return Self::tcp(rest.trim_end_matches('/'));
        }
        if text.contains("://") {
            return Err(Error::Invalid(format!(
                "{text:?} is not the address of a node: write HOST:PORT, http://HOST:PORT or unix:PATH"
            )));
        }
        if text.contains('/') || Path::new(text).exists() {
            return Self::unix(text);
        }
        Self::tcp(text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => f.write_str(address),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Result<Address> {
        text.parse()
    }

    #[test]
    fn an_address_may_be_a_socket_or_a_host_and_port() {
        let socket = Address::Unix("/run/f.sock".into());
        for text in ["unix:/run/f.sock", "unix:///run/f.sock", "/run/f.sock"] {
            assert_eq!(parse(text).unwrap(), socket, "{text}");
        }
        assert_eq!(parse("./f.sock").unwrap(), Address::Unix("./f.sock".into()));
        assert_eq!(parse("unix:f.sock").unwrap(), Address::Unix("f.sock".into()));
        for text in ["node-3:18284", "http://node-3:18284", "http://node-3:18284/"] {
            assert_eq!(parse(text).unwrap(), Address::Tcp("node-3:18284".into()), "{text}");
        }
        assert_eq!(parse("[::1]:80").unwrap(), Address::Tcp("[::1]:80".into()));
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for text in
            ["", "node", ":80", "node:", "node:http", "node:99999", "::1:80", "a b:80", "https://node:80", "unix:"]
        {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{text}: {error}");
        }
        let long = format!("/{}", "x".repeat(MAX_SOCKET_PATH_BYTES));
        assert!(parse(&long).unwrap_err().to_string().contains("108 bytes"));
    }

    #[test]
    fn an_address_is_printed_as_it_can_be_read() {
        for text in ["unix:/run/f.sock", "node:18284", "[::1]:18284"] {
            assert_eq!(parse(&parse(text).unwrap().to_string()).unwrap(), parse(text).unwrap());
        }
    }
}
