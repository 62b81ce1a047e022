//! Embeddings as a job reports them, until neighbours are looked for among them.
//!
//! Points of two models do not compare, so a dataset holds those of one job at a time: of the first that reports, until it is
//! gone. What it holds is bounded.

use super::Embeddings;
use crate::{Error, Result, id::SnapshotId};
use fodder_policy::job::JobId;
use rustc_hash::FxHashMap;
use std::{collections::BTreeSet, ops::Range, sync::Arc};

/// The most bytes of embeddings a dataset holds: four million of 64 numbers.
const MAX_BYTES: usize = 1 << 30;
/// The longest embedding.
const MAX_DIMENSION: u32 = 16_384;

/// The embeddings of one job.
#[derive(Debug, Clone, Default)]
pub(super) struct Points {
    pub(super) snapshot: Option<SnapshotId>,
    job: Option<JobId>,
    pub(super) dimension: u32,
    /// The items, in the order in which they were first reported.
    pub(super) ids: Vec<u32>,
    rows: FxHashMap<u32, u32>,
    values: Vec<f32>,
}

/// What was reported, and whether neighbours are to be looked for.
#[derive(Debug, Default)]
pub(super) struct Collected {
    points: Arc<Points>,
    /// Something was reported that nobody has looked at yet.
    fresh: bool,
    /// It is time to.
    due: bool,
    /// The jobs whose embeddings other nodes were asked for.
    asked: BTreeSet<String>,
}

impl Points {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The point of a row.
    pub(super) fn row(&self, row: usize) -> &[f32] {
        let dimension = self.dimension as usize;
        &self.values[row * dimension..(row + 1) * dimension]
    }

    /// Some of the points.
    pub(super) fn rows(&self, rows: Range<usize>) -> Embeddings<'_> {
        let width = self.dimension as usize;
        let values = &self.values[rows.start * width..rows.end * width];
        Embeddings { ids: &self.ids[rows], dimension: self.dimension, values }
    }

    /// Takes a report that was checked.
    fn take(&mut self, given: Embeddings<'_>) {
        for (id, point) in given.ids.iter().zip(given.values.chunks_exact(given.dimension as usize)) {
            let next = self.ids.len() as u32;
            let row = *self.rows.entry(*id).or_insert(next);
            if row == next {
                self.ids.push(*id);
                self.values.extend_from_slice(point);
            } else {
                let start = row as usize * point.len();
                self.values[start..start + point.len()].copy_from_slice(point);
            }
        }
    }
}

impl Collected {
    /// Takes a report of a job about a snapshot of so many items; or nothing of it, if anything in it is wrong.
    /// `is_here` says whether a job still is.
    pub(super) fn report(
        &mut self,
        job: JobId,
        (snapshot, items): (SnapshotId, u64),
        given: Embeddings<'_>,
        is_here: impl Fn(JobId) -> bool,
    ) -> Result<()> {
        check(items, given)?;
        let other = self.points.job.filter(|owner| *owner != job && is_here(*owner));
        if let Some(other) = other {
            return Err(Error::Conflict(format!(
                "job {other} already reports embeddings of this dataset, and those of two models cannot be compared: end that job first"
            )));
        }
        let anew = self.points.job != Some(job) || self.points.snapshot != Some(snapshot);
        if !anew && self.points.dimension != given.dimension {
            return Err(Error::Invalid(format!(
                "the embeddings so far have {} numbers each, and these {}: report embeddings of one model",
                self.points.dimension, given.dimension
            )));
        }
        let held = if anew { 0 } else { size_of_val(&*self.points.values) };
        if held + size_of_val(given.values) > MAX_BYTES {
            return Err(Error::Full(format!(
                "a dataset holds at most {MAX_BYTES} bytes of embeddings: report fewer items, or project them to fewer numbers"
            )));
        }
        if anew {
            self.points = Arc::default();
        }
        // A copy, if neighbours are just being looked for among the old ones.
        let points = Arc::make_mut(&mut self.points);
        (points.job, points.snapshot, points.dimension) = (Some(job), Some(snapshot), given.dimension);
        points.take(given);
        self.fresh = true;
        Ok(())
    }

