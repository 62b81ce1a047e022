//! A dataset's objects and its snapshots.

use crate::{
    Error, Result,
    id::{FileKey, ItemId, ObjectSlot, PieceId, SnapshotId, Version},
    layout::Layout,
    origin::Origin,
};
use std::{ops::Range, path::Path, sync::Arc};

/// An item of a snapshot: a byte range of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The object it lies in.
    pub object: ObjectSlot,
    /// The bytes of the object it is.
    pub range: Range<u64>,
    /// Its class, where the layout has classes.
    pub label: Option<u32>,
}

/// What a refresh found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct RefreshReport {
    /// Objects that were not there before.
    pub added: u64,
    /// Objects whose version changed.
    pub changed: u64,
    /// Objects that are gone.
    pub removed: u64,
    /// Objects that stayed as they were.
    pub unchanged: u64,
}

/// A dataset's catalog on disk and in (mapped) memory.
#[derive(Debug)]
pub struct Catalog {}

impl Catalog {
    /// Reopens the catalog in `dir` without asking the origin; None if there is none, or one that must be
    /// rebuilt (older format, another layout or origin, damaged), which is logged.
    pub fn open(dir: &Path, identity: &blake3::Hash, layout: &Layout) -> Result<Option<Self>> {
        let _ = (dir, identity, layout);
        Ok(None)
    }

    /// Lists the origin, indexes its objects and seals the first snapshot.
    pub async fn build(dir: &Path, identity: &blake3::Hash, layout: &Layout, origin: &Origin) -> Result<Self> {
        let _ = (dir, identity, layout, origin);
        Err(Error::Internal("not built yet".into()))
    }

    /// Lists the origin again; if anything differs, seals a new snapshot that shares the unchanged objects.
    pub async fn refresh(&self, origin: &Origin) -> Result<RefreshReport> {
        let _ = origin;
        Err(Error::Internal("not built yet".into()))
    }

    /// The newest snapshot.
    pub fn current(&self) -> Arc<Snapshot> {
        unimplemented!()
    }

    /// A snapshot by its id, as long as it is kept (the newest few are).
    pub fn snapshot(&self, id: SnapshotId) -> Option<Arc<Snapshot>> {
        let _ = id;
        None
    }

    /// All objects of all snapshots that are kept. Grows with a refresh: take it anew after one.
    pub fn objects(&self) -> Arc<Objects> {
        unimplemented!()
    }
}

/// All objects a dataset's snapshots speak of, by slot.
#[derive(Debug)]
pub struct Objects {}

impl Objects {
    /// How many slots there are; slots are 0..len.
    pub fn len(&self) -> u32 {
        0
    }
    /// Whether there is no object at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// How many pieces all slots have together.
    pub fn pieces(&self) -> u32 {
        0
    }
    /// The grid: bytes of a piece (the last of an object may be shorter).
    pub fn piece_bytes(&self) -> u32 {
        1 << 20
    }
    /// The size of an object in bytes. O(1).
    pub fn size(&self, slot: ObjectSlot) -> u64 {
        let _ = slot;
        0
    }
    /// The first piece of an object; its pieces are consecutive. An empty object has none. O(1).
    pub fn first_piece(&self, slot: ObjectSlot) -> PieceId {
        let _ = slot;
        PieceId(0)
    }
    /// The object a piece belongs to. O(log n).
    pub fn object_of(&self, piece: PieceId) -> ObjectSlot {
        let _ = piece;
        ObjectSlot(0)
    }
    /// The path of an object.
    pub fn path(&self, slot: ObjectSlot) -> String {
        let _ = slot;
        String::new()
    }
    /// The version of an object.
    pub fn version(&self, slot: ObjectSlot) -> Version {
        let _ = slot;
        Version("".into())
    }
    /// The name of an object's cache file.
    pub fn key(&self, slot: ObjectSlot) -> FileKey {
        let _ = slot;
        FileKey([0; 16])
    }
    /// Bytes of memory and mapped pages, without the front-coded names.
    pub fn memory_bytes(&self) -> usize {
        0
    }
}

/// A sealed listing: dense ids in layout order, never changed.
#[derive(Debug)]
pub struct Snapshot {}

impl Snapshot {
    /// Its name.
    pub fn id(&self) -> SnapshotId {
        SnapshotId([0; 16])
    }
    /// How many items it has; ids are 0..len.
    pub fn len(&self) -> u64 {
        0
    }
    /// Whether it has no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// How many objects it has.
    pub fn object_count(&self) -> u32 {
        0
    }
    /// The bytes of all its objects together.
    pub fn total_bytes(&self) -> u64 {
        0
    }
    /// An item by its id; [`Error::NotFound`] says how many there are. O(1) or close to it.
    pub fn item(&self, id: ItemId) -> Result<Item> {
        Err(Error::NotFound(format!("no item {id}")))
    }
    /// What an item is called: its object's path, with `#key` or `#n` behind it where an object holds several.
    pub fn item_name(&self, id: ItemId) -> Result<String> {
        Err(Error::NotFound(format!("no item {id}")))
    }
    /// The object at a path. O(log n).
    pub fn lookup(&self, path: &str) -> Option<ObjectSlot> {
        let _ = path;
        None
    }
    /// The ids of the items that lie in an object of this snapshot, in order.
    pub fn items_of(&self, object: ObjectSlot) -> Range<ItemId> {
        let _ = object;
        0..0
    }
    /// Up to `limit` objects whose path begins with `prefix` and sorts behind `after`, in path order.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<ObjectSlot> {
        let _ = (prefix, after, limit);
        Vec::new()
    }
    /// The names of the classes, by label, where the layout has classes.
    pub fn classes(&self) -> &[String] {
        &[]
    }
}
