//! Who has started the process that mounts, and whether they are still there.

use crate::cli::Starter;
use std::{io, os::fd::AsFd};
use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver};

/// The pipe from whoever started this process. They write nothing: it ends with them, however they end.
pub(super) struct Tie(Option<Receiver>);

impl Tie {
    /// The tie to a starter; a person has none.
    pub(super) fn new(starter: Option<Starter>) -> io::Result<Self> {
        let pipe = starter.map(|_| Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)).transpose()?;
        Ok(Self(pipe))
    }

    /// Waits until they are gone.
    pub(super) async fn gone(&mut self) {
        let Some(pipe) = &mut self.0 else { return std::future::pending().await };
        while pipe.read(&mut [0; 16]).await.is_ok_and(|count| count > 0) {}
    }
}
