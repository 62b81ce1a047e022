//! The jobs that stand for iCache's clients. Their requests do not say which job they come from, so all of them are one
//! job of the dataset, `icache`, and those who take any sample another one, `icache-any`; in a cluster they are the same two
//! at every node, so that clients at different nodes share importance and epochs. Nothing is decided here: what answers is
//! the business of the dataset's jobs.

use crate::state::NodeState;
use fodder_core::{
    Dataset, Error, Result,
    id::SnapshotId,
    job::{Approximation, BatchRequest, Introduction, JobId, Jobs, Mode, Order, Scores, Served, Taken, Uneven},
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

/// Who asks for samples by number. The client flags those that another may answer, so that no share of them bounds it.
pub(super) const SAMPLER: &str = "icache";
const SAMPLER_MODE: Mode = Mode::Approx(Approximation { max_fraction: 1.0, same_class: false, max_repeats: 2 });

/// Who takes any sample: each once an epoch, cached ones first, as Quiver's clients expect.
pub(super) const ANY: &str = "icache-any";
const ANY_MODE: Mode = Mode::Reorder { window: u32::MAX };
/// Every node plans an epoch alike.
const ANY_ORDER: Order = Order::Seed(0x1CAC_4E00_0A11);

/// How often an epoch that others end at the same moment is tried anew.
const TURNS: usize = 8;

/// What a job that is made here says of itself.
pub(super) fn introduction(name: String, mode: Mode, lease: Option<Duration>) -> Introduction {
    Introduction { name, mode, world: 1, uneven: Uneven::Exact, weight: 1.0, lease, in_step: None }
}

/// Where the takers of any sample stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    job: JobId,
    epoch: u64,
    number: u64,
}

/// The jobs that stand for clients without a name.
#[derive(Debug, Default)]
pub(super) struct Implicit {
    any: Mutex<Option<Turn>>,
    /// The epoch in which this node's clients are who ask by number. Those of other nodes may be ahead.
    sampled: Mutex<Option<u64>>,
}

impl Implicit {
    /// What answers a sample that was asked for by its number; another one only if it is `replaceable`.
    pub(super) async fn ask(
        &self,
        state: &NodeState,
        dataset: &Arc<Dataset>,
        id: u32,
        replaceable: bool,
    ) -> Result<(SnapshotId, Served)> {
        let job = self.sampler(state, dataset).await?;
        dataset.jobs().ask(job, id, replaceable)
    }

    /// Losses of samples.
    pub(super) async fn report(
        &self,
        state: &NodeState,
        dataset: &Arc<Dataset>,
        ids: &[u32],
        values: &[f32],
    ) -> Result<()> {
        let job = self.sampler(state, dataset).await?;
        dataset.jobs().report_scores(job, Scores::Sparse { ids, values })
    }

    /// The epoch is over: what was reported takes effect, and every sample may be taken again. Where clients of another node
    /// have said so before, those of this one are in the epoch that they have begun.
    pub(super) async fn end_epoch(&self, state: &NodeState, dataset: &Arc<Dataset>) -> Result<()> {
        let job = self.sampler(state, dataset).await?;
        state.consult(dataset, SAMPLER).await;
        // Its id is another one where nodes had begun otherwise.
        let jobs = dataset.jobs();
        let job = jobs.find(SAMPLER).unwrap_or(job);
        let next = {
            let mut sampled = self.sampled.lock();
            let next = sampled.map_or(1, |epoch| epoch.saturating_add(1));
            *sampled.insert(next)
        };
        let newest = jobs.status_of(job)?.epoch.unwrap_or(0);
        jobs.begin(job, 0, next.max(newest), unplanned())?;
        jobs.apply_scores(job)?;
        let taken = *self.any.lock();
        if let Some(turn) = taken {
            state.consult(dataset, ANY).await;
            self.enter(&jobs, Some(turn), Some(turn.epoch))?;
            state.consult(dataset, ANY).await;
        }
        // The others hear of it before the client goes on.
        state.consult(dataset, SAMPLER).await;
        Ok(())
    }

