//! Batches of a job's plan over frames: what the job is given is sent as items that were asked for are.

use super::connection::{Connection, End};
use crate::{items::Wanted, place, wire};
use fodder_api::{
    MAX_IDS,
    frames::{BatchHead, Ids, Kind, ReplyHead},
};
use fodder_core::{
    Dataset, Error, Result,
    job::{Batch, BatchRequest},
};
use std::sync::Arc;

impl Connection {
    /// Sends a batch, behind how many items it has.
    pub(super) fn next_batch(
        &mut self,
        request: u32,
        dataset: Arc<Dataset>,
        batch: BatchRequest,
        acknowledged: Ids<'_>,
    ) -> Result<Result<(), End>> {
        if batch.count as usize > MAX_IDS {
            let count = batch.count;
            return Err(Error::Invalid(format!("{count} items in one request, and {MAX_IDS} are allowed")));
        }
        wire::acknowledge(&dataset, (batch.job, batch.epoch, batch.rank), acknowledged.iter())?;
        let chosen = match self.wait(dataset.jobs().next_batch(batch)) {
            Ok(chosen) => chosen,
            Err(end) => return Ok(Err(end)),
        };
        let Batch { snapshot, items } = chosen?;
        let snapshot = place::snapshot(&dataset, Some(snapshot))?;
        let body = BatchHead { items: items.len() as u32 }.encode();
        let head = ReplyHead::new(Kind::Batch, request, body.len());
        let announced = self.output.frame(&mut self.socket, &head, &[&body]).map_err(End::from);
        Ok(announced.and_then(|()| self.send(request, dataset, snapshot, items.iter().copied().map(Wanted::from))))
    }
}
