//! The jobs that stand for iCache's clients. Their requests do not say which job they come from, so all of them are one
//! job of the dataset, `icache`, and those who take any sample another one, `icache-any`. Nothing is decided here: what
//! answers is the business of the dataset's jobs.

use fodder_core::{
    Dataset, Error, Result,
    id::SnapshotId,
    job::{Approximation, BatchRequest, Introduction, JobId, Jobs, Mode, Order, Scores, Served, Uneven},
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

/// Who asks for samples by number. The client flags those that another may answer, so that no share of them bounds it.
const SAMPLER: &str = "icache";
const SAMPLER_MODE: Mode = Mode::Approx(Approximation { max_fraction: 1.0, same_class: false, max_repeats: 2 });

/// Who takes any sample: each once an epoch, cached ones first, as Quiver's clients expect.
const ANY: &str = "icache-any";
const ANY_MODE: Mode = Mode::Reorder { window: u32::MAX };

/// How often an epoch that others end at the same moment is tried anew.
const TURNS: usize = 8;

/// What a job that is made here says of itself.
pub(super) fn introduction(name: String, mode: Mode, lease: Option<Duration>) -> Introduction {
    Introduction { name, mode, world: 1, uneven: Uneven::Exact, weight: 1.0, lease, in_step: None }
}

/// Where the takers of any sample stand.
#[derive(Debug, Clone, Copy)]
struct Turn {
    job: JobId,
    epoch: u64,
    number: u64,
}

/// The jobs that stand for clients without a name.
#[derive(Debug, Default)]
pub(super) struct Implicit {
    any: Mutex<Option<Turn>>,
}

impl Implicit {
    /// What answers a sample that was asked for by its number; another one only if it is `replaceable`.
    pub(super) fn ask(&self, dataset: &Arc<Dataset>, id: u32, replaceable: bool) -> Result<(SnapshotId, Served)> {
        self.sampling(dataset, |jobs, job| jobs.ask(job, id, replaceable))
    }

    /// Losses of samples.
    pub(super) fn report(&self, dataset: &Arc<Dataset>, ids: &[u32], values: &[f32]) -> Result<()> {
        self.sampling(dataset, |jobs, job| jobs.report_scores(job, Scores::Sparse { ids, values }))
    }

    /// The epoch is over: what was reported takes effect, and every sample may be taken again.
    pub(super) fn end_epoch(&self, dataset: &Arc<Dataset>) -> Result<()> {
        self.sampling(dataset, |jobs, job| {
            let epoch = jobs.status_of(job)?.epoch.map_or(0, |epoch| epoch.saturating_add(1));
            jobs.begin(job, 0, epoch, unplanned())?;
            jobs.apply_scores(job)
        })?;
        let mut any = self.any.lock();
        if let Some(Turn { job, epoch, .. }) = *any {
            *any = begin(&dataset.jobs(), job, epoch.saturating_add(1)).ok();
        }
        Ok(())
    }

    /// Any sample that was not taken in this epoch; None if the dataset has none.
    pub(super) fn any(&self, dataset: &Arc<Dataset>) -> Result<Option<(SnapshotId, Served)>> {
        let jobs = dataset.jobs();
        for _ in 0..TURNS {
            let turn = self.next_turn(&jobs)?;
            let Turn { job, epoch, number } = turn;
            let request = BatchRequest { job, epoch, rank: 0, number, count: 1 };
            let batch = futures::FutureExt::now_or_never(jobs.next_batch(request));
            let batch = batch.unwrap_or_else(|| Err(Error::Unavailable("the node is busy: ask again".into())));
            match batch {
                Ok(batch) => {
                    if let Some(served) = batch.items.first() {
                        jobs.acknowledge(job, epoch, 0, number)?;
                        return Ok(Some((batch.snapshot, *served)));
                    }
                    if number == 0 {
                        return Ok(None);
                    }
                    self.turn_over(turn, || begin(&jobs, job, epoch.saturating_add(1)).ok());
                }
                // It was forgotten, or its epoch was ended by others.
                Err(Error::NotFound(_)) => self.turn_over(turn, || None),
                Err(error) => return Err(error),
            }
        }
        Err(Error::Unavailable("epochs end faster than samples are taken: ask again".into()))
    }

    fn next_turn(&self, jobs: &Jobs<'_>) -> Result<Turn> {
        let mut any = self.any.lock();
        let turn = match *any {
            Some(turn) => turn,
            None => {
                let job = jobs.introduce(introduction(ANY.into(), ANY_MODE, None))?;
                let epoch = jobs.status_of(job)?.epoch.map_or(0, |epoch| epoch.saturating_add(1));
                begin(jobs, job, epoch)?
            }
        };
        *any = Some(Turn { number: turn.number + 1, ..turn });
        Ok(turn)
    }

    /// Goes on elsewhere, unless somebody else already has.
    fn turn_over(&self, before: Turn, next: impl FnOnce() -> Option<Turn>) {
        let mut any = self.any.lock();
        if any.is_some_and(|now| (now.job, now.epoch) == (before.job, before.epoch)) {
            *any = next();
        }
    }

    /// Acts for the job of those who ask by number, which is introduced at its first request and after it was forgotten.
    fn sampling<T>(&self, dataset: &Arc<Dataset>, act: impl FnOnce(&Jobs<'_>, JobId) -> Result<T>) -> Result<T> {
        let jobs = dataset.jobs();
        let job = match jobs.find(SAMPLER) {
            Some(job) => job,
            None => {
                let job = jobs.introduce(introduction(SAMPLER.into(), SAMPLER_MODE, None))?;
                jobs.begin(job, 0, 0, unplanned())?;
                job
            }
        };
        act(&jobs, job)
    }
}

/// An epoch in which nothing is planned: the client asks for what it likes.
fn unplanned() -> Order {
    Order::Ids(Arc::default())
}

fn begin(jobs: &Jobs<'_>, job: JobId, epoch: u64) -> Result<Turn> {
    jobs.begin(job, 0, epoch, Order::Seed(job.0))?;
    Ok(Turn { job, epoch, number: 0 })
}
