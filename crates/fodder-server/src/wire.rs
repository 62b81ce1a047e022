//! The engine's words in the words of the wire, for every door that speaks `fodder.v1`: errors, sources, jobs.

use fodder_api::v1::{self, ErrorCode};
use fodder_core::{
    Dataset, Error, Result,
    config::Medium,
    engine::Source,
    job::{Introduction, JobId, Status},
};
use std::{sync::Arc, time::Duration};

/// The code that stands for an error.
pub(crate) fn code(error: &Error) -> ErrorCode {
    match error {
        Error::NotFound(_) => ErrorCode::NotFound,
        Error::Invalid(_) => ErrorCode::Invalid,
        Error::Conflict(_) => ErrorCode::Conflict,
        Error::Stale(_) => ErrorCode::Stale,
        Error::Denied(_) => ErrorCode::Denied,
        Error::Unavailable(_) => ErrorCode::Unavailable,
        Error::Full(_) => ErrorCode::Full,
        Error::Corrupt(_) => ErrorCode::Corrupt,
        Error::Closed => ErrorCode::Closed,
        Error::Internal(_) => ErrorCode::Internal,
    }
}

/// The name on the wire of where bytes came from.
pub(crate) fn source(source: Source) -> v1::Source {
    match source {
        Source::Tier(Medium::Mem) => v1::Source::TierMem,
        Source::Tier(Medium::Ssd) => v1::Source::TierSsd,
        Source::Tier(Medium::Hdd) => v1::Source::TierHdd,
        Source::Prefetched => v1::Source::Prefetched,
        Source::Substituted => v1::Source::Substituted,
        Source::Joined => v1::Source::Joined,
        Source::Peer => v1::Source::Peer,
        Source::Origin => v1::Source::Origin,
        Source::Bypass => v1::Source::Bypass,
    }
}

/// What a job says of itself.
pub(crate) fn introduction(request: v1::IntroduceRequest) -> Result<Introduction> {
    let v1::IntroduceRequest { name, mode, world, uneven, weight, lease_ms, in_step, .. } = request;
    let uneven = v1::Uneven::try_from(uneven)
        .map_err(|_| Error::Invalid(format!("unknown value {uneven} of uneven: use pad, drop or exact")))?;
    Ok(Introduction {
        name,
        mode: mode.unwrap_or_default().into(),
        world: world.max(1),
        uneven: uneven.into(),
        weight: weight.unwrap_or(1.0),
        lease: (lease_ms > 0).then(|| Duration::from_millis(lease_ms)),
        in_step: (!in_step.is_empty()).then_some(in_step),
    })
}

/// Tells which batches a job's rank has consumed in an epoch.
pub(crate) fn acknowledge(
    dataset: &Arc<Dataset>,
    (job, epoch, rank): (JobId, u64, u32),
    mut numbers: impl Iterator<Item = u64>,
) -> Result<()> {
    numbers.try_for_each(|number| dataset.jobs().acknowledge(job, epoch, rank, number))
}

/// How a job stands.
pub(crate) fn job_status(dataset: &str, status: Status) -> v1::JobStatus {
    let Introduction { name, mode, world, uneven, weight, in_step, .. } = status.introduction;
    v1::JobStatus {
        dataset: dataset.to_owned(),
        job: status.job.0,
        name,
        mode: Some(mode.into()),
        world,
        uneven: v1::Uneven::from(uneven).into(),
        weight,
        in_step: in_step.unwrap_or_default(),
        epoch: status.epoch,
        planned: status.planned,
        delivered: status.delivered,
        consumed: status.consumed,
        rate: status.rate,
        silent_ms: u64::try_from(status.silent.as_millis()).unwrap_or(u64::MAX),
        last: status.last.map(Into::into),
    }
}
