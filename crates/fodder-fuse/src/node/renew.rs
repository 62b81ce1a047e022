//! Leases after a restart of the node, or the loss of a connection: reported so that they count, then verified.
//!
//! Everything is reported before anything is verified: until the node knows of a lease, it may fill the space of a file that
//! is still open.

use super::{Remote, held::Entry};
use fodder_api::{
    Result,
    frames::{Lease, LeaseStatus, MAX_LEASES, ObjectId},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Bytes that the node verifies for one mount in one round, which is a second: enough to be through soon, and little enough to
/// leave the disk to readers.
const ROUND_BYTES: u64 = 256 << 20;

/// Bytes that one request has verified, unless a single file has more.
const REQUEST_BYTES: u64 = 32 << 20;

impl Remote {
    /// Reports the leases whose connection is gone, and has some of those that were reported verified. Objects whose files must
    /// not be opened again. Does not wait for a node that is away.
    pub(super) fn renew(&self) -> Vec<ObjectId> {
        self.drop_ended();
        let reported = !self.lost.swap(false, Ordering::Relaxed) || self.report().is_ok();
        if !reported {
            self.lost.store(true, Ordering::Relaxed);
        }
        if reported && self.unverified.swap(false, Ordering::Relaxed) && !self.verify().is_ok_and(|done| done) {
            self.unverified.store(true, Ordering::Relaxed);
        }
        std::mem::take(&mut *self.invalid.lock())
    }

    /// Has the node verify a leased file. Does not wait for a node that is away: then its status stays as it was.
    pub(super) fn verify_one(&self, object: ObjectId, lease: &Arc<Lease>) -> Result<()> {
        self.renew_some(&[(object, Arc::clone(lease))], true)
    }

    fn report(&self) -> Result<()> {
        let leases = self.held.unregistered();
        leases.chunks(MAX_LEASES).try_for_each(|some| self.renew_some(some, false))?;
        if !leases.is_empty() {
            tracing::info!(leases = leases.len(), "reported leased files to the node; it verifies them");
            self.unverified.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Verifies up to a round's bytes; whether nothing is left.
    fn verify(&self) -> Result<bool> {
        let (mut rest, mut bytes) = (&self.held.unverified()[..], 0);
        while !rest.is_empty() && bytes < ROUND_BYTES {
            let (count, size) = request_of(rest);
            self.renew_some(&rest[..count], true)?;
            rest = &rest[count..];
            bytes += size;
        }
        Ok(rest.is_empty())
    }

    fn renew_some(&self, leases: &[Entry], check: bool) -> Result<()> {
        self.ask(Duration::ZERO, |link| link.client.renew_leases(link.handle, leases, check))?;
        let is_invalid = |lease: &Lease| matches!(lease.status(), LeaseStatus::Corrupt | LeaseStatus::Evicted);
        let invalid = leases.iter().filter(|(_, lease)| is_invalid(lease));
        self.invalid.lock().extend(invalid.map(|(object, _)| *object));
        Ok(())
    }

    /// Drops kept connections that the node has ended, whose leases it does not count any more.
    fn drop_ended(&self) {
        let ended: Vec<_> = self.idle.lock().extract_if(.., |link| link.client.has_ended()).collect();
        drop(ended);
    }
}

/// How many leases go into one request, and their bytes.
fn request_of(leases: &[Entry]) -> (usize, u64) {
    let (mut count, mut bytes) = (0, 0);
    for (_, lease) in leases.iter().take(MAX_LEASES) {
        if count > 0 && bytes + lease.size() > REQUEST_BYTES {
            break;
        }
        (count, bytes) = (count + 1, bytes + lease.size());
    }
    (count, bytes)
}
