//! The flags of `fodder bench`.

use super::{NodeArgs, serve};
use clap::{Args, Subcommand};
use std::{path::PathBuf, time::Duration};

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Read the files of a directory, any directory, and say how fast that was.
    Read(Box<BenchReadArgs>),
}

const HELP: &str = "\
Reads go through the page cache, as a training job's do. With --against the two directories take turns many
times in the same run, so that what else happens on the machine happens to both; the ratio is the first one's
speed over the second one's: of bytes, or of files with --small.

With --checksum every read is summed (CRC-32C) while it is measured, which takes time of its own, and what was
read, of a million places at most, is compared afterwards with the right bytes: those at the origin of the dataset
that is mounted there, unless --origin or --against says where they are.

JSON: gbps, ops_per_s, p50_us, p95_us, p99_us, max_us under `dir` and `against`, and `ratio`; `checked_reads` and
`checked_files` with --checksum, `missed` with --cached.

Exit status: 0, or 1 for an error, bytes that differ (--checksum) or a miss (--cached).

Examples:
  fodder bench read --dir /data --against /srv/imagenet --readers 8 --random
  fodder bench read --dir /data --small --cached --json
  fodder bench read --dir /data --checksum
  fodder bench read --dir /other/mount --checksum --origin s3://bucket/imagenet";

/// Read the files of a directory.
#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
pub struct BenchReadArgs {
    /// The directory, with everything below it.
    #[arg(long)]
    pub dir: PathBuf,
    /// Threads that read at a time.
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub readers: u32,
    /// For how long, over both directories together.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = serve::parse_duration)]
    pub duration: Duration,
    /// Bytes of one read.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_chunk)]
    pub chunk: u64,
    /// Read at random places, or with --small in random order. Default: one file after the other, from its beginning.
    #[arg(long)]
    pub random: bool,
    /// Open, read and close whole files; an operation is a file.
    #[arg(long)]
    pub small: bool,
    /// Read through a mapping of each file, as token files are often read.
    #[arg(long, conflicts_with = "small")]
    pub mmap: bool,
    /// Fail if the node had to ask an origin or another node meanwhile. The directory has to be a mount of Fodder.
    #[arg(long)]
    pub cached: bool,
    /// Compare the bytes that were read with those at the origin, or in the other directory.
    #[arg(long)]
    pub checksum: bool,
    /// A second directory with the same files, to compare with: a native one, or a peer's mount.
    #[arg(long, value_name = "DIR2")]
    pub against: Option<PathBuf>,
    /// Where the data really lives, for --checksum. Default: with --against there; else the origin of what is mounted.
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
        _ => Err("a read is between 1 byte and 1GiB".into()),
    }
}
