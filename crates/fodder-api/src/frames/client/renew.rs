//! Reporting leases that the node does not know of: it was restarted, or the connection they came on was lost.

use super::{FrameClient, lost, strange};
use crate::{
    Error, Result,
    frames::{Kind, Lease, LeaseStatus, MAX_LEASES, ObjectId, RENEWS_SINCE, Renewed, Request, codec::pack_objects},
};
use std::{os::fd::AsFd, sync::Arc};

impl FrameClient {
    /// Whether leases can be renewed on this connection.
    pub fn renews_leases(&self) -> bool {
        self.version >= RENEWS_SINCE && self.line.carries_descriptors()
    }

    /// Reports up to [`MAX_LEASES`] leases, which are this connection's from then on. With `check` the node compares the files
    /// with their checksums first, which may take as long as reading them. [`Lease::status`] has the result.
    pub fn renew_leases(&mut self, handle: u32, leases: &[(ObjectId, Arc<Lease>)], check: bool) -> Result<()> {
        if leases.is_empty() {
            return Ok(());
        }
        if leases.len() > MAX_LEASES || !self.renews_leases() {
            return Err(Error::Invalid("the node does not accept that many leases".into()));
        }
        let objects: Vec<ObjectId> = leases.iter().map(|(object, _)| *object).collect();
        let mut packed = Vec::new();
        let request = Request::Renew { check, objects: pack_objects(&objects, &mut packed) };
        let number = self.encode(request, handle)?;
        let files: Vec<_> = leases.iter().map(|(_, lease)| lease.file().as_fd()).collect();
        let sent = self.line.send_with(&self.out, &files);
        sent.map_err(|error| self.broken_by(lost(error)))?;
        let body = self.reply(number, Kind::Renewed)?;
        let (renewed, rest) = body.as_chunks::<{ Renewed::BYTES }>();
        if renewed.len() != leases.len() || !rest.is_empty() {
            return Err(self.broken_by(strange()));
        }
        for ((_, lease), renewed) in leases.iter().zip(renewed) {
            let Renewed { lease: number, status } = Renewed::decode(renewed);
            lease.register(number, self.returns.clone(), LeaseStatus::from(status));
            if number != 0 {
                self.leases.insert(number, Arc::downgrade(lease));
            }
        }
        Ok(())
    }

    /// Whether the node has ended the connection. Only while no request is under way; never waits.
    pub fn has_ended(&mut self) -> bool {
        if !self.broken && self.line.has_ended() {
            self.broken = true;
            self.returns.end();
        }
        self.broken
    }
}
