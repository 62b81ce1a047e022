//! A small fast S3 server for tests and benchmarks: path-style GET, HEAD and ListObjectsV2, objects in memory, made up
//! from a seed, or in a directory, every request counted, faults on demand.
//!
//! It checks no signatures and knows one bucket, whatever it is called.

mod answer;
mod body;
mod fault;
mod listing;
mod object;

pub use fault::Fault;
pub use object::{Object, synthetic};

use bytes::Bytes;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// One request as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// GET or HEAD.
    pub method: String,
    /// The key, empty for a listing.
    pub key: String,
    /// The `Range` header.
    pub range: Option<String>,
    /// The `If-Match` header.
    pub if_match: Option<String>,
    /// Whether it was signed.
    pub signed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    objects: Mutex<BTreeMap<String, Object>>,
    faults: Mutex<HashMap<String, VecDeque<Fault>>>,
    seen: Mutex<Vec<Seen>>,
    /// Whether requests are remembered; benchmarks would fill memory with them.
    remember: bool,
    bytes: AtomicU64,
    requests: AtomicU64,
    open: AtomicUsize,
    peak: AtomicUsize,
    latency: Mutex<Duration>,
    page: AtomicUsize,
}

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    state: Arc<State>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts an empty server in the current runtime; port 0 picks a free one. Every request is remembered.
    pub async fn start(address: &str) -> io::Result<Self> {
        Self::serve(address, State { remember: true, page: AtomicUsize::new(1000), ..State::default() }).await
    }

    /// Starts a server of the files below a directory, as they are now.
    pub async fn start_dir(address: &str, dir: &Path) -> io::Result<Self> {
        let objects = Mutex::new(object::directory(dir)?);
        Self::serve(address, State { objects, page: AtomicUsize::new(1000), ..State::default() }).await
    }

    async fn serve(address: &str, state: State) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let (address, state) = (listener.local_addr()?, Arc::new(state));
        let task = tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { state, address, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The endpoint to give to clients.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stores an object, or replaces it.
    pub fn put(&self, key: &str, object: impl Into<Object>) {
        self.state.objects.lock().insert(key.into(), object.into());
    }

    /// Removes an object.
    pub fn remove(&self, key: &str) {
        self.state.objects.lock().remove(key);
    }

    /// The ETag of an object.
    pub fn etag(&self, key: &str) -> Option<String> {
        self.state.objects.lock().get(key).map(Object::etag)
    }

    /// What goes wrong with the next requests for a key (an empty key: the next listings), one fault a request.
    pub fn faults(&self, key: &str, faults: impl IntoIterator<Item = Fault>) {
        self.state.faults.lock().entry(key.into()).or_default().extend(faults);
    }

    /// What every request waits for.
    pub fn set_latency(&self, latency: Duration) {
        *self.state.latency.lock() = latency;
    }

    /// The most keys on a page of a listing.
    pub fn set_page(&self, keys: usize) {
        self.state.page.store(keys, Ordering::Relaxed);
    }

    /// The requests so far, forgotten with this call.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.state.seen.lock())
    }

    /// How many requests there were.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// How many bytes of objects were sent.
    pub fn bytes_sent(&self) -> u64 {
        self.state.bytes.load(Ordering::Relaxed)
    }

    /// The most requests that were under way at once, from their arrival to the end of their bodies.
    pub fn peak(&self) -> usize {
        self.state.peak.load(Ordering::Relaxed)
    }

    /// Serves until the process ends.
    pub async fn wait(mut self) {
        // The task ends only with the runtime.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    /// Counts a request until the guard is dropped.
    fn enter(self: &Arc<Self>) -> Guard {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.fetch_max(open, Ordering::Relaxed);
        Guard { state: Arc::clone(self) }
    }

    fn next_fault(&self, key: &str) -> Fault {
        self.faults.lock().get_mut(key).and_then(VecDeque::pop_front).unwrap_or(Fault::None)
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Guard {
    state: Arc<State>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.state.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl From<Bytes> for Object {
    fn from(bytes: Bytes) -> Self {
        Object::memory(bytes)
    }
}

impl From<Vec<u8>> for Object {
    fn from(bytes: Vec<u8>) -> Self {
        Object::memory(bytes.into())
    }
}

impl From<&str> for Object {
    fn from(text: &str) -> Self {
        Object::memory(Bytes::copy_from_slice(text.as_bytes()))
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    // The connections end with the server, so that a test sees it go.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(connection(stream, Arc::clone(&state)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection. Its twin is the same socket, kept to make its end a reset.
async fn connection(stream: TcpStream, state: Arc<State>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let twin = Arc::new(TcpStream::from_std(stream.try_clone()?)?);
    let stream = TokioIo::new(TcpStream::from_std(stream)?);
    let service = service_fn(|request| answer::answer(Arc::clone(&state), Arc::clone(&twin), request));
    let served = http1::Builder::new().writev(true).max_buf_size(1 << 20).serve_connection(stream, service).await;
    served.map_err(io::Error::other)
}
