//! One client process: asks for batches over one door and touches nothing but the door while the clock runs.

mod reader;

use super::BATCH;
use crate::{fixture, process};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use crc_fast::{CrcAlgorithm, Digest};

/// The doors, and the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Redis over its Unix socket.
    RedisUnix,
    /// Frames over the Unix socket.
    FramesUnix,
    /// Files leased over the Unix socket for each batch, read by the client.
    LeasesUnix,
    /// Files leased over the Unix socket once, looked at where they are by the client.
    KeptLeasesUnix,
    /// Redis over TCP.
    RedisTcp,
    /// Frames over TCP.
    FramesTcp,
    /// gRPC over TCP.
    GrpcTcp,
}

impl Kind {
    /// Everyone, peers first.
    pub(super) const ALL: [Self; 7] = [
        Self::RedisUnix,
        Self::FramesUnix,
        Self::LeasesUnix,
        Self::KeptLeasesUnix,
        Self::RedisTcp,
        Self::FramesTcp,
        Self::GrpcTcp,
    ];

    /// How it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RedisUnix => "redis-unix",
            Self::FramesUnix => "frames-unix",
            Self::LeasesUnix => "leases-unix",
            Self::KeptLeasesUnix => "kept-leases-unix",
            Self::RedisTcp => "redis-tcp",
            Self::FramesTcp => "frames-tcp",
            Self::GrpcTcp => "grpc-tcp",
        }
    }
}

/// What a client is started with.
#[derive(Debug, Args)]
pub(crate) struct ClientArguments {
    /// The door.
    #[arg(long)]
    kind: Kind,
    /// Where it is.
    #[arg(long)]
    address: String,
    /// How many items there are.
    #[arg(long)]
    items: usize,
    /// How many are asked for at a time.
    #[arg(long, default_value_t = BATCH)]
    batch: usize,
}

impl ClientArguments {
    /// Obeys `check` (reads everything in order, answers with its checksum) and `run BATCHES SEED`.
    pub(crate) fn run(self) -> Result<()> {
        fixture::raise_open_files()?;
        let mut reader = reader::open(self.kind, &self.address)?;
        let all: Vec<u64> = (0..self.items as u64).collect();
        process::obey(|line| {
            let mut words = line.split(' ');
            match words.next() {
                Some("check") => {
                    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
                    all.chunks(self.batch.max(1))
                        .try_for_each(|ids| reader.read(ids, &mut |bytes| digest.update(bytes)))?;
                    Ok(digest.finalize().to_string())
                }
                Some("run") => {
                    let mut number = || words.next().and_then(|word| word.parse().ok()).context("run BATCHES SEED");
                    let (batches, seed): (u64, u64) = (number()?, number()?);
                    let order = fixture::shuffled(self.items, seed);
                    let mut ids = order.iter().map(|&id| id as u64).cycle();
                    let mut len = 0;
                    for _ in 0..batches {
                        let batch: Vec<u64> = ids.by_ref().take(self.batch).collect();
                        reader.read(&batch, &mut |bytes| len += bytes.len())?;
                    }
                    Ok(len.to_string())
                }
                _ => bail!("a client does not know {line:?}"),
            }
        })
    }
}

/// The key of an item in Redis.
pub(super) fn redis_key(id: u64) -> String {
    format!("item:{id:08}")
}
