//! What tests of the file system stand on: a node in memory, and a kernel that only counts.
#![allow(clippy::unwrap_used, reason = "only tests use this")]

use crate::{
    backing::{Content, Registrar},
    node::{Description, Entry, From, Link, Newest, Node, Page, Part},
};
use fodder_api::{
    Error, Result, Source,
    frames::{Arriving, ObjectId, ObjectInfo},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Write},
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed},
};

/// A kernel that hands out numbers for files.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    next: AtomicU32,
    open: Mutex<HashSet<u32>>,
    refuses: bool,
}

impl Ids {
    pub(crate) fn refusing() -> Self {
        Self { refuses: true, ..Self::default() }
    }

    /// Numbers that were handed out and not given back.
    pub(crate) fn open(&self) -> usize {
        self.open.lock().len()
    }
}

impl Registrar for Ids {
    fn register(&self, _: &File) -> io::Result<u32> {
        if self.refuses {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let id = self.next.fetch_add(1, Relaxed);
        self.open.lock().insert(id);
        Ok(id)
    }

    fn release(&self, id: u32) {
        assert!(self.open.lock().remove(&id), "given back twice");
    }
}

/// Path to version and bytes.
type Snapshot = BTreeMap<String, (u32, Vec<u8>)>;

/// A node in memory. Objects are named by path and version; every change is a new snapshot.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    snapshots: Mutex<Vec<Snapshot>>,
    /// Snapshots before this one are no longer kept.
    pub(crate) kept_from: AtomicUsize,
    /// What is a symbolic link, and what it says.
    pub(crate) links: Mutex<BTreeMap<String, &'static str>>,
    /// Objects that are whole in its cache, by key.
    whole: Mutex<HashSet<[u8; 16]>>,
    pub(crate) away: AtomicBool,
    /// The slot of every object: another one when the catalog was built anew.
    pub(crate) slot: AtomicU32,
    pub(crate) lists: AtomicUsize,
    pub(crate) reads: AtomicUsize,
    pub(crate) touched: Mutex<Vec<ObjectId>>,
    /// Who has read.
    pub(crate) readers: Mutex<HashSet<u64>>,
}

impl Memory {
    /// A node with these objects, none of them cached.
    pub(crate) fn new<'a>(objects: impl IntoIterator<Item = (&'a str, Vec<u8>)>) -> Self {
        let node = Self::default();
        let objects = objects.into_iter().map(|(path, bytes)| (path.to_owned(), (0, bytes)));
        node.snapshots.lock().push(objects.collect());
        node
    }

    /// Changes or adds an object.
    pub(crate) fn put(&self, path: &str, bytes: Vec<u8>) {
        let mut snapshots = self.snapshots.lock();
        let mut next = snapshots.last().unwrap().clone();
        let version = next.get(path).map_or(0, |(version, _)| version + 1);
        next.insert(path.into(), (version, bytes));
        snapshots.push(next);
    }

    /// Makes an object of the newest snapshot whole in the cache.
    pub(crate) fn fill(&self, path: &str) {
        let version = self.snapshots.lock().last().unwrap()[path].0;
        self.whole.lock().insert(key(path, version));
    }

    fn check(&self) -> Result<()> {
        if self.away.load(Relaxed) { Err(Error::Unavailable("away".into())) } else { Ok(()) }
    }

    fn link(&self, path: &str) -> Option<Link> {
        let target = (*self.links.lock().get(path)?).into();
        Some(Link { target, modified_ns: 2_000_000_000 })
    }

    fn info(&self, path: &str, (version, bytes): &(u32, Vec<u8>)) -> ObjectInfo {
        let id = ObjectId { slot: self.slot.load(Relaxed), key: key(path, *version) };
        ObjectInfo { id, size: bytes.len() as u64, modified_ns: Some(1_500_000_000) }
    }

    fn bytes(&self, object: ObjectId) -> Result<Vec<u8>> {
        self.check()?;
        let snapshots = self.snapshots.lock();
        let mut all = snapshots.iter().flatten();
        let slot = self.slot.load(Relaxed);
        let found = all.find(|(path, (version, _))| slot == object.slot && key(path, *version) == object.key);
        found.map(|(_, (_, bytes))| bytes.clone()).ok_or_else(|| Error::Stale("no such object".into()))
    }
}

