//! The real program, end to end: real nodes on free ports, in directories of their own.
#![allow(clippy::unwrap_used, missing_docs)]

mod bench;
mod cli_advise;
mod cli_bad_input;
mod cli_config;
mod cli_demo;
mod cli_end;
mod cli_job;
mod cli_join;
mod cli_node;
mod cli_serve;
mod cli_sim;
mod cli_warn;
mod cluster;
mod cluster_member;
mod cluster_stranger;
mod cluster_tls;
mod crash;
mod icache;
mod job;
mod lateness;
mod links;
mod mount;
mod program;
mod promises;
mod warm;
