//! How far a warming is, as every door tells it. Dropping the stream ends the warming.
//!
//! On a node of a cluster it is spread over all nodes, unless somebody wants it on this one: see `cluster::warm`.

use crate::{NodeInfo, cluster::warm::Spread};
use fodder_api::v1;
use fodder_core::{
    Dataset, Result,
    engine::warm::{Order, Progress, Selection, Share, Warming},
    id::ObjectSlot,
};
use futures::stream::{self, BoxStream, Stream};
use std::{sync::Arc, time::Duration};

/// How often progress is told.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);
/// Requests under way where the client does not say.
pub(crate) const WORKERS: usize = 32;
/// Places of unknown paths that are told; more are only counted.
const MAX_UNKNOWN: usize = 100;

/// Listed paths that are no object's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unknown {
    pub(crate) count: u64,
    pub(crate) first: Vec<u64>,
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

/// What a door is asked for.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) selection: Wanted,
    pub(crate) unknown: Unknown,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) bytes_per_second: Option<u64>,
    pub(crate) workers: usize,
    /// On this node, and on no other.
    pub(crate) this_node: bool,
}

/// Which objects, as they are named to other nodes, too.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    /// Below a path; of it, only what a mount shows.
    Below { path: String, shown: bool },
    /// These, which this node knows.
    Listed(Vec<ObjectSlot>),
}

impl From<Wanted> for Selection {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Below { path, shown: true } => Self::Shown(path),
            Wanted::Below { path, shown: false } => Self::Path(path),
            Wanted::Listed(slots) => Self::Objects(slots),
        }
    }
}

/// Brings in what is wanted, and tells how far it is, again and again until its end.
pub(crate) fn begin(
    info: &NodeInfo,
    dataset: &Arc<Dataset>,
    wish: Wish,
) -> Result<BoxStream<'static, Result<v1::WarmProgress>>> {
    if let Some(peering) = info.state.peering().filter(|peering| !wish.this_node && !peering.is_alone()) {
        return Ok(Spread::new(Arc::clone(peering), info, Arc::clone(dataset), wish)?.begin());
    }
    let Wish { selection, unknown, max_bytes, bytes_per_second, workers, .. } = wish;
    let order = Order { selection: selection.into(), share: Share::All, max_bytes, bytes_per_second, workers };
    Ok(Box::pin(progress(dataset.warm(order)?, unknown)))
}

fn progress(warming: Warming, unknown: Unknown) -> impl Stream<Item = Result<v1::WarmProgress>> {
    stream::unfold(Some((warming, unknown)), |state| async {
        let (mut warming, unknown) = state?;
        match tokio::time::timeout(INTERVAL, warming.ended()).await {
            Ok(Ok(last)) => Some((Ok(message(last, &unknown)), None)),
            Ok(Err(error)) => Some((Err(error), None)),
            Err(_) => Some((Ok(message(warming.progress(), &unknown)), Some((warming, unknown)))),
        }
    })
}

/// How far a warming is, as it is told.
pub(crate) fn message(progress: Progress, unknown: &Unknown) -> v1::WarmProgress {
    let complete = progress.is_complete() && unknown.count == 0;
    let problem = |problem: fodder_core::engine::warm::Problem| {
        let fodder_core::engine::warm::Problem { path, message } = problem;
        v1::WarmProblem { path, message }
    };
    let Progress { files, bytes, files_there, bytes_there, files_skipped, bytes_skipped, .. } = progress;
    let Progress { bytes_fetched, files_too_large, files_declined, files_failed, files_evicted, .. } = progress;
    let Progress { files_outdated, bytes_per_second, eta, finished, declined_because, problems, .. } = progress;
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
        files_outdated,
        files_evicted,
        files_unknown: unknown.count,
        unknown: unknown.first.clone(),
        bytes_per_second,
        eta_ms: eta.map(|eta| u64::try_from(eta.as_millis()).unwrap_or(u64::MAX)),
        finished,
        complete,
        problems: problems.into_iter().map(problem).collect(),
        nodes: Vec::new(),
        bytes_copied: 0,
        bytes_copied_there: 0,
    }
}
