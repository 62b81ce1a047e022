//! Leases on the client's side: cache files that are read without asking the node at all.
//!
//! A lease is given back when its last user drops it; the node learns of it with the next request, or by
//! [`FrameClient::give_back`]. What must not be here: sockets.

use super::{FrameClient, LeaseHead, RenewStatus};
use crate::{Result, Source};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Numbers of leases that nobody here uses any more, for the connection that has them.
#[derive(Debug, Clone, Default)]
pub(super) struct Returns(Arc<Connection>);

#[derive(Debug, Default)]
struct Connection {
    numbers: Mutex<Vec<u64>>,
    /// The node has forgotten its leases, or will when it notices.
    ended: AtomicBool,
}

impl Returns {
    pub(super) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.numbers())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers().is_empty()
    }

    pub(super) fn end(&self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }

    fn push(&self, lease: u64) {
        if !self.0.ended.load(Ordering::Relaxed) {
            self.numbers().push(lease);
        }
    }

    fn numbers(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a leased file since the node last answered for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStatus {
    /// Every piece matched its checksum.
    Verified,
    /// The node was restarted since, or the connection was lost, and the file has not been compared again.
    Unverified,
    /// The node no longer has the file: the object was evicted.
    Evicted,
    /// The file does not match its checksums.
    Corrupt,
}

impl From<RenewStatus> for LeaseStatus {
    fn from(status: RenewStatus) -> Self {
        match status {
            RenewStatus::Unchecked => Self::Unverified,
            RenewStatus::Good => Self::Verified,
            RenewStatus::Evicted => Self::Evicted,
            RenewStatus::Corrupt => Self::Corrupt,
        }
    }
}

/// Which connection has a lease, and as what.
#[derive(Debug)]
struct Registration {
    number: u64,
    returns: Returns,
    status: LeaseStatus,
}

impl Registration {
    fn is_lost(&self) -> bool {
        self.returns.0.ended.load(Ordering::Relaxed)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.number != 0 {
            self.returns.push(self.number);
        }
    }
}

/// An object's cache file, open for reading. Its bytes never change, not even when the node evicts it or is gone.
#[derive(Debug)]
pub struct Lease {
    file: File,
    size: u64,
    registration: Mutex<Registration>,
}

impl Lease {
    pub(super) fn new(file: File, size: u64, number: u64, returns: Returns) -> Self {
        let registration = Registration { number, returns, status: LeaseStatus::Verified };
        Self { file, size, registration: Mutex::new(registration) }
    }

    /// A lease of no connection, which is therefore not verified. For tests.
    #[doc(hidden)]
    pub fn detached(file: File, size: u64) -> Self {
        let returns = Returns::default();
        returns.end();
        Self::new(file, size, 0, returns)
    }

    /// What the node would have answered. For tests.
    #[doc(hidden)]
    pub fn answered(&self, status: LeaseStatus) {
        self.register(0, Returns::default(), status);
    }

    /// The lease is another connection's from now on; number 0 if the node does not count it.
    pub(super) fn register(&self, number: u64, returns: Returns, status: LeaseStatus) {
        *self.registration() = Registration { number, returns, status };
    }

    /// Whether the node knows of the lease. If not, [`FrameClient::renew_leases`] reports it.
    pub fn is_registered(&self) -> bool {
        !self.registration().is_lost()
    }

    /// What is known of the file. A file whose connection was lost is not verified: the node may have been restarted since,
    /// and bits may have flipped meanwhile.
    pub fn status(&self) -> LeaseStatus {
        let registration = self.registration();
        match registration.status {
            LeaseStatus::Verified if registration.is_lost() => LeaseStatus::Unverified,
            status => status,
        }
    }

    fn registration(&self) -> MutexGuard<'_, Registration> {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner)
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
