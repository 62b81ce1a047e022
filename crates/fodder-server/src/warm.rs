//! How far a warming is, as every door tells it. Dropping the stream ends the warming.

use fodder_api::v1;
use fodder_core::{
    Result,
    engine::warm::{Progress, Warming},
};
use futures::stream::{self, Stream};
use std::time::Duration;

/// How often progress is told.
const INTERVAL: Duration = Duration::from_millis(500);
/// Requests under way where the client does not say.
pub(crate) const WORKERS: usize = 32;
/// Places of unknown paths that are told; more are only counted.
const MAX_UNKNOWN: usize = 100;

/// Listed paths that are no object's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unknown {
    count: u64,
    first: Vec<u64>,
}

impl Unknown {
    /// Notes the place of one in the list.
    pub(crate) fn note(&mut self, place: u64) {
        self.count += 1;
        if self.first.len() < MAX_UNKNOWN {
            self.first.push(place);
        }
    }
}

/// How far a warming is, again and again until its end.
pub(crate) fn progress(warming: Warming, unknown: Unknown) -> impl Stream<Item = Result<v1::WarmProgress>> {
    stream::unfold(Some((warming, unknown)), |state| async {
        let (mut warming, unknown) = state?;
        match tokio::time::timeout(INTERVAL, warming.ended()).await {
            Ok(Ok(last)) => Some((Ok(message(last, &unknown)), None)),
            Ok(Err(error)) => Some((Err(error), None)),
            Err(_) => Some((Ok(message(warming.progress(), &unknown)), Some((warming, unknown)))),
        }
    })
}

fn message(progress: Progress, unknown: &Unknown) -> v1::WarmProgress {
    let complete = progress.is_complete() && unknown.count == 0;
    let problem = |problem: fodder_core::engine::warm::Problem| {
        let fodder_core::engine::warm::Problem { path, message } = problem;
        v1::WarmProblem { path, message }
    };
    let Progress { files, bytes, files_there, bytes_there, files_skipped, bytes_skipped, .. } = progress;
    let Progress { bytes_fetched, files_too_large, files_declined, files_failed, files_evicted, .. } = progress;
    let Progress { bytes_per_second, eta, finished, declined_because, problems, .. } = progress;
    v1::WarmProgress {
        files,
        bytes,
        files_there,
        bytes_there,
        files_skipped,
        bytes_skipped,
        bytes_fetched,
        files_too_large,
        files_declined,
        declined_because,
        files_failed,
        files_evicted,
        files_unknown: unknown.count,
        unknown: unknown.first.clone(),
        bytes_per_second,
        eta_ms: eta.map(|eta| u64::try_from(eta.as_millis()).unwrap_or(u64::MAX)),
        finished,
        complete,
        problems: problems.into_iter().map(problem).collect(),
    }
}
