//! The gRPC door of warming: takes the order, tells how far it is. The work ends with the call.

use super::{Door, check_path, convert::refuse};
use fodder_api::v1;
use fodder_core::engine::warm::{Order, Progress, Selection, Warming};
use futures::stream::{self, Stream};
use std::time::Duration;
use tonic::{Status, Streaming};

/// How often progress is told.
const INTERVAL: Duration = Duration::from_millis(500);
/// Requests under way where the client does not say.
const WORKERS: usize = 32;
/// Places of unknown paths that are told; more are only counted.
const MAX_UNKNOWN: usize = 100;

/// Listed paths that are no object's.
#[derive(Debug, Clone, Default)]
struct Unknown {
    count: u64,
    first: Vec<u64>,
}

impl Door {
    /// Takes an order and begins.
    pub(super) async fn begin_warming(
        &self,
        mut messages: Streaming<v1::WarmRequest>,
    ) -> Result<impl Stream<Item = Result<v1::WarmProgress, Status>> + use<>, Status> {
        let first = self.uploads.first(&mut messages).await?;
        let dataset = self.dataset(&first.dataset)?;
        let snapshot = dataset.snapshot();
        let mut unknown = Unknown::default();
        let selection = if first.listed {
            let mut slots = self.uploads.list("known paths", snapshot.object_count().into());
            let (mut next, mut place) = (Some(first.paths), 0);
            while let Some(paths) = next {
                for path in paths {
                    match snapshot.lookup(&path) {
                        Some(slot) => slots.extend(&[slot])?,
                        None => unknown.note(place),
                    }
                    place += 1;
                }
                next = self.uploads.next(&mut messages).await?.map(|message| message.paths);
            }
            Selection::Objects(slots.to_vec())
        } else {
            check_path(&first.path)?;
            Selection::Path(first.path)
        };
        let order = Order {
            selection,
            max_bytes: first.max_bytes,
            bytes_per_second: Some(first.bytes_per_second).filter(|rate| *rate > 0),
            workers: if first.workers == 0 { WORKERS } else { first.workers as usize },
        };
        Ok(progress(dataset.warm(order).map_err(refuse)?, unknown))
    }
}

impl Unknown {
    fn note(&mut self, place: u64) {
        self.count += 1;
        if self.first.len() < MAX_UNKNOWN {
            self.first.push(place);
        }
    }
}

/// How far a warming is, again and again until its end.
fn progress(warming: Warming, unknown: Unknown) -> impl Stream<Item = Result<v1::WarmProgress, Status>> {
    stream::unfold(Some((warming, unknown)), |state| async {
        let (mut warming, unknown) = state?;
        match tokio::time::timeout(INTERVAL, warming.ended()).await {
            Ok(Ok(last)) => Some((Ok(message(last, &unknown)), None)),
            Ok(Err(error)) => Some((Err(refuse(error)), None)),
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
