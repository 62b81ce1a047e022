//! What is shown of jobs: where each is in its epoch, how fast, and how its last whole epoch went.

use super::{Out, Series};
use fodder_core::job::{Audit, Status};
use std::fmt;

/// The jobs of a dataset.
pub(super) struct OfDataset {
    pub(super) dataset: String,
    pub(super) jobs: Vec<Status>,
}

pub(super) fn jobs(out: &mut Out<'_>, all: &[OfDataset]) -> fmt::Result {
    let counts: Vec<Series> =
        all.iter().map(|one| (vec![("dataset", one.dataset.clone())], one.jobs.len() as u64)).collect();
    out.gauge("fodder_jobs", "Jobs that train on a dataset", &counts)?;

    let each = || all.iter().flat_map(|one| one.jobs.iter().map(move |job| (one, job)));
    let labels =
        |one: &OfDataset, job: &Status| vec![("dataset", one.dataset.clone()), ("job", job.introduction.name.clone())];
    let of = |value: fn(&Status) -> Option<u64>| -> Vec<Series> {
        each().filter_map(|(one, job)| Some((labels(one, job), value(job)?))).collect()
    };
    let last = |value: fn(&Audit) -> u64| -> Vec<Series> {
        each().filter_map(|(one, job)| Some((labels(one, job), value(job.last.as_ref()?)))).collect()
    };
    out.gauge("fodder_job_epoch", "The epoch a job is in", &of(|job| job.epoch))?;
    out.gauge("fodder_job_planned_items", "Items of that epoch", &of(|job| Some(job.planned.into())))?;
    out.gauge("fodder_job_delivered_items", "Items given out in that epoch", &of(|job| Some(job.delivered.into())))?;
    out.gauge("fodder_job_consumed_items", "Items acknowledged in that epoch", &of(|job| Some(job.consumed.into())))?;
    out.gauge("fodder_job_rate", "Items a second that a job takes", &of(|job| Some(job.rate.round() as u64)))?;
    out.gauge("fodder_job_last_duplicates", "Items consumed twice in the last epoch", &last(|audit| audit.duplicates))?;
    out.gauge("fodder_job_last_omissions", "Items left out of the last epoch", &last(|audit| audit.omissions))?;
    out.gauge(
        "fodder_job_last_substitutions",
        "Items answered by another in the last epoch",
        &last(|audit| audit.substitutions),
    )?;
    out.gauge(
        "fodder_job_last_displacement",
        "The furthest an item was from its place in the last epoch",
        &last(|audit| audit.displacement_max),
    )
}
