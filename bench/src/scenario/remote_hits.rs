//! What one node has cached, read through another: two nodes in two network namespaces, against what `iperf3` moves
//! between the same two.
//!
//! The second node owns everything and has it cached; the first has next to no cache, so that nearly every read is a remote
//! hit. Readers are processes beside the first node, over its Unix socket.

mod member;

pub(crate) use member::MemberArguments;

use super::{Setting, batches::client::Kind};
use crate::{
    contest::{Contestant, alternate},
    fixture,
    namespace::Pair,
    outcome::{Line, Target},
    process::Process,
};
use anyhow::{Context, Result, ensure};
use fodder_authority::Authority;
use std::{cell::RefCell, path::Path, time::Instant};

/// One way of reading: how many readers, items of what size, how many in a batch, and the least part of `iperf3`'s speed.
struct Case {
    readers: usize,
    item_bytes: usize,
    batch: usize,
    least: f64,
}

const CASES: [Case; 3] = [
    Case { readers: 1, item_bytes: 4 << 20, batch: 1, least: 0.5 },
    Case { readers: 8, item_bytes: 4 << 20, batch: 1, least: 0.8 },
    Case { readers: 4, item_bytes: 100 << 10, batch: 256, least: 0.6 },
];

/// Bytes of the data.
const DATA_BYTES: usize = 1 << 30;

/// Whether nodes show each other certificates and encrypt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Tls,
}

/// Measures it, and what TLS makes of it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let pair = Pair::new()?;
    let ways = CASES.iter().flat_map(|case| [(case, Way::Plain), (case, Way::Tls)]);
    let lines = ways.map(|(case, way)| one(setting, &pair, case, way)).collect::<Result<Vec<_>>>()?;
    Ok(lines.concat())
}

/// Whether the system paces what is sent, and nodes among themselves do not (decision 0018).
fn is_paced() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").is_ok_and(|name| name.starts_with("bbr"))
}

fn one(setting: &Setting, pair: &Pair, case: &Case, way: Way) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    if way == Way::Tls {
        let authority = Authority::new("bench");
        for (side, address) in Pair::ADDRESSES.iter().enumerate() {
            let dir = workspace.path().join(format!("cache-{side}/tls"));
            authority.issue(&format!("node-{side}"), &[address]).write(&dir, authority.pem());
        }
    }
    let data = workspace.path().join("data");
    let items = setting.choose(DATA_BYTES, DATA_BYTES / 8) / case.item_bytes;
    fixture::write_files(&data, items, case.item_bytes)?;
    let mut nodes = [start(pair, 0, workspace.path(), &data)?, start(pair, 1, workspace.path(), &data)?];
    let addresses = [nodes[0].answer()?, nodes[1].answer()?];
    ensure!(nodes[1].ask("warm")? == "warm");
    for node in &mut nodes {
        ensure!(node.ask(&format!("meet {}", addresses.join(" ")))? == "met");
    }

    let socket = workspace.path().join("cache-0/fodder.sock");
    let (socket, count, batch) = (socket.display().to_string(), items.to_string(), case.batch.to_string());
    let kind = Kind::FramesUnix.name();
    let arguments = ["client", "--kind", kind, "--address", &socket, "--items", &count, "--batch", &batch];
    let readers = (0..case.readers).map(|_| Process::start(&arguments)).collect::<Result<Vec<_>>>()?;
    let readers = RefCell::new(readers);
    let batches = setting.choose(256 << 20, 32 << 20) / (case.item_bytes * case.batch).min(32 << 20);
    let ours = |round: u64| -> Result<f64> {
        let began = Instant::now();
        for (number, reader) in readers.borrow_mut().iter_mut().enumerate() {
            reader.tell(&format!("run {batches} {}", round * 100 + number as u64))?;
        }
        let mut bytes = 0.0;
        for reader in readers.borrow_mut().iter_mut() {
            bytes += reader.answer()?.parse::<f64>()?;
        }
        Ok(bytes / began.elapsed().as_secs_f64() / 1e9)
    };
    let iperf3 = |congestion| move |_| pair.iperf3(case.readers, setting.choose(2, 1), congestion);
    let mut contestants = vec![Contestant::new("remote hits", ours), Contestant::new("iperf3", iperf3(None))];
    if is_paced() && way == Way::Plain {
        contestants.push(Contestant::new("iperf3 by cubic", iperf3(Some("cubic"))));
    }
    let speeds = alternate(setting.choose(5, 1), &mut contestants)?;

    let said: serde_json::Value = serde_json::from_str(&nodes[0].ask("status")?)?;
    let stats = &said["datasets"][0]["stats"];
    let (remote, all) = (&stats["bytes_from_peers"], &stats["bytes_served"]);
    let (remote, all) = (remote.as_f64().context("a count")?, all.as_f64().context("a count")?);
    ensure!(remote >= 0.5 * all, "only {remote} of {all} bytes came from the other node");
    ensure!(stats["bytes_from_origin"] == 0, "some bytes came from the origin");

    let size = if case.item_bytes < 1 << 20 { "100 KiB" } else { "4 MiB" };
    let plural = if case.readers == 1 { "" } else { "s" };
    let what = format!("remote hits of {} × {size}, {} reader{plural}", case.batch, case.readers);
    let (what, target) = match way {
        Way::Plain => (what, Target::AtLeast(case.least)),
        Way::Tls => (format!("{what}, over TLS"), Target::Context),
    };
    let against = [("iperf3", target), ("iperf3 --congestion cubic", Target::Context)];
    let line = |(theirs, (name, target)): (&Vec<f64>, _)| {
        Line::of_rounds(what.clone(), "GB/s", &speeds[0], name, theirs, target)
    };
    Ok(speeds[1..].iter().zip(against).map(line).collect())
}

/// A node in one of the namespaces.
fn start(pair: &Pair, side: usize, workspace: &Path, data: &Path) -> Result<Process> {
    let program = std::env::current_exe()?;
    let mut command = pair.command(side, program.to_str().context("the program's name is text")?);
    command.args(["member", "--side", &side.to_string(), "--address", Pair::ADDRESSES[side], "--cache-dir"]);
    command.arg(workspace.join(format!("cache-{side}"))).arg("--origin").arg(data);
    Process::spawn(&mut command)
}
