//! Leases that a client reports: those of a node before this one, or of a connection that was lost.

use super::connection::{Connection, End};
use crate::place::Place;
use fodder_api::frames::{Kind, ObjectId, ObjectIds, RenewStatus, Renewed, ReplyHead};
use fodder_core::{
    Dataset, Error, Result,
    tier::{HeldFile, LeaseCheck},
};
use std::{fs::File, sync::Arc};

impl Connection {
    /// Counts the files that came with a request as leases of this connection.
    pub(super) fn renew(
        &mut self,
        request: u32,
        dataset: &Arc<Dataset>,
        objects: ObjectIds<'_>,
        check: bool,
    ) -> Result<Result<(), End>> {
        self.can_lease()?;
        let files = self.inbox.take_files(objects.len());
        if files.len() != objects.len() {
            let text = "not all files arrived with the request: raise the limit on open files of the node (ulimit -n)";
            return Err(Error::Full(text.into()));
        }
        self.leases.has_room_for(files.len())?;
        let renewed = objects.iter().zip(files).map(|(object, file)| self.renew_one(dataset, object, &file, check));
        let body: Vec<u8> = renewed.flat_map(|renewed| renewed.encode()).collect();
        let head = ReplyHead::new(Kind::Renewed, request, body.len());
        Ok(self.output.frame(&mut self.socket, &head, &[&body]).map_err(End::from))
    }

    fn renew_one(&mut self, dataset: &Arc<Dataset>, object: ObjectId, file: &File, check: bool) -> Renewed {
        let slot = Place::of_object(dataset, object).ok().map(|place| place.object);
        match dataset.renew_lease(slot, file) {
            Ok(held) => {
                let status = if check { checked(&held) } else { unchecked(&held) };
                Renewed { lease: self.leases.hold_renewed(dataset, held), status }
            }
            Err(error) => {
                tracing::debug!(%error, "a client reports a file as leased");
                Renewed { lease: 0, status: RenewStatus::Evicted }
            }
        }
    }
}

fn checked(held: &HeldFile) -> RenewStatus {
    match held.check() {
        LeaseCheck::Good => RenewStatus::Good,
        LeaseCheck::Corrupt => RenewStatus::Corrupt,
        LeaseCheck::Unlinked => RenewStatus::Evicted,
    }
}

fn unchecked(held: &HeldFile) -> RenewStatus {
    if held.is_cached() { RenewStatus::Unchecked } else { RenewStatus::Evicted }
}
