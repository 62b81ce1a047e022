//! A cold 1 GiB object behind 500 MB/s and 20 ms, streamed through a fresh engine: how much of the bandwidth arrives.

use super::Setting;
use crate::{
    fixture::{self, Cache},
    outcome::{Line, Target},
};
use anyhow::{Context, Result, ensure};
use crc_fast::{CrcAlgorithm, Digest};
use fodder_core::origin::{Origin, OriginOptions};
use futures::{StreamExt, TryFutureExt, TryStreamExt, future::ready};
use std::{fs::File, io::Write, path::Path, time::Instant};

const BANDWIDTH_MB: f64 = 500.0;
const RANGES: usize = 16;
const RANGE_BYTES: u64 = 4 << 20;

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let data = workspace.path().join("data");
    let len: u64 = setting.choose(1 << 30, 64 << 20);
    let checksum = write_object(&data, len)?;
    let origin = format!("throttled:latency=20ms,bandwidth={BANDWIDTH_MB}MB/s:{}", data.display());
    let runtime = tokio::runtime::Runtime::new()?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..setting.choose(5, 1) {
        let cache_dir = workspace.path().join(format!("cache{round}"));
        let speed = |seconds: f64| len as f64 / seconds / 1e6;
        ours.push(speed(runtime.block_on(through_engine(&cache_dir, &origin, len, checksum))?));
        bare.push(speed(runtime.block_on(past_engine(&origin, len))?));
        std::fs::remove_dir_all(&cache_dir)?;
    }
    let bandwidth = vec![BANDWIDTH_MB; ours.len()];
    let what = format!("{} MiB object, cold, 20 ms away", len >> 20);
    let bare_ranges = format!("{RANGES} ranges at once, no engine");
    Ok(vec![
        Line::of_rounds(&what, "MB/s", &ours, "the origin's bandwidth", &bandwidth, Target::AtLeast(0.9)),
        Line::of_rounds(&what, "MB/s", &ours, bare_ranges, &bare, Target::Context),
    ])
}

/// Seconds to stream the object through a fresh engine.
async fn through_engine(cache_dir: &Path, origin: &str, len: u64, checksum: u64) -> Result<f64> {
    let cache = Cache::open(cache_dir, 4 << 30, origin.into()).await?;
    let start = Instant::now();
    ensure!(stream(&cache, |_| {}).await? == len, "the stream ended early");
    let seconds = start.elapsed().as_secs_f64();
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    stream(&cache, |bytes| digest.update(bytes)).await?;
    ensure!(digest.finalize() == checksum, "the bytes are not the object's");
    cache.engine.shutdown().await;
    Ok(seconds)
}

/// Seconds to read the object from its origin in parallel ranges, and keep nothing: what the line really gives.
async fn past_engine(origin: &str, len: u64) -> Result<f64> {
    let origin = Origin::open(origin, &OriginOptions::default()).await?;
    let object = origin.list().next().await.context("the origin has one object")??;
    let start = Instant::now();
    let ranges = (0..len).step_by(RANGE_BYTES as usize).map(|from| from..(from + RANGE_BYTES).min(len));
    let reads = ranges.map(|range| {
        origin.get(&object.path, &object.version, range).and_then(|body| body.try_for_each(|_| ready(Ok(()))))
    });
    futures::stream::iter(reads).buffered(RANGES).try_for_each(|()| ready(Ok(()))).await?;
    Ok(start.elapsed().as_secs_f64())
}

/// Streams the dataset's only object; its length.
async fn stream(cache: &Cache, mut each: impl FnMut(&[u8])) -> Result<u64> {
    let item = cache.items()?.into_iter().next().context("the dataset has one object")?;
    let mut replies = cache.dataset.read_stream(item.object, item.range);
    let mut len = 0;
    while let Some(reply) = replies.next().await {
        for segment in reply?.segments {
            len += segment.len() as u64;
            each(&segment);
        }
    }
    Ok(len)
}

/// Writes an object of so many bytes; its checksum.
fn write_object(dir: &Path, len: u64) -> Result<u64> {
    std::fs::create_dir_all(dir)?;
    let mut file = File::create(dir.join("object.bin"))?;
    let mut block = vec![0; 1 << 20];
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for number in 0..len >> 20 {
        fixture::scramble(number, &mut block);
        digest.update(&block);
        file.write_all(&block)?;
    }
    Ok(digest.finalize())
}
