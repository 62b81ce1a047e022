//! A running node: its addresses, its start and its end.

use crate::{
    cluster::Trust,
    frames, grpc,
    listener::{
        Listener, Reception, Stream, Wire,
        bind::{self, SocketFile},
    },
    rest,
};
use fodder_core::{Engine, Error, Result};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use serde::{Deserialize, Serialize};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::server::Connected;
use tower::ServiceExt;

/// After so long a client that sends nothing of a request it began, or takes nothing of its answer, is given up.
const STALL: Duration = Duration::from_secs(30);

/// How long connections that were told to end may take to do so.
const CLOSE: Duration = Duration::from_secs(2);

/// How often a silent gRPC client is asked whether it lives, and how long it may take to say so.
const PING: Duration = Duration::from_secs(20);

/// Calls under way on one gRPC connection.
const MAX_CALLS: u32 = 256;

/// What a gRPC client may send before it waits: requests are small, answers are bounded by the client's own windows.
const WINDOW_BYTES: u32 = 4 << 20;

/// The largest HTTP/2 frame taken from a client.
const FRAME_BYTES: u32 = 1 << 20;

/// What a user may set about a node's doors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeConfig {
    /// Where REST and metrics listen; port 0 picks a free one.
    pub rest: SocketAddr,
    /// Where gRPC and frames listen; port 0 picks a free one.
    pub grpc: SocketAddr,
    /// The Unix socket on which gRPC and frames listen too.
    pub socket: Option<PathBuf>,
    /// The most connections at a time on the REST port, and again on the others together; more are closed at once.
    pub max_connections: usize,
    /// How long a node that is told to stop may take: three quarters of it for requests that are under way, the rest for
    /// closing connections, tiers and threads.
    #[serde(with = "human_duration")]
    pub drain: Duration,
    /// How iCache's doors behave.
    pub icache: crate::IcacheConfig,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            rest: SocketAddr::from(([127, 0, 0, 1], 18283)),
            grpc: SocketAddr::from(([127, 0, 0, 1], 18284)),
            socket: None,
            max_connections: 1024,
            drain: Duration::from_secs(20),
            icache: crate::IcacheConfig::default(),
        }
    }
}

/// Where a node listens: the actual ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// REST and metrics.
    pub rest: SocketAddr,
    /// gRPC and frames.
    pub grpc: SocketAddr,
    /// gRPC and frames on this host.
    pub socket: Option<PathBuf>,
}

/// What a node says about itself.
#[derive(Debug, Clone)]
pub struct NodeInfo {
    /// The version of the program.
    pub version: &'static str,
    /// When it started.
    pub started_at: SystemTime,
    /// Where it listens.
    pub addresses: Addresses,
    /// What its doors share.
    pub state: Arc<crate::NodeState>,
}

/// A running node. Dropped without [`Node::shutdown`], it ends at once.
#[derive(Debug)]
pub struct Node {
    info: Arc<NodeInfo>,
    drain: Duration,
    frames: Arc<frames::Door>,
    /// Takes no more connections; each asynchronous door finishes what is under way.
    stop: CancellationToken,
    /// Ends every connection.
    closed: CancellationToken,
    tasks: TaskTracker,
    _socket: Option<SocketFile>,
}

impl Node {
    /// Opens the doors of an engine. Needs a tokio runtime around it.
    pub async fn start(config: NodeConfig, engine: Arc<Engine>) -> Result<Self> {
        Self::start_with(config, engine, Trust::default(), STALL).await
    }

    /// As [`Node::start`], for a node that answers other machines only if they have what is asked for.
    pub async fn start_secure(config: NodeConfig, engine: Arc<Engine>, trust: Trust) -> Result<Self> {
        Self::start_with(config, engine, trust, STALL).await
    }

    /// As [`Node::start`], with the time after which a client that does not read is given up.
    pub(crate) async fn start_with(
        config: NodeConfig,
        engine: Arc<Engine>,
        trust: Trust,
        stall: Duration,
    ) -> Result<Self> {
        let open = if trust.is_asked() { bind::Open::ToNodes } else { bind::Open::ToAll };
        let rest = bind::tcp(config.rest, "--rest", open).await?;
        let grpc = bind::tcp(config.grpc, "--grpc", open).await?;
        let socket = config.socket.as_deref().map(bind::unix).transpose()?;
        let local = |listener: &TcpListener| {
            listener.local_addr().map_err(|error| Error::Internal(format!("a listener without an address: {error}")))
        };
        let addresses = Addresses { rest: local(&rest)?, grpc: local(&grpc)?, socket: config.socket };
        let info = Arc::new(NodeInfo {
            version: env!("CARGO_PKG_VERSION"),
            started_at: SystemTime::now(),
            addresses,
            state: Arc::new(crate::NodeState::new(config.icache)),
        });
        info.state.secure(trust);
        let (socket, file) = socket.unzip();
        let node = Self {
            drain: config.drain,
            frames: frames::Door::new(Arc::clone(&engine), Arc::clone(&info), stall),
            stop: CancellationToken::new(),
            closed: CancellationToken::new(),
            tasks: TaskTracker::new(),
            _socket: file,
            info,
        };
        node.open_rest(&engine, rest, config.max_connections, stall);
        let wire = [Some(Listener::Tcp(grpc)), socket.map(Listener::Unix)];
        node.open_wire(&engine, wire.into_iter().flatten(), config.max_connections, stall);
        Ok(node)
    }

