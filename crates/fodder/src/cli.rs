//! The command line: what can be typed, and the help a person reads. Knows nothing of what a command does.

mod bench;
mod job;
mod listing;
mod mount;
mod serve;
mod sim;
mod warm;

use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    builder::{OsStringValueParser, TypedValueParser},
};
use fodder_api::spelling;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
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
  fodder mount s3://bucket/imagenet /data         see it as a directory
  fodder warm imagenet/train                      bring it in before the job starts
  fodder status                                   what is cached, how well it hits
  fodder get imagenet train/n01440764/1.JPEG > 1.JPEG

A node listens on a Unix socket in its cache directory, on 127.0.0.1:18284 (gRPC and frames) and on
http://127.0.0.1:18283 (REST, metrics). The other commands find it by themselves, or with --addr.";

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

/// The command line of this process. Called as `mount.fodder`, it is the helper of mount(8). What cannot be understood
/// ends the process with 1, as all errors do: clap's own 2 means something else to `fodder warm`.
pub fn parse() -> Result<Cli, String> {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default();
    let command = without_empty_variables(Cli::command());
    let matches = if PathBuf::from(&program).file_name().is_none_or(|name| name != "mount.fodder") {
        command.try_get_matches()
    } else {
        let args = from_mount_helper(args.map(|arg| arg.to_string_lossy().into_owned()))?;
        command.try_get_matches_from(["fodder".to_owned()].into_iter().chain(args))
    };
    Ok(matches.and_then(|matches| Cli::from_arg_matches(&matches)).unwrap_or_else(|told| {
        // Help and the version go to stdout; whoever reads it may have gone.
        let _ = told.print();
        std::process::exit(i32::from(told.use_stderr()))
    }))
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

/// Where log lines go, and which.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// How much to log: error, warn, info, debug, trace, or a filter such as `info,fodder_core=debug`.
    #[arg(long, global = true, value_name = "LEVEL", env = "FODDER_LOG_LEVEL", hide_env_values = true)]
    pub log_level: Option<String>,
    /// Write the log to this file instead of stderr.
    #[arg(long, global = true, value_name = "FILE", env = "FODDER_LOG_FILE", hide_env_values = true)]
    pub log_file: Option<PathBuf>,
    /// How log lines look: `text` for people, `json` for machines.
    #[arg(long, global = true, value_name = "FORMAT", env = "FODDER_LOG_FORMAT", hide_env_values = true)]
    pub log_format: Option<LogFormat>,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One line a person can read.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What to do with the nodes that share a cache.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show who is there: state, zone, share, held bytes, hit ratio, latency.
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
    /// Show datasets as a directory; what is cached is read by the kernel itself.
    Mount(Box<MountArgs>),
    /// End a mount; one that is in use says who is in the way.
    Unmount(UnmountArgs),
    /// Have a node of this host serve a dataset: join the one that runs, or start one. For programs that bring their own
    /// client.
    Join(Box<JoinArgs>),
    /// Look for new, changed and removed objects at the origin.
    #[command(after_help = "\
Reads that are under way keep their snapshot; later ones see the new objects.

Examples:
  fodder index imagenet
  fodder index /data                              the dataset that is mounted there")]
    Index {
        /// Which dataset, or a path in a mount of it; all datasets of the node if none is named.
        #[arg(value_name = "DATASET|PATH", value_parser = spelled())]
        dataset: Option<String>,
        /// Accept that objects are missing, even all of them, or that the origin is on another file system.
        #[arg(long, requires = "dataset")]
        confirm_removals: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Show how a node stands: addresses, tiers, datasets, hits.
    #[command(after_help = "\
Examples:
  fodder status
  fodder status imagenet                          one dataset
  fodder status /data/train                       the dataset that is mounted there, and how much of train is cached")]
    Status {
        /// Only this dataset; or a path in a mount, which also says which node.
        #[arg(value_name = "DATASET|PATH", value_parser = spelled())]
        dataset: Option<String>,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Show the nodes that share a cache.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Make a node of a cluster own nothing and hand over what it alone holds, so that it may be stopped.
    ///
    /// Ends with 1 if the others did not take all of it, for want of room for instance.
    Drain {
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Show the training jobs of a node: where they are, how fast, and whether their last epoch was exact.
    Jobs {
        /// Of which dataset; all of them if none is named.
        dataset: Option<String>,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Speak for a training job: introduce it, begin epochs, take batches, report scores, resume. For scripts.
    #[command(subcommand)]
    Job(JobCommand),
    /// Say what a job waits for, and what more cache, more bandwidth or another policy would do.
    #[command(after_help = ADVISE_HELP)]
    Advise {
        /// Which dataset, or a path in a mount of it.
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
        /// The item's id, or a path in the dataset. A path made of digits only is written `./123`.
        #[arg(value_name = "ID|PATH", value_parser = spelled())]
        item: String,
        /// Start so many bytes into it.
        #[arg(long, value_name = "BYTES", default_value = "0", value_parser = serve::parse_bytes, hide_default_value = true)]
        offset: u64,
        /// Write at most so many bytes.
        #[arg(long, value_name = "BYTES", value_parser = serve::parse_bytes)]
        length: Option<u64>,
        /// Read a public bucket without credentials, if it is an origin.
        #[arg(long)]
        anonymous: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Bring data in before anybody reads it.
    Warm(Box<WarmArgs>),
    /// Drop what is cached of a dataset. The origin is not touched.
    #[command(after_help = "\
Examples:
  fodder evict imagenet
  fodder evict imagenet --prefix val/
  fodder evict /data/val                          a directory or a file of a mount")]
    Evict {
        /// Which dataset; or a path in a mount, of which only that file or what is below that directory is dropped.
        #[arg(value_name = "DATASET|PATH", value_parser = spelled())]
        dataset: String,
        /// Only objects whose path begins with this.
        #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true, value_parser = spelled())]
        prefix: String,
        /// On this node only. Else on all nodes of its cluster; exits with 1 if one of them could not be told.
        #[arg(long)]
        this_node: bool,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Re-read everything cached and compare it with its checksums. Exits with 1 if anything was corrupt.
    Verify {
        /// Which dataset; all of them if none is named.
        dataset: Option<String>,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Check a configuration file, show the effective configuration, or have a node read its own again.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell.
    #[command(after_help = "\
Example:
  fodder completions bash > ~/.local/share/bash-completion/completions/fodder")]
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Measure how fast directories are read.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Try policies on a synthetic job or a trace: hit ratios beside what is possible.
    Sim(Box<SimArgs>),
    /// See it work: three epochs over slow storage, with and without the cache.
    Demo(DemoArgs),
}

const GET_HELP: &str = "\
An origin instead of a dataset's name is read through the node of the cache directory; if none
runs, one is started, and ends some seconds after its last client.

Examples:
  fodder get imagenet 17 > sample.jpg             the item with id 17
  fodder get imagenet train/dog/1.jpg | file -    a file by its path
  fodder get imagenet big.bin --offset 1MiB --length 64KiB | xxd
  fodder get s3://bucket/imagenet train/dog/1.jpg > 1.jpg";

const ADVISE_HELP: &str = "\
The node measures while a job reads: how fast it takes items, how long its readers wait for the
origin, what the origin gives, and a sample of what is asked for. Ask while the job runs, best in
its second epoch or later. What the job does with the items it has, preprocessing or computing,
looks alike from here; if it waits in its own data loader, that is preprocessing.

Example:
  fodder advise imagenet";

/// Changes of a running node's datasets.
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
    /// Add a dataset. The node remembers it over restarts.
    #[command(after_help = "\
Examples:
  fodder datasets add ./data
  fodder datasets add s3://bucket/laion --name laion --layout tar --quota 2TiB")]
    Add {
        /// Which dataset.
        #[command(flatten)]
        dataset: DatasetArgs,
        /// The share of the cache that is this dataset's own: `20GiB`, or `20%` of the dataset.
        #[arg(long, value_name = "SIZE")]
        quota: Option<fodder_core::config::Quota>,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Remove a dataset and drop what is cached of it. The origin is not touched.
    Remove {
        /// Its name.
        name: String,
        /// Which node.
        #[command(flatten)]
        node: NodeArgs,
    },
}

/// A dataset on the command line.
#[derive(Debug, Clone, Args)]
pub struct DatasetArgs {
    /// Where the data lives: a URI (s3://, gs://, az://, http://, file://, throttled:…) or a local path.
    pub origin: String,
    /// What clients call it. Default: the origin's last path component.
    #[arg(long)]
    pub name: Option<String>,
    /// How objects become items: `files`, `blocks`, `blocks:16MiB`, `tar` or `tfrecord`. Default: files.
    #[arg(long, value_parser = serve::parse_layout)]
    pub layout: Option<fodder_core::layout::Layout>,
    /// What stays when the cache is full: `minio` (fill, then never evict), `lru`, `lfu`, `sieve`, `s3fifo`, `importance`,
    /// `semantic`, `quiver`, `pending`, `plan`, or `auto`, the best of them; docs/POLICIES.md says which for what. Default: minio.
    #[arg(long, value_parser = serve::parse_policy)]
    pub policy: Option<fodder_policy::Policy>,
    /// How often to look for new, changed and removed objects, such as `10m`. Default: only when asked.
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
Prints one JSON object: where the node listens, and what the dataset is called there. A node that had to be
started ends some seconds after its last client.

Example:
  fodder join s3://bucket/imagenet --cache-size 200GiB")]
pub struct JoinArgs {
    /// Which dataset.
    #[command(flatten)]
    pub dataset: DatasetArgs,
    /// How large the cache is if a node must be started: `20GiB`, `500MB`.
    #[arg(long, value_name = "SIZE", help_heading = "Node")]
    pub cache_size: Option<fodder_core::config::Quota>,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Which node a client command speaks to.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Node")]
pub struct NodeArgs {
    /// The node's address: `HOST:PORT` or the path of its Unix socket; several with commas between them: the first that
    /// answers. Default: the node of the cache directory, then 127.0.0.1:18284.
    #[arg(long, env = "FODDER_ADDR")]
    pub addr: Option<String>,
    /// The cache directory whose node is meant.
    #[arg(long, value_name = "DIR", env = "FODDER_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,
    /// How large the cache of a node is that has to be started, where a command lets its user say so.
    #[arg(skip)]
    pub cache_size: Option<fodder_core::config::Quota>,
}

/// Work on the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file. Exits with 0 if a node would start with it.
    Check {
        /// The file: Fodder's own YAML, or iCache's.
        file: PathBuf,
    },
    /// Print the effective configuration (defaults, file, environment, flags) as YAML. Takes the flags of `serve`.
    Show(Box<ServeArgs>),
    /// Have a node read its configuration again. It adds and removes datasets as the file says; what else has changed is
    /// told, and needs a restart. Exits with 1 if something could not be done.
    #[command(after_help = "\
Examples:
  fodder config reload
  fodder config reload --cluster      on all nodes, each with its own file")]
    Reload {
        /// On all nodes of the node's cluster.
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
    /// How many images to make.
    #[arg(long, default_value = "600", value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub images: u32,
    /// How many epochs to read.
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub epochs: u32,
    /// How slow the origin is, in the words of `throttled:`.
    #[arg(long, default_value = "latency=20ms,bandwidth=100MB/s")]
    pub throttle: String,
}
