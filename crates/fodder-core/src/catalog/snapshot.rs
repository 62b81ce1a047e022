//! A sealed listing: which objects, in which order, and which items they are. Never changed.

use super::{
    Item,
    empty::EmptyDirectories,
    file::{Kind, MappedFile, Unusable},
    link::Links,
    name::BLOCK,
    object::Objects,
    order::{self, Order},
    packed::Packed,
};
use crate::{
    Error, Result,
    id::{ItemId, ObjectSlot, SnapshotId},
    layout::{Layout, files},
    origin::ListingDetails,
};
use serde::{Deserialize, Serialize};
use std::{
    cmp::Ordering,
    ops::Range,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub(super) const META: u32 = 1;
pub(super) const PATHS: u32 = 2;
pub(super) const ITEMS: u32 = 4;
pub(super) const CLASS_STARTS: u32 = 6;
pub(super) const ITEM_SAMPLES: u32 = 7;
pub(super) const LINKS: u32 = 8;
pub(super) const EMPTY_DIRECTORIES: u32 = 10;
/// Problems that are kept of one snapshot.
const MAX_PROBLEMS: usize = 100;

/// What a snapshot file says of itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) id: String,
    pub(super) items: u64,
    pub(super) total_bytes: u64,
    /// Whether every object is exactly one item, the whole of it.
    pub(super) one_each: bool,
    pub(super) paths: order::Shape,
    /// The order of the items where it is not the order of the paths.
    pub(super) class_items: Option<order::Shape>,
    pub(super) classes: Vec<String>,
    pub(super) notes: Vec<String>,
    /// Symbolic links.
    pub(super) links: u32,
    pub(super) empty_directories: u32,
    /// When it was sealed, in seconds since 1970.
    pub(super) sealed_at_s: u64,
}

/// How items are found.
#[derive(Debug, Clone)]
enum Items {
    /// Every object is one, in path order.
    Paths,
    /// Images in torchvision's order; where each class starts.
    Classes { order: Order, starts: Arc<[u32]> },
    /// Objects have several each: how many come before every 16th object.
    Counted { samples: Packed },
}

/// A sealed listing: dense ids in layout order, never changed.
#[derive(Debug)]
pub struct Snapshot {
    id: SnapshotId,
    meta: Arc<Meta>,
    layout: Layout,
    objects: Arc<Objects>,
    paths: Order,
    items: Items,
    links: Links,
    empty_directories: EmptyDirectories,
    problems: Vec<String>,
    file_bytes: usize,
}

impl Snapshot {
    pub(super) fn open(path: &Path, layout: &Layout, objects: Arc<Objects>) -> Result<Self, Unusable> {
        let file = MappedFile::open(path, Kind::Snapshot)?;
        Self::from_file(&file, layout, objects)
            .ok_or_else(|| Unusable::Rebuild(format!("{} is inconsistent", path.display())))
    }

    fn from_file(file: &Arc<MappedFile>, layout: &Layout, objects: Arc<Objects>) -> Option<Self> {
        let meta: Meta = serde_json::from_slice(file.section(META).bytes()).ok()?;
        let paths = Order::open(file, PATHS, meta.paths)?;
        let items = match (meta.one_each, meta.class_items) {
            (true, _) => Items::Paths,
            (false, Some(shape)) => Items::Classes {
                order: Order::open(file, ITEMS, shape)?,
                starts: Packed::open(file.section(CLASS_STARTS), meta.classes.len())?.to_heap(),
            },
            (false, None) => Items::Counted {
                samples: Packed::open(file.section(ITEM_SAMPLES), (paths.len() as usize).div_ceil(BLOCK))?,
            },
        };
        let mut snapshot = Self {
            id: meta.id.parse().ok()?,
            links: Links::open(file, LINKS, meta.links)?,
            empty_directories: EmptyDirectories::open(file, EMPTY_DIRECTORIES, meta.empty_directories)?,
            meta: Arc::new(meta),
            layout: layout.clone(),
            objects,
            paths,
            items,
            problems: Vec::new(),
            file_bytes: file.len(),
        };
        snapshot.problems = snapshot.collect_problems();
        Some(snapshot)
    }

    /// The same snapshot over objects to which a refresh has added some, or from which some have left that it does not have.
    pub(super) fn over(&self, objects: Arc<Objects>) -> Self {
        Self {
            id: self.id,
            meta: self.meta.clone(),
            layout: self.layout.clone(),
            objects,
            paths: self.paths.clone(),
            items: self.items.clone(),
            links: self.links.clone(),
            empty_directories: self.empty_directories.clone(),
            problems: self.problems.clone(),
            file_bytes: self.file_bytes,
        }
    }

    fn collect_problems(&self) -> Vec<String> {
        let of_objects = self.objects.segments().flat_map(|segment| segment.problems());
        let mine = of_objects.filter(|(slot, text)| !text.is_empty() && self.rank(ObjectSlot(*slot)).is_some());
        let all = self.meta.notes.iter().map(String::as_str).chain(mine.map(|(_, text)| text));
        all.take(MAX_PROBLEMS).map(str::to_owned).collect()
    }

