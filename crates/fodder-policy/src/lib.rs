//! Pure decisions about a cache: what stays, what answers, what comes next.
//!
//! Everything here is a synchronous state machine over dense ids. Nothing here does I/O, reads a clock,
//! takes a lock or starts a thread: bytes, time and randomness are passed in, which is what lets the same
//! code run under the engine and under a simulator.
//!
//! - [`residency`]: what stays in a cache, by piece.
//! - [`serving`]: which item answers a job. [`plan`] is the order in which it asks, over a [`permutation`] that a seed
//!   gives; [`ledger`] is what it has consumed. [`job`] puts these together, for all jobs of a dataset.
//! - [`fetching`]: what to bring in before it is asked for, from what jobs have planned; [`readahead`], from what readers did.
//! - [`membership`]: who is in a cluster, as one of its members sees it.
//! - [`placement`]: which members of a cluster own which bytes.
//! - [`sim`]: the same machines over synthetic jobs and traces.
//! - [`spelling`]: names of any bytes as text, the same for everybody.

#![forbid(unsafe_code)]

pub mod advise;
mod bits;
pub mod error;
pub mod fetching;
pub mod job;
pub mod ledger;
pub mod membership;
pub mod permutation;
pub mod placement;
pub mod plan;
pub mod readahead;
pub mod residency;
pub mod serving;
pub mod sim;
pub mod spelling;

pub use error::{Error, Result};
pub use residency::{Policy, Pressure, Residency, UnknownPolicy, signal::Signal};
