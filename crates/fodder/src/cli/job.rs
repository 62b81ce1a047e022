//! What can be typed of a job: one subcommand for each thing that a job says to a node.

use super::NodeArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// What a job says. For scripts and for trying out: a training job says it through its own client.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Introduce a job. The same introduction again is the same job.
    #[command(after_help = "\
Examples:
  fodder job introduce imagenet resnet
  fodder job introduce imagenet resnet --mode reorder --window 1000 --world 8")]
    Introduce(Box<IntroduceArgs>),
    /// Begin an epoch, and thereby end the one before: by a seed, or by a list of ids.
    Begin {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// Which epoch, counted from 0.
        #[arg(long)]
        epoch: u64,
        /// The rank that begins it; every rank does.
        #[arg(long, default_value_t = 0)]
        rank: u32,
        /// Every item once, permuted by this seed.
        #[arg(long, required_unless_present = "ids", conflicts_with = "ids")]
        seed: Option<u64>,
        /// The ids in this file, one a line, in this order.
        #[arg(long, value_name = "FILE")]
        ids: Option<PathBuf>,
    },
    /// Take a batch: print which items answer, and read their bytes through the cache.
    Next {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// Of which epoch.
        #[arg(long)]
        epoch: u64,
        /// For which rank.
        #[arg(long, default_value_t = 0)]
        rank: u32,
        /// The number of the batch, counted from 0; the same number again is the same batch.
        #[arg(long)]
        number: u64,
        /// How many items.
        #[arg(long, default_value_t = 1)]
        count: u32,
        /// Write the bytes of the items, one behind the other, to this file.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Say that batches were consumed.
    Ack {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// Of which epoch.
        #[arg(long)]
        epoch: u64,
        /// By which rank.
        #[arg(long, default_value_t = 0)]
        rank: u32,
        /// The numbers of the batches.
        #[arg(required = true)]
        numbers: Vec<u64>,
    },
    /// Say that items were consumed that were read by id.
    Consumed {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// In which epoch.
        #[arg(long)]
        epoch: u64,
        /// Their ids.
        #[arg(required = true)]
        ids: Vec<u32>,
    },
    /// Report how important items are: lines of `id score`, or of one score for every item, in order.
    Scores {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// The file; `-` is the standard input.
        file: PathBuf,
    },
    /// Report which items are alike: lines of `id number number …`, equally many numbers in each.
    Embeddings {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// The file; `-` is the standard input.
        file: PathBuf,
    },
    /// Write what the job needs to go on from here to a file.
    Checkpoint {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// Where to.
        file: PathBuf,
    },
    /// Go on from a checkpoint, an older one too, on any number of ranks. Prints the job's new number.
    Resume {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// What `checkpoint` wrote.
        file: PathBuf,
        /// How many ranks there are now.
        #[arg(long, default_value_t = 1)]
        world: u32,
        /// The rank that says so; if none is given, one says it for all.
        #[arg(long)]
        rank: Option<u32>,
        /// Where the epoch was planned by a list of ids: the same list.
        #[arg(long, value_name = "FILE")]
        ids: Option<PathBuf>,
        /// A number that all ranks of this start share, and those of no other start have.
        #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
        attempt: u64,
        /// A number that the rank draws when it starts, so that it may say the same again.
        #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
        nonce: u64,
    },
    /// Say that the job is alive though it asks for nothing.
    Renew {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
    },
    /// Say that the job is done.
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
    /// The job's name, or its number of 16 hexadecimal digits: numbers are a node's own, names work at every node of a cluster.
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
    /// How people call the job; one name is one job.
    pub name: String,
    /// How it wants to be answered.
    #[arg(long, value_enum, default_value = "strict")]
    pub mode: ModeArg,
    /// Of `reorder`: how many planned items are looked at for a cached one.
    #[arg(long, value_name = "ITEMS", default_value_t = 1000)]
    pub window: u32,
    /// Of `approx`: the largest share of an epoch that may be substitutes.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    pub max_fraction: f64,
    /// Of `approx`: a substitute may have another label.
    #[arg(long)]
    pub any_class: bool,
    /// Of `approx`: how often one item may be given in an epoch.
    #[arg(long, value_name = "TIMES", default_value_t = 2)]
    pub max_repeats: u32,
    /// How many ranks it has.
    #[arg(long, default_value_t = 1)]
    pub world: u32,
    /// What becomes of the last few items of an epoch that ranks cannot share evenly. Every introduction of a job says the same.
    #[arg(long, value_enum, default_value = "pad")]
    pub uneven: UnevenArg,
    /// How much its scores count beside those of other jobs.
    #[arg(long, default_value_t = 1.0)]
    pub weight: f32,
    /// How long it may be silent before it is forgotten.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub lease: Option<std::time::Duration>,
    /// Jobs that name the same group run in step: an item is fetched once for all of them.
    #[arg(long, value_name = "GROUP", default_value = "", hide_default_value = true)]
    pub in_step: String,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// How ranks share what cannot be shared evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UnevenArg {
    /// Some get items of the beginning once more.
    Pad,
    /// The last few are left out.
    Drop,
    /// Some get one less than others.
    Exact,
}

/// How a job is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// What was planned, in the order planned.
    Strict,
    /// Each planned item once, cached ones first.
    Reorder,
    /// A cached item may stand in for a missing one.
    Approx,
}
