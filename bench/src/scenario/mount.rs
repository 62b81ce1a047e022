//! A mounted directory, everything cached, against the native directory it shows: the same files, both in memory.
//!
//! Each line is one `fodder bench read`, in which both directories take turns many times.

mod cluster;

pub(super) use cluster::run as run_cluster;

use super::Setting;
use crate::{
    epoch::{forget_large, read_all},
    fixture,
    outcome::{Line, Target},
    program::{self, Mount, Node},
};
use anyhow::{Context, Result};
use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

const NATIVE: &str = "the native directory";
const SMALL_BYTES: usize = 100 << 10;
/// Room in memory for the same files once more.
const ENOUGH_BYTES: u64 = 4 << 30;

/// A way to mount, and what is expected of it.
struct Way {
    name: &'static str,
    options: &'static [&'static str],
    /// Of large reads, and of large random reads by eight readers and more; None where they are not looked at.
    large: Option<(f64, f64)>,
    /// Of mapped ones.
    mapped: f64,
    /// Of small files, with one and with eight readers.
    small: [f64; 2],
}

const WAYS: &[Way] = &[
    Way {
        name: "mount",
        options: &["--transport=device"],
        large: Some((0.95, 0.9)),
        mapped: 0.95,
        small: [0.24, 0.45],
    },
    Way { name: "io_uring", options: &["--transport=uring"], large: None, mapped: 0.0, small: [0.45, 0.55] },
    Way { name: "--immutable", options: &["--immutable"], large: None, mapped: 0.0, small: [0.85, 0.85] },
    Way {
        name: "no passthrough",
        options: &["--transport=device", "--no-passthrough"],
        large: Some((0.7, 0.7)),
        mapped: 0.55,
        small: [0.2, 0.35],
    },
];

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let native = workspace.path().join("native");
    write_both(&native, setting)?;
    let node = Node::start(&native.display().to_string(), &workspace.path().join("cache"), 8 << 30, &[])?;
    node.warm()?;
    let duration = setting.choose("6s", "400ms");
    let mut lines = vec![as_written(&node, &native, &workspace.path().join("written"), duration)?];
    forget_large(&native)?;
    forget_large(&workspace.path().join("cache/tier"))?;
    for (number, way) in WAYS.iter().enumerate() {
        let dir = workspace.path().join(format!("mount{number}"));
        let mount = match node.mount(&dir, way.options) {
            Ok(mount) => mount,
            Err(error) => {
                eprintln!("  {}: cannot be measured here: {error:#}", way.name);
                continue;
            }
        };
        lines.extend(way.measure(way.name, &mount, &native, duration)?);
    }
    lines.extend(small_pages(&native, setting)?);
    Ok(lines)
}

/// What the pages of a cache are like before they were read from the disk: where several threads wrote them, in parts.
fn as_written(node: &Node, native: &Path, dir: &Path, duration: &str) -> Result<Line> {
    let mount = node.mount(dir, WAYS[0].options)?;
    warm_both("large", mount.dir(), native)?;
    let reading = Reading { part: "large", options: &["--mmap", "--readers", "8"], duration };
    let speeds = reading.compare(mount.dir(), native)?;
    Ok(speeds.line("as just written: mapped, 8 readers".into(), "GB/s", NATIVE, Target::Context))
}

/// The files that are read: many small ones, and a few large ones.
fn write_both(dir: &Path, setting: &Setting) -> Result<()> {
    fixture::write_files(&dir.join("small"), setting.choose(10_000, 200), SMALL_BYTES)?;
    write_large(&dir.join("large"), setting.choose(4, 1), setting.choose(256, 16))
}

/// What is lost before anybody answers: the kernel keeps what it reads through FUSE in pages of 4 KiB, as in a tmpfs, and
/// native files in larger ones. So without passthrough a mount comes close to a tmpfs and not further.
fn small_pages(native: &Path, setting: &Setting) -> Result<Vec<Line>> {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |room| room.f_bavail.saturating_mul(room.f_frsize));
    if free < ENOUGH_BYTES {
        return Ok(Vec::new());
    }
    let dir = tempfile::Builder::new().prefix("fodder-bench-").tempdir_in(memory)?;
    write_both(dir.path(), setting)?;
    let mut lines = Vec::new();
    for part in ["small", "large"] {
        warm_both(part, dir.path(), native)?;
    }
    for readers in ["1", "8", "32"] {
        for (part, what, unit, options) in [
            ("small", "100 KiB files", "op/s", ["--small", "--random", "--chunk", "128KiB"].as_slice()),
            ("large", "mapped", "GB/s", &["--mmap"]),
        ] {
            let options = [options, &["--readers", readers]].concat();
            let reading = Reading { part, options: &options, duration: setting.choose("6s", "400ms") };
            let speeds = reading.compare(dir.path(), native)?;
            let readers = if readers == "1" { "1 reader".into() } else { format!("{readers} readers") };
            lines.push(speeds.line(format!("a tmpfs: {what}, {readers}"), unit, NATIVE, Target::Context));
        }
    }
    Ok(lines)
}

