//! The table of the mount on one of three nodes: once where the data fits into each node's cache, so that the node comes to
//! hold all of it, and once where only the three together hold it, so that most reads come from the others.

use super::{WAYS, warm_both, write_both};
use crate::{
    epoch::forget_large,
    outcome::{Line, Target},
    program::Node,
    scenario::Setting,
};
use anyhow::{Result, ensure};
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

const NODES: usize = 3;

/// How long nodes may take to find each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures it.
pub(in crate::scenario) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let native = workspace.path().join("native");
    // 2.1 GB of data, and 36 MB at a glimpse.
    write_both(&native, setting)?;
    let (whole, half) = (setting.choose(4 << 30, 256 << 20), setting.choose(1 << 30, 28 << 20));
    let mut lines = smaller(&workspace.path().join("smaller"), &native, whole, setting)?;
    lines.extend(larger(&workspace.path().join("larger"), &native, half, setting)?);
    Ok(lines)
}

/// How long each line takes.
fn duration(setting: &Setting) -> &'static str {
    setting.choose("4s", "400ms")
}

fn smaller(dir: &Path, native: &Path, cache_bytes: u64, setting: &Setting) -> Result<Vec<Line>> {
    let nodes = start(dir, native, cache_bytes)?;
    let mount = nodes[0].mount(&dir.join("mount"), WAYS[0].options)?;
    // Whatever is read stays here: the first epoch brings copies of all that the others own.
    for part in ["large", "small"] {
        warm_both(part, mount.dir(), native)?;
    }
    let began = Instant::now();
    while !nodes[0].holds_everything()? {
        ensure!(began.elapsed() < PATIENCE, "a node does not come to hold what was read through it");
        thread::sleep(Duration::from_millis(100));
    }
    forget_large(native)?;
    forget_large(&dir.join("cache-0/tier"))?;
    WAYS[0].measure("smaller", &mount, native, duration(setting))
}

/// What is not held here cannot be read by the kernel alone: nothing is promised but that it is measured.
fn larger(dir: &Path, native: &Path, cache_bytes: u64, setting: &Setting) -> Result<Vec<Line>> {
    let nodes = start(dir, native, cache_bytes)?;
    let mount = nodes[0].mount(&dir.join("mount"), WAYS[0].options)?;
    let mut lines = WAYS[0].measure("larger", &mount, native, duration(setting))?;
    lines.iter_mut().for_each(|line| line.target = Target::Context);
    let (peers, origin) = (nodes[0].count("bytes_from_peers")?, nodes[0].count("bytes_from_origin")?);
    let (peers, origin) = (peers as f64 / 1e6, origin as f64 / 1e6);
    lines.push(Line::new("larger: taken from peers", "MB", peers, "from the origin", origin, Target::Context));
    Ok(lines)
}

/// Nodes that know each other and have brought everything in, between them.
fn start(dir: &Path, native: &Path, cache_bytes: u64) -> Result<Vec<Node>> {
    let origin = native.display().to_string();
    let mut nodes: Vec<Node> = Vec::new();
    for number in 0..NODES {
        let first = nodes.first().map_or("127.0.0.1:1", Node::grpc).to_owned();
        let cache = dir.join(format!("cache-{number}"));
        nodes.push(Node::start(&origin, &cache, cache_bytes, &["--join", &first])?);
    }
    let began = Instant::now();
    while nodes.iter().map(Node::serving).collect::<Result<Vec<_>>>()? != [NODES; NODES] {
        ensure!(began.elapsed() < PATIENCE, "the nodes do not find each other");
        thread::sleep(Duration::from_millis(100));
    }
    // Shares differ, and one may be larger than a cache: the rest then stays at the origin.
    if let Err(error) = nodes[0].warm() {
        eprintln!("  not everything is held: {error:#}");
    }
    Ok(nodes)
}
