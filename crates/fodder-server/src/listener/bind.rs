//! Taking an address: a TCP port or the path of a Unix socket, with errors that say what to do.

use fodder_api::address::MAX_SOCKET_PATH_BYTES;
use fodder_core::{Error, Result};
use rustix::{
    fs::Mode,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};
use std::{
    fs, io,
    net::SocketAddr,
    os::unix::{
        fs::{FileTypeExt, MetadataExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};
use tokio::net::{TcpListener, UnixListener};

/// Connections that wait to be taken.
const BACKLOG: i32 = 1024;

/// To whom on other machines a port is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    /// Whoever reaches it.
    ToAll,
    /// Nodes that prove to be of the cluster.
    ToNodes,
}

/// Listens at a TCP address; `flag` is what a person would change.
pub(crate) async fn tcp(address: SocketAddr, flag: &str, open: Open) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Error::Conflict(format!(
            "cannot listen at {address}, which is in use: stop the program that listens there, or choose another \
             address with {flag} HOST:PORT (port 0 picks a free one)"
        )),
        io::ErrorKind::AddrNotAvailable => Error::Invalid(format!(
            "cannot listen at {}, which is not an address of this machine: choose another with {flag} HOST:PORT",
            address.ip()
        )),
        io::ErrorKind::PermissionDenied => Error::Denied(format!(
            "cannot listen at {address}: permission denied; choose a port above 1023 with {flag} HOST:PORT"
        )),
        _ => Error::Unavailable(format!("cannot listen at {address}: {error}; choose another with {flag} HOST:PORT")),
    })?;
    unpace(&listener);
    if !address.ip().is_loopback() && open == Open::ToAll {
        tracing::warn!(
            %address,
            "anyone who can reach this address can read the datasets, add any directory of this machine as a \
             dataset, evict cached data and drain the node: there is no encryption and no authentication"
        );
    }
    Ok(listener)
}

/// Has the answers to all who connect sent as they are ready, where the system paces what is sent (BBR). An answer is a burst, and
/// each would be sent no faster than those before it were seen to arrive: see decision 0018.
fn unpace(listener: &TcpListener) {
    if sockopt::tcp_congestion(listener).is_ok_and(|name| name.starts_with("bbr")) {
        // Which of them a program may choose is the system's to say.
        let _ = ["cubic", "reno"].iter().any(|name| sockopt::set_tcp_congestion(listener, name).is_ok());
    }
}

/// A Unix socket's file, removed when dropped if it is still the same.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens at a path that only this user may open. The socket of a node that is dead is replaced.
pub(crate) fn unix(path: &Path) -> Result<(UnixListener, SocketFile)> {
    let length = path.as_os_str().len();
    if length > MAX_SOCKET_PATH_BYTES {
        return Err(Error::Invalid(format!(
            "the path of the socket {} has {length} bytes, and the system allows {MAX_SOCKET_PATH_BYTES}: choose a \
             shorter one with --socket",
            path.display()
        )));
    }
    make_way(path)?;
    let failed = |error: &io::Error| Error::io("listen at", path, error);
    let listener = bind(path).map_err(|error| failed(&error.into()))?;
    let file = fs::symlink_metadata(path).map_err(|error| failed(&error))?;
    let file = SocketFile { path: path.to_owned(), inode: (file.dev(), file.ino()) };
    listener.set_nonblocking(true).map_err(|error| failed(&error))?;
    Ok((UnixListener::from_std(listener).map_err(|error| failed(&error))?, file))
}

/// Removes what a dead node left; refuses to touch anything else.
fn make_way(path: &Path) -> Result<()> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("read", path, &error)),
        Ok(file) if !file.file_type().is_socket() => {
            let text = format!("{shown} exists and is not a socket: choose another path with --socket");
            return Err(Error::Conflict(text));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(socket = %shown, "replacing the socket of a node that has ended");
            fs::remove_file(path).map_err(|error| Error::io("remove the old socket", path, &error))
        }
        Err(error) => Err(Error::io("try the socket", path, &error)),
        Ok(_) => {
            Err(Error::Conflict(format!("another node listens at {shown}: use it, or choose another with --socket")))
        }
    }
}

/// Binds with the mode set before there is a file, so that there is no moment in which others may connect.
fn bind(path: &Path) -> rustix::io::Result<std::os::unix::net::UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_named_with_the_flag_to_change() {
        let taken = tcp("127.0.0.1:0".parse().unwrap(), "--grpc", Open::ToAll).await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = tcp(address, "--grpc", Open::ToAll).await.unwrap_err();
        assert!(matches!(error, Error::Conflict(_)));
        let text = error.to_string();
        assert!(text.contains(&address.to_string()) && text.contains("--grpc"), "{text}");
    }

    #[tokio::test]
    async fn what_is_sent_to_who_connects_is_not_paced() {
        let listener = tcp("127.0.0.1:0".parse().unwrap(), "--grpc", Open::ToAll).await.unwrap();
        let connected = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let (systems, ours) =
            (sockopt::tcp_congestion(&connected).unwrap(), sockopt::tcp_congestion(&accepted).unwrap());
        match systems.starts_with("bbr") {
            true => assert!(["cubic", "reno"].contains(&&*ours), "{ours}"),
            false => assert_eq!(ours, systems, "the system's choice is kept"),
        }
    }

    #[tokio::test]
    async fn a_socket_is_its_owners_alone_and_goes_with_its_node() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fodder.sock");
        let (_listener, file) = unix(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(unix(&path), Err(Error::Conflict(_))));
        drop(file);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn the_socket_of_a_dead_node_is_replaced_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fodder.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (_listener, _file) = unix(&path).unwrap();

        let precious = dir.path().join("precious");
        fs::write(&precious, "data").unwrap();
        assert!(matches!(unix(&precious), Err(Error::Conflict(_))));
        assert_eq!(fs::read(&precious).unwrap(), b"data");

        let long = dir.path().join("x".repeat(120));
        assert!(unix(&long).unwrap_err().to_string().contains("--socket"));
    }
}
