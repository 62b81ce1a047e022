//! What was measured, for people and for machines.

use super::{super::plural, checksum::Checked, turns::Side};
use crate::cli::BenchReadArgs;
use anyhow::Result;
use fodder_core::size;
use serde::Serialize;
use std::fmt::Write;

/// What one run has measured.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    mode: &'static str,
    readers: u32,
    chunk_bytes: u64,
    dir: Speed,
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Speed>,
    /// The first directory's speed over the second one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    /// Reads that the cache did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
    /// Files of which something was compared, and was the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    checked_files: Option<u64>,
    /// Reads whose bytes were compared, and were the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    checked_reads: Option<u64>,
}

/// How fast one directory was.
#[derive(Debug, Serialize)]
struct Speed {
    path: String,
    files: usize,
    file_bytes: u64,
    read_bytes: u64,
    ops: u64,
    elapsed_s: f64,
    gbps: f64,
    ops_per_s: f64,
    p50_us: f64,
    p95_us: f64,
    p99_us: f64,
    max_us: f64,
}

impl Speed {
    fn of(side: &Side) -> Self {
        let (times, elapsed_s, read_bytes) = (side.times(), side.elapsed.as_secs_f64().max(1e-9), side.bytes());
        Self {
            path: side.files.root.display().to_string(),
            files: side.files.files.len(),
            file_bytes: side.files.bytes(),
            read_bytes,
            ops: times.len(),
            elapsed_s,
            gbps: read_bytes as f64 / elapsed_s / 1e9,
            ops_per_s: times.len() as f64 / elapsed_s,
            p50_us: times.quantile_us(0.5),
            p95_us: times.quantile_us(0.95),
            p99_us: times.quantile_us(0.99),
            max_us: times.max_us(),
        }
    }
}

impl Report {
    pub(super) fn new(sides: &[Side], args: &BenchReadArgs, missed: Option<u64>, checked: Option<Checked>) -> Self {
        let dir = Speed::of(&sides[0]);
        let against = sides.get(1).map(Speed::of);
        let measure = |speed: &Speed| if args.small { speed.ops_per_s } else { speed.gbps };
        let ratio = against.as_ref().filter(|other| measure(other) > 0.0).map(|other| measure(&dir) / measure(other));
        let mode = match (args.small, args.random) {
            (false, false) if args.mmap => "sequential mapped",
            (false, true) if args.mmap => "random mapped",
            (false, false) => "sequential",
            (false, true) => "random",
            (true, false) => "small",
            (true, true) => "small random",
        };
        let (readers, chunk_bytes) = (args.readers, args.chunk);
        let (checked_files, checked_reads) =
            (checked.map(|checked| checked.files), checked.map(|checked| checked.reads));
        Self { mode, readers, chunk_bytes, dir, against, ratio, missed, checked_files, checked_reads }
    }

    pub(super) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    pub(super) fn text(&self) -> String {
        let what = match self.mode {
            "small" => "whole files, opened, read and closed".into(),
            "small random" => "whole files in random order, opened, read and closed".into(),
            mode => format!("{mode} reads of {}", size::human(self.chunk_bytes)),
        };
        let mut text = format!("{what}, {}\n", plural(self.readers.into(), "reader"));
        let _ = writeln!(
            text,
            "{:>8} {:>10} {:>9} {:>9} {:>9} {:>10}",
            "GB/s", "ops/s", "p50 µs", "p95 µs", "p99 µs", "max µs"
        );
        for speed in [Some(&self.dir), self.against.as_ref()].into_iter().flatten() {
            let Speed { gbps, ops_per_s, p50_us, p95_us, p99_us, max_us, path, .. } = speed;
            let _ = writeln!(
                text,
                "{gbps:>8.3} {ops_per_s:>10.0} {p50_us:>9.1} {p95_us:>9.1} {p99_us:>9.1} {max_us:>10.1}  {path}"
            );
        }
        if let Some(ratio) = self.ratio {
            let _ = writeln!(text, "ratio {ratio:.3}");
        }
        if let (Some(reads), Some(files)) = (self.checked_reads, self.checked_files) {
            let (ops, files) = (plural(self.dir.ops, "read"), plural(files, "file"));
            let _ = writeln!(text, "{reads} of {ops} compared by checksum, of {files}: all the same");
        }
        if let Some(missed) = self.missed {
            let _ = writeln!(text, "{} missed the cache", plural(missed, "read"));
        }
        text
    }
}
