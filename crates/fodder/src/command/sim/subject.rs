//! What is simulated: made from the flags, or read from a file.

use crate::cli::{SimArgs, WorkloadArg};
use anyhow::{Context, Result, bail};
use fodder_policy::sim::{
    Sizes, Study, Trace, Workload,
    trace::{Choice, Reader},
    workload::{Kind, usual_shard_items},
};
use std::{fs::File, io::Read, path::Path};

/// How many jobs there are if nobody says.
const USUAL_JOBS: u32 = 3;

/// What is simulated, and how people call it.
pub(super) struct Subject {
    pub(super) study: Study,
    pub(super) title: String,
    /// What readers of the figures should know.
    pub(super) note: Option<&'static str>,
}

pub(super) fn read(args: &SimArgs) -> Result<Subject> {
    match (&args.trace, args.workload) {
        (Some(path), _) => of_file(path, args),
        (None, Some(workload)) => of_workload(workload, args),
        (None, None) => bail!("give --workload or --trace"),
    }
}

fn of_workload(workload: WorkloadArg, args: &SimArgs) -> Result<Subject> {
    let (kind, name) = match workload {
        WorkloadArg::Uniform => (Kind::Uniform, "uniform epochs".into()),
        WorkloadArg::Sbp => (Kind::Sbp { beta: args.beta }, format!("selective epochs (beta {})", args.beta)),
        WorkloadArg::Zipf => (Kind::Zipf { alpha: args.alpha }, format!("zipf (alpha {})", args.alpha)),
        WorkloadArg::Shards => {
            let items = usual_shard_items(args.items);
            (Kind::Shards { items }, format!("shards of {items}"))
        }
        WorkloadArg::Jobs => jobs(args)?,
    };
    let skip = args.skip.unwrap_or(args.epochs / 4);
    let workload = Workload { kind, items: args.items, epochs: args.epochs, skip, seed: args.seed };
    let title = format!("{name}: {} items, {} epochs, the first {skip} not counted", args.items, args.epochs);
    let reordered = matches!(workload.kind, Kind::Jobs { window: 1.., .. });
    let note = reordered.then_some("belady keeps to the order planned, the others take what is cached first");
    Ok(Subject { study: Study::of_workload(workload)?, title, note })
}

fn jobs(args: &SimArgs) -> Result<(Kind, String)> {
    let rates = args.rates.clone().unwrap_or_else(|| vec![1; args.jobs.unwrap_or(USUAL_JOBS) as usize]);
    if let Some(jobs) = args.jobs.filter(|&jobs| jobs as usize != rates.len()) {
        bail!("--rates has {} values for {jobs} jobs: give one for each job", rates.len());
    }
    let window = args.window.items(args.items);
    let listed: Vec<String> = rates.iter().map(u32::to_string).collect();
    let name = format!("{} jobs at rates {}, window {window}", rates.len(), listed.join(","));
    Ok((Kind::Jobs { rates, window }, name))
}

fn of_file(path: &Path, args: &SimArgs) -> Result<Subject> {
    let choice = Choice { dataset: args.dataset.clone(), columns: args.columns };
    let mut trace = read_trace(path, choice).with_context(|| format!("cannot read the trace {}", path.display()))?;
    trace.skip = trace.items as usize * args.skip.unwrap_or(0) as usize;
    if trace.skip >= trace.requests.len() {
        bail!("skipping {} of {} requests leaves nothing to count", trace.skip, trace.requests.len());
    }
    let sized = if matches!(trace.sizes, Sizes::One) { "of one size" } else { "by bytes" };
    let (name, items, requests) = (path.display(), trace.items, trace.requests.len());
    let title = format!("{name}: {items} items {sized}, {requests} requests, the first {} not counted", trace.skip);
    Ok(Subject { study: Study::of_trace(trace), title, note: None })
}

fn read_trace(path: &Path, choice: Choice) -> Result<Trace> {
    let mut file = File::open(path)?;
    let mut reader = Reader::new(choice);
    let mut part = vec![0; 1 << 20];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(reader.finish()?),
            count => reader.feed(&part[..count])?,
        }
    }
}
