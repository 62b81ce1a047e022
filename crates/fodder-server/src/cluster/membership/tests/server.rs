//! A real etcd, on an address of its own; dropped, it is dead.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU8, Ordering},
    time::{Duration, Instant},
};
use tempfile::TempDir;

static STARTED: AtomicU8 = AtomicU8::new(1);

pub(super) struct EtcdServer {
    child: Child,
    pub(super) address: SocketAddr,
    _dir: TempDir,
}

impl EtcdServer {
    /// Starts one at an address that no other test has, and waits until it answers. None, if there is no etcd here.
    pub(super) fn start(test: &str) -> Option<Self> {
        let [high, low, ..] = std::process::id().to_le_bytes();
        let ip = Ipv4Addr::new(127, high.max(1), low, STARTED.fetch_add(1, Ordering::Relaxed));
        Self::start_at(SocketAddr::from((ip, 2379)), test)
    }

    /// Starts one that knows nothing at an address.
    pub(super) fn start_at(address: SocketAddr, test: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let (client, peer) = (format!("http://{address}"), format!("http://{}:2380", address.ip()));
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(dir.path())
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("default={peer}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            println!("SKIPPED {test}: there is no etcd here; make test installs it");
            return None;
        };
        let server = Self { child, address, _dir: dir };
        let deadline = Instant::now() + Duration::from_secs(60);
        while std::net::TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "etcd does not answer at {address}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
