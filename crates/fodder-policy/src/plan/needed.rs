//! The items that a job will need, or needs no more, in a form that costs nothing until it is walked.

use super::{Plan, Rest};
use std::sync::Arc;

/// Some items of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    plan: Arc<Plan>,
    rest: Rest,
}

impl Needed {
    /// The items at these positions of a plan.
    pub fn new(plan: Arc<Plan>, rest: Rest) -> Self {
        Self { plan, rest }
    }

    /// How many they are.
    pub fn len(&self) -> u32 {
        self.rest.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether they are all items of the snapshot.
    pub fn is_everything(&self) -> bool {
        self.len() == self.plan.snapshot().items
    }

    /// The plan they are of.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Their ids, in the order of the plan.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.rest.iter().filter_map(|position| self.plan.at(position))
    }
}