    /// Takes what a job has reported elsewhere, as far as nothing newer was reported here.
    pub(super) fn fill(
        &mut self,
        job: JobId,
        (snapshot, items): (SnapshotId, u64),
        given: Embeddings<'_>,
        is_here: impl Fn(JobId) -> bool,
    ) -> Result<()> {
        check(items, given)?;
        let is_of_job = self.points.job == Some(job);
        if is_of_job && self.points.snapshot != Some(snapshot) {
            return Ok(());
        }
        let width = given.dimension as usize;
        let rows = given.ids.iter().zip(given.values.chunks_exact(width));
        let is_lacking = |id: &u32| !is_of_job || !self.points.rows.contains_key(id);
        let lacking: Vec<_> = rows.filter(|(id, _)| is_lacking(id)).collect();
        let ids: Vec<u32> = lacking.iter().map(|(id, _)| **id).collect();
        let values: Vec<f32> = lacking.iter().flat_map(|(_, point)| point.iter().copied()).collect();
        match ids.is_empty() {
            true => Ok(()),
            false => self.report(job, (snapshot, items), Embeddings { ids: &ids, values: &values, ..given }, is_here),
        }
    }

    /// What a job has reported, if it is this one's.
    pub(super) fn points_of(&self, job: JobId) -> Option<Arc<Points>> {
        (self.points.job == Some(job)).then(|| Arc::clone(&self.points))
    }

    /// Whether others are to be asked for what a job has reported before this node was there: each is asked for once.
    pub(super) fn is_to_be_asked(&self, job: &str) -> bool {
        !self.asked.contains(job)
    }

    /// Others were asked. Of the jobs only those that are `here` are remembered.
    pub(super) fn was_asked(&mut self, job: &str, here: &[String]) {
        self.asked.retain(|name| here.contains(name));
        self.asked.insert(job.to_owned());
    }

    /// What was reported so far is to take effect.
    pub(super) fn fall_due(&mut self) {
        self.due = true;
    }

    /// The points, if it is time to look for neighbours among them.
    pub(super) fn take_due(&mut self) -> Option<Arc<Points>> {
        let due = self.due && self.fresh;
        self.due = false;
        due.then(|| {
            self.fresh = false;
            Arc::clone(&self.points)
        })
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.points.values.capacity() * size_of::<f32>() + self.points.len() * 3 * size_of::<u32>()
    }
}

