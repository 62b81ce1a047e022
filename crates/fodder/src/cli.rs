//! The command line: what can be typed, and the help a person reads. Knows nothing of what a command does.

mod bench;
mod job;
mod listing;
mod mount;
mod serve;
mod sim;
mod warm;

use crate::output::{self, EXIT_USAGE};
use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    builder::{OsStringValueParser, TypedValueParser},
};
use fodder_api::spelling;
use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    process::ExitCode,
};

pub use bench::{BenchCommand, BenchReadArgs};
pub use job::{IntroduceArgs, JobArgs, JobCommand, ModeArg, UnevenArg};
pub use mount::{MountArgs, Starter, UnmountArgs, from_mount_helper};
pub use serve::{ClusterArgs, EtcdArgs, ServeArgs, TierArg};
pub use sim::{SimArgs, Window, WorkloadArg};
pub use warm::WarmArgs;

const EXAMPLES: &str = "\
Examples:
  fodder demo                                     see it work, in under two minutes
  fodder serve ./data                             cache a directory of slow storage
  fodder serve s3://bucket/imagenet --cache-size 20GiB
  fodder mount s3://bucket/imagenet /data         mount a bucket as a directory
  fodder warm imagenet/train                      fetch data before the job starts
  fodder status                                   what is cached, and the hit ratio
  fodder get imagenet train/n01440764/1.JPEG > 1.JPEG

A node listens on a Unix socket in its cache directory, on 127.0.0.1:18284 (gRPC and frames) and on
http://127.0.0.1:18283 (REST, metrics). The other commands find it there, or with --addr.

Exit status: 0 success; 1 an error; 2 a wrong command line. `fodder warm` ends with 3 if something is not cached,
`fodder serve` with 3 if another node uses the cache directory.";

/// A training-data cache that keeps GPUs fed.
///
/// Fodder stands between training jobs and slow storage (S3, GCS, Azure, HDFS, NFS, a directory) and makes the data
/// behave as if it were local.
#[derive(Debug, Parser)]
#[command(name = "fodder", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// Where log lines go, and which.
    #[command(flatten)]
    pub log: LogArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The exit status of a mount helper for options it does not understand, as mount(8) has it.
const MOUNT_HELPER_USAGE: u8 = 1;

/// The command line of this process. Called as `mount.fodder`, it is the helper of mount(8). The error is the exit status:
/// why the command line is not understood has been said, or help or the version was printed.
pub fn parse() -> Result<Cli, ExitCode> {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default();
    let command = without_empty_variables(Cli::command());
    let (matches, usage) = if PathBuf::from(&program).file_name().is_none_or(|name| name != "mount.fodder") {
        (command.try_get_matches(), EXIT_USAGE)
    } else {
        let args = from_mount_helper(args.map(|arg| arg.to_string_lossy().into_owned())).map_err(|message| {
            output::error(message);
            ExitCode::from(MOUNT_HELPER_USAGE)
        })?;
        (command.try_get_matches_from(["fodder".to_owned()].into_iter().chain(args)), MOUNT_HELPER_USAGE)
    };
    matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|told| match told.use_stderr() {
        true => misunderstood(&told, usage),
        // Help and the version are results, which go to stdout.
        false => match output::written(told.print()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                output::error(format_args!("{error:#}"));
                ExitCode::FAILURE
            }
        },
    })
}

/// Says why a command line is not understood. Its words may be names of files (`fodder status *`): where one has control
/// characters, the message is without colours and they are left out or escaped.
fn misunderstood(told: &clap::Error, usage: u8) -> ExitCode {
    let is_hostile = |arg: OsString| {
        let arg = arg.to_string_lossy();
        output::escaped_name(&arg) != arg
    };
    // Nobody is left to be told that stderr cannot be written to.
    let _ = match std::env::args_os().any(is_hostile) {
        true => write!(io::stderr(), "{}", output::escaped(&told.render().to_string())),
        false => told.print(),
    };
    ExitCode::from(usage)
}

