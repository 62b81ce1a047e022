//! The engine of one Fodder node: it turns reads of slow storage into reads of local files.
//!
//! # The story of one read
//!
//! A door (gRPC, frames, REST, later the mount) asks a [`Dataset`](engine::Dataset) for an item. The item's id is looked
//! up in a sealed [`Snapshot`](catalog::Snapshot), which answers with a byte range of an object. The range covers one or
//! more *pieces*, the grid on which the cache fills, checks and evicts.
//!
//! If every piece is on a [`Shelf`](tier::Shelf) (one dataset's part of one tier), the bytes are read from the cache file
//! on the thread that asked: a kept file descriptor and one `pread`. The first read of a piece after a start also checks
//! its CRC.
//!
//! If not, the reader first takes its share of the memory [`budget`], then claims the missing pieces in the table of
//! flights: a piece that is already on its way is joined, the others are fetched from the
//! [`Origin`](origin::Origin) in merged, parallel, conditional range requests. Arriving bytes go to
//! every waiting reader at once and, if the residency policy admits them, to a disk thread that writes them to the tier.
//! A committer makes them durable in groups. Whatever goes wrong on the cache's side is a miss, and the origin answers.
//!
//! What must not be here: sockets that users connect to, command lines, wire formats.

pub mod allocator;
pub mod budget;
pub mod catalog;
pub mod config;
pub mod engine;
pub mod error;
pub mod id;
pub mod layout;
pub mod origin;
pub mod size;
pub mod tier;

pub use engine::{Dataset, Engine, job};
pub use error::{Error, Result};
