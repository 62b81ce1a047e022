//! The connection under a client: where it goes, how it is tuned, how a dead one is noticed.

use super::Timeouts;
use crate::{Address, Error, Result};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// The largest message taken from a node: a batch of about 1 MiB, and some room.
pub(super) const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// HTTP/2's windows: large enough that loopback never waits for one.
const WINDOW_BYTES: u32 = 8 << 20;

/// HTTP/2's frames: large, since each costs a turn of the state machine on both sides.
const FRAME_BYTES: u32 = 1 << 20;

/// How often a silent node is asked whether it lives, and how long it may take to say so.
const PING: Duration = Duration::from_secs(10);

/// A channel that connects at its first use and again when the connection is lost.
pub(super) fn open(address: &Address, timeouts: Timeouts) -> Result<Channel> {
    let uri = match address {
        Address::Tcp(host) => format!("http://{host}"),
        Address::Unix(_) => "http://localhost".to_owned(),
    };
    let endpoint = Endpoint::from_shared(uri)
        .map_err(|error| Error::Invalid(format!("{address} is not an address: {error}")))?
        .connect_timeout(timeouts.connect)
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(2 * WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .http2_keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .keep_alive_while_idle(false);
    Ok(match address {
        Address::Tcp(_) => endpoint.connect_lazy(),
        Address::Unix(path) => {
            let path = path.clone();
            endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
                let path = path.clone();
                async move { UnixStream::connect(path).await.map(TokioIo::new) }
            }))
        }
    })
}
