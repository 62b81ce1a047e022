//! Fodder's mount beside those of others, all from the same S3 server: cold, each with an empty cache, and cached.

use super::{
    Setting,
    mount::{Reading, warm_both},
};
use crate::{
    epoch::read_all,
    fixture,
    mounted::{BUCKET, Peer},
    outcome::{Line, Target},
    program::{Mount, Node},
};
use anyhow::Result;
use fodder_s3_server::Server;
use std::{collections::BTreeMap, fs, path::Path};

const SMALL_BYTES: usize = 100 << 10;
const READERS: usize = 8;

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let data = workspace.path().join("data");
    fixture::write_files(&data.join("small"), setting.choose(1_000, 100), SMALL_BYTES)?;
    super::mount::write_large(&data.join("large"), 2, setting.choose(256, 8))?;
    let runtime = tokio::runtime::Runtime::new()?;
    let server = runtime.block_on(Server::start_dir("127.0.0.1:0", &data))?;
    let arena = Arena { workspace: workspace.path(), endpoint: server.endpoint(), peers: Peer::all()? };
    let mut lines = arena.cold(setting.choose(3, 1))?;
    lines.extend(arena.cached(setting)?);
    Ok(lines)
}

/// Where the contest takes place.
struct Arena<'a> {
    workspace: &'a Path,
    endpoint: String,
    peers: Vec<Peer>,
}

impl Arena<'_> {
    fn fodder(&self, name: &str) -> Result<(Node, Mount)> {
        let origin = format!("s3://{BUCKET}?endpoint={}", self.endpoint);
        let node = Node::start(&origin, &self.workspace.join(format!("cache-{name}")), 8 << 30, &["--anonymous"])?;
        let mount = node.mount(&self.workspace.join(name), &[])?;
        Ok((node, mount))
    }

    /// Everybody reads everything once, in turns, with an empty cache each time.
    fn cold(&self, rounds: usize) -> Result<Vec<Line>> {
        let mut speeds: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
        for round in 0..rounds {
            let name = format!("fodder-{round}");
            let (node, mount) = self.fodder(&name)?;
            for (what, speed) in first_epoch(mount.dir())? {
                speeds.entry((what, "fodder")).or_default().push(speed);
            }
            drop((mount, node));
            fs::remove_dir_all(self.workspace.join(format!("cache-{name}")))?;
            for &peer in &self.peers {
                let name = format!("{}-{round}", peer.name());
                let (dir, cache) = (self.workspace.join(&name), self.workspace.join(format!("cache-{name}")));
                let mounted = peer.mount(&self.endpoint, &dir, &cache)?;
                for (what, speed) in first_epoch(mounted.dir())? {
                    speeds.entry((what, peer.name())).or_default().push(speed);
                }
                drop(mounted);
                fs::remove_dir_all(cache)?;
            }
        }
        let line = |what: &str, peer: Peer| {
            let (ours, theirs) = (&speeds[&(what, "fodder")], &speeds[&(what, peer.name())]);
            Line::of_rounds(format!("cold, {what}"), "MB/s", ours, peer.name(), theirs, Target::AtLeast(1.0))
        };
        let each = |what: &'static str| self.peers.iter().map(move |&peer| (what, peer));
        Ok(PARTS.iter().flat_map(|(what, ..)| each(what)).map(|(what, peer)| line(what, peer)).collect())
    }

    /// Against each peer in turns, after both have read everything.
    fn cached(&self, setting: &Setting) -> Result<Vec<Line>> {
        let (node, mount) = self.fodder("fodder")?;
        node.warm()?;
        let mut lines = Vec::new();
        for &peer in &self.peers {
            let dir = self.workspace.join(peer.name());
            let cache = self.workspace.join(format!("cache-{}", peer.name()));
            let mounted = peer.mount(&self.endpoint, &dir, &cache)?;
            for part in ["large", "small"] {
                warm_both(part, mount.dir(), mounted.dir())?;
            }
            for (what, part, options, unit) in [
                ("sequential 4 MiB, 1 reader", "large", &["--readers", "1"][..], "GB/s"),
                ("random 4 MiB, 8 readers", "large", &["--readers", "8", "--random"], "op/s"),
                ("100 KiB files, 1 reader", "small", &["--readers", "1", "--small"], "op/s"),
                ("100 KiB files, 8 readers", "small", &["--readers", "8", "--small"], "op/s"),
            ] {
                let reading = Reading { part, options, duration: setting.choose("4s", "400ms") };
                let speeds = reading.compare(mount.dir(), mounted.dir())?;
                lines.push(speeds.line(format!("cached, {what}"), unit, peer.name(), Target::AtLeast(1.0)));
            }
        }
        Ok(lines)
    }
}

/// What is read cold: how it is called, where it lies, and by how many readers.
const PARTS: &[(&str, &str, usize)] =
    &[("256 MiB files, 1 reader", "large", 1), ("100 KiB files, 8 readers", "small", READERS)];

/// Reads everything once; the speed of each part.
fn first_epoch(dir: &Path) -> Result<Vec<(&'static str, f64)>> {
    PARTS.iter().map(|(what, part, readers)| Ok((*what, read_all(&dir.join(part), *readers)?))).collect()
}
