//! Which ids are watched, and what they are called among themselves.
//!
//! Of every block of [`STRIDE`] neighbours one is watched, chosen by a hash of the block's number, which is also what it
//! is called. So exactly that part of the ids is watched, wherever they lie, and shadows have dense ids of their own
//! without a table.

use crate::{
    permutation::mix,
    residency::signal::{Ids, UNSCORED},
};
use std::sync::Arc;

/// One id of so many is watched: six in a hundred.
pub(super) const STRIDE: u32 = 16;

/// What an id is called among the watched, if it is one of them.
#[inline]
pub(super) fn watched(id: u32) -> Option<u32> {
    let block = id / STRIDE;
    (place(block) == id % STRIDE).then_some(block)
}

/// Which of its block is watched.
#[inline]
fn place(block: u32) -> u32 {
    (mix(u64::from(block)) % u64::from(STRIDE)) as u32
}

/// The watched among some ids.
pub(super) fn of_list(ids: &[u32]) -> Vec<u32> {
    ids.iter().filter_map(|&id| watched(id)).collect()
}

/// The watched among planned ids, as what is called when they are all.
pub(super) fn of_plan(ids: Ids<'_>) -> Plan {
    match ids {
        Ids::Below(end) => Plan::Below(end.div_ceil(STRIDE)),
        Ids::Listed(ids) => Plan::Listed(of_list(ids)),
    }
}

/// [`Ids`], owned.
#[derive(Debug)]
pub(super) enum Plan {
    Below(u32),
    Listed(Vec<u32>),
}

impl Plan {
    pub(super) fn as_ids(&self) -> Ids<'_> {
        match self {
            Self::Below(end) => Ids::Below(*end),
            Self::Listed(ids) => Ids::Listed(ids),
        }
    }
}

/// Picks the scores of the watched out of those of all, a few at a time.
#[derive(Debug)]
pub(super) struct ScorePicker {
    all: Arc<[f32]>,
    picked: Vec<f32>,
}

impl ScorePicker {
    pub(super) fn new(all: Arc<[f32]>) -> Self {
        let picked = Vec::with_capacity(all.len().div_ceil(STRIDE as usize));
        Self { all, picked }
    }

    /// Picks a few more; all of them once they are complete.
    pub(super) fn pick(&mut self, steps: usize) -> Option<Arc<[f32]>> {
        let all = self.all.len().div_ceil(STRIDE as usize);
        let until = all.min(self.picked.len() + steps);
        for block in self.picked.len()..until {
            let id = block * STRIDE as usize + place(block as u32) as usize;
            self.picked.push(self.all.get(id).copied().unwrap_or(UNSCORED));
        }
        (until == all).then(|| self.picked.as_slice().into())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.picked.capacity() * size_of::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_of_every_block_is_watched() {
        let names: Vec<u32> = (0..STRIDE * 1_000).filter_map(watched).collect();
        assert_eq!(names, (0..1_000).collect::<Vec<_>>());
        let places = (0..1_000).map(place).fold([0u32; STRIDE as usize], |mut counts, place| {
            counts[place as usize] += 1;
            counts
        });
        assert!(places.iter().all(|count| (30..100).contains(count)), "{places:?}");
        assert!(watched(u32::MAX).is_none_or(|name| name == u32::MAX / STRIDE));
    }

    #[test]
    fn plans_and_scores_of_all_become_those_of_the_watched() {
        let all: Vec<u32> = (0..STRIDE * 10 + 3).collect();
        let listed = of_list(&all);
        assert!(listed.len() == 10 || listed.len() == 11);
        assert_eq!(of_plan(Ids::Below(STRIDE * 10 + 3)).as_ids(), Ids::Below(11));
        assert_eq!(of_plan(Ids::Listed(&all)).as_ids(), Ids::Listed(&listed));
        let scores: Arc<[f32]> = all.iter().map(|&id| id as f32).collect();
        let mut picker = ScorePicker::new(scores);
        assert_eq!(picker.pick(4), None);
        assert_eq!(picker.pick(4), None);
        let picked = picker.pick(4).expect("eleven are picked by now");
        for (name, &score) in picked.iter().enumerate() {
            assert!(score == UNSCORED || watched(score as u32) == Some(name as u32), "{name} has {score}");
        }
    }
}
