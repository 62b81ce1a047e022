//! Signals that own what they say, so that they can be generated, printed and told twice.

use crate::residency::{
    Residency,
    signal::{Ids, NEVER, NO_KEY, Signal},
};
use proptest::prelude::*;

/// A signal, owned.
#[derive(Debug, Clone)]
pub enum Hint {
    /// [`Signal::Scores`].
    Scores(Vec<f32>),
    /// [`Signal::Planned`] of all ids below one.
    PlannedBelow(u32),
    /// [`Signal::Planned`] of listed ids.
    Planned(Vec<u32>),
    /// [`Signal::Consumed`].
    Consumed(u32),
    /// [`Signal::Dropped`].
    Dropped(Vec<u32>),
    /// [`Signal::NextUse`].
    NextUse(u32, u64),
    /// [`Signal::NextChunk`].
    NextChunk,
    /// [`Signal::Packed`].
    Packed(Vec<u32>),
    /// [`Signal::Neighbours`].
    Neighbours(Vec<u32>),
}

impl Hint {
    /// Tells it to a policy.
    pub fn tell(&self, policy: &mut dyn Residency) {
        policy.signal(match self {
            Self::Scores(scores) => Signal::Scores(scores.as_slice().into()),
            Self::PlannedBelow(end) => Signal::Planned(Ids::Below(*end)),
            Self::Planned(ids) => Signal::Planned(Ids::Listed(ids)),
            Self::Consumed(id) => Signal::Consumed(*id),
            Self::Dropped(ids) => Signal::Dropped(ids),
            Self::NextUse(id, at) => Signal::NextUse { id: *id, at: *at },
            Self::NextChunk => Signal::NextChunk,
            Self::Packed(ids) => Signal::Packed(ids),
            Self::Neighbours(keys) => Signal::Neighbours(keys.as_slice().into()),
        });
    }
}

/// Most ids are below this, so that they meet.
pub(super) const FEW_IDS: u32 = 24;

/// One of few ids, and a far one now and then, so that they grow.
pub(super) fn id() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 0..FEW_IDS, 1 => 0u32..20_000]
}

/// An id, or what is none.
pub(super) fn any_id() -> impl Strategy<Value = u32> {
    prop_oneof![20 => id(), 1 => Just(u32::MAX)]
}

/// Every kind of hint. Those that grow what a policy holds speak of ids, the others of any number at all.
pub(super) fn hints() -> impl Strategy<Value = Hint> {
    prop_oneof![
        prop::collection::vec(score(), 0..40).prop_map(Hint::Scores),
        (0u32..40).prop_map(Hint::PlannedBelow),
        prop::collection::vec(id(), 0..20).prop_map(Hint::Planned),
        any_id().prop_map(Hint::Consumed),
        prop::collection::vec(any_id(), 0..20).prop_map(Hint::Dropped),
        (id(), prop_oneof![0u64..40, Just(NEVER)]).prop_map(|(id, at)| Hint::NextUse(id, at)),
        Just(Hint::NextChunk),
        prop::collection::vec(id(), 0..20).prop_map(Hint::Packed),
        prop::collection::vec(prop_oneof![any_id(), Just(NO_KEY)], 0..40).prop_map(Hint::Neighbours),
    ]
}

fn score() -> impl Strategy<Value = f32> {
    const ODD: [f32; 5] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MAX];
    prop_oneof![8 => -1.0f32..4.0, 1 => prop::sample::select(ODD.to_vec())]
}
