//! Directories and versions of objects over frames: what a mount asks.

use super::connection::{Connection, End};
use crate::{place::Place, wire};
use fodder_api::{
    MAX_PATH_BYTES,
    frames::{
        EntriesHead, Entry, Kind, LINKS_SINCE, LinkInfo, MAX_ENTRIES, ObjectHead, ObjectId, ObjectInfo, ReplyHead,
    },
};
use fodder_core::{
    Dataset, Error, Result,
    catalog::{self, Child, Resume, Snapshot},
    engine::Source,
    id::{ObjectSlot, SnapshotId},
};
use std::sync::Arc;

impl Connection {
    /// Sends what lies at a path of the newest snapshot.
    pub(super) fn lookup(&mut self, request: u32, dataset: &Arc<Dataset>, path: &str) -> Result<Result<(), End>> {
        let snapshot = dataset.snapshot();
        let child = snapshot.find(path).ok_or_else(|| nothing_at(dataset, path))?;
        let name = path.rsplit('/').next().unwrap_or_default();
        let mut packed = Vec::new();
        // There is nothing to go on with, and any number but 0 will do.
        let found = catalog::Entry { name: name.to_owned(), child, link: snapshot.link(path), next: 1 };
        self.encode(&mut packed, dataset, &found);
        Ok(self.entries(request, &snapshot, 1, true, &packed))
    }

    /// Sends a page of a directory.
    pub(super) fn list(
        &mut self,
        request: u32,
        dataset: &Arc<Dataset>,
        path: &str,
        from: (Option<SnapshotId>, u32, &str),
        count: u32,
    ) -> Result<Result<(), End>> {
        let (id, rank, behind) = from;
        let kept = id.and_then(|id| dataset.snapshot_by_id(id).ok());
        let resume = if rank == 0 || kept.is_some() { Resume::Rank(rank) } else { Resume::Name(behind) };
        let snapshot = kept.unwrap_or_else(|| dataset.snapshot());
        let most = (count as usize).clamp(1, MAX_ENTRIES);
        let children = snapshot.children(path, resume, most).ok_or_else(|| nothing_at(dataset, path))?;
        let (mut packed, mut sent) = (Vec::new(), 0);
        for entry in &children {
            let target = entry.link.as_ref().map_or(0, |link| link.target.len());
            if packed.len() + Entry::most_bytes(entry.name.len(), target) > PAGE_BYTES {
                break;
            }
            self.encode(&mut packed, dataset, entry);
            sent += 1;
        }
        let end = children.len() < most && sent == children.len();
        Ok(self.entries(request, &snapshot, sent as u32, end, &packed))
    }

    /// Sends what is known of an object.
    pub(super) fn describe(&mut self, request: u32, dataset: &Dataset, object: ObjectId) -> Result<Result<(), End>> {
        let place = Place::of_object(dataset, object)?;
        let residence = dataset.residence(place.object);
        let version = dataset.objects().version(place.object).to_string();
        let body = ObjectHead { cached_bytes: residence.cached_bytes }.encode();
        let mut head = ReplyHead::new(Kind::Object, request, body.len() + version.len());
        if let Some(medium) = residence.whole {
            head.source = wire::source(Source::Tier(medium));
        }
        Ok(self.output.frame(&mut self.socket, &head, &[&body, version.as_bytes()]).map_err(End::from))
    }

    /// Appends an entry, as this client understands it.
    fn encode(&self, packed: &mut Vec<u8>, dataset: &Dataset, entry: &catalog::Entry) {
        let object = match entry.child {
            Child::Directory => None,
            Child::Object(slot) => Some(info(dataset, slot)),
        };
        let link = entry.link.as_ref().filter(|_| self.version >= LINKS_SINCE);
        let link = link.map(|link| LinkInfo { target: &link.target, modified_ns: link.modified_ns });
        Entry { name: &entry.name, object, link, next: entry.next }.encode(packed);
    }

    fn entries(&mut self, request: u32, snapshot: &Snapshot, count: u32, end: bool, packed: &[u8]) -> Result<(), End> {
        let body = EntriesHead { snapshot: snapshot.id().0, count, end }.encode();
        let head = ReplyHead::new(Kind::Entries, request, body.len() + packed.len());
        Ok(self.output.frame(&mut self.socket, &head, &[&body, packed])?)
    }
}

/// The most one page of a directory has, so that any page fits into one frame.
const PAGE_BYTES: usize = (1 << 20) - EntriesHead::BYTES;
const _: () = assert!(Entry::most_bytes(MAX_PATH_BYTES, u16::MAX as usize) <= PAGE_BYTES, "one entry always fits");

fn info(dataset: &Dataset, slot: ObjectSlot) -> ObjectInfo {
    let objects = dataset.objects();
    let id = ObjectId { slot: slot.0, key: objects.key(slot).0 };
    ObjectInfo { id, size: objects.size(slot), modified_ns: dataset.modified_ns(slot) }
}

fn nothing_at(dataset: &Dataset, path: &str) -> Error {
    let name = &dataset.config().name;
    Error::NotFound(format!("there is no {path:?} in dataset {name:?}"))
}
