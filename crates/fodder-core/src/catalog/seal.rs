//! Makes a snapshot of objects in path order: finds its items and its name, and writes its file.

use super::{
    empty,
    file::{FileWriter, Kind},
    link,
    name::BLOCK,
    object::{Objects, PathCursor},
    order, packed,
    snapshot::{CLASS_STARTS, EMPTY_DIRECTORIES, ITEM_SAMPLES, ITEMS, LINKS, META, Meta, PATHS, items_in},
    told::{self, Telling},
};
use crate::{
    Error, Result,
    id::{ObjectSlot, SnapshotId},
    layout::{Layout, files},
    origin::ListingDetails,
};
use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// Seals the objects in `slots`, and the links and empty directories beside them, all in path order, as a snapshot.
pub(super) fn seal(
    path: &Path,
    layout: &Layout,
    objects: &Objects,
    slots: &[u32],
    details: &ListingDetails,
) -> Result<()> {
    let classes = if *layout == Layout::Files { class_tree(objects, slots) } else { None };
    let samples = if *layout == Layout::Files { None } else { Some(item_samples(layout, objects, slots)) };
    let items = match (&classes, &samples) {
        (Some(tree), _) => tree.slots.len() as u64,
        (_, Some((_, items))) => *items,
        _ => slots.len() as u64,
    };
    let mut file = FileWriter::create(path, Kind::Snapshot)?;
    let paths = order::write(&mut file, PATHS, slots)?;
    let class_items = classes.as_ref().map(|tree| order::write(&mut file, ITEMS, &tree.slots)).transpose()?;
    if let Some(tree) = &classes {
        file.section(CLASS_STARTS, |out| packed::column(out, &tree.starts))?;
    }
    let blocks_of_one = matches!(layout, Layout::Blocks { .. })
        && slots.iter().all(|slot| items_in(layout, objects, ObjectSlot(*slot)) == 1);
    let one_each = classes.is_none() && (*layout == Layout::Files || blocks_of_one);
    if let Some((samples, _)) = samples.as_ref().filter(|_| !one_each) {
        file.section(ITEM_SAMPLES, |out| packed::column(out, samples))?;
    }
    link::write(&mut file, LINKS, &details.links)?;
    let before = objects_before(objects, slots, &details.empty_directories);
    empty::write(&mut file, EMPTY_DIRECTORIES, &details.empty_directories, &before)?;
    let empty_classes = classes.as_ref().and_then(|tree| tree.note_of_empty(&details.empty_directories));
    let mut tree = classes.unwrap_or_default();
    tree.notes.extend(empty_classes);
    tree.notes.extend(details.warnings.iter().cloned());
    let meta = Meta {
        id: name(layout, objects, slots, details).to_string(),
        items,
        total_bytes: slots.iter().map(|slot| objects.size(ObjectSlot(*slot))).fold(0, u64::saturating_add),
        one_each,
        paths,
        class_items,
        classes: tree.classes,
        notes: tree.notes,
        links: details.links.len() as u32,
        empty_directories: details.empty_directories.len() as u32,
        sealed_at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    };
    let json = serde_json::to_vec(&meta).map_err(|error| Error::Internal(error.to_string()))?;
    file.section(META, |out| out.put(&json))?;
    file.finish()
}

/// The snapshot's name: a hash of the layout, of every object's path, size, version and number of items, and of the
/// links and empty directories, if there are any. The order of the items follows from these, so that nodes which see the same data give it the same name.
fn name(layout: &Layout, objects: &Objects, slots: &[u32], details: &ListingDetails) -> SnapshotId {
    let (mut hasher, mut buffer) = (told::hasher(), Vec::with_capacity(1 << 17));
    let mut telling = Telling::new(layout, objects);
    telling.layout(&mut buffer);
    let mut hash_full = |buffer: &mut Vec<u8>, full: usize| {
        if buffer.len() > full {
            hasher.update(buffer);
            buffer.clear();
        }
    };
    for slot in slots {
        telling.object(ObjectSlot(*slot), &mut buffer);
        hash_full(&mut buffer, 1 << 16);
    }
    for link in &details.links {
        told::put_link(link, &mut buffer);
        hash_full(&mut buffer, 1 << 16);
    }
    for directory in &details.empty_directories {
        told::put_empty_directory(directory, &mut buffer);
        hash_full(&mut buffer, 1 << 16);
    }
    hash_full(&mut buffer, 0);
    told::name(&hasher)
}

