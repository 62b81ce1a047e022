//! Scores for a node that was not there when they were reported: what a job has, page by page. Whoever takes a page keeps
//! what it has heard itself, which is newer.

use super::{Book, CHUNK, Chunks};
use crate::{
    Error, Result,
    job::{Jobs, member::Member},
    plan::Snapshot,
};

/// Items that one page is about at most.
pub const PAGE_ITEMS: usize = 16 * CHUNK;

/// Some of the scores of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Whose items they are for; nobody's while the job has reported none.
    pub snapshot: Option<Snapshot>,
    /// The first item.
    pub first: u32,
    /// The score of each item from there on; NaN where it has none.
    pub collected: Vec<f32>,
    /// The scores that take effect; empty where they are the same.
    pub effective: Vec<f32>,
    /// From where to ask on.
    pub next: Option<u32>,
}

impl Book {
    /// What there is from an item on.
    fn page(&self, snapshot: Snapshot, from: u32) -> Page {
        let held = |chunk: usize| [&self.collected, &self.effective].iter().any(|set| set.holds(chunk));
        let most = self.collected.chunks.len().max(self.effective.chunks.len());
        let next_held = |from: usize| (from..most).find(|chunk| held(*chunk));
        let Some(chunk) = next_held(from as usize / CHUNK) else {
            return Page::nothing(Some(snapshot), from);
        };
        let first = (chunk * CHUNK) as u32;
        let ids = first..snapshot.items.min(first.saturating_add(PAGE_ITEMS as u32));
        let effective = if self.pending { ids.clone().map(|id| self.effective.get(id)).collect() } else { Vec::new() };
        let next = next_held(ids.end.div_ceil(CHUNK as u32) as usize).map(|chunk| (chunk * CHUNK) as u32);
        let collected = ids.map(|id| self.collected.get(id)).collect();
        Page { snapshot: Some(snapshot), first, collected, effective, next }
    }

    /// Takes what it has not heard; whether anything of it takes effect.
    fn fill(&mut self, page: &Page) -> bool {
        let effective = if page.effective.is_empty() { &page.collected } else { &page.effective };
        self.collected.fill(page.first, &page.collected);
        self.pending |= !page.effective.is_empty();
        self.effective.fill(page.first, effective)
    }
}

impl Chunks {
    fn holds(&self, chunk: usize) -> bool {
        self.chunks.get(chunk).is_some_and(Option::is_some)
    }

    /// Sets scores of items that have none; whether there were any.
    fn fill(&mut self, first: u32, scores: &[f32]) -> bool {
        let mut changed = false;
        for (id, score) in (first..).zip(scores.iter().copied()) {
            if !score.is_nan() && self.get(id).is_nan() {
                self.set(id, score);
                changed = true;
            }
        }
        changed
    }
}

impl Page {
    fn nothing(snapshot: Option<Snapshot>, first: u32) -> Self {
        Self { snapshot, first, collected: Vec::new(), effective: Vec::new(), next: None }
    }

    fn check(&self, snapshot: Snapshot) -> Result<()> {
        let end = (self.first as usize).saturating_add(self.collected.len());
        let fits = end <= snapshot.items as usize && self.collected.len() <= PAGE_ITEMS;
        let pairs = self.effective.is_empty() || self.effective.len() == self.collected.len();
        let is_score = |score: &f32| !score.is_infinite();
        if self.snapshot.is_some_and(|on| on != snapshot) {
            return Err(Error::Conflict(
                "the scores are for another snapshot than that of the job on this node".into(),
            ));
        }
        if !(fits && pairs && self.collected.iter().chain(&self.effective).all(is_score)) {
            return Err(Error::Invalid("a page of scores that are none, or of items that are none".into()));
        }
        Ok(())
    }
}

impl Jobs {
    /// The jobs that were running elsewhere when this node heard of them, and whose scores it has not been given.
    pub fn without_scores(&self) -> Vec<String> {
        let lacking = self.members.values().filter(|member| member.lacks_scores);
        lacking.map(|member| member.introduction.name.clone()).collect()
    }

    /// The scores of a job from an item on, for a node that was not there. None: this one was not there either.
    pub fn scores_from(&self, name: &str, from: u32) -> Option<Page> {
        let member = self.member_called(name).filter(|member| !member.lacks_scores)?;
        Some(member.scored_on().map_or_else(|| Page::nothing(None, from), |on| member.book.page(on, from)))
    }

    /// Another node was there, and says so. Nothing that this one has heard itself is changed.
    pub fn fill_scores(&mut self, name: &str, page: &Page) -> Result<()> {
        let (newest, room) = (self.snapshot, self.settings.max_memory_bytes);
        let held = self.members.values().map(|member| member.book.heap_bytes()).sum::<usize>();
        let Some(seat) = self.names.get(name) else { return Ok(()) };
        let Some(member) = self.members.get_mut(seat) else { return Ok(()) };
        page.check(member.scored_on().or(member.snapshot()).unwrap_or(newest))?;
        if held.saturating_add(2 * 4 * page.collected.len().next_multiple_of(CHUNK)) > room {
            return Err(Error::Full("the scores of all jobs take as much memory as is allowed".into()));
        }
        if page.snapshot.is_some() {
            self.scores_due |= member.fill(page, newest);
        }
        member.lacks_scores = page.next.is_some();
        Ok(())
    }

    /// Nobody has scores of a job that this node has not.
    pub fn has_all_scores(&mut self, name: &str) {
        if let Some(member) = self.names.get(name).and_then(|seat| self.members.get_mut(seat)) {
            member.lacks_scores = false;
        }
    }

    fn member_called(&self, name: &str) -> Option<&Member> {
        self.names.get(name).and_then(|seat| self.members.get(seat))
    }
}

impl Member {
    fn fill(&mut self, page: &Page, newest: Snapshot) -> bool {
        let on = self.snapshot().unwrap_or(newest);
        self.score_on(on);
        self.book.fill(page)
    }
}

#[cfg(test)]
mod tests;