    /// Its name.
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// When it was sealed, on this node.
    pub fn sealed_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.meta.sealed_at_s)
    }

    /// How many items it has; ids are 0..len.
    pub fn len(&self) -> u64 {
        self.meta.items
    }

    /// Whether it has no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether its items are records, of which an object or a piece may hold many.
    pub fn has_records(&self) -> bool {
        self.layout.has_records()
    }

    /// How many objects it has.
    pub fn object_count(&self) -> u32 {
        self.paths.len()
    }

    /// The bytes of all its objects together.
    pub fn total_bytes(&self) -> u64 {
        self.meta.total_bytes
    }

    /// The names of the classes, by label, where the layout has classes.
    pub fn classes(&self) -> &[String] {
        &self.meta.classes
    }

    /// What could not become items, and why: broken shards, images outside the classes. At most a hundred.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Its symbolic links.
    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// Its empty directories.
    pub(super) fn empty_directories(&self) -> &EmptyDirectories {
        &self.empty_directories
    }

    /// Whether a listing with the same objects would be this snapshot again.
    pub(super) fn has_details(&self, details: &ListingDetails) -> bool {
        self.links.are(&details.links) && self.empty_directories.are(&details.empty_directories)
    }

    /// Bytes of memory and mapped pages, without the objects, which snapshots share.
    pub fn memory_bytes(&self) -> usize {
        let texts = self.meta.classes.iter().chain(&self.problems).map(|text| size_of::<String>() + text.capacity());
        let items = match &self.items {
            Items::Classes { order, starts } => order.heap_bytes() + 4 * starts.len(),
            Items::Paths | Items::Counted { .. } => 0,
        };
        let heap = self.paths.heap_bytes() + items + texts.sum::<usize>();
        size_of::<Self>() + size_of::<Meta>() + self.file_bytes + heap
    }

    /// An item by its id; [`Error::NotFound`] says how many there are. O(1) or close to it.
    pub fn item(&self, id: ItemId) -> Result<Item> {
        if id >= self.len() {
            return Err(self.no_item(id));
        }
        Ok(match &self.items {
            Items::Paths => self.whole(self.paths.get(id as u32), None),
            Items::Classes { order, starts } => {
                let label = starts.partition_point(|start| u64::from(*start) <= id) - 1;
                self.whole(order.get(id as u32), Some(label as u32))
            }
            Items::Counted { samples } => {
                let (object, n) = self.counted(samples, id);
                let (range, label) = self.part(object, n);
                Item { object, range, label }
            }
        })
    }

    #[cold]
    fn no_item(&self, id: ItemId) -> Error {
        Error::NotFound(format!("no item {id}: the snapshot has {} items, numbered from 0", self.len()))
    }

    fn whole(&self, object: ObjectSlot, label: Option<u32>) -> Item {
        Item { object, range: 0..self.objects.size(object), label }
    }

    /// The object an item lies in, and the item's number there.
    fn counted(&self, samples: &Packed, id: ItemId) -> (ObjectSlot, u64) {
        let block = samples.count_at_most(id) - 1;
        let mut left = id - samples.get(block);
        for object in self.paths.from((block * BLOCK) as u32) {
            let count = items_in(&self.layout, &self.objects, object);
            if left < count {
                return (object, left);
            }
            left -= count;
        }
        unreachable!("the objects of a snapshot have as many items as it says")
    }

    /// The `n`th item of an object that has several.
    fn part(&self, object: ObjectSlot, n: u64) -> (Range<u64>, Option<u32>) {
        let Some((segment, row)) = self.objects.locate(object) else { return (0..0, None) };
        match (&self.layout, segment.records()) {
            (Layout::Blocks { block_bytes }, _) => {
                let start = n * u64::from(*block_bytes);
                (start..(start + u64::from(*block_bytes)).min(segment.size(row)), None)
            }
            (_, Some(records)) => records.get(row, n),
            (_, None) => (0..segment.size(row), None),
        }
    }

    /// What an item is called: its object's path, with `#key` or `#n` behind it where an object holds several.
    pub fn item_name(&self, id: ItemId) -> Result<String> {
        let item = self.item(id)?;
        let mut name = self.objects.path(item.object);
        let Items::Counted { samples } = &self.items else { return Ok(name) };
        let (object, n) = self.counted(samples, id);
        let Some((segment, row)) = self.objects.locate(object) else { return Ok(name) };
        let mut key = Vec::new();
        if segment.records().is_some_and(|records| records.key(row, n, &mut key)) {
            name = format!("{name}#{}", String::from_utf8_lossy(&key));
        } else if self.layout.has_records() || items_in(&self.layout, &self.objects, object) > 1 {
            name = format!("{name}#{n}");
        }
        Ok(name)
    }

    /// The object at a path. O(log n).
    pub fn lookup(&self, path: &str) -> Option<ObjectSlot> {
        let mut name = Vec::new();
        let rank = self.first_path_not_before(path.as_bytes(), &mut name);
        let slot = (rank < self.paths.len()).then(|| self.paths.get(rank))?;
        self.objects.read_path(slot, &mut name);
        (name == path.as_bytes()).then_some(slot)
    }

    /// Its objects, in path order.
    pub fn objects(&self) -> impl Iterator<Item = ObjectSlot> + '_ {
        (0..self.object_count()).map(|rank| self.slot_at(rank))
    }

    /// The object at a position in path order.
    pub(super) fn slot_at(&self, rank: u32) -> ObjectSlot {
        self.paths.get(rank)
    }

    /// How its objects become items.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The objects its slots are of.
    pub(super) fn object_table(&self) -> &Objects {
        &self.objects
    }

    pub(super) fn first_path_not_before(&self, path: &[u8], name: &mut Vec<u8>) -> u32 {
        self.paths.partition_point(|slot| {
            self.objects.read_path(slot, name);
            name.as_slice() < path
        })
    }

    /// The position of an object in path order, if it is one of this snapshot's.
    pub(crate) fn place_of(&self, object: ObjectSlot) -> Option<u32> {
        self.objects.contains(object).then(|| self.rank(object)).flatten()
    }

    /// The object at a position in path order, if there is one.
    pub(crate) fn object_at(&self, place: u32) -> Option<ObjectSlot> {
        (place < self.object_count()).then(|| self.slot_at(place))
    }

    fn rank(&self, object: ObjectSlot) -> Option<u32> {
        if let Some(rank) = self.paths.position_in_run(object) {
            return Some(rank);
        }
        let (mut path, mut name) = (Vec::new(), Vec::new());
        self.objects.read_path(object, &mut path);
        let rank = self.first_path_not_before(&path, &mut name);
        (rank < self.paths.len() && self.paths.get(rank) == object).then_some(rank)
    }

    /// The ids of the items that lie in an object of this snapshot, in order.
    pub fn items_of(&self, object: ObjectSlot) -> Range<ItemId> {
        if !self.objects.contains(object) {
            return 0..0;
        }
        let Some(rank) = self.rank(object) else { return 0..0 };
        match &self.items {
            Items::Paths => u64::from(rank)..u64::from(rank) + 1,
            Items::Classes { order, .. } => self.class_item(order, object),
            Items::Counted { samples } => {
                let block = rank as usize / BLOCK;
                let before = self.paths.from((block * BLOCK) as u32).take(rank as usize % BLOCK);
                let counts = before.map(|slot| items_in(&self.layout, &self.objects, slot));
                let first = samples.get(block) + counts.sum::<u64>();
                first..first + items_in(&self.layout, &self.objects, object)
            }
        }
    }

    /// The ids of the items that have bytes in this range of an object, in order.
    pub fn items_in(&self, object: ObjectSlot, bytes: Range<u64>) -> Range<ItemId> {
        let all = self.items_of(object);
        let Items::Counted { .. } = &self.items else { return all };
        let count = all.end - all.start;
        let first = first_not(count, |n| self.part(object, n).0.end <= bytes.start);
        let end = first_not(count, |n| self.part(object, n).0.start < bytes.end);
        all.start + first.min(end)..all.start + end
    }

    fn class_item(&self, order: &Order, object: ObjectSlot) -> Range<ItemId> {
        if let Some(id) = order.position_in_run(object) {
            return u64::from(id)..u64::from(id) + 1;
        }
        let path = self.objects.path(object);
        let before = |slot| files::compare_items(&self.objects.path(slot), &path) == Ordering::Less;
        let id = order.partition_point(before);
        match id < order.len() && order.get(id) == object {
            true => u64::from(id)..u64::from(id) + 1,
            false => 0..0,
        }
    }

    /// Up to `limit` objects whose path begins with `prefix` and sorts behind `after`, in path order.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<ObjectSlot> {
        let mut name = Vec::new();
        let mut rank = self.first_path_not_before(prefix.as_bytes(), &mut name);
        if let Some(after) = after {
            let behind = self.paths.partition_point(|slot| {
                self.objects.read_path(slot, &mut name);
                name.as_slice() <= after.as_bytes()
            });
            rank = rank.max(behind);
        }
        let mut cursor = super::object::PathCursor::new(&self.objects);
        let slots = self.paths.from(rank);
        slots.take_while(|slot| cursor.path(*slot).starts_with(prefix)).take(limit).collect()
    }
}

/// The first number below `count` of which `before` is not true; it is true of a front part of them.
fn first_not(count: u64, before: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// How many items an object is.
#[inline]
pub(super) fn items_in(layout: &Layout, objects: &Objects, object: ObjectSlot) -> u64 {
    let Some((segment, row)) = objects.locate(object) else { return 0 };
    match layout {
        Layout::Files => 1,
        Layout::Blocks { block_bytes } => segment.size(row).div_ceil(u64::from(*block_bytes)),
        Layout::Tar | Layout::Tfrecord => segment.records().map_or(0, |records| records.count(row)),
    }
}