    /// Any sample that was not taken in this epoch; None if the dataset has none.
    pub(super) async fn any(&self, state: &NodeState, dataset: &Arc<Dataset>) -> Result<Option<(SnapshotId, Served)>> {
        let jobs = dataset.jobs();
        for _ in 0..TURNS {
            let Some(turn) = self.next_turn() else {
                state.consult(dataset, ANY).await;
                self.enter(&jobs, None, None)?;
                continue;
            };
            let Turn { job, epoch, number } = turn;
            let request = BatchRequest { job, epoch, rank: 0, number, count: 1 };
            let batch = futures::FutureExt::now_or_never(jobs.next_batch(request));
            let batch = batch.unwrap_or_else(|| Err(Error::Unavailable("the node is busy: try again".into())));
            let over = match batch {
                Ok(batch) => {
                    if let Some(served) = batch.items.first() {
                        jobs.acknowledge(job, epoch, 0, number)?;
                        return Ok(Some((batch.snapshot, *served)));
                    }
                    if dataset.snapshot().is_empty() {
                        return Ok(None);
                    }
                    Some(epoch)
                }
                // It was forgotten, or its epoch was ended by others, here or at another node.
                Err(Error::NotFound(_) | Error::Conflict(_)) => None,
                Err(error) => return Err(error),
            };
            state.consult(dataset, ANY).await;
            self.enter(&jobs, Some(turn), over)?;
        }
        Err(Error::Unavailable("epochs end faster than samples are taken: try again".into()))
    }

    /// The sample of this number, if it is cached here and was not taken in this epoch; as Quiver's clients ask for it.
    pub(super) async fn take(
        &self,
        state: &NodeState,
        dataset: &Arc<Dataset>,
        id: u32,
    ) -> Result<Option<(SnapshotId, Served)>> {
        let jobs = dataset.jobs();
        for _ in 0..TURNS {
            let turn = *self.any.lock();
            let over = match turn.map(|turn| jobs.take(turn.job, turn.epoch, id)) {
                Some(Ok(Taken::Item(snapshot, served))) => return Ok(Some((snapshot, served))),
                Some(Ok(Taken::Absent)) => return Ok(None),
                Some(Ok(Taken::Exhausted)) => turn.map(|turn| turn.epoch),
                // The job has not begun or was forgotten, or its epoch was ended, here or at another node.
                None | Some(Err(Error::NotFound(_) | Error::Conflict(_))) => None,
                Some(Err(error)) => return Err(error),
            };
            state.consult(dataset, ANY).await;
            self.enter(&jobs, turn, over)?;
        }
        Err(Error::Unavailable("epochs end faster than samples are taken: try again".into()))
    }

    fn next_turn(&self) -> Option<Turn> {
        let mut any = self.any.lock();
        let turn = (*any)?;
        *any = Some(Turn { number: turn.number + 1, ..turn });
        Some(turn)
    }

    /// Goes on in the newest epoch, or in the one behind that which is over; unless somebody else already has.
    fn enter(&self, jobs: &Jobs<'_>, before: Option<Turn>, over: Option<u64>) -> Result<()> {
        let mut any = self.any.lock();
        let stand = |turn: Option<Turn>| turn.map(|turn| (turn.job, turn.epoch));
        if stand(*any) != stand(before) {
            return Ok(());
        }
        *any = None;
        let job = jobs.introduce(introduction(ANY.into(), ANY_MODE, None))?;
        let newest = jobs.status_of(job)?.epoch;
        let epoch = over.map_or(0, |over| over.saturating_add(1)).max(newest.unwrap_or(0));
        let begun = match begin(jobs, job, epoch) {
            // Somebody plans otherwise, as former versions do.
            Err(Error::Conflict(_)) => begin(jobs, job, epoch.saturating_add(1)),
            begun => begun,
        };
        *any = Some(begun?);
        Ok(())
    }

    /// The job of those who ask by number, which is introduced at its first request and after it was forgotten. Other nodes
    /// may know it, and what is important to it.
    async fn sampler(&self, state: &NodeState, dataset: &Arc<Dataset>) -> Result<JobId> {
        let jobs = dataset.jobs();
        if let Some(job) = jobs.find(SAMPLER).filter(|_| self.sampled.lock().is_some()) {
            return Ok(job);
        }
        state.consult(dataset, SAMPLER).await;
        let known = jobs.find(SAMPLER);
        let job = match known {
            Some(job) => job,
            None => {
                let job = jobs.introduce(introduction(SAMPLER.into(), SAMPLER_MODE, None))?;
                jobs.begin(job, 0, 0, unplanned())?;
                job
            }
        };
        let epoch = jobs.status_of(job)?.epoch.unwrap_or(0);
        let mut sampled = self.sampled.lock();
        if sampled.is_none() || known.is_none() {
            *sampled = Some(epoch);
        }
        Ok(job)
    }
}

/// An epoch in which nothing is planned: the client asks for what it likes.
fn unplanned() -> Order {
    Order::Ids(Arc::default())
}

fn begin(jobs: &Jobs<'_>, job: JobId, epoch: u64) -> Result<Turn> {
    jobs.begin(job, 0, epoch, ANY_ORDER)?;
    Ok(Turn { job, epoch, number: 0 })
}
