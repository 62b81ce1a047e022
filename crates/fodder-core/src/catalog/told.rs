//! A snapshot as one node tells it to another: page by page, the very bytes that its name is the hash of. So whoever asked
//! for it by name can tell whether it is that one, whoever told it.
//!
//! ```text
//! length, layout | for each object: length, path, size, length, version, items
//!                | for each link: 0, 1, as its section has it | for each empty directory: 0, 2, length, path
//! ```
//!
//! Where records lie in a shard is not among it: whoever takes the snapshot reads that from the shard itself.

use super::{
    Snapshot, empty, link,
    listing::Listing,
    object::{Objects, PathCursor},
    packed::put_varint,
    snapshot::items_in,
};
use crate::{
    Error, Result,
    id::{ObjectSlot, SnapshotId, Version},
    layout::Layout,
    origin::{Link, ListingDetails, ObjectEntry},
};
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, Write},
    path::Path,
};

/// The most bytes that are taken: 100 million objects have about 80 each.
const MAX_BYTES: u64 = 16 << 30;

/// The longest path, link or version that is believed.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Puts together what a snapshot is called by.
pub(super) struct Telling<'a> {
    layout: &'a Layout,
    objects: &'a Objects,
    cursor: PathCursor<'a>,
}

impl<'a> Telling<'a> {
    pub(super) fn new(layout: &'a Layout, objects: &'a Objects) -> Self {
        Self { layout, objects, cursor: PathCursor::new(objects) }
    }

    pub(super) fn layout(&self, out: &mut Vec<u8>) {
        put_text(out, &self.layout.to_string());
    }

    pub(super) fn object(&mut self, slot: ObjectSlot, out: &mut Vec<u8>) {
        put_text(out, self.cursor.path(slot));
        put_varint(out, self.objects.size(slot));
        put_text(out, &self.objects.version(slot).0);
        put_varint(out, items_in(self.layout, self.objects, slot));
    }
}

/// What stands before everything that is no object: an object's path is never empty.
const NO_OBJECT: u8 = 0;
/// What follows it: a link, or an empty directory.
const LINK: u8 = 1;
const EMPTY_DIRECTORY: u8 = 2;

pub(super) fn put_link(link: &Link, out: &mut Vec<u8>) {
    out.extend([NO_OBJECT, LINK]);
    link::pack(link, out);
}

pub(super) fn put_empty_directory(directory: &str, out: &mut Vec<u8>) {
    out.extend([NO_OBJECT, EMPTY_DIRECTORY]);
    put_text(out, directory);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// What makes a name of what was told.
pub(super) fn hasher() -> blake3::Hasher {
    blake3::Hasher::new_derive_key("fodder 2026 snapshot")
}

pub(super) fn name(hasher: &blake3::Hasher) -> SnapshotId {
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    SnapshotId(id)
}

impl Snapshot {
    /// What another node must be told of it, from a place on (0 is the beginning): about so many bytes, and the place to go
    /// on at, if that was not all.
    pub fn tell(&self, from: u64, most_bytes: usize) -> (Vec<u8>, Option<u64>) {
        let mut out = Vec::with_capacity(most_bytes.min(1 << 20));
        let mut telling = Telling::new(self.layout(), self.object_table());
        if from == 0 {
            telling.layout(&mut out);
        }
        let (objects, mut at) = (u64::from(self.object_count()), from);
        let directories = objects + self.links().len() as u64;
        let all = directories + u64::from(self.empty_directories().len());
        while at < all && (out.len() < most_bytes || at == from) {
            if at < objects {
                telling.object(self.slot_at(at as u32), &mut out);
            } else if at < directories {
                put_link(&self.links().get((at - objects) as usize), &mut out);
            } else {
                put_empty_directory(&self.empty_directories().get((at - directories) as u32), &mut out);
            }
            at += 1;
        }
        (out, (at < all).then_some(at))
    }
}

/// A snapshot on its way from another node, in a file without a name: it may be larger than memory should be, and nothing
/// of it is believed until all of it is here.
#[derive(Debug)]
pub struct Arriving {
    file: File,
    hasher: blake3::Hasher,
    bytes: u64,
}

/// What was told, and is what its name says.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) listing: Listing,
    /// The items of each object, where that does not follow from its size.
    pub(super) items: Vec<u64>,
    /// The links and empty directories beside the objects.
    pub(super) details: ListingDetails,
}