    /// Where it listens.
    pub fn addresses(&self) -> &Addresses {
        &self.info.addresses
    }

    /// What it says about itself, and what its doors share.
    pub fn info(&self) -> &Arc<NodeInfo> {
        &self.info
    }

    /// Takes no more connections, waits for what is under way, then closes the rest. The engine stays open.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.frames.drain();
        self.tasks.close();
        let all_ended = async { tokio::join!(self.tasks.wait(), self.frames.ended()) };
        let patience = self.drain / 4 * 3;
        if tokio::time::timeout(patience, all_ended).await.is_err() {
            tracing::warn!(after = ?patience, "closing connections whose requests did not end in time");
        }
        self.closed.cancel();
        self.frames.close();
        let all_ended = async { tokio::join!(self.tasks.wait(), self.frames.ended()) };
        if tokio::time::timeout(CLOSE, all_ended).await.is_err() {
            tracing::warn!("some connections did not end; they are closed with the process");
        }
    }

    fn reception(&self, max_connections: usize, stall: Duration) -> Arc<Reception> {
        Arc::new(Reception {
            info: Arc::clone(&self.info),
            places: Arc::new(Semaphore::new(max_connections.clamp(1, Semaphore::MAX_PERMITS))),
            stall,
            stop: self.stop.clone(),
            closed: self.closed.clone(),
            tasks: self.tasks.clone(),
        })
    }

    /// HTTP/1 on a port of its own.
    fn open_rest(&self, engine: &Arc<Engine>, listener: TcpListener, max_connections: usize, stall: Duration) {
        let router = rest::router(Arc::clone(engine), Arc::clone(&self.info));
        let reception = self.reception(max_connections, stall);
        self.tasks.spawn(async move {
            let welcome = |raw, place| {
                let stream = reception.stream(raw, [0; 4], place, |info| &info.state.connections.rest);
                let stop = reception.stop.clone();
                reception.tasks.spawn(serve_http(stream, router.clone(), stop));
            };
            reception.receive(Listener::Tcp(listener), welcome).await;
        });
    }

    /// gRPC and frames on the TCP port and the Unix socket.
    fn open_wire(
        &self,
        engine: &Arc<Engine>,
        listeners: impl Iterator<Item = Listener>,
        max_connections: usize,
        stall: Duration,
    ) {
        let (sender, incoming) = mpsc::channel(1);
        let router = grpc::router(Arc::clone(engine), Arc::clone(&self.info), stall);
        let server = tonic::transport::Server::builder()
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .max_concurrent_streams(MAX_CALLS)
            .http2_keepalive_interval(Some(PING))
            .http2_keepalive_timeout(Some(PING))
            .add_routes(router.into())
            .serve_with_incoming_shutdown(ReceiverStream::new(incoming), self.stop.clone().cancelled_owned());
        self.tasks.spawn(async move {
            if let Err(error) = server.await {
                tracing::error!(%error, "the gRPC server ended unexpectedly");
            }
        });
        let frames = Arc::clone(&self.frames);
        let wire = Arc::new(Wire { reception: self.reception(max_connections, stall), grpc: sender, frames });
        for listener in listeners {
            self.tasks.spawn(Arc::clone(&wire).listen(listener));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
        self.closed.cancel();
        self.frames.close();
    }
}

/// Serves one HTTP/1 connection; one that is idle when the node stops is closed at once.
async fn serve_http(stream: Stream, router: axum::Router, stop: CancellationToken) {
    let caller = stream.connect_info();
    let service = TowerToHyperService::new(router.map_request(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(caller.clone());
        request
    }));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(STALL)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}

/// Durations as people write them: `20s`, `5m`.
pub(crate) mod human_duration {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text)
            .map_err(|error| D::Error::custom(format!("{text:?} is not a duration such as 30s or 5m: {error}")))
    }
}
