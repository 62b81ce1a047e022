//! Several nodes as one cache: what leaves the origin, what moves between nodes, and what a bad peer can do.

#![allow(missing_docs, clippy::unwrap_used)]

mod change;
mod hand;
mod icache;
mod job;
mod liar;
mod list;
mod older;
mod rot;
mod score;
mod settle;
mod share;
mod snapshot;
mod stall;
mod stranger;
mod tell;
mod tls;
mod warm;
mod world;
