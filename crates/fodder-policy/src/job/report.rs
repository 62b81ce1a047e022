//! What jobs report of items: taken, and handed on when it is to take effect.

use super::{JobId, Jobs, Report, Reported, Scores, member::Member, score::Book};
use crate::{Error, Result, plan::Snapshot};
use std::time::Duration;

impl Jobs {
    /// A job reports scores of items of the snapshot that its epoch is on. They are collected aside and take effect at the
    /// end of that epoch, or every [`Settings::update_interval`]. For many scores see [`report`](Self::report).
    pub fn report_scores(&mut self, job: JobId, scores: Scores<'_>, now: Duration) -> Result<()> {
        let snapshot = self.member(job)?.snapshot().unwrap_or(self.snapshot);
        self.report(job, Report::new(snapshot.items, scores)?, now)
    }

    /// The same with scores that were checked elsewhere.
    pub fn report(&mut self, job: JobId, report: Report, now: Duration) -> Result<()> {
        self.has_room_for(&report)?;
        let snapshot = self.snapshot;
        self.member_mut(job, now)?.report(report, snapshot)
    }

    /// Refuses scores that would hold more memory than there is: for whoever reports them in parts. O(jobs).
    pub fn has_room_for(&self, report: &Report) -> Result<()> {
        let held = self.members.values().map(|member| member.book.heap_bytes()).sum::<usize>();
        let growth = report.growth_bytes();
        if held.saturating_add(growth) > self.settings.max_memory_bytes {
            return Err(Error::Full(format!(
                "the scores of all jobs take {held} bytes and would take {growth} more, but only {} are allowed: end \
                 jobs that are done",
                self.settings.max_memory_bytes
            )));
        }
        Ok(())
    }

    /// What a job has reported so far takes effect, without waiting for the end of its epoch.
    pub fn apply_scores(&mut self, job: JobId, now: Duration) -> Result<()> {
        self.scores_due |= self.member_mut(job, now)?.book.settle();
        Ok(())
    }

    /// The scores of all jobs, if some are due to take effect: to be [combined](Reported::combine) off the read path.
    pub fn take_scores(&mut self, now: Duration) -> Option<Reported> {
        if let Some(interval) = self.settings.update_interval
            && now.saturating_sub(self.scored) >= interval
        {
            self.scored = now;
            for member in self.members.values_mut() {
                self.scores_due |= member.book.settle();
            }
        }
        let snapshot = self.snapshot;
        let books = self.members.values().filter(|member| member.scored_on() == Some(snapshot));
        let books = books.map(|member| (member.introduction.weight, &member.book));
        std::mem::take(&mut self.scores_due).then(|| Reported::new(snapshot, books))
    }
}

impl Member {
    /// Takes a report of scores. Those of another snapshot speak of other items and are forgotten.
    pub(super) fn report(&mut self, report: Report, snapshot: Snapshot) -> Result<()> {
        let snapshot = self.snapshot().unwrap_or(snapshot);
        if report.items() != snapshot.items {
            return Err(Error::Conflict(format!(
                "the scores are for a snapshot of {} items, but the job uses one of {}: report scores for that",
                report.items(),
                snapshot.items
            )));
        }
        self.score_on(snapshot);
        self.book.collect(report);
        Ok(())
    }

    /// From now on items of this snapshot are scored.
    pub(super) fn score_on(&mut self, snapshot: Snapshot) {
        if self.book_on.replace(snapshot) != Some(snapshot) {
            self.book = Book::default();
        }
    }

    /// The snapshot whose items it has scored.
    pub(super) fn scored_on(&self) -> Option<Snapshot> {
        self.book_on
    }
}
