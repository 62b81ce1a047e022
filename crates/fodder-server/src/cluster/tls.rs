//! TLS between nodes: who holds a certificate that the cluster's authority vouches for is a node, and nobody else is.
//!
//! - [`TlsConfig`] names three files; `file` reads them, `keys` makes of them what a connection needs.
//! - `check` is what is asked of the certificate of a node that is connected to.
//! - [`Vouched`] is somebody whose certificate was in order, for as long as it is.
//! - `current` is a connection for calls that ends when the certificates change, to be made anew with those.
//! - `follow` takes up what changes in the files, while everything goes on.
//!
//! Both sides show a certificate on every connection; nothing is resumed. What must not be here: what is said behind it.

mod check;
mod config;
mod current;
pub(crate) mod file;
mod follow;
pub(crate) mod keys;
mod vouched;

pub use config::TlsConfig;
pub(crate) use vouched::Vouched;

use super::membership::Dial;
use arc_swap::ArcSwap;
use current::Current;
use fodder_core::{Error, Result};
use hyper_util::rt::TokioIo;
use keys::Keys;
use parking_lot::Mutex;
use rustls::{ServerConnection, pki_types::ServerName};
use std::{fmt, io, sync::Arc, time::Duration};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use tonic::transport::{Endpoint, Uri};

/// How long another node may take until a connection for a call is there and greeted.
const CONNECT: Duration = Duration::from_secs(2);

/// What a node shows and asks for, as the files have it now.
pub struct Tls {
    config: TlsConfig,
    keys: ArcSwap<Keys>,
    /// What was found in the files last and was of no use, so that it is said once.
    refused: Mutex<Option<blake3::Hash>>,
}

impl Tls {
    /// Reads the files, and says in a sentence what is wrong with them, if something is.
    pub fn read(config: &TlsConfig) -> Result<Arc<Self>> {
        let keys = Keys::new(config, &file::Contents::read(config)?)?;
        keys.warn(config);
        Ok(Arc::new(Self { config: config.clone(), keys: ArcSwap::from_pointee(keys), refused: Mutex::default() }))
    }

    /// Which contents of the files are in use: another number after each change.
    pub fn generation(&self) -> u64 {
        self.keys.load().generation
    }

    /// Connects to a node, and shows and asks for a certificate.
    pub(crate) async fn connect(&self, address: &str) -> io::Result<client::TlsStream<TcpStream>> {
        let name = server_name(address)?;
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(Arc::clone(&self.keys.load().client)).connect(name, stream).await
    }

    /// Greets a node that has connected, of whose words the first are read already.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        stream: TcpStream,
        first: [u8; 4],
    ) -> io::Result<(server::TlsStream<TcpStream>, Arc<Vouched>)> {
        stream.set_nodelay(true)?;
        let keys = self.keys.load_full();
        let mut fed = Ok(0);
        let feed = |connection: &mut ServerConnection| fed = connection.read_tls(&mut &first[..]);
        let accept = TlsAcceptor::from(Arc::clone(&keys.server)).accept_with(stream, feed);
        fed?;
        let stream = accept.await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let chain = chain.iter().map(|one| one.clone().into_owned()).collect();
        Ok((stream, Arc::new(Vouched::new(Arc::clone(self), keys.generation, chain))))
    }

    /// How another node's gRPC is connected to.
    pub(crate) fn dial(self: &Arc<Self>) -> Dial {
        let tls = Arc::clone(self);
        Arc::new(move |address| {
            let endpoint = Endpoint::from_shared(format!("http://{address}"))
                .map_err(|error| Error::Invalid(format!("{address:?} is not an address: {error}")))?;
            let (tls, address) = (Arc::clone(&tls), address.to_owned());
            let connector = tower::service_fn(move |_: Uri| {
                let (tls, address) = (Arc::clone(&tls), address.clone());
                async move {
                    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
                    let generation = tls.generation();
                    let stream = tokio::time::timeout(CONNECT, tls.connect(&address)).await.map_err(late)??;
                    Ok::<_, io::Error>(TokioIo::new(Current { stream, tls, generation }))
                }
            });
            Ok(endpoint.connect_with_connector_lazy(connector))
        })
    }
}

/// Nothing of the keys.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The host of an address such as `node-3:18284` or `[::1]:18284`.
pub(crate) fn server_name(address: &str) -> io::Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    ServerName::try_from(host).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