fn check(items: u64, given: Embeddings<'_>) -> Result<()> {
    let Embeddings { ids, dimension, values } = given;
    if dimension == 0 || dimension > MAX_DIMENSION {
        return Err(Error::Invalid(format!("an embedding has 1 to {MAX_DIMENSION} numbers, not {dimension}")));
    }
    if values.len() as u64 != ids.len() as u64 * u64::from(dimension) {
        return Err(Error::Invalid(format!(
            "{} items of {dimension} numbers need {} numbers, but {} were reported",
            ids.len(),
            ids.len() as u64 * u64::from(dimension),
            values.len()
        )));
    }
    if let Some(id) = ids.iter().find(|id| u64::from(**id) >= items) {
        return Err(Error::Invalid(format!("no item {id}: the snapshot has {items} items, numbered from 0")));
    }
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let id = ids[at / dimension as usize];
        return Err(Error::Invalid(format!(
            "the embedding of item {id} contains {}: report finite numbers",
            values[at]
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SNAPSHOT: (SnapshotId, u64) = (SnapshotId([1; 16]), 10);
    const HERE: fn(JobId) -> bool = |_| true;

    fn points<'a>(ids: &'a [u32], dimension: u32, values: &'a [f32]) -> Embeddings<'a> {
        Embeddings { ids, dimension, values }
    }

    #[test]
    fn what_is_wrong_is_refused_whole() {
        let mut collected = Collected::default();
        collected.report(JobId(1), SNAPSHOT, points(&[3], 2, &[1.0, 2.0]), HERE).unwrap();
        for wrong in [
            points(&[1], 0, &[]),
            points(&[1], 2, &[1.0]),
            points(&[10], 2, &[1.0, 2.0]),
            points(&[1, 2], 2, &[1.0, 2.0, 3.0, f32::NAN]),
            points(&[1], 3, &[1.0, 2.0, 3.0]),
        ] {
            let error = collected.report(JobId(1), SNAPSHOT, wrong, HERE).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
        }
        let error = collected.report(JobId(2), SNAPSHOT, points(&[1], 2, &[1.0, 2.0]), HERE).unwrap_err();
        assert!(matches!(error, Error::Conflict(_)), "{error}");
        assert_eq!(collected.points.ids, [3]);
    }

    #[test]
    fn what_was_reported_elsewhere_fills_only_what_is_lacking() {
        let mut collected = Collected::default();
        collected.fill(JobId(1), SNAPSHOT, points(&[3, 4], 1, &[1.0, 2.0]), HERE).unwrap();
        collected.report(JobId(1), SNAPSHOT, points(&[4], 1, &[7.0]), HERE).unwrap();
        collected.fill(JobId(1), SNAPSHOT, points(&[4, 5], 1, &[2.0, 8.0]), HERE).unwrap();
        collected.fill(JobId(1), (SnapshotId([2; 16]), 10), points(&[6], 1, &[2.0]), HERE).unwrap();
        assert!(collected.fill(JobId(1), SNAPSHOT, points(&[10], 1, &[2.0]), HERE).is_err());
        assert!(collected.fill(JobId(2), SNAPSHOT, points(&[6], 1, &[2.0]), HERE).is_err());
        let all = collected.points_of(JobId(1)).unwrap();
        assert_eq!((all.rows(0..3).ids, all.rows(0..3).values), (&[3, 4, 5][..], &[1.0, 7.0, 8.0][..]));
        assert_eq!((all.rows(1..2).ids, all.rows(1..2).values), (&[4][..], &[7.0][..]));
        assert!(collected.points_of(JobId(2)).is_none());
        assert!(collected.is_to_be_asked("a"));
        collected.was_asked("a", &["a".into(), "b".into()]);
        assert!(!collected.is_to_be_asked("a") && collected.is_to_be_asked("b"));
        collected.was_asked("b", &["b".into()]);
        assert!(collected.is_to_be_asked("a"), "one that is gone may come back");
    }

    #[test]
    fn a_later_report_of_an_item_counts() {
        let mut collected = Collected::default();
        collected.report(JobId(1), SNAPSHOT, points(&[3, 4], 1, &[1.0, 2.0]), HERE).unwrap();
        collected.report(JobId(1), SNAPSHOT, points(&[4, 5], 1, &[7.0, 8.0]), HERE).unwrap();
        assert_eq!(collected.points.ids, [3, 4, 5]);
        assert_eq!([0, 1, 2].map(|row| collected.points.row(row)[0]), [1.0, 7.0, 8.0]);
        assert!(collected.take_due().is_none());
        collected.fall_due();
        assert_eq!(collected.take_due().unwrap().len(), 3);
        collected.fall_due();
        assert!(collected.take_due().is_none(), "nothing new was reported");
    }

    #[test]
    fn another_job_takes_over_when_the_first_is_gone() {
        let mut collected = Collected::default();
        collected.report(JobId(1), SNAPSHOT, points(&[3], 2, &[1.0, 2.0]), HERE).unwrap();
        collected.report(JobId(2), SNAPSHOT, points(&[4], 1, &[1.0]), |_| false).unwrap();
        assert_eq!((collected.points.ids.as_slice(), collected.points.dimension), ([4].as_slice(), 1));
    }
}