/// A command that takes a variable of the environment that is empty for one that is not set, as scripts leave them.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    command
        .mut_args(|arg| if arg.get_env().is_some_and(is_empty) { arg.env(None::<&str>) } else { arg })
        .mut_subcommands(without_empty_variables)
}

/// A path as names are spelled: text as it is, and bytes that are not text by private characters.
fn spelled() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|given: OsString| {
        given.into_string().unwrap_or_else(|bytes| spelling::text(bytes.as_bytes()).into_owned())
    })
}

/// What is logged, and where.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// Log level: error, warn, info, debug, trace, or a filter such as `info,fodder_core=debug`.
    #[arg(long, global = true, value_name = "LEVEL", env = "FODDER_LOG_LEVEL", hide_env_values = true)]
    pub log_level: Option<String>,
    /// Write the log to this file instead of stderr.
    #[arg(long, global = true, value_name = "FILE", env = "FODDER_LOG_FILE", hide_env_values = true)]
    pub log_file: Option<PathBuf>,
    /// Format of log lines.
    #[arg(long, global = true, value_name = "FORMAT", env = "FODDER_LOG_FORMAT", hide_env_values = true)]
    pub log_format: Option<LogFormat>,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines of text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Inspect the nodes of a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the nodes of the cluster: state, zone, share, cached bytes, hit ratio, latency.
    Status {
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
        /// Which node to ask.
        #[command(flatten)]
        node: NodeArgs,
    },
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node: cache a dataset and serve its items.
    Serve(Box<ServeArgs>),
    /// Mount datasets as a directory.
    Mount(Box<MountArgs>),
    /// Unmount datasets; if they are in use, show by which processes.
    Unmount(UnmountArgs),
    /// Have a node on this machine serve a dataset, starting one if none is running. For programs with their own client.
    Join(Box<JoinArgs>),
    /// Check the origin for new, changed and removed objects.
    #[command(after_help = "\
Reads that have begun keep their snapshot; later ones see the new objects.

