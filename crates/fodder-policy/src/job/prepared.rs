//! A checkpoint that was read, and the plan it is of: the long part of resuming, to be done before any lock is taken.

use super::Resume;
use crate::{
    Error, Result,
    ledger::{Checkpoint, checkpoint},
    permutation::mix,
    plan::{Plan, Rest, Snapshot},
};
use std::sync::Arc;

/// What a job resumes from.
#[derive(Debug)]
pub struct Prepared {
    pub(super) sum: u64,
    pub(super) snapshot: Snapshot,
    pub(super) checkpoint: Checkpoint,
    /// None if it is of a list that did not come with it: then the job must have it still.
    pub(super) plan: Option<Arc<Plan>>,
    /// What the checkpoint left of the plan.
    pub(super) rest: Rest,
}

impl Prepared {
    /// Reads a checkpoint, which may be of any of these snapshots, the first of which is the newest, and checks the list that
    /// came with it.
    pub fn new(request: &Resume<'_>, on: &[Snapshot]) -> Result<Self> {
        let read = |on: &Snapshot| Ok((*on, Checkpoint::decode(request.checkpoint, *on)?));
        let mut found = on.iter().map(read);
        let newest = found.next().unwrap_or_else(|| Err(Error::Invalid("a dataset has a snapshot".into())));
        let (snapshot, checkpoint) = newest.or_else(|error| found.find(Result::is_ok).unwrap_or(Err(error)))?;
        let plan = match &request.ids {
            None if checkpoint.is_of_a_list() => None,
            ids => Some(Arc::new(checkpoint.plan(ids.clone())?)),
        };
        let rest = checkpoint.rest();
        let sum = checkpoint::sum(request.checkpoint);
        let attempt = request.start.attempt;
        let sum = if attempt == 0 { sum } else { mix(sum ^ mix(attempt)) };
        Ok(Self { sum, snapshot, checkpoint, plan, rest })
    }
}
