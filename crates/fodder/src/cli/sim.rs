//! The flags of `fodder sim`.

use clap::{Args, ValueEnum};
use fodder_policy::{
    Policy,
    sim::{study::Contender, trace::Columns},
};
use std::{path::PathBuf, str::FromStr};

const HELP: &str = "\
Every policy is simulated at every cache size; `belady`, the optimum, is always included. `bound` is a hit ratio
that no policy can exceed.

Examples:
  fodder sim --workload uniform --items 20000 --epochs 24 --skip 6 --cache 0.2,0.4 \\
      --policies lru,sieve,s3fifo,minio
  fodder sim --workload sbp --beta 0.33 --plot sbp.svg
  fodder sim --workload jobs --jobs 3 --rates 1,1,2 --window 20% --items 4000 --policies pending,lru
  fodder sim --trace requests.csv --cache 0.01,0.1 --json

A trace is a recording by `fodder serve --record FILE`, or a text file with one request per line: an object id, or
columns such as `time,obj_id,obj_size` (the formats of libCacheSim). See docs/SIMULATOR.md.";

/// Simulate policies on a synthetic job or a trace.
#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
pub struct SimArgs {
    /// The access pattern of a synthetic job.
    #[arg(long, value_enum, required_unless_present = "trace", conflicts_with = "trace")]
    pub workload: Option<WorkloadArg>,
    /// Read requests from a trace instead.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Which dataset of a recording that has several.
    #[arg(long, value_name = "NAME", requires = "trace")]
    pub dataset: Option<String>,
    /// Which columns of a text trace to read, as for libCacheSim: `time-col=1,obj-id-col=2,obj-size-col=3`.
    #[arg(long, value_name = "COLUMNS", requires = "trace")]
    pub columns: Option<Columns>,

    /// sbp: how strongly the score of an item decides whether it is selected.
    #[arg(long, value_name = "B", default_value = "0.33", help_heading = "Workload")]
    pub beta: f64,
    /// zipf: exponent of the popularity distribution.
    #[arg(long, value_name = "A", default_value = "1", help_heading = "Workload")]
    pub alpha: f64,
    /// jobs: number of jobs. Default: the number of rates, or 3.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Workload")]
    pub jobs: Option<u32>,
    /// jobs: how many requests each job makes per turn. Default: 1.
    #[arg(long, value_name = "R,…", value_delimiter = ',', help_heading = "Workload")]
    pub rates: Option<Vec<u32>>,
    /// jobs: among how many of its next items a job prefers cached ones: a number such as `200`, or a share of all items such as
    /// `0.05` or `5%`.
    #[arg(long, value_name = "W", default_value = "0", help_heading = "Workload")]
    pub window: Window,
    /// Number of items.
    #[arg(long, value_name = "N", default_value = "20000", help_heading = "Workload")]
    pub items: u32,
    /// Number of epochs of each job.
    #[arg(long, value_name = "E", default_value = "24", help_heading = "Workload")]
    pub epochs: u32,
    /// Number of epochs at the beginning that are not counted. Default: a quarter of them; for a trace, 0. An epoch of a trace
    /// is as many requests as it has items.
    #[arg(long, value_name = "S", help_heading = "Workload")]
    pub skip: Option<u32>,
    /// Seed of the random number generator.
    #[arg(long, value_name = "X", default_value = "1", help_heading = "Workload")]
    pub seed: u64,

    /// Cache sizes, as shares of all items.
    #[arg(long, value_name = "C,…", value_delimiter = ',', value_parser = parse_share, default_value = "0.1,0.2,0.4")]
    pub cache: Vec<f64>,
    /// Which policies to simulate. Default: those that the workload suits.
    #[arg(long, value_name = "P,…", value_delimiter = ',', value_parser = parse_contender)]
    pub policies: Option<Vec<Contender>>,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Plot hit ratios over cache sizes to this file (.svg or .png).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// What a synthetic job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkloadArg {
    /// Every item once per epoch, in a new random order.
    Uniform,
    /// Selective backpropagation: items with a high score more often.
    Sbp,
    /// Independent requests with a few popular items.
    Zipf,
    /// Shards in random order, the items of each in sequence.
    Shards,
    /// Several jobs at once, each reading every item once per epoch.
    Jobs,
}

/// How far a job may reach ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Window {
    /// So many items.
    Items(u32),
    /// This share of all items.
    Share(f64),
}

impl Window {
    /// In items, of so many.
    pub fn items(self, all: u32) -> u32 {
        match self {
            Self::Items(items) => items.min(all),
            Self::Share(share) => (f64::from(all) * share).round() as u32,
        }
    }
}

impl FromStr for Window {
    type Err = String;

    /// At most 1 is a share, since a window of one item would be none.
    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').map(|number| number.trim().parse().map(|percent: f64| percent / 100.0));
        let number: f64 = percent.unwrap_or_else(|| text.parse()).map_err(|_| wrong_window(text))?;
        match number {
            0.0..=1.0 => Ok(Self::Share(number)),
            _ => text.parse().map(Self::Items).map_err(|_| wrong_window(text)),
        }
    }
}

fn wrong_window(text: &str) -> String {
    format!("{text:?} is neither a number of items nor a share such as 0.05 or 5%")
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("{text:?} is not a share of all items (above 0, at most 1)")),
    }
}

fn parse_contender(text: &str) -> Result<Contender, String> {
    if text.eq_ignore_ascii_case(Contender::Belady.name()) {
        return Ok(Contender::Belady);
    }
    text.parse::<Policy>().map(Contender::Policy).map_err(|error| format!("{error}, or belady"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_share_or_a_number_of_items() {
        let window = |text: &str| text.parse::<Window>().map(|window| window.items(4_000));
        assert_eq!([window("0"), window("0.05"), window("5%"), window("1")], [0, 200, 200, 4_000].map(Ok));
        assert_eq!([window("200"), window("9000"), window("100 %")], [200, 4_000, 4_000].map(Ok));
        for wrong in ["", "x", "-1", "1.5", "120%", "nan", "inf"] {
            assert!(window(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn belady_is_a_choice_beside_the_policies() {
        assert_eq!(parse_contender("Belady"), Ok(Contender::Belady));
        assert_eq!(parse_contender("lru"), Ok(Contender::Policy(Policy::Lru)));
        assert!(parse_contender("beladi").unwrap_err().ends_with(", or belady"));
        assert!(["0", "1.1", "nan", "x", "-0.1"].iter().all(|text| parse_share(text).is_err()));
    }
}
