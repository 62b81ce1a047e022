//! The flags of `fodder warm`.

use super::{NodeArgs, serve};
use clap::Args;
use fodder_core::{config::Quota, size};
use std::path::PathBuf;

const HELP: &str = "\
Data that is already cached is skipped, so an interrupted run (Ctrl-C, SIGTERM, a crash) continues when the command
is run again. Readers have priority: while one waits for the origin, warming makes one request at a time. Data that
the residency policy would not keep is not fetched, and is reported.

In a cluster, every node fetches the data that it owns; if a node fails meanwhile, the others fetch its share.
--this-node fetches everything to one node.

Exit status: 0 everything is cached; 1 an error; 2 a wrong command line; 3 something is missing, because the run was
stopped, or the data does not fit, was not kept or could not be fetched.

Examples:
  fodder warm imagenet                                everything
  fodder warm imagenet/train --max-size 500GB --bandwidth 500MB/s
  fodder warm imagenet --from-list files.txt --json   one path a line; one JSON object a line
  fodder warm s3://bucket/imagenet --cache-dir /mnt/nvme/fodder --cache-size 1TB
                                                      starts a node if none is running there";

/// Fetch data into the cache before it is read.
#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
pub struct WarmArgs {
    /// A dataset, optionally with a directory, a file or a prefix of paths in it; a directory or file in a mount; or an origin (a URI, or a path that begins with `/`, `./` or `../`).
    #[arg(value_name = "PATH|DATASET[/PREFIX]|ORIGIN", value_parser = super::spelled())]
    pub target: String,
    /// Include everything below a directory (the default).
    #[arg(long, short)]
    pub recursive: bool,
    /// Cache at most this many bytes of it; files that do not fit are skipped.
    #[arg(long, value_name = "SIZE", value_parser = serve::parse_bytes)]
    pub max_size: Option<u64>,
    /// Number of concurrent requests to the origin, at most the node's `origin_concurrency`.
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub workers: u32,
    /// Fetch at most this much per second from the origin, such as `500MB/s`.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub bandwidth: Option<u64>,
    /// Fetch only the files listed in FILE, one path per line, in this order; `-` is stdin. Empty lines and lines that begin
    /// with # are ignored.
    #[arg(long, value_name = "FILE")]
    pub from_list: Option<PathBuf>,
    /// Print a JSON object every second, and one at the end.
    #[arg(long)]
    pub json: bool,
    /// In a cluster, fetch everything to this node, from other nodes where they have it. Otherwise each node fetches what it
    /// owns, and --max-size, --workers and --bandwidth apply to all nodes together.
    #[arg(long)]
    pub this_node: bool,
    /// Continue where an earlier run was stopped (the default).
    #[arg(long)]
    pub resume: bool,
    /// Read the origin, a public bucket, without credentials.
    #[arg(long)]
    pub anonymous: bool,
    /// Size of the cache if a node must be started: `20GiB`, `500MB`.
    #[arg(long, value_name = "SIZE", help_heading = "Node")]
    pub cache_size: Option<Quota>,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Bytes a second, as people write them.
fn parse_rate(text: &str) -> Result<u64, String> {
    let size = text.strip_suffix("/s").unwrap_or(text);
    match size::parse(size) {
        Ok(0) | Err(_) => Err("write a rate such as 500MB/s or 1GiB/s".into()),
        Ok(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_size_a_second() {
        assert_eq!(parse_rate("500MB/s"), Ok(500_000_000));
        assert_eq!(parse_rate("1GiB"), Ok(1 << 30));
        for wrong in ["", "fast", "0", "1GB/h"] {
            assert!(parse_rate(wrong).unwrap_err().contains("500MB/s"), "{wrong}");
        }
    }
}
