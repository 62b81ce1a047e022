//! The scenarios: one file each, and the choice among them.

mod batches;
mod bytes_per_item;
mod cold_object;
mod engine_hits;
mod first_epoch;
mod membership;
mod memory;
mod mount;
mod opens;
mod peers;
mod python;
mod random_reads;
mod remote_hits;
mod restart;
mod sim;
mod warm_up;

use crate::{node::NodeArguments, outcome::Outcome};
use anyhow::Result;
use clap::Subcommand;
use std::{fmt, path::PathBuf};

/// How scenarios are to run.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Where data may be put.
    pub(crate) dir: PathBuf,
    /// Little data, few rounds.
    pub(crate) quick: bool,
}

impl Setting {
    /// A directory that is gone when dropped.
    fn workspace(&self) -> Result<tempfile::TempDir> {
        Ok(tempfile::Builder::new().prefix("fodder-bench-").tempdir_in(&self.dir)?)
    }

    /// `full`, or `quick` when only a glimpse was asked for.
    fn choose<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// What can be measured.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Scenario {
    /// Warm reads by the engine against pread on kept fds of the same cache files.
    EngineHits,
    /// Batches of items over each door against Redis giving the same bytes by MGET.
    Batches,
    /// A cold 1 GiB object against the bandwidth of its origin.
    ColdObject,
    /// The memory that ten million items cost beside their names.
    BytesPerItem,
    /// The anonymous memory of a node while 64 readers stream ten times its cache.
    Memory,
    /// What a node spends on knowing who is there, at 10 to 300 nodes that gossip.
    Membership,
    /// A mounted directory, everything cached, against the native one.
    Mount,
    /// A mount on one of three nodes, the data smaller and larger than one node's cache, against the native directory.
    MountCluster,
    /// The memory of a node and of a mount over a million opens of a hundred thousand files.
    Opens,
    /// The mount beside those of rclone and s3fs.
    Peers,
    /// A first epoch over shards through a mount, against the line and against warming.
    FirstEpoch,
    /// Bytes fetched for each byte used, when a large file is read at random.
    RandomReads,
    /// What another node has cached, read through this one, against `iperf3` on the same line.
    RemoteHits,
    /// Warming against line and disk, and against `rclone copy`.
    WarmUp,
    /// The Python package against torchvision, and against the socket without Python.
    Python,
    /// The time to come back to a million cached items.
    Restart,
    /// Simulated requests a second on one core, over a million items.
    Sim,
}

impl Scenario {
    /// Every scenario, in the order they run.
    pub(crate) const ALL: &[Self] = &[
        Self::EngineHits,
        Self::Batches,
        Self::ColdObject,
        Self::BytesPerItem,
        Self::Memory,
        Self::Membership,
        Self::Mount,
        Self::MountCluster,
        Self::Opens,
        Self::Peers,
        Self::FirstEpoch,
        Self::RandomReads,
        Self::RemoteHits,
        Self::WarmUp,
        Self::Python,
        Self::Restart,
        Self::Sim,
    ];

    /// How it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::EngineHits => "engine-hits",
            Self::Batches => "batches",
            Self::ColdObject => "cold-object",
            Self::BytesPerItem => "bytes-per-item",
            Self::Memory => "memory",
            Self::Membership => "membership",
            Self::Mount => "mount",
            Self::MountCluster => "mount-cluster",
            Self::Opens => "opens",
            Self::Peers => "peers",
            Self::FirstEpoch => "first-epoch",
            Self::RandomReads => "random-reads",
            Self::RemoteHits => "remote-hits",
            Self::WarmUp => "warm-up",
            Self::Python => "python",
            Self::Restart => "restart",
            Self::Sim => "sim",
        }
    }

    /// Measures it.
    pub(crate) fn run(self, setting: &Setting) -> Result<Outcome> {
        let lines = match self {
            Self::EngineHits => engine_hits::run(setting),
            Self::Batches => batches::run(setting),
            Self::ColdObject => cold_object::run(setting),
            Self::BytesPerItem => bytes_per_item::run(setting),
            Self::Restart => restart::run(setting),
            Self::Sim => sim::run(setting),
            Self::Memory => memory::run(setting),
            Self::Membership => membership::run(setting),
            Self::Mount => mount::run(setting),
            Self::MountCluster => mount::run_cluster(setting),
            Self::Opens => opens::run(setting),
            Self::Peers => peers::run(setting),
            Self::FirstEpoch => first_epoch::run(setting),
            Self::RandomReads => random_reads::run(setting),
            Self::RemoteHits => remote_hits::run(setting),
            Self::WarmUp => warm_up::run(setting),
            Self::Python => python::run(setting),
        }?;
        Ok(Outcome::new(self.name(), lines))
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Processes that scenarios start: this program again.
#[derive(Debug, Subcommand)]
pub(crate) enum Child {
    /// A node.
    #[command(hide = true)]
    Node(NodeArguments),
    /// A client of one door.
    #[command(hide = true)]
    Client(batches::client::ClientArguments),
    /// A node of two.
    #[command(hide = true)]
    Member(remote_hits::MemberArguments),
    /// Nodes that gossip.
    #[command(hide = true)]
    Crowd(membership::CrowdArguments),
    /// Weighs a catalog.
    #[command(hide = true)]
    Weigh(bytes_per_item::WeighArguments),
    /// Opens a cache again.
    #[command(hide = true)]
    Reopen(restart::ReopenArguments),
}

impl Child {
    /// Lives until its parent closes its standard input.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Node(node) => node.run(),
            Self::Client(client) => client.run(),
            Self::Member(member) => member.run(),
            Self::Crowd(crowd) => crowd.run(),
            Self::Weigh(weigh) => weigh.run(),
            Self::Reopen(reopen) => reopen.run(),
        }
    }
}
