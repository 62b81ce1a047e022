//! Warm reads of 100 KiB items by two threads: `Dataset::try_read` against `pread` on kept fds of the very same
//! cache files, in the same random order, into the same kind of reused buffer.

use super::Setting;
use crate::{
    contest::{Contestant, alternate},
    fixture::{self, Cache},
    outcome::{Line, Target},
};
use anyhow::{Context, Result, ensure};
use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::FileExt,
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

const THREADS: usize = 2;
const ITEM_BYTES: usize = 100 << 10;

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    fixture::raise_open_files()?;
    let workspace = setting.workspace()?;
    let (data, cache_dir) = (workspace.path().join("data"), workspace.path().join("cache"));
    fixture::write_files(&data, setting.choose(4_000, 200), ITEM_BYTES)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let cache = runtime.block_on(Cache::open(&cache_dir, 4 << 30, data.display().to_string()))?;
    runtime.block_on(cache.warm())?;

    let snapshot = cache.dataset.snapshot();
    let refused = AtomicU64::new(0);
    let by_engine = |id: usize, buffer: &mut [u8]| {
        let item = snapshot.item(id as u64)?;
        if cache.dataset.try_read(item.object, item.range.start, buffer).is_none() {
            // Would have waited: a door then asks again in a way that may, and so does this one.
            refused.fetch_add(1, Relaxed);
            let reply = runtime.block_on(cache.dataset.read(item.object, item.range))?;
            buffer.copy_from_slice(&reply.segments.concat());
        }
        Ok(())
    };
    let files = kept_files(&cache, &cache_dir)?;
    let by_pread = |id: usize, buffer: &mut [u8]| Ok(files[id].read_exact_at(buffer, 0)?);
    same_bytes(files.len(), &by_engine, &by_pread)?;

    let passes = setting.choose(20, 2);
    let speeds = alternate(
        setting.choose(9, 1),
        &mut [
            Contestant::new("fodder", |round| speed(files.len(), passes, round, &by_engine)),
            Contestant::new("pread", |round| speed(files.len(), passes, round, &by_pread)),
        ],
    )?;
    if refused.load(Relaxed) > 0 {
        eprintln!("{} of all reads could not be answered without waiting", refused.load(Relaxed));
    }
    runtime.block_on(cache.engine.shutdown());
    let line = Line::of_rounds(
        format!("{} KiB items, {THREADS} threads", ITEM_BYTES >> 10),
        "GB/s",
        &speeds[0],
        "pread, kept fds",
        &speeds[1],
        Target::AtLeast(0.8),
    );
    Ok(vec![line])
}

/// The cache file of each item, open.
fn kept_files(cache: &Cache, cache_dir: &std::path::Path) -> Result<Vec<File>> {
    let paths = fixture::cache_files(&cache_dir.join("tier"))?;
    let by_name: HashMap<_, _> = paths.iter().filter_map(|path| Some((path.file_name()?.to_str()?, path))).collect();
    let objects = cache.dataset.objects();
    let file = |key: String| {
        let path = by_name.get(key.as_str()).with_context(|| format!("no cache file {key}"))?;
        Ok(File::open(path)?)
    };
    cache.items()?.into_iter().map(|item| file(objects.key(item.object).to_string())).collect()
}

type Read<'a> = dyn Fn(usize, &mut [u8]) -> Result<()> + Sync + 'a;

/// Both ways of reading give the same bytes.
fn same_bytes(items: usize, ours: &Read<'_>, theirs: &Read<'_>) -> Result<()> {
    let (mut left, mut right) = (vec![0; ITEM_BYTES], vec![1; ITEM_BYTES]);
    for id in 0..items {
        ours(id, &mut left)?;
        theirs(id, &mut right)?;
        ensure!(left == right, "item {id} differs from its cache file");
    }
    Ok(())
}

/// GB/s of all threads together, each reading all items `passes` times in an order of its own.
fn speed(items: usize, passes: u64, round: u64, read: &Read<'_>) -> Result<f64> {
    let barrier = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS as u64)
            .map(|thread| {
                let order = fixture::shuffled(items, round * THREADS as u64 + thread);
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut buffer = vec![0; ITEM_BYTES];
                    barrier.wait();
                    (0..passes).flat_map(|_| &order).try_for_each(|&id| read(id, &mut buffer))
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for thread in threads {
            thread.join().expect("a reading thread does not panic")?;
        }
        let bytes = THREADS as u64 * passes * (items * ITEM_BYTES) as u64;
        Ok(bytes as f64 / start.elapsed().as_secs_f64() / 1e9)
    })
}