fn key(path: &str, version: u32) -> [u8; 16] {
    let mut hasher = DefaultHasher::new();
    (path, version).hash(&mut hasher);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&hasher.finish().to_le_bytes());
    key
}

impl Node for Memory {
    fn lookup(&self, path: &str) -> Result<Entry> {
        self.check()?;
        let snapshots = self.snapshots.lock();
        let now = snapshots.last().unwrap();
        let name = path.rsplit('/').next().unwrap().into();
        let link = self.link(path);
        if now.keys().any(|other| other.starts_with(&format!("{path}/"))) {
            return Ok(Entry { name, object: None, link, next: 1 });
        }
        let object = now.get(path).map(|found| self.info(path, found));
        object.map(|_| Entry { name, object, link, next: 1 }).ok_or(Error::NotFound("nothing".into()))
    }

    fn list(&self, path: &str, from: From<'_>, count: u32) -> Result<Page> {
        self.check()?;
        self.lists.fetch_add(1, Relaxed);
        let snapshots = self.snapshots.lock();
        let asked = from.snapshot.map(|id| id[0] as usize).filter(|number| *number >= self.kept_from.load(Relaxed));
        let number = asked.unwrap_or(snapshots.len() - 1);
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let (mut entries, mut seen) = (Vec::new(), BTreeSet::new());
        for (rank, (path, found)) in snapshots[number].iter().enumerate() {
            let Some(rest) = path.strip_prefix(&prefix) else { continue };
            let (name, object) = match rest.split_once('/') {
                Some((name, _)) => (name, None),
                None => (rest, Some(self.info(path, found))),
            };
            if !seen.insert(name.to_owned()) {
                if let Some(last) = entries.last_mut() {
                    let last: &mut Entry = last;
                    last.next = rank as u32 + 1;
                }
                continue;
            }
            let link = self.link(&format!("{prefix}{name}"));
            entries.push(Entry { name: name.into(), object, link, next: rank as u32 + 1 });
        }
        if asked.is_some() || from.rank == 0 {
            entries.retain(|entry| entry.next > from.rank);
        } else {
            entries.retain(|entry| &*entry.name > from.behind.trim_end_matches('/'));
        }
        let end = entries.len() <= count as usize;
        entries.truncate(count as usize);
        Ok(Page { snapshot: [number as u8; 16], entries, end })
    }

    fn lease(&self, object: ObjectId, _: Arriving) -> Result<Option<Content>> {
        let bytes = self.bytes(object)?;
        if !self.whole.lock().contains(&object.key) {
            return Ok(None);
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        Ok(Some(Content::Own(file)))
    }

    fn read(&self, object: ObjectId, part: Part, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Part { offset, length, reader } = part;
        self.readers.lock().insert(reader);
        self.reads.fetch_add(1, Relaxed);
        take(&self.bytes(object)?[offset as usize..(offset + length) as usize]);
        Ok(())
    }

    fn read_shown(&self, object: ObjectId, part: Part, _: Arriving, buffer: &mut [u8]) -> Result<bool> {
        let bytes = self.bytes(object)?;
        buffer.copy_from_slice(&bytes[part.offset as usize..(part.offset + part.length) as usize]);
        Ok(true)
    }

    fn describe(&self, object: ObjectId) -> Result<Description> {
        let size = self.bytes(object)?.len() as u64;
        let whole = self.whole.lock().contains(&object.key);
        let (cached_bytes, tier) = if whole { (size, Some(Source::TierSsd)) } else { (0, None) };
        Ok(Description { cached_bytes, tier, version: "\"v\"".into() })
    }

    fn newest(&self) -> Result<Newest> {
        self.check()?;
        let snapshots = self.snapshots.lock();
        let now = snapshots.last().unwrap();
        let bytes = now.values().map(|(_, bytes)| bytes.len() as u64).sum();
        Ok(Newest { snapshot: [(snapshots.len() - 1) as u8; 16], objects: now.len() as u64, bytes })
    }

    fn touch(&self, objects: &[ObjectId]) {
        self.touched.lock().extend_from_slice(objects);
    }
}