impl Way {
    /// The table; each line begins with a name and takes so long.
    fn measure(&self, name: &str, mount: &Mount, native: &Path, duration: &str) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        let read = |part: &str, what: &str, options: &[&str], readers: u32| {
            let readers = readers.to_string();
            let options = [options, &["--readers", &readers]].concat();
            let reading = Reading { part, options: &options, duration };
            let speeds = reading.compare(mount.dir(), native)?;
            let plural = if readers == "1" { "" } else { "s" };
            anyhow::Ok((format!("{name}: {what}, {readers} reader{plural}"), speeds))
        };
        if let Some((large, random)) = self.large {
            warm_both("large", mount.dir(), native)?;
            for readers in [1, 8, 32] {
                let (what, speeds) = read("large", "sequential 4 MiB", &[], readers)?;
                lines.push(speeds.line(what, "GB/s", NATIVE, Target::AtLeast(large)));
                let (what, speeds) = read("large", "random 4 MiB", &["--random"], readers)?;
                let target = Target::AtLeast(if readers < 8 { large } else { random });
                lines.push(speeds.line(what, "op/s", NATIVE, target));
                let (what, speeds) = read("large", "mapped", &["--mmap"], readers)?;
                lines.push(speeds.line(what, "GB/s", NATIVE, Target::AtLeast(self.mapped)));
            }
        }
        warm_both("small", mount.dir(), native)?;
        for (readers, target) in [1, 8].into_iter().zip(self.small) {
            let options = &["--small", "--random", "--chunk", "128KiB"];
            let (what, speeds) = read("small", "100 KiB files", options, readers)?;
            lines.push(speeds.line(what, "op/s", NATIVE, Target::AtLeast(target)));
        }
        Ok(lines)
    }
}

/// Reads a part of both directories once, so that all of it is warm.
pub(super) fn warm_both(part: &str, ours: &Path, theirs: &Path) -> Result<()> {
    read_all(&ours.join(part), 2)?;
    read_all(&theirs.join(part), 2).map(drop)
}

/// One comparison of two directories.
pub(super) struct Reading<'a> {
    /// What is read, below both.
    pub(super) part: &'a str,
    pub(super) options: &'a [&'a str],
    pub(super) duration: &'a str,
}

/// What both sides gave, in GB/s and operations a second.
pub(super) struct Speeds {
    ours: (f64, f64),
    theirs: (f64, f64),
}

impl Reading<'_> {
    /// Reads both in turns.
    pub(super) fn compare(&self, ours: &Path, theirs: &Path) -> Result<Speeds> {
        let (ours, theirs) = (ours.join(self.part), theirs.join(self.part));
        let (ours, theirs) = (ours.to_string_lossy(), theirs.to_string_lossy());
        let fixed = ["bench", "read", "--json", "--duration", self.duration, "--dir", &ours, "--against", &theirs];
        let report: serde_json::Value = serde_json::from_str(&program::run(fixed.iter().chain(self.options))?)?;
        let speed = |side: &str, field: &str| report[side][field].as_f64().context("a report without its numbers");
        let side = |side: &str| anyhow::Ok((speed(side, "gbps")?, speed(side, "ops_per_s")?));
        Ok(Speeds { ours: side("dir")?, theirs: side("against")? })
    }
}

impl Speeds {
    /// A line in one of the units.
    pub(super) fn line(&self, what: String, unit: &'static str, against: &str, target: Target) -> Line {
        let choose = |(gbps, ops): (f64, f64)| if unit == "GB/s" { gbps } else { ops };
        let (ours, theirs) = (choose(self.ours), choose(self.theirs));
        Line::new(what, unit, ours, against, theirs, target)
    }
}

/// Writes so many files of so many MiB.
pub(super) fn write_large(dir: &Path, count: u64, mebibytes: u64) -> Result<()> {
    fs::create_dir_all(dir)?;
    let mut block = vec![0; 1 << 20];
    for number in 0..count {
        let mut file = File::create(dir.join(format!("{number:03}.bin")))?;
        for at in 0..mebibytes {
            fixture::scramble(number * mebibytes + at, &mut block);
            file.write_all(&block)?;
        }
    }
    Ok(())
}
