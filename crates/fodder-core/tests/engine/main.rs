//! The engine over real origins and real tiers, against naive models.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "tests")]

mod advise;
mod ahead;
mod alike;
mod change;
mod convoy;
mod fetching;
mod flights;
mod held;
mod history;
mod inodes;
mod jobs;
mod layouts;
mod model;
mod peers;
mod ratios;
mod readahead;
mod removal;
mod share;
mod small;
mod start;
mod warm;
mod world;
