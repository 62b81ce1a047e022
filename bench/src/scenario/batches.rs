//! Batches of 256 × 100 KiB items for one and for two clients, each a process of its own: Fodder's doors against
//! Redis giving the same bytes by MGET.

pub(super) mod client;

use super::Setting;
use crate::{
    contest::{Contestant, alternate},
    fixture,
    node::{NodeArguments, RunningNode},
    outcome::{Line, Target},
    process::Process,
    redis,
};
use anyhow::{Context, Result, ensure};
use client::Kind;
use crc_fast::{CrcAlgorithm, Digest};
use fodder_policy::Policy;
use std::{cell::RefCell, os::unix::net::UnixStream, path::Path, time::Instant};

/// Items of a batch.
pub(super) const BATCH: usize = 256;
const ITEM_BYTES: usize = 100 << 10;
const BUDGET_BYTES: u64 = 256 << 20;

/// The comparisons: ours, the peer, the least ratio.
const MATCHES: [(Kind, Kind, f64); 5] = [
    (Kind::FramesUnix, Kind::RedisUnix, 2.5),
    (Kind::LeasesUnix, Kind::RedisUnix, 4.0),
    (Kind::KeptLeasesUnix, Kind::RedisUnix, 4.0),
    (Kind::FramesTcp, Kind::RedisTcp, 2.0),
    (Kind::GrpcTcp, Kind::RedisTcp, 1.0),
];

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let items = setting.choose(4_000, 500);
    let data = workspace.path().join("data");
    fixture::write_files(&data, items, ITEM_BYTES)?;
    let redis = redis::Server::start(workspace.path())?;
    fill_redis(&redis, items)?;
    let node = start_node(workspace.path(), &data)?;

    let batches = setting.choose(40, 2);
    let mut lines = Vec::new();
    for clients in [1, 2] {
        let teams = Kind::ALL.map(|kind| Team::start(kind, &redis, &node, items, clients).map(RefCell::new));
        let teams = teams.into_iter().collect::<Result<Vec<_>>>()?;
        for team in &teams {
            team.borrow_mut().check(items)?;
        }
        let mut contestants: Vec<_> = teams
            .iter()
            .map(|team| Contestant::new(team.borrow().kind.name(), |round| team.borrow_mut().speed(round, batches)))
            .collect();
        let speeds = alternate(setting.choose(9, 1), &mut contestants)?;
        let speed = |kind| &speeds[Kind::ALL.iter().position(|other| *other == kind).expect("every kind took part")];
        lines.extend(MATCHES.map(|(ours, peer, least)| {
            let what = format!("{} × {clients} client{}", ours.name(), if clients == 1 { "" } else { "s" });
            Line::of_rounds(what, "GB/s", speed(ours), peer.name(), speed(peer), Target::AtLeast(least))
        }));
    }
    Ok(lines)
}

/// The bytes of the item with an id: the layout `files` counts by class, then by name.
fn item_bytes(items: usize, id: usize, bytes: &mut [u8]) {
    let per_class = items / 10;
    fixture::scramble(((id % per_class) * 10 + id / per_class) as u64, bytes);
}

fn fill_redis(server: &redis::Server, items: usize) -> Result<()> {
    let mut client = redis::Client::new(UnixStream::connect(&server.socket)?);
    let mut bytes = vec![0; ITEM_BYTES];
    (0..items).try_for_each(|id| {
        item_bytes(items, id, &mut bytes);
        client.set(&client::redis_key(id as u64), &bytes)
    })
}

/// A node that has everything cached.
fn start_node(workspace: &Path, data: &Path) -> Result<RunningNode> {
    let arguments = NodeArguments {
        cache_dir: workspace.join("cache"),
        cache_bytes: 4 << 30,
        budget_bytes: BUDGET_BYTES,
        policy: Policy::Minio,
        origin: data.to_str().context("the directory's name is text")?.into(),
    };
    arguments.start()
}

/// Clients of one kind that work at the same time.
struct Team {
    kind: Kind,
    clients: Vec<Process>,
}

impl Team {
    fn start(kind: Kind, redis: &redis::Server, node: &RunningNode, items: usize, clients: usize) -> Result<Self> {
        let address = match kind {
            Kind::RedisUnix => redis.socket.display().to_string(),
            Kind::RedisTcp => format!("127.0.0.1:{}", redis.port),
            Kind::FramesUnix | Kind::LeasesUnix | Kind::KeptLeasesUnix => node.socket.display().to_string(),
            Kind::FramesTcp | Kind::GrpcTcp => node.grpc.to_string(),
        };
        let arguments = ["client", "--kind", kind.name(), "--address", &address, "--items", &items.to_string()];
        let clients = (0..clients).map(|_| Process::start(&arguments)).collect::<Result<_>>()?;
        Ok(Self { kind, clients })
    }

    /// Lets every client read every item, and compares the bytes with what they should be.
    fn check(&mut self, items: usize) -> Result<()> {
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let mut bytes = vec![0; ITEM_BYTES];
        for id in 0..items {
            item_bytes(items, id, &mut bytes);
            digest.update(&bytes);
        }
        let expected = digest.finalize().to_string();
        for client in &mut self.clients {
            let sum = client.ask("check").with_context(|| self.kind.name())?;
            ensure!(sum == expected, "{} gave wrong bytes", self.kind.name());
        }
        Ok(())
    }

    /// GB/s of all clients together, each asking for `batches` random batches.
    fn speed(&mut self, round: u64, batches: usize) -> Result<f64> {
        let start = Instant::now();
        for (number, client) in self.clients.iter_mut().enumerate() {
            client.tell(&format!("run {batches} {}", round * 100 + number as u64))?;
        }
        for client in &mut self.clients {
            client.answer()?;
        }
        let bytes = self.clients.len() * batches * BATCH * ITEM_BYTES;
        Ok(bytes as f64 / start.elapsed().as_secs_f64() / 1e9)
    }
}
