//! The mount: a dataset of a node as a read-only directory.
//!
//! What makes it fast is not answering. An object that is whole in the cache is opened with FUSE passthrough: the kernel
//! reads the node's cache file itself. A small one is fetched whole when it is opened; a large one that is not whole yet is
//! answered read by read, and passed through from the next open on. Where the kernel refuses passthrough it keeps the
//! pages it gets.
//!
//! - `fs` is the file system without a kernel: `inode`, `mode`, `directory` and `backing` are its parts.
//! - `node` is what it asks of a node, over frames; it lives on when the node is restarted.
//! - `transport` takes the kernel's requests, through its device or through io_uring; `wire` is its protocol, and
//!   `kernel` translates between it and `fs`. `session` mounts, unmounts and watches.
//! - [`point`]: what a mount point must be, who uses it, and cleaning up after a mount that was killed.
//!
//! The mount is a client in a process of its own. What must not be here: the engine, and the command line.

mod backing;
mod directory;
pub mod error;
mod fs;
mod inode;
mod kernel;
mod mode;
mod node;
pub mod point;
pub mod session;
mod sharded;
#[cfg(test)]
mod testing;
mod transport;
mod wire;
mod worker;

pub use error::{Error, Result};
pub use node::Revive;
pub use session::{Mount, MountOptions};
pub use transport::Transport;
