//! What can be typed of a job: one subcommand for each thing that a job says to a node.

use super::NodeArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Requests of a training job. For scripts and tests: a training job uses its own client.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Register a job. Registering it again with the same settings is the same job.
    #[command(after_help = "\
Examples:
  fodder job introduce imagenet resnet
  fodder job introduce imagenet resnet --mode reorder --window 1000 --world 8")]
    Introduce(Box<IntroduceArgs>),
    /// Begin an epoch, given a seed or a list of ids, and end the previous one.
    Begin {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// Number of the epoch, counted from 0.
        #[arg(long)]
        epoch: u64,
        /// The rank that begins it; every rank does.
        #[arg(long, default_value_t = 0)]
        rank: u32,
        /// Read every item once, in the order given by this seed.
        #[arg(long, required_unless_present = "ids", conflicts_with = "ids")]
        seed: Option<u64>,
        /// Read the ids listed in this file, one per line, in this order.
        #[arg(long, value_name = "FILE")]
        ids: Option<PathBuf>,
    },
    /// Take a batch: read its items through the cache and print them.
    Next {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// Number of the epoch.
        #[arg(long)]
        epoch: u64,
        /// The rank that takes it.
        #[arg(long, default_value_t = 0)]
        rank: u32,
        /// Number of the batch, counted from 0. Asking again for a number gives the same batch.
        #[arg(long)]
        number: u64,
        /// Number of items.
        #[arg(long, default_value_t = 1)]
        count: u32,
        /// Write the contents of the items to this file.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Acknowledge that batches were consumed.
    Ack {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// Number of the epoch.
        #[arg(long)]
        epoch: u64,
        /// The rank that consumed them.
        #[arg(long, default_value_t = 0)]
        rank: u32,
        /// Numbers of the batches.
        #[arg(required = true)]
        numbers: Vec<u64>,
    },
    /// Report items that were read by id as consumed.
    Consumed {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// Number of the epoch.
        #[arg(long)]
        epoch: u64,
        /// Ids of the items.
        #[arg(required = true)]
        ids: Vec<u32>,
    },
    /// Report the importance of items: lines of `id score`, or one score per line for every item, in order.
    Scores {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// The file; `-` is stdin.
        file: PathBuf,
    },
    /// Report embeddings of items: lines of `id number number …`, with equally many numbers in each.
    Embeddings {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// The file; `-` is stdin.
        file: PathBuf,
    },
    /// Write a checkpoint of the job to a file.
    Checkpoint {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// The file.
        file: PathBuf,
    },
    /// Resume the job from a checkpoint, on any number of ranks. Prints the new id of the job.
    Resume {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// A file written by `checkpoint`.
        file: PathBuf,
        /// Number of ranks.
        #[arg(long, default_value_t = 1)]
        world: u32,
        /// The rank that resumes. Default: all ranks at once.
        #[arg(long)]
        rank: Option<u32>,
        /// The list of ids, if the epoch was begun with one.
        #[arg(long, value_name = "FILE")]
        ids: Option<PathBuf>,
        /// A number that all ranks of this start share, and no other start uses.
        #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
        attempt: u64,
        /// A random number chosen by the rank at its start, so that it can repeat this request.
        #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
        nonce: u64,
    },
    /// Keep the job alive without asking for data.
    Renew {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
    },
    /// End the job.
    Leave {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
    },
}

/// Which job.
#[derive(Debug, Clone, Args)]
pub struct JobArgs {
    /// The dataset.
    pub dataset: String,
    /// Name of the job, or its id (16 hexadecimal digits). Ids are local to a node; names work on every node of a cluster.
    pub job: String,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// A job that introduces itself.
#[derive(Debug, Args)]
pub struct IntroduceArgs {
    /// The dataset.
    pub dataset: String,
    /// Name of the job; one name is one job.
    pub name: String,
    /// Which items may answer a request.
    #[arg(long, value_enum, default_value = "strict")]
    pub mode: ModeArg,
    /// For `reorder`: among how many planned items a cached one is chosen.
    #[arg(long, value_name = "ITEMS", default_value_t = 1000)]
    pub window: u32,
    /// For `approx`: maximum share of substitutes in an epoch.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    pub max_fraction: f64,
    /// For `approx`: allow substitutes with another label.
    #[arg(long)]
    pub any_class: bool,
    /// For `approx`: how often an item may be delivered in an epoch.
    #[arg(long, value_name = "TIMES", default_value_t = 2)]
    pub max_repeats: u32,
    /// Number of ranks.
    #[arg(long, default_value_t = 1)]
    pub world: u32,
    /// What to do with the last items of an epoch if ranks cannot share them evenly. Must be the same for every introduction of
    /// the job.
    #[arg(long, value_enum, default_value = "pad")]
    pub uneven: UnevenArg,
    /// Weight of its scores beside those of other jobs.
    #[arg(long, default_value_t = 1.0)]
    pub weight: f32,
    /// How long the job may be silent before it is removed.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub lease: Option<std::time::Duration>,
    /// Run in step with the jobs of this group: an item is fetched once for all of them.
    #[arg(long, value_name = "GROUP", default_value = "", hide_default_value = true)]
    pub in_step: String,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// How ranks share what cannot be shared evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UnevenArg {
    /// Repeat items of the beginning.
    Pad,
    /// Leave out the last items.
    Drop,
    /// Give some ranks one item less.
    Exact,
}

/// How a job is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// The planned items, in the planned order.
    Strict,
    /// Every planned item once, cached ones first.
    Reorder,
    /// A cached item may replace a missing one.
    Approx,
}
