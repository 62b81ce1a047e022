//! The flags of `fodder bench`.

use super::{NodeArgs, serve};
use clap::{Args, Subcommand};
use std::{path::PathBuf, time::Duration};

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure how fast the files of a directory are read.
    Read(Box<BenchReadArgs>),
}

const HELP: &str = "\
Reads go through the page cache, as those of a training job do. With --against, the two directories are read
alternately many times in one run, so that other load on the machine affects both alike; the ratio is the speed of the
first one over that of the second one: in bytes, or in files with --small.

With --checksum, every read is checksummed (CRC-32C) while it is measured, which takes some time. Afterwards the
checksums, of at most a million reads, are compared with the original files: those at the origin of the mounted
dataset, unless --origin or --against names others.

JSON: gbps, ops_per_s, p50_us, p95_us, p99_us, max_us under `dir` and `against`, and `ratio`; `checked_reads` and
`checked_files` with --checksum, `missed` with --cached.

Exit status: 0; 1 for an error, different bytes (--checksum) or a cache miss (--cached); 2 for a wrong command line.

Examples:
  fodder bench read --dir /data --against /srv/imagenet --readers 8 --random
  fodder bench read --dir /data --small --cached --json
  fodder bench read --dir /data --checksum
  fodder bench read --dir /other/mount --checksum --origin s3://bucket/imagenet";

/// Measure how fast the files of a directory are read.
#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
pub struct BenchReadArgs {
    /// The directory; everything below it is read.
    #[arg(long)]
    pub dir: PathBuf,
    /// Number of reading threads.
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub readers: u32,
    /// How long to read, both directories together.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = serve::parse_duration)]
    pub duration: Duration,
    /// Size of a read.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_chunk)]
    pub chunk: u64,
    /// Read at random offsets, or with --small in random order. Default: one file after another, sequentially.
    #[arg(long)]
    pub random: bool,
    /// Open, read and close whole files, which are counted as one operation each.
    #[arg(long)]
    pub small: bool,
    /// Read through memory mappings (mmap).
    #[arg(long, conflicts_with = "small")]
    pub mmap: bool,
    /// Fail if the node requested data from the origin or another node meanwhile. The directory must be in a mount of Fodder.
    #[arg(long)]
    pub cached: bool,
    /// Compare the bytes read with those at the origin, or in the other directory.
    #[arg(long)]
    pub checksum: bool,
    /// A second directory with the same files to compare with, such as a native one.
    #[arg(long, value_name = "DIR2")]
    pub against: Option<PathBuf>,
    /// Where the original files are, for --checksum. Default: the directory of --against, else the origin of the mounted dataset.
    #[arg(long, value_name = "URI", requires = "checksum")]
    pub origin: Option<String>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Which node, for --cached and --checksum.
    #[command(flatten)]
    pub node: NodeArgs,
}

fn parse_chunk(text: &str) -> Result<u64, String> {
    match serve::parse_bytes(text)? {
        bytes @ 1..=0x4000_0000 => Ok(bytes),
        _ => Err("a read has between 1 byte and 1GiB".into()),
    }
}
