//! The flags of `fodder sim`.

use clap::{Args, ValueEnum};
use fodder_policy::{
    Policy,
    sim::{study::Contender, trace::Columns},
};
use std::{path::PathBuf, str::FromStr};

const HELP: &str = "\
Every policy runs at every cache size, in parallel over the cores; `belady` (the optimum) is always
among them. `bound` is what no policy can exceed.

Examples:
  fodder sim --workload uniform --items 20000 --epochs 24 --skip 6 --cache 0.2,0.4 \\
      --policies lru,sieve,s3fifo,minio
  fodder sim --workload sbp --beta 0.33 --plot sbp.svg
  fodder sim --workload jobs --jobs 3 --rates 1,1,2 --window 20% --items 4000 --policies pending,lru
  fodder sim --trace requests.csv --cache 0.01,0.1 --json

A trace is what `fodder serve --record FILE` wrote, or a text with an object's id or columns such as
`time,obj_id,obj_size` on each line (libCacheSim's forms). docs/SIMULATOR.md says more.";

/// Try policies on a synthetic job or a trace.
#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
pub struct SimArgs {
    /// What a synthetic job asks for.
    #[arg(long, value_enum, required_unless_present = "trace", conflicts_with = "trace")]
    pub workload: Option<WorkloadArg>,
    /// Requests from a file instead.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Which dataset of a recording, where it has several.
    #[arg(long, value_name = "NAME", requires = "trace")]
    pub dataset: Option<String>,
    /// Which columns of a text, as libCacheSim says it: `time-col=1,obj-id-col=2,obj-size-col=3`.
    #[arg(long, value_name = "COLUMNS", requires = "trace")]
    pub columns: Option<Columns>,

    /// sbp: how much an item's score decides whether it is selected.
    #[arg(long, value_name = "B", default_value = "0.33", help_heading = "Workload")]
    pub beta: f64,
    /// zipf: how unequal items are.
    #[arg(long, value_name = "A", default_value = "1", help_heading = "Workload")]
    pub alpha: f64,
    /// jobs: how many there are. Default: as many as rates are given, or three.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Workload")]
    pub jobs: Option<u32>,
    /// jobs: how many requests each makes in its turn. Default: one.
    #[arg(long, value_name = "R,…", value_delimiter = ',', help_heading = "Workload")]
    pub rates: Option<Vec<u32>>,
    /// jobs: among how many of its next items a job takes a cached one first: `200`, or a share of all, `0.05` or `5%`.
    #[arg(long, value_name = "W", default_value = "0", help_heading = "Workload")]
    pub window: Window,
    /// How many items there are.
    #[arg(long, value_name = "N", default_value = "20000", help_heading = "Workload")]
    pub items: u32,
    /// How many epochs each job runs.
    #[arg(long, value_name = "E", default_value = "24", help_heading = "Workload")]
    pub epochs: u32,
    /// How many epochs at the front are not counted. Default: a quarter of them. Of a trace (default: 0) an epoch is as
    /// many requests as it has items.
    #[arg(long, value_name = "S", help_heading = "Workload")]
    pub skip: Option<u32>,
    /// What decides every random choice.
    #[arg(long, value_name = "X", default_value = "1", help_heading = "Workload")]
    pub seed: u64,

    /// Cache sizes, as shares of all items.
    #[arg(long, value_name = "C,…", value_delimiter = ',', value_parser = parse_share, default_value = "0.1,0.2,0.4")]
    pub cache: Vec<f64>,
    /// Which policies. Default: those that the workload gives what they need.
    #[arg(long, value_name = "P,…", value_delimiter = ',', value_parser = parse_contender)]
    pub policies: Option<Vec<Contender>>,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Draw hit ratios against cache sizes into this file: an SVG, or a PNG, by its name.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// What a synthetic job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkloadArg {
    /// Every item once an epoch, in a fresh random order.
    Uniform,
    /// Selective backpropagation: items with a high score more often.
    Sbp,
    /// Independent requests, few items popular and many not.
    Zipf,
    /// Shards in random order, the items of each in a row.
    Shards,
    /// Several jobs at once, each every item once an epoch.
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
        _ => Err(format!("{text:?} is not a share of all items above 0 and up to 1")),
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
