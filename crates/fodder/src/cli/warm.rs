//! The flags of `fodder warm`.

use super::{NodeArgs, serve};
use clap::Args;
use fodder_core::{config::Quota, size};
use std::path::PathBuf;

const HELP: &str = "\
What is cached already is skipped, so that after a stop (Ctrl-C, SIGTERM, a crash) running it again goes on.
Readers come first: while one waits for the origin, warming takes one step at a time. The residency policy
has the last word: what it does not keep is not fetched, and told.

At a node of a cluster all nodes warm: each brings in what it owns, and what a node that dies on the way
owned is brought in by the others. --this-node brings everything to the one node, as its mount likes it.

Exit status: 0 everything is in the cache, 1 an error (also of the command line), 2 something is missing (it was
stopped, does not fit, was not kept, or could not be fetched).

Examples:
  fodder warm imagenet                                everything
  fodder warm imagenet/train --max-size 500GB --bandwidth 500MB/s
  fodder warm imagenet --from-list files.txt --json   one path a line; one JSON object a line
  fodder warm s3://bucket/imagenet --cache-dir /mnt/nvme/fodder --cache-size 1TB
                                                      starts a node if none runs there";

/// Bring data in before anybody reads it.
#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
pub struct WarmArgs {
    /// A dataset of the node, perhaps with a directory, a file or the beginning of paths in it; a directory or file of a
    /// mount; or an origin (a URI, or a path that begins with `/`, `./` or `../`).
    #[arg(value_name = "PATH|DATASET[/PREFIX]|ORIGIN", value_parser = super::spelled())]
    pub target: String,
    /// With everything below. The default.
    #[arg(long, short)]
    pub recursive: bool,
    /// Have at most so many bytes of it in the cache; files that do not fit are left out.
    #[arg(long, value_name = "SIZE", value_parser = serve::parse_bytes)]
    pub max_size: Option<u64>,
    /// Requests to the origin at a time; no more than the node's `origin_concurrency`.
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub workers: u32,
    /// Take at most so many bytes a second from the origin, such as `500MB/s`.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub bandwidth: Option<u64>,
    /// Only the files that this file names, one path a line, the first ones first; `-` is stdin. Empty lines and lines
    /// that begin with # are passed over.
    #[arg(long, value_name = "FILE")]
    pub from_list: Option<PathBuf>,
    /// Print a JSON object a second, and one at the end.
    #[arg(long)]
    pub json: bool,
    /// On a node of a cluster: bring all of it in on this node, from the others where they have it. Else each node brings in
    /// what it owns, and --max-size, --workers and --bandwidth are for all of them together.
    #[arg(long)]
    pub this_node: bool,
    /// Go on where an earlier run was stopped. The default.
    #[arg(long)]
    pub resume: bool,
    /// Read a public bucket without credentials, if it is an origin.
    #[arg(long)]
    pub anonymous: bool,
    /// How large the cache is if a node must be started: `20GiB`, `500MB`.
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
