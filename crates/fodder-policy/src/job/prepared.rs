//! A checkpoint that was read, and the plan it is of: the long part of resuming, to be done before any lock is taken.

use super::Resume;
use crate::{
    Result,
    ledger::Checkpoint,
    plan::{Plan, Snapshot},
};
use std::sync::Arc;

/// What a job resumes from.
#[derive(Debug)]
pub struct Prepared {
    pub(super) snapshot: Snapshot,
    pub(super) checkpoint: Checkpoint,
    pub(super) plan: Arc<Plan>,
}

impl Prepared {
    /// Reads a checkpoint of a snapshot and checks the list that came with it.
    pub fn new(request: &Resume<'_>, snapshot: Snapshot) -> Result<Self> {
        let checkpoint = Checkpoint::decode(request.checkpoint, snapshot)?;
        let plan = Arc::new(checkpoint.plan(request.ids.clone())?);
        Ok(Self { snapshot, checkpoint, plan })
    }
}
