//! Shards that nobody has read before, in order through a mount: against what the line gives, and against bringing the same
//! bytes in without the mount.

use super::{Setting, mount::write_large};
use crate::{
    contest::{Contestant, alternate},
    epoch::{read_all, read_all_by},
    machine::touch_memory,
    outcome::{Line, Target},
    program::Node,
};
use anyhow::Result;
use std::{fs, path::Path, thread, time::Instant};

/// Below what disks write.
const BANDWIDTH_MB: f64 = 150.0;

/// What programs read at a time: as much as the kernel asks a mount for at once, and what it must cut.
const SMALL_CHUNK: usize = 1 << 20;
const LARGE_CHUNK: usize = 4 << 20;

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let data = workspace.path().join("data");
    let (shards, shard_mib) = (setting.choose(8, 2), setting.choose(128, 16));
    write_large(&data, shards, shard_mib)?;
    let place = Place { workspace: workspace.path(), bytes: (shards * shard_mib) as f64 * f64::from(1 << 20) };
    let line = format!("throttled:latency=20ms,bandwidth={BANDWIDTH_MB}MB/s:{}", data.display());
    let limited = |_| place.read(&line, SMALL_CHUNK);
    let limited = alternate(setting.choose(2, 1), &mut [Contestant::new("behind a line", limited)])?.concat();
    let origin = format!("throttled:latency=20ms:{}", data.display());
    let mut contestants = [
        Contestant::new("through a mount", |_| place.read(&origin, SMALL_CHUNK)),
        Contestant::new("without a mount", |_| place.fill(&origin)),
        Contestant::new("through a mount, 4 MiB at a time", |_| place.read(&origin, LARGE_CHUNK)),
        Contestant::new("without a mount, beside a reader", |_| place.fill_beside_reader(&origin, &data)),
    ];
    let speeds = alternate(setting.choose(5, 1), &mut contestants)?;
    let [far, filled, by_large, beside] = &speeds[..] else { unreachable!("as many speeds as contestants") };
    let what = format!("{shards} × {shard_mib} MiB in order, 1 reader, 20 ms away");
    let by_large_chunks = format!("{what}, 4 MiB at a time");
    let bandwidth = vec![BANDWIDTH_MB; limited.len()];
    Ok(vec![
        Line::of_rounds(&what, "MB/s", &limited, "the origin's bandwidth", &bandwidth, Target::AtLeast(0.9)),
        Line::of_rounds(&what, "MB/s", far, "fodder warm, no mount", filled, Target::AtLeast(0.8)),
        Line::of_rounds(by_large_chunks, "MB/s", by_large, "fodder warm, no mount", filled, Target::AtLeast(0.8)),
        Line::of_rounds(
            &what,
            "MB/s",
            far,
            "fodder warm, and as much read natively meanwhile",
            beside,
            Target::Context,
        ),
    ])
}

struct Place<'a> {
    workspace: &'a Path,
    bytes: f64,
}

impl Place<'_> {
    /// Reads everything through a mount with an empty cache, so many bytes at a time; MB/s.
    fn read(&self, origin: &str, chunk_bytes: usize) -> Result<f64> {
        let cache = self.workspace.join("cache");
        let node = Node::start(origin, &cache, 8 << 30, &[])?;
        let mount = node.mount(&self.workspace.join("mount"), &[])?;
        self.touch_memory();
        let speed = read_all_by(mount.dir(), 1, chunk_bytes)?;
        drop((mount, node));
        fs::remove_dir_all(cache)?;
        Ok(speed)
    }

    /// Everybody finds memory for what will be cached and what is on its way there.
    fn touch_memory(&self) {
        touch_memory(2 * self.bytes as usize);
    }

    /// Brings everything into an empty cache; MB/s.
    fn fill(&self, origin: &str) -> Result<f64> {
        self.fill_while(origin, || Ok(()))
    }

    /// The same while somebody reads as many bytes that no mount stands before: the most that a mount could reach on a
    /// machine that has no more processors than both of them need.
    fn fill_beside_reader(&self, origin: &str, data: &Path) -> Result<f64> {
        self.fill_while(origin, || read_all(data, 1).map(drop))
    }

    fn fill_while(&self, origin: &str, meanwhile: impl FnOnce() -> Result<()>) -> Result<f64> {
        let cache = self.workspace.join("cache");
        let node = Node::start(origin, &cache, 8 << 30, &[])?;
        self.touch_memory();
        let began = Instant::now();
        thread::scope(|scope| {
            let filling = scope.spawn(|| node.warm());
            meanwhile()?;
            filling.join().expect("a warm-up does not panic")
        })?;
        let speed = self.bytes / began.elapsed().as_secs_f64() / 1e6;
        drop(node);
        fs::remove_dir_all(cache)?;
        Ok(speed)
    }
}
