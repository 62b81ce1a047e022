//! A real etcd, on an address of its own, open to all or guarded; dropped, it is dead.

use crate::cluster::membership::etcd::EtcdConfig;
use fodder_authority::Authority;
use fodder_testing::skip;
use rustls::{ClientConnection, StreamOwned, pki_types::ServerName};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long anything may take on a slow machine.
const LONG: Duration = Duration::from_secs(60);

/// What is set up at a guarded etcd: somebody for everything, and one who may only do what members do.
const USERS: [(&str, &str); 7] = [
    ("user/add", r#"{"name": "root", "password": "root's password"}"#),
    ("user/grant", r#"{"user": "root", "role": "root"}"#),
    ("user/add", r#"{"name": "fodder", "password": "fodder's password"}"#),
    ("role/add", r#"{"name": "members"}"#),
    // Keys between `/test/members/` and `/test/members0`.
    (
        "role/grant",
        r#"{"name": "members", "perm": {"permType": "READWRITE", "key": "L3Rlc3QvbWVtYmVycy8=", "range_end": "L3Rlc3QvbWVtYmVyczA="}}"#,
    ),
    ("user/grant", r#"{"user": "fodder", "role": "members"}"#),
    ("enable", "{}"),
];

static STARTED: AtomicU8 = AtomicU8::new(1);

pub(crate) struct EtcdServer {
    child: Child,
    pub(crate) address: SocketAddr,
    /// How a member reaches it.
    pub(crate) access: EtcdConfig,
    dir: TempDir,
}

/// An address that no other test has.
fn address() -> SocketAddr {
    let [high, low, ..] = std::process::id().to_le_bytes();
    let ip = Ipv4Addr::new(127, high.max(1), low, STARTED.fetch_add(1, Ordering::Relaxed));
    SocketAddr::from((ip, 2379))
}

impl EtcdServer {
    /// Starts one at an address of its own, and waits until it answers. None, if there is no etcd here.
    pub(crate) fn start() -> Option<Self> {
        Self::start_at(address())
    }

    /// Starts one that knows nothing at an address.
    pub(crate) fn start_at(address: SocketAddr) -> Option<Self> {
        Self::run(address, "http", |_, _| EtcdConfig::default())
    }

    /// One that speaks TLS, asks for a certificate and for a user, and forgets logins within seconds.
    pub(crate) fn start_guarded() -> Option<Self> {
        let address = address();
        let server = Self::run(address, "https", |command, dir| {
            let authority = Authority::new("etcd's");
            let server =
                authority.issue("etcd", &[&address.ip().to_string()]).write(&dir.join("server"), authority.pem());
            let node = authority.issue("a node", &[]).write(&dir.join("node"), authority.pem());
            command.arg("--cert-file").arg(server.cert).arg("--key-file").arg(server.key);
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(server.ca);
            command.args(["--auth-token-ttl", "1", "--bcrypt-cost", "4"]);
            let password = dir.join("password");
            std::fs::write(&password, "fodder's password\n").unwrap();
            EtcdConfig {
                ca: Some(node.ca),
                cert: Some(node.cert),
                key: Some(node.key),
                user: Some("fodder".into()),
                password_file: Some(password),
            }
        })?;
        for (path, body) in USERS {
            let deadline = Instant::now() + LONG;
            loop {
                let answer = server.post(&format!("/v3/auth/{path}"), body);
                if answer.as_ref().is_ok_and(|text| text.starts_with("HTTP/1.1 200") || text.contains("already")) {
                    break;
                }
                assert!(Instant::now() < deadline, "etcd does not set up {path}: {answer:?}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Some(server)
    }

    fn run(address: SocketAddr, scheme: &str, set_up: impl FnOnce(&mut Command, &Path) -> EtcdConfig) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let (client, peer) = (format!("{scheme}://{address}"), format!("http://{}:2380", address.ip()));
        let mut command = Command::new("etcd");
        let access = set_up(&mut command, dir.path());
        let child = command
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("default={peer}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else { skip!("etcd is not installed") };
        let server = Self { child, address, access, dir };
        let deadline = Instant::now() + LONG;
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "etcd does not answer at {address}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    /// Where its files are.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Says something over HTTP and TLS; all that is answered.
    fn post(&self, path: &str, body: &str) -> std::io::Result<String> {
        let config = Arc::clone(&self.access.client().unwrap().unwrap());
        let mut config = Arc::unwrap_or_clone(config);
        config.alpn_protocols.clear();
        let name = ServerName::from(self.address.ip());
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(LONG))?;
        let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream);
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes())?;
        let mut answer = Vec::new();
        // It may end without a farewell.
        let _ = stream.read_to_end(&mut answer);
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
