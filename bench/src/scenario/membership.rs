//! What it costs a node to know who is there: so many nodes that gossip, each with a socket of its own on loopback, in
//! real time and one process. Everything but the members is left out.
//!
//! Both what a node sends and what it computes are promised to grow no faster than the number of nodes.

use super::Setting;
use crate::{
    outcome::{Line, Target},
    process::{self, Process},
};
use anyhow::{Context, Result, ensure};
use clap::Args;
use fodder_server::cluster::membership::{
    Incarnation, Joined, Member, NodeId, Seal, Seed, State, Terms, VERSIONS, gossip::Gossip,
};
use std::{
    fs,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

const COUNTS: [usize; 4] = [10, 30, 100, 300];

/// How much faster than the number of nodes the cost of each may grow, for what is not measured sharply.
const SLACK: f64 = 1.1;
/// The most that a node may spend at 100 nodes: kB sent a second, and thousandths of one core.
const AT_100: (f64, f64) = (64.0, 10.0);

/// How long until all nodes know each other, at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let counts = setting.choose(&COUNTS[..], &COUNTS[..3]);
    let mut lines = Vec::new();
    let mut last: Option<(usize, f64, f64)> = None;
    for count in counts.iter().copied() {
        let seconds = setting.choose("10", "2");
        let mut crowd = Process::start(&["crowd", "--nodes", &count.to_string(), "--seconds", seconds])?;
        let Ok(said) = crowd.answer() else {
            eprintln!("  {count} nodes need a faster machine");
            break;
        };
        let said: Vec<f64> = said.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [kilobytes, thousandths, agreed, lost] = said[..] else { anyhow::bail!("a crowd says four numbers") };
        eprintln!("  {count} nodes knew each other after {agreed:.1} s; taken for dead at the end: {lost} of {count}²");
        if let Some((before, bytes, cpu)) = last {
            let at = format!("at {before} nodes");
            let most = Target::AtMost((count as f64 / before as f64 * SLACK * 10.0).round() / 10.0);
            lines.push(Line::new(format!("a node sends, {count} nodes"), "kB/s", kilobytes, &at, bytes, most));
            lines.push(Line::new(format!("a node computes, {count} nodes"), "‰ core", thousandths, &at, cpu, most));
        }
        if count == 100 {
            let (bytes, cpu) = AT_100;
            lines.push(Line::new("a node sends, 100 nodes", "kB/s", kilobytes, "promised", bytes, Target::AtMost(1.0)));
            let what = "a node computes, 100 nodes";
            lines.push(Line::new(what, "‰ core", thousandths, "promised", cpu, Target::AtMost(1.0)));
        }
        last = Some((count, kilobytes, thousandths));
    }
    Ok(lines)
}

/// Nodes in a process of their own, so that what they compute is known.
#[derive(Debug, Args)]
pub(crate) struct CrowdArguments {
    /// How many.
    #[arg(long)]
    nodes: usize,
    /// For how long they are watched.
    #[arg(long)]
    seconds: u64,
}

impl CrowdArguments {
    /// Says for each node kB sent a second and thousandths of a core, the seconds until all knew each other, and how often
    /// one that lives was taken for dead at the end.
    pub(crate) fn run(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let began = Instant::now();
            let mut nodes: Vec<Joined> = Vec::new();
            for id in 1..=self.nodes {
                let seeds = nodes.first().and_then(|node| node.gossip).map(|first| first.to_string());
                nodes.push(start(id as u128, seeds.as_deref().unwrap_or("127.0.0.1:1")).await?);
            }
            while !nodes.iter().all(|node| sees(node) == self.nodes) {
                ensure!(began.elapsed() < PATIENCE, "the nodes do not come to know each other");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let agreed = began.elapsed().as_secs_f64();
            let sent = || nodes.iter().map(|node| node.gossip_bytes.load(Relaxed)).sum::<u64>();
            let (bytes, cpu, began) = (sent(), cpu_seconds()?, Instant::now());
            tokio::time::sleep(Duration::from_secs(self.seconds)).await;
            let node_seconds = began.elapsed().as_secs_f64() * self.nodes as f64;
            let (bytes, cpu) = (sent() - bytes, cpu_seconds()? - cpu);
            let lost: usize = nodes.iter().map(|node| self.nodes - sees(node)).sum();
            let (kilobytes, thousandths) = (bytes as f64 / 1e3 / node_seconds, cpu * 1e3 / node_seconds);
            process::say(&format!("{kilobytes} {thousandths} {agreed} {lost}"))?;
            anyhow::Ok(())
        })?;
        process::obey(|_| anyhow::bail!("a crowd obeys nobody"))
    }
}

/// A node that gossips, and is nothing else.
async fn start(id: u128, seed: &str) -> Result<Joined> {
    let me = Member {
        id: NodeId(id << 64 | id),
        incarnation: Incarnation(1),
        revision: 0,
        address: format!("gpu{id:04}.cluster.example:18284"),
        zone: format!("rack-{}", id % 16),
        capacity_bytes: 4 << 40,
        versions: VERSIONS,
        state: State::Serving,
        rest: Vec::new(),
    };
    let seeds = Seed::parse(seed, None).map_err(anyhow::Error::msg)?;
    let terms = Terms { seal: Seal::new("a word that all of them know"), ..Terms::default() };
    Ok(Gossip::start(me, seeds, ([127, 0, 0, 1], 0).into(), terms).await?)
}

/// How many members a node counts on.
fn sees(node: &Joined) -> usize {
    node.membership.members().borrow().all().iter().filter(|seen| !seen.unreachable).count()
}

/// What the threads of this process have computed so far, sharper than by the clock's ticks: ten nodes compute for two
/// hundredths of a second while they are watched.
fn cpu_seconds() -> Result<f64> {
    let of_thread = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat"))?;
        let nanoseconds = text.split_whitespace().next().context("a number")?;
        anyhow::Ok(nanoseconds.parse::<f64>()? / 1e9)
    };
    fs::read_dir("/proc/self/task")?.map(|thread| of_thread(thread?)).sum()
}
