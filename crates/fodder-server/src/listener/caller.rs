//! Who is on the other side of a connection, as the connection itself tells. Nothing that is said on it counts.

use super::Raw;
use crate::cluster::tls::Vouched;
use std::{net::IpAddr, sync::Arc};
use tokio::net::TcpStream;

/// Who is on the other side of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Whether it is on this machine.
    pub(crate) is_here: bool,
    /// Its address, if it has come over a network.
    pub(crate) from: Option<IpAddr>,
    vouched: Option<Arc<Vouched>>,
}

impl Caller {
    pub(super) fn of(raw: &Raw) -> Self {
        let (is_here, vouched) = match raw {
            Raw::Unix(_) => (true, None),
            Raw::Tcp(stream) => (is_here(stream), None),
            Raw::Tls(stream, vouched) => (is_here(stream.get_ref().0), Some(Arc::clone(vouched))),
        };
        Self { is_here, from: raw.peer().map(|address| address.ip()), vouched }
    }

    /// The node that it is, if it has shown a certificate.
    pub(crate) fn vouched(&self) -> Option<&Vouched> {
        self.vouched.as_deref()
    }

    /// Somebody without a certificate, on this machine or on another.
    #[cfg(test)]
    pub(crate) fn plain(is_here: bool) -> Self {
        Self { is_here, from: None, vouched: None }
    }
}

/// Whether both ends of a connection are on this machine.
fn is_here(stream: &TcpStream) -> bool {
    let (Ok(peer), Ok(own)) = (stream.peer_addr(), stream.local_addr()) else { return false };
    peer.ip().to_canonical().is_loopback() || peer.ip() == own.ip()
}
