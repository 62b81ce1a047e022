//! The anonymous memory of a node (RssAnon) while 64 readers stream a dataset ten times as large as its cache, twice:
//! at most the memory budget and 256 MiB.

use super::Setting;
use crate::{
    fixture::NAME,
    node::{NodeArguments, RunningNode},
    outcome::{Line, Target},
    process::memory_kib,
};
use anyhow::{Context, Result, ensure};
use fodder_api::{
    Address, Client,
    frames::{Batch, FrameClient},
};
use fodder_policy::Policy;
use std::{
    fs::{self, File},
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

const READERS: usize = 64;
const PASSES: u64 = 2;
const OBJECT_BYTES: u64 = 32 << 20;
const RANGE_BYTES: u64 = 4 << 20;
const BUDGET_BYTES: u64 = 256 << 20;
const BESIDE_BYTES: u64 = 256 << 20;

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let data = workspace.path().join("data");
    let cache_bytes: u64 = setting.choose(1 << 30, 128 << 20);
    let objects = 10 * cache_bytes / OBJECT_BYTES;
    write_sparse(&data, objects)?;
    let mut lines = Vec::new();
    for (policy, door) in [
        (Policy::Lru, Door::Grpc),
        (Policy::Minio, Door::Grpc),
        (Policy::Lru, Door::Frames),
        (Policy::Minio, Door::Frames),
    ] {
        let cache_dir = workspace.path().join("cache");
        let origin = data.to_str().context("the directory's name is text")?.into();
        let node = NodeArguments { cache_dir, cache_bytes, budget_bytes: BUDGET_BYTES, policy, origin };
        let (peak, speed) = peak(&node, door, objects)?;
        let allowed = (BUDGET_BYTES + BESIDE_BYTES) as f64 / f64::from(1 << 20);
        let what = format!("RssAnon, {READERS} {door:?} readers, {policy}, {speed:.1} GB/s");
        lines.push(Line::new(what, "MiB", peak, "budget + 256 MiB", allowed, Target::AtMost(1.0)));
        fs::remove_dir_all(&node.cache_dir)?;
    }
    Ok(lines)
}

/// Objects that take no space on disk and cost nothing to make.
fn write_sparse(dir: &Path, objects: u64) -> Result<()> {
    fs::create_dir_all(dir)?;
    (0..objects).try_for_each(|number| Ok(File::create(dir.join(format!("{number:05}.bin")))?.set_len(OBJECT_BYTES)?))
}

/// The most MiB of anonymous memory a node had, and the GB/s it served meanwhile.
fn peak(arguments: &NodeArguments, door: Door, objects: u64) -> Result<(f64, f64)> {
    let node = arguments.start()?;
    let done = AtomicBool::new(false);
    let start = Instant::now();
    let (peak, read) = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(node.process.id(), &done));
        let read = match door {
            Door::Grpc => read_by_grpc(&node, objects),
            Door::Frames => read_by_frames(&node, objects),
        };
        done.store(true, Relaxed);
        (watcher.join().expect("the watcher does not panic"), read)
    });
    let bytes = read?;
    ensure!(bytes == PASSES * objects * OBJECT_BYTES, "the readers got {bytes} bytes");
    Ok((peak? as f64 / 1024.0, bytes as f64 / start.elapsed().as_secs_f64() / 1e9))
}

/// Samples RssAnon until it is done; the largest, in KiB.
fn watch(process: u32, done: &AtomicBool) -> Result<u64> {
    let mut peak = 0;
    while !done.load(Relaxed) {
        peak = peak.max(memory_kib(process, "RssAnon")?);
        thread::sleep(Duration::from_millis(10));
    }
    Ok(peak)
}

/// What readers read through.
#[derive(Debug, Clone, Copy)]
enum Door {
    Grpc,
    Frames,
}

/// Every reader, on a connection of its own, streams the next object that nobody has begun, until all passes are over.
fn read_by_grpc(node: &RunningNode, objects: u64) -> Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let address = Address::unix(&node.socket)?;
    let next = AtomicU64::new(0);
    runtime.block_on(async {
        let readers = (0..READERS).map(|_| async {
            let client = Client::connect(&address).await?;
            let mut bytes = 0;
            while let Some(target) = next_object(&next, objects) {
                let mut stream = client.read(NAME, target, 0, 0).await?;
                while let Some((chunk, _)) = stream.next().await? {
                    bytes += chunk.len() as u64;
                }
            }
            anyhow::Ok(bytes)
        });
        Ok(futures::future::try_join_all(readers).await?.into_iter().sum())
    })
}

/// As by gRPC, from a thread for each reader, in ranges that fit a client's buffer.
fn read_by_frames(node: &RunningNode, objects: u64) -> Result<u64> {
    let address = Address::unix(&node.socket)?;
    let next = AtomicU64::new(0);
    let reader = || {
        let mut client = FrameClient::connect(&address)?;
        let handle = client.open(NAME, None)?.handle;
        let (mut batch, mut bytes) = (Batch::new(), 0);
        while let Some(target) = next_object(&next, objects) {
            for offset in (0..OBJECT_BYTES).step_by(RANGE_BYTES as usize) {
                client.read(handle, &target, offset, RANGE_BYTES, &mut batch)?;
                bytes += batch.get(0).context("one answer")?.data?.len() as u64;
            }
        }
        anyhow::Ok(bytes)
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(reader)).collect();
        readers.into_iter().map(|reader| reader.join().expect("a reader does not panic")).sum()
    })
}

/// The object that is next for whoever asks; None when all passes are over.
fn next_object(next: &AtomicU64, objects: u64) -> Option<fodder_api::Target> {
    let number = next.fetch_add(1, Relaxed);
    (number < PASSES * objects).then(|| fodder_api::Target::Item(number % objects))
}
