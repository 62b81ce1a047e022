//! The peer: Debian's Redis, started for one scenario, and the leanest client for it that Rust allows, so that
//! Redis is not blamed for somebody's parser.

use anyhow::{Context, Result, bail, ensure};
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpListener,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A running redis-server without persistence; ends when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    /// Its Unix socket.
    pub(crate) socket: PathBuf,
    /// Its TCP port on the loopback.
    pub(crate) port: u16,
}

impl Server {
    /// Starts a server in `dir`, installing Debian's package first where that is possible.
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        install()?;
        let socket = dir.join("redis.sock");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .args(["--daemonize", "no", "--loglevel", "warning"])
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(dir)
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start redis-server")?;
        let server = Self { process, socket, port };
        let deadline = Instant::now() + Duration::from_secs(10);
        while UnixStream::connect(&server.socket).is_err() {
            ensure!(Instant::now() < deadline, "redis-server did not open its socket within ten seconds");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes sure that redis-server exists.
fn install() -> Result<()> {
    let exists = || Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok();
    if exists() {
        return Ok(());
    }
    if rustix::process::geteuid().is_root() {
        let quiet = |arguments: &[&str]| {
            Command::new("apt-get")
                .args(arguments)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .stdout(Stdio::null())
                .status()
        };
        quiet(&["update", "-qq"])?;
        quiet(&["install", "-y", "-qq", "--no-install-recommends", "redis-server"])?;
    }
    ensure!(exists(), "redis-server is not installed; run: sudo apt-get install redis-server");
    Ok(())
}

/// A connection that asks for many values at once.
#[derive(Debug)]
pub(crate) struct Client<S> {
    stream: S,
    request: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    /// Speaks over `stream`.
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, request: Vec::new() }
    }

    /// Stores a value.
    pub(crate) fn set(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.request.clear();
        write!(self.request, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n", key.len(), value.len())?;
        self.request.extend_from_slice(value);
        self.request.extend_from_slice(b"\r\n");
        self.stream.write_all(&self.request)?;
        let mut reply = [0; 5];
        self.stream.read_exact(&mut reply)?;
        ensure!(&reply == b"+OK\r\n", "redis answered SET with {:?}", String::from_utf8_lossy(&reply));
        Ok(())
    }

    /// Asks for values with one MGET. They are read into `buffer`, which must have room for the whole reply, and `values`
    /// is filled with where in it they lie.
    pub(crate) fn mget<'k>(
        &mut self,
        keys: impl ExactSizeIterator<Item = &'k str>,
        buffer: &mut [u8],
        values: &mut Vec<std::ops::Range<usize>>,
    ) -> Result<()> {
        let count = keys.len();
        self.request.clear();
        write!(self.request, "*{}\r\n$4\r\nMGET\r\n", count + 1)?;
        for key in keys {
            write!(self.request, "${}\r\n{key}\r\n", key.len())?;
        }
        self.stream.write_all(&self.request)?;
        values.clear();
        let mut reply = Incoming { stream: &mut self.stream, buffer, filled: 0, at: 0 };
        ensure!(reply.header(b'*')? == count, "redis answered MGET with another number of values");
        for _ in 0..count {
            let len = reply.header(b'$')?;
            values.push(reply.take(len)?);
            reply.take(2)?;
        }
        Ok(())
    }
}

/// A reply that is being read, as much at a time as the socket gives.
struct Incoming<'a, S> {
    stream: &'a mut S,
    buffer: &'a mut [u8],
    filled: usize,
    at: usize,
}

impl<S: Read> Incoming<'_, S> {
    /// A line `<kind><number>\r\n`.
    fn header(&mut self, kind: u8) -> Result<usize> {
        loop {
            let line = &self.buffer[self.at..self.filled];
            if let Some(end) = line.iter().take(32).position(|&byte| byte == b'\n') {
                let text = std::str::from_utf8(&line[..end])?.trim_end();
                ensure!(line[0] == kind, "redis answered {text:?}");
                let number = text[1..].parse().with_context(|| format!("redis answered {text:?}"))?;
                self.at += end + 1;
                return Ok(number);
            }
            ensure!(line.len() < 32, "redis answered a line that does not end");
            self.read_more()?;
        }
    }

    /// The next `len` bytes.
    fn take(&mut self, len: usize) -> Result<std::ops::Range<usize>> {
        let range = self.at..self.at + len;
        while self.filled < range.end {
            self.read_more()?;
        }
        self.at = range.end;
        Ok(range)
    }

    fn read_more(&mut self) -> Result<()> {
        ensure!(self.filled < self.buffer.len(), "redis answered more than the buffer holds");
        match self.stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => bail!("redis closed the connection"),
            Ok(count) => self.filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its reply a few bytes at a time, and keeps what it was asked.
    struct Trickle {
        asked: Vec<u8>,
        reply: &'static [u8],
        step: usize,
    }

    impl Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.step.min(buffer.len()).min(self.reply.len());
            buffer[..count].copy_from_slice(&self.reply[..count]);
            self.reply = &self.reply[count..];
            Ok(count)
        }
    }

    impl Write for Trickle {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.asked.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn mget(reply: &'static [u8], step: usize) -> Result<Vec<Vec<u8>>> {
        let mut client = Client::new(Trickle { asked: Vec::new(), reply, step });
        let (mut buffer, mut values) = ([0; 64], Vec::new());
        client.mget(["a", "bc"].into_iter(), &mut buffer, &mut values)?;
        assert_eq!(client.stream.asked, b"*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$2\r\nbc\r\n");
        Ok(values.into_iter().map(|range| buffer[range].to_vec()).collect())
    }

    #[test]
    fn values_are_found_however_the_reply_is_cut() -> Result<()> {
        for step in 1..40 {
            assert_eq!(mget(b"*2\r\n$3\r\n\r\n!\r\n$5\r\nhello\r\n", step)?, [b"\r\n!".to_vec(), b"hello".to_vec()]);
        }
        Ok(())
    }

    #[test]
    fn an_answer_that_is_no_batch_is_an_error() {
        for reply in [&b"-ERR no\r\n"[..], b"*1\r\n$0\r\n\r\n", b"*2\r\n$-1\r\n$-1\r\n", b"*2\r\n$3\r\nab"] {
            assert!(mget(reply, 7).is_err(), "{}", String::from_utf8_lossy(reply));
        }
    }
}