/// How many objects come before each empty directory in path order.
fn objects_before(objects: &Objects, slots: &[u32], directories: &[String]) -> Vec<u64> {
    let mut path = Vec::new();
    let mut before = |directory: &String| {
        slots.partition_point(|slot| {
            objects.read_path(ObjectSlot(*slot), &mut path);
            path.as_slice() < directory.as_bytes()
        })
    };
    directories.iter().map(|directory| before(directory) as u64).collect()
}

/// Items before every 16th object, and the number of all.
fn item_samples(layout: &Layout, objects: &Objects, slots: &[u32]) -> (Vec<u64>, u64) {
    let (mut samples, mut items) = (Vec::with_capacity(slots.len().div_ceil(BLOCK)), 0);
    for (rank, slot) in slots.iter().enumerate() {
        if rank.is_multiple_of(BLOCK) {
            samples.push(items);
        }
        items += items_in(layout, objects, ObjectSlot(*slot));
    }
    (samples, items)
}

/// A tree of class directories with images in them.
#[derive(Debug, Default)]
struct ClassTree {
    /// The images, in torchvision's order.
    slots: Vec<u32>,
    classes: Vec<String>,
    /// The first item of each class.
    starts: Vec<u64>,
    notes: Vec<String>,
}

impl ClassTree {
    /// What there is to say of top-level directories that are no classes because they have no files.
    fn note_of_empty(&self, empty_directories: &[String]) -> Option<String> {
        let is_class = |name: &str| self.classes.binary_search_by(|class| class.as_str().cmp(name)).is_ok();
        let top = empty_directories.iter().filter_map(|path| path.split('/').next());
        let mut names: Vec<&str> = top.filter(|name| !is_class(name)).collect();
        names.dedup();
        names.first().map(|example| {
            format!(
                "{} top-level directories without files are no classes, such as {example} (torchvision's ImageFolder refuses them, \
                 or with allow_empty=True counts them)",
                names.len()
            )
        })
    }
}

/// Images that follow each other in path order and lie in one directory.
struct Chunk {
    directory: usize,
    start: usize,
    length: usize,
}

/// The class tree that the objects are; None if there are no images in directories.
///
/// In one directory path order is name order, so it is enough to bring the directories into torchvision's order.
fn class_tree(objects: &Objects, slots: &[u32]) -> Option<ClassTree> {
    let (mut classes, mut directories, mut chunks) = (Vec::<String>::new(), Vec::<String>::new(), Vec::<Chunk>::new());
    let (mut cursor, mut loose) = (PathCursor::new(objects), 0u64);
    for (rank, slot) in slots.iter().enumerate() {
        let path = cursor.path(ObjectSlot(*slot));
        let Some(class) = files::class(path) else {
            loose += u64::from(files::is_image(path));
            continue;
        };
        if classes.last().is_none_or(|last| last != class) {
            classes.push(class.to_owned());
        }
        if !files::is_image(path) {
            continue;
        }
        let (directory, _) = files::split(path);
        if directories.last().is_none_or(|last| last != directory) {
            directories.push(directory.to_owned());
        }
        let directory = directories.len() - 1;
        match chunks.last_mut() {
            Some(chunk) if chunk.directory == directory && chunk.start + chunk.length == rank => chunk.length += 1,
            _ => chunks.push(Chunk { directory, start: rank, length: 1 }),
        }
    }
    if chunks.is_empty() {
        return None;
    }
    classes.sort_unstable();
    let directory = |chunk: &Chunk| directories[chunk.directory].as_str();
    chunks.sort_by(|a, b| files::compare_directories(directory(a), directory(b)));
    let mut tree = ClassTree { starts: vec![0; classes.len()], ..ClassTree::default() };
    let mut class = 0;
    for chunk in &chunks {
        let name = directory(chunk).split('/').next().unwrap_or_default();
        while classes[class] != name {
            class += 1;
            tree.starts[class] = tree.slots.len() as u64;
        }
        tree.slots.extend_from_slice(&slots[chunk.start..chunk.start + chunk.length]);
    }
    tree.starts[class + 1..].fill(tree.slots.len() as u64);
    if loose > 0 {
        tree.notes.push(format!(
            "{loose} images lie outside the class directories: they are read by path, but are no items (as in torchvision's ImageFolder)"
        ));
    }
    tree.classes = classes;
    Some(tree)
}