impl Arriving {
    /// Nothing has come yet.
    pub(super) fn new(dir: &Path) -> Result<Self> {
        // If the node ends between the two, the catalog's next sweep removes it.
        let path = dir.join(format!("snapshot-told-{:016x}.tmp", rand::random::<u64>()));
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| Error::io("create", &path, &error))?;
        fs::remove_file(&path).map_err(|error| Error::io("remove", &path, &error))?;
        Ok(Self { file, hasher: hasher(), bytes: 0 })
    }

    /// Takes the next page. Waits for the disk.
    pub fn push(&mut self, page: &[u8]) -> Result<()> {
        self.bytes += page.len() as u64;
        if self.bytes > MAX_BYTES {
            return Err(Error::Invalid(format!(
                "snapshots of more than {MAX_BYTES} bytes are not accepted from other nodes"
            )));
        }
        self.hasher.update(page);
        self.file.write_all(page).map_err(|error| unkept(&error))
    }

    /// Whether what has come is all of the snapshot of that name.
    pub fn is(&self, id: SnapshotId) -> bool {
        name(&self.hasher) == id
    }

    /// Reads what has come, if it is the snapshot of that name, and of this layout.
    pub(super) fn read(mut self, id: SnapshotId, layout: &Layout) -> Result<Told> {
        if !self.is(id) {
            return Err(Error::Corrupt(format!("another node sent something else as snapshot {id}")));
        }
        self.file.rewind().map_err(|error| unkept(&error))?;
        let mut input = Input(BufReader::with_capacity(1 << 20, self.file));
        let theirs = input.text()?;
        if theirs != layout.to_string() {
            return Err(Error::Conflict(format!(
                "snapshot {id} has the layout {theirs}, but the dataset has {layout} on this node: use the same layout on all nodes"
            )));
        }
        let mut told = Told { listing: Listing::default(), items: Vec::new(), details: ListingDetails::default() };
        let mut before: Option<String> = None;
        while let Some(length) = input.next_length()? {
            if length == u64::from(NO_OBJECT) {
                input.detail(&mut told.details)?;
                continue;
            }
            let path = input.text_of(length)?;
            let size = input.number()?;
            let version = Version(input.text()?.into());
            let items = input.number()?;
            let comes_first = told.details.links.is_empty() && told.details.empty_directories.is_empty();
            let in_order = comes_first && before.as_ref().is_none_or(|before| *before < path);
            if !in_order || !is_possible(layout, size, items) {
                return Err(nonsense());
            }
            told.listing.push(&ObjectEntry { path: path.clone(), size, version })?;
            if layout.has_records() {
                told.items.push(items);
            }
            before = Some(path);
        }
        let ListingDetails { links, empty_directories, .. } = &told.details;
        if !links.is_sorted_by(|a, b| a.path < b.path)
            || *empty_directories != empty::settled(empty_directories.clone(), &told.listing)?
        {
            return Err(nonsense());
        }
        Ok(told)
    }
}

/// Whether an object of that size can have so many items.
fn is_possible(layout: &Layout, size: u64, items: u64) -> bool {
    match layout {
        Layout::Files => items == 1,
        Layout::Blocks { block_bytes } => items == size.div_ceil(u64::from(*block_bytes)),
        Layout::Tar | Layout::Tfrecord => items <= size,
    }
}

/// What has come, piece by piece.
struct Input(BufReader<File>);

impl Input {
    /// The number that the next object, link or empty directory begins with; None at the end.
    fn next_length(&mut self) -> Result<Option<u64>> {
        match self.0.fill_buf().map_err(|error| unkept(&error))?.is_empty() {
            true => Ok(None),
            false => self.number().map(Some),
        }
    }

    fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.bytes()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(nonsense())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).map_err(|error| unread(&error))?;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String> {
        let length = self.number()?;
        self.text_of(length)
    }

    fn text_of(&mut self, length: u64) -> Result<String> {
        if length > MAX_TEXT_BYTES {
            return Err(nonsense());
        }
        let mut bytes = vec![0; length as usize];
        self.0.read_exact(&mut bytes).map_err(|error| unread(&error))?;
        String::from_utf8(bytes).map_err(|_| nonsense())
    }

    /// A link or an empty directory. All links come before all empty directories.
    fn detail(&mut self, details: &mut ListingDetails) -> Result<()> {
        match self.bytes()? {
            [LINK] if details.empty_directories.is_empty() => details.links.push(self.link()?),
            [EMPTY_DIRECTORY] => details.empty_directories.push(self.text()?),
            _ => return Err(nonsense()),
        }
        Ok(())
    }

    fn link(&mut self) -> Result<Link> {
        let (path, target) = (self.text()?, self.text()?);
        Ok(Link { path, target, modified_ns: i64::from_le_bytes(self.bytes()?) })
    }
}

fn nonsense() -> Error {
    Error::Corrupt("another node sent an inconsistent snapshot".into())
}

fn unread(error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::UnexpectedEof { nonsense() } else { unkept(error) }
}

fn unkept(error: &io::Error) -> Error {
    Error::Unavailable(format!("cannot store a snapshot of another node in the catalog: {error}"))
}
