//! Leased files after a restart of the node: verified before the first open, and dropped if they are damaged or evicted.

use super::FileSystem;
use crate::{
    backing::Backing,
    inode::{Found, Kind, number},
    mode::Mode,
    node::Node,
};
use fodder_api::frames::{LeaseStatus, ObjectId, ObjectInfo};
use std::sync::Arc;

/// Numbers next to its own that an object may have, where others are taken.
const MAX_NUMBERS: u64 = 4;

impl<N: Node> FileSystem<N> {
    /// Reports leases to a node that does not know of them, and drops files that must not be opened again.
    pub(crate) fn renew_leases(&self) {
        for object in self.node.renew_leases() {
            self.drop_invalid(object);
        }
    }

    /// Whether a file may be opened without asking the node. While the node is away nothing can be verified, and files stay
    /// in use.
    pub(super) fn is_usable(&self, backing: &Backing) -> bool {
        match backing.status() {
            LeaseStatus::Verified => true,
            LeaseStatus::Unverified => self.node.is_away(),
            LeaseStatus::Evicted | LeaseStatus::Corrupt => false,
        }
    }

    /// Has the node verify the files that an open would use. May wait for the node to read them.
    pub(super) fn verify(&self, ino: u64, object: ObjectInfo) {
        for backing in [self.pool.get(ino), self.bound(ino)].into_iter().flatten() {
            if let (Some(lease), LeaseStatus::Unverified) = (backing.lease(), backing.status())
                && let Err(error) = self.node.verify_lease(object.id, lease)
            {
                tracing::debug!(%error, "cannot verify a leased file now");
                if !self.node.is_away() {
                    backing.refuse();
                }
            }
            if matches!(backing.status(), LeaseStatus::Evicted | LeaseStatus::Corrupt) {
                self.drop_invalid(object.id);
            }
        }
    }

    /// The file that the kernel reads for the open handles of an inode.
    fn bound(&self, ino: u64) -> Option<Arc<Backing>> {
        match self.inodes.lock(ino).get(&ino)?.kind {
            Kind::File(_, ref state) => match state.bound() {
                Some(Mode::Passthrough(backing)) => Some(Arc::clone(backing)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Forgets files of an object that do not match their checksums, or that nothing can be compared with any more.
    fn drop_invalid(&self, object: ObjectId) {
        let first = number(Found::Object(ObjectInfo { id: object, size: 0, modified_ns: None }));
        for ino in (0..MAX_NUMBERS).map(|next| first.wrapping_add(next)) {
            let status = self.invalid_status(ino, object);
            self.pool.drop_invalid(ino);
            if let Some((name, status)) = status {
                self.drop_from_handles(object);
                // The kernel may have kept pages of the file, in every mode but passthrough.
                self.registrar.invalidate(ino);
                report(&name, status, self.bound(ino).is_some());
            }
        }
    }

    /// The name of an inode and the status of its files, if one of them is invalid.
    fn invalid_status(&self, ino: u64, object: ObjectId) -> Option<(Box<str>, LeaseStatus)> {
        let is_of = |kind: &Kind| matches!(kind, Kind::File(known, _) if known.id.key == object.key);
        let name = self.inodes.lock(ino).get(&ino).filter(|inode| is_of(&inode.kind))?.name.clone();
        let files = [self.pool.get(ino), self.bound(ino)].into_iter().flatten().chain(self.open_files(object));
        let invalid = |status: &LeaseStatus| matches!(status, LeaseStatus::Corrupt | LeaseStatus::Evicted);
        let statuses: Vec<_> = files.map(|backing| backing.status()).filter(invalid).collect();
        let corrupt = statuses.contains(&LeaseStatus::Corrupt).then_some(LeaseStatus::Corrupt);
        Some((name, corrupt.or(statuses.first().copied())?))
    }

    /// The files from which reads of open handles of an object are answered.
    fn open_files(&self, object: ObjectId) -> Vec<Arc<Backing>> {
        let mut files = Vec::new();
        for handles in self.handles.each() {
            let of_object = handles.values().filter(|open| open.object.id.key == object.key);
            files.extend(of_object.filter_map(|open| open.whole.lock().clone()));
        }
        files
    }

    /// Reads of open handles that this process answers go to the node from now on.
    fn drop_from_handles(&self, object: ObjectId) {
        let mut dropped = Vec::new();
        for handles in self.handles.each() {
            for open in handles.values().filter(|open| open.object.id.key == object.key) {
                let mut whole = open.whole.lock();
                if whole.as_ref().is_some_and(|backing| backing.status() != LeaseStatus::Verified) {
                    dropped.push(whole.take());
                }
            }
        }
        // Files are closed without holding up others.
        drop(dropped);
    }
}

/// Tells the operator of a file that is no longer used.
fn report(name: &str, status: LeaseStatus, is_open: bool) {
    match (status, is_open) {
        (LeaseStatus::Corrupt, true) => tracing::warn!(
            name,
            "a cached file is damaged and is replaced; programs that have it open read the damaged file until they close it"
        ),
        (LeaseStatus::Corrupt, false) => tracing::warn!(name, "a cached file is damaged and is replaced"),
        _ => tracing::debug!(name, is_open, "a leased file was evicted before the node could verify it"),
    }
}