Examples:
  fodder index imagenet
  fodder index /data                              the dataset that is mounted there")]
    Index {
        /// A dataset, or a path in a mount of it. Default: all datasets of the node.
        #[arg(value_name = "DATASET|PATH", value_parser = spelled())]
        dataset: Option<String>,
        /// Confirm that objects are missing, even all of them, or that the origin is on another file system.
        #[arg(long, requires = "dataset")]
        confirm_removals: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Show the state of a node: addresses, tiers, datasets, hit ratios.
    #[command(after_help = "\
Examples:
  fodder status
  fodder status imagenet                          one dataset
  fodder status /data/train                       the mounted dataset, and how much of train is cached")]
    Status {
        /// Show only this dataset, or the one of a path in a mount, which also names the node.
        #[arg(value_name = "DATASET|PATH", value_parser = spelled())]
        dataset: Option<String>,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Show the nodes of a cluster, which share their caches.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Hand over what a node of a cluster holds to the other nodes, before it is stopped.
    ///
    /// Exits with 1 if the other nodes did not take all of it, for example because their caches are full.
    Drain {
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Show the training jobs of a node: epoch, speed, and whether the last epoch was exact.
    Jobs {
        /// A dataset. Default: all datasets of the node.
        dataset: Option<String>,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Act as a training job: begin epochs, take batches, report scores, resume. For scripts and tests.
    #[command(subcommand)]
    Job(JobCommand),
    /// Explain what a training job waits for, and the effect of more cache, more bandwidth or another policy.
    #[command(after_help = ADVISE_HELP)]
    Advise {
        /// A dataset, or a path in a mount of it.
        #[arg(value_name = "DATASET|PATH", value_parser = spelled())]
        dataset: String,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// List, add or remove the datasets of a running node.
    #[command(subcommand)]
    Datasets(DatasetsCommand),
    /// Write an item or a file of a dataset to stdout.
    #[command(after_help = GET_HELP)]
    Get {
        /// A dataset of the node, or an origin (a URI, or a path that begins with `/`, `./` or `../`).
        #[arg(value_name = "DATASET|ORIGIN")]
        dataset: String,
        /// The id of an item, or a path in the dataset. A path that consists of digits is written `./123`.
        #[arg(value_name = "ID|PATH", value_parser = spelled())]
        item: String,
        /// Start at this offset.
        #[arg(long, value_name = "BYTES", default_value = "0", value_parser = serve::parse_bytes, hide_default_value = true)]
        offset: u64,
        /// Write at most this many bytes.
        #[arg(long, value_name = "BYTES", value_parser = serve::parse_bytes)]
        length: Option<u64>,
        /// Read the origin, a public bucket, without credentials.
        #[arg(long)]
        anonymous: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Fetch data into the cache before it is read.
    Warm(Box<WarmArgs>),
    /// Remove cached data of a dataset. The origin is not changed.
    #[command(after_help = "\
Examples:
  fodder evict imagenet
  fodder evict imagenet --prefix val/
  fodder evict /data/val                          a directory or file in a mount")]
    Evict {
        /// A dataset; or a path in a mount, to evict only that file or directory.
        #[arg(value_name = "DATASET|PATH", value_parser = spelled())]
        dataset: String,
        /// Evict only objects whose path begins with this.
        #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true, value_parser = spelled())]
        prefix: String,
        /// Evict on this node only. Default: on all nodes of its cluster; exits with 1 if one of them cannot be reached.
        #[arg(long)]
        this_node: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Compare all cached data with its checksums. Exits with 1 if anything is corrupt.
    Verify {
        /// A dataset. Default: all datasets of the node.
        dataset: Option<String>,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Check a configuration file, show the effective configuration, or reload that of a node.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell.
    #[command(after_help = "\
Example:
  fodder completions bash > ~/.local/share/bash-completion/completions/fodder")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Measure how fast a directory is read.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Simulate cache policies on a synthetic job or a trace.
    Sim(Box<SimArgs>),
    /// Demonstrate Fodder: three epochs over slow storage, with and without the cache.
    Demo(DemoArgs),
}

const GET_HELP: &str = "\
An origin is read through the node of the cache directory. If none is running, one is started (with
the environment of this command, such as FODDER_CACHE_SIZE); it ends some seconds after its last client.

Examples:
  fodder get imagenet 17 > sample.jpg             the item with id 17
  fodder get imagenet train/dog/1.jpg | file -    a file by its path
  fodder get imagenet big.bin --offset 1MiB --length 64KiB | xxd
  fodder get s3://bucket/imagenet train/dog/1.jpg > 1.jpg";

const ADVISE_HELP: &str = "\
While a job reads, the node measures how fast it takes items, how long its readers wait for the
origin, how fast the origin is, and a sample of the requests. Run this while the job runs, in its
second epoch or later. The node cannot distinguish preprocessing from computing: if the job waits in
its own data loader, it waits for preprocessing.

Example:
  fodder advise imagenet";

/// Manage the datasets of a running node.
#[derive(Debug, Subcommand)]
pub enum DatasetsCommand {
    /// List the datasets.
    List {
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Add a dataset. The node keeps it across restarts.
    #[command(after_help = "\
Examples:
  fodder datasets add ./data
  fodder datasets add s3://bucket/laion --name laion --layout tar --quota 2TiB")]
    Add {
        /// Which dataset.
        #[command(flatten)]
        dataset: DatasetArgs,
        /// The part of the cache that is reserved for this dataset: `20GiB`, or `20%` of the dataset.
        #[arg(long, value_name = "SIZE")]
        quota: Option<fodder_core::config::Quota>,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Remove a dataset and its cached data. The origin is not changed.
    Remove {
        /// The name of the dataset.
        name: String,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
}

/// A dataset on the command line.
#[derive(Debug, Clone, Args)]
pub struct DatasetArgs {
    /// Where the data is: a URI (s3://, gs://, az://, http://, file://, throttled:…) or a local path.
    pub origin: String,
    /// Name of the dataset. Default: the last path component of the origin.
    #[arg(long)]
    pub name: Option<String>,
    /// How objects are divided into items: `files`, `blocks`, `blocks:16MiB`, `tar` or `tfrecord`. Default: files.
    #[arg(long, value_parser = serve::parse_layout)]
    pub layout: Option<fodder_core::layout::Layout>,
    /// What to keep when the cache is full: `minio` (fill, then never evict), `lru`, `lfu`, `sieve`, `s3fifo`, `importance`,
    /// `semantic`, `quiver`, `pending`, `plan`, or `auto`, the best of them; see docs/POLICIES.md. Default: minio.
    #[arg(long, value_parser = serve::parse_policy)]
    pub policy: Option<fodder_policy::Policy>,
    /// How often to check the origin for changes, such as `10m`. Default: only on `fodder index`.
    #[arg(long, value_name = "DURATION", value_parser = serve::parse_duration)]
    pub refresh: Option<std::time::Duration>,
    /// Read a public bucket without credentials.
    #[arg(long)]
    pub anonymous: bool,
    /// How the origin is listed.
    #[command(flatten)]
    pub listing: listing::ListingArgs,
}

/// A dataset that a node of this host should serve.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Prints a JSON object with the address of the node and the name of the dataset. If a node was started, it ends some
seconds after its last client.

Example:
  fodder join s3://bucket/imagenet --cache-size 200GiB")]
pub struct JoinArgs {
    /// Which dataset.
    #[command(flatten)]
    pub dataset: DatasetArgs,
    /// Size of the cache if a node must be started: `20GiB`, `500MB`.
    #[arg(long, value_name = "SIZE", help_heading = "Node")]
    pub cache_size: Option<fodder_core::config::Quota>,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Which node a client command speaks to.
#[derive(Debug, Clone, Default, Args)]
pub struct NodeArgs {
    /// Address of the node: `HOST:PORT` or the path of its Unix socket; of several, separated by commas, the first that
    /// answers is used. Default: the node of the cache directory, then 127.0.0.1:18284.
    #[arg(long, env = "FODDER_ADDR", help_heading = "Node")]
    pub addr: Option<String>,
    /// Use the node of this cache directory.
    #[arg(long, value_name = "DIR", env = "FODDER_CACHE_DIR", help_heading = "Node")]
    pub cache_dir: Option<PathBuf>,
    /// How large the cache of a node is that has to be started, where a command lets its user say so.
    #[arg(skip)]
    pub cache_size: Option<fodder_core::config::Quota>,
}

/// Work on the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file.
    Check {
        /// A YAML file with Fodder's settings, or iCache's.
        file: PathBuf,
    },
    /// Print the effective configuration (defaults, file, environment, flags) as YAML. Accepts the flags of `serve`.
    Show(Box<ServeArgs>),
    /// Have a node read its configuration file again.
    ///
    /// The node adds and removes datasets. Other changed settings are reported and need a restart. Exits with 1 if
    /// something failed.
    #[command(after_help = "\
Examples:
  fodder config reload
  fodder config reload --cluster      on all nodes, each with its own file")]
    Reload {
        /// Reload on all nodes of the cluster.
        #[arg(long)]
        cluster: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
}

/// The size of the demonstration.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Number of images.
    #[arg(long, default_value = "600", value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub images: u32,
    /// Number of epochs.
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub epochs: u32,
    /// How slow the origin is, as options of `throttled:`.
    #[arg(long, default_value = "latency=20ms,bandwidth=100MB/s")]
    pub throttle: String,
}
