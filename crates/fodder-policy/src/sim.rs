//! The simulator's machines: what a policy would hit, on a synthetic job or a recorded trace, beside what is possible.
//!
//! The state machines are those a node runs; only the loop around them differs: a bit an id stands for its bytes.
//! Nothing here reads files, starts threads or prints. That is the work of `fodder sim`.

pub mod belady;
pub mod bound;
pub mod future;
mod jobs;
pub(crate) mod random;
pub mod replay;
pub mod study;
pub mod tally;
pub mod trace;
pub mod workload;

pub use future::Future;
pub use replay::{Cues, replay};
pub use study::Study;
pub use tally::Tally;
pub use trace::{Sizes, Trace};
pub use workload::Workload;

#[cfg(test)]
mod tests;
