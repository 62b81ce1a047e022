//! Leases on the client's side: cache files that are read without asking the node at all.
//!
//! A lease is given back when its last user drops it; the node learns of it with the next request, or by
//! [`FrameClient::give_back`]. What must not be here: sockets.

use super::{FrameClient, LeaseHead};
use crate::{Result, Source};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex, PoisonError},
};

/// Numbers of leases that nobody here uses any more.
#[derive(Debug, Clone, Default)]
pub(super) struct Returns(Arc<Mutex<Vec<u64>>>);

impl Returns {
    pub(super) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn push(&self, lease: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
    }
}

/// An object's cache file, open for reading. Its bytes never change, not even when the node evicts it or is gone.
#[derive(Debug)]
pub struct Lease {
    file: File,
    size: u64,
    number: u64,
    returns: Returns,
}

impl Lease {
    pub(super) fn new(file: File, size: u64, number: u64, returns: Returns) -> Self {
        Self { file, size, number, returns }
    }

    /// The file, exactly the object's bytes.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes of the object.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.returns.push(self.number);
    }
}

/// An item as a range of a leased file.
#[derive(Debug, Clone)]
pub struct Leased {
    /// The id that was asked for; [`super::NO_ITEM`] for an object by its path.
    pub asked: u64,
    /// The id of the item that this range is.
    pub served: u64,
    /// Its class, where the layout has classes.
    pub label: Option<u32>,
    /// Where the bytes came from when the lease was made.
    pub source: Source,
    /// Where the item begins in the file.
    pub offset: u64,
    /// Bytes of the item.
    pub length: u64,
    /// The file.
    pub lease: Arc<Lease>,
}

impl Leased {
    pub(super) fn new(head: LeaseHead, label: Option<u32>, source: Source, lease: Arc<Lease>) -> Self {
        let LeaseHead { asked, served, offset, length, .. } = head;
        Self { asked, served, label, source, offset, length, lease }
    }

    /// Reads the item into the front of `buffer`, which must have room for it.
    pub fn read_into(&self, buffer: &mut [u8]) -> io::Result<()> {
        let buffer = buffer.get_mut(..self.length as usize).ok_or(io::ErrorKind::InvalidInput)?;
        self.lease.file.read_exact_at(buffer, self.offset)
    }

    /// Reads the item.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; self.length as usize];
        self.read_into(&mut buffer)?;
        Ok(buffer)
    }
}

/// Leases kept from epoch to epoch, so that an item that was leased once is read without asking.
///
/// Filled and then kept: an epoch asks for everything once, and giving up what was used longest ago would give up
/// exactly what is asked for next. Leases beyond the capacity are handed out and not kept.
#[derive(Debug)]
pub struct LeaseCache {
    handle: u32,
    capacity: usize,
    /// Items whose file is here.
    items: HashMap<u64, Leased>,
    /// The files, by the address of the lease, which stays theirs as long as an item holds them.
    files: HashSet<usize>,
}

impl LeaseCache {
    /// A cache for an open dataset that keeps up to `capacity` files open. Each counts against this process's limit of
    /// open files (`ulimit -n`).
    pub fn new(handle: u32, capacity: usize) -> Self {
        Self { handle, capacity, items: HashMap::new(), files: HashSet::new() }
    }

    /// Files it keeps open.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether it keeps none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Gives everything back.
    pub fn clear(&mut self) {
        self.items.clear();
        self.files.clear();
    }

    /// The items as ranges of open files, in order; only those not kept from before are asked for.
    pub fn get(&mut self, client: &mut FrameClient, ids: &[u64]) -> Result<Vec<Result<Leased>>> {
        let missing: Vec<u64> = ids.iter().copied().filter(|id| !self.items.contains_key(id)).collect();
        let mut fresh = Vec::new();
        if !missing.is_empty() {
            fresh = client.get_leases(self.handle, &missing)?;
        }
        let (mut fresh, mut missing) = (fresh.into_iter(), missing.into_iter().peekable());
        let mut all = Vec::with_capacity(ids.len());
        for id in ids {
            if missing.next_if_eq(id).is_some() {
                all.push(fresh.next().expect("one answer for each id"));
            } else {
                all.push(Ok(self.items[id].clone()));
            }
        }
        for leased in all.iter().flatten() {
            self.keep(leased);
        }
        Ok(all)
    }

    fn keep(&mut self, leased: &Leased) {
        let file = Arc::as_ptr(&leased.lease).addr();
        if self.files.contains(&file) || self.files.len() < self.capacity {
            self.files.insert(file);
            self.items.insert(leased.asked, leased.clone());
        }
    }
}
