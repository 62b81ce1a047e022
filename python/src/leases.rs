//! Cache files that this process keeps open by leases, so that a warm item is read without a round trip to the node.
//!
//! A lease is requested only for an item that is a whole object and cached. The number of files is bounded by the limit on
//! open files. A background thread returns leases of evicted files and unused ones, reports reads to the node so that they
//! count as hits, and drops everything when the node is gone. What must not be here: reading over a socket.

mod table;

use crate::connection::{Connection, Whom};
use fodder_api::{Address, Error, Result, frames::Leased};
use pyo3::{exceptions::PyOSError, prelude::*, types::PyBytes};
use std::{
    fs::File,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::fs::{FileExt, MetadataExt},
    },
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use table::{Answer, Next, Reads, Table, Wanted};

/// How often the background thread runs while leases are held.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// A lease that was not read for so many seconds is returned.
const UNUSED_SECONDS: u64 = 60;

/// The leases of one process at one node.
#[derive(Debug)]
pub(crate) struct Leases(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    table: Mutex<Table>,
    /// Over which leases are requested and returned. Never locked by a thread that holds the table.
    connection: Mutex<Option<Connection>>,
    is_swept: AtomicBool,
}

/// An item whose file is open here.
#[derive(Debug)]
pub(crate) struct Kept {
    leased: Leased,
    /// Seconds after the table was made.
    used: AtomicU64,
}

impl Kept {
    /// The bytes of the item.
    pub(crate) fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let (file, offset) = (self.file(), self.leased.offset);
        PyBytes::new_with(py, self.leased.length as usize, |buffer| {
            py.detach(|| file.read_exact_at(buffer, offset)).map_err(|error| PyOSError::new_err(error.to_string()))
        })
    }

    /// The class of the item.
    pub(crate) fn label(&self) -> Option<u32> {
        self.leased.label
    }

    fn file(&self) -> &File {
        self.leased.lease.file()
    }

    fn is_evicted(&self) -> bool {
        !self.file().metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }
}

impl Leases {
    /// No leases yet, for at most a quarter of the files that this process may open.
    pub(crate) fn new(whom: &Whom) -> Self {
        // Only the node of this host can send files, and with several nodes another one may answer next.
        let is_local = matches!(whom.addresses.as_slice(), [Address::Unix(_)]);
        let table = Mutex::new(Table::new(if is_local { capacity() } else { 0 }));
        Self(Arc::new(Shared { table, connection: Mutex::default(), is_swept: AtomicBool::new(false) }))
    }

    /// The open file of an item, requested from the node if that pays. None: read it over the socket.
    pub(crate) fn obtain(
        &self,
        py: Python<'_>,
        whom: &Whom,
        dataset: &str,
        snapshot: &str,
        id: u64,
    ) -> Option<Arc<Kept>> {
        let next = self.0.table().next(dataset, snapshot, id);
        match next {
            Next::Read(kept, reported) => {
                if !reported.is_empty() {
                    py.detach(|| self.0.report(dataset, snapshot, &reported));
                }
                Some(kept)
            }
            Next::Request(wanted) => py.detach(|| self.0.request(whom, dataset, snapshot, id, &wanted)),
            Next::Pass => None,
        }
    }

    /// An open file could not be read: it is not used again.
    pub(crate) fn discard(&self, dataset: &str, snapshot: &str, id: u64) {
        self.0.table().remove(dataset, snapshot, id);
    }

    /// Reports all reads of kept files, so that statistics which are asked for next include them.
    pub(crate) fn flush(&self) {
        let reads = self.0.table().take_reads();
        if !reads.is_empty() {
            self.0.report_all(&reads);
        }
    }

    /// How many files are open.
    pub(crate) fn held(&self) -> usize {
        self.0.table().held()
    }

    /// In a forked child: closes the files that its parent keeps open. Otherwise they would occupy space after the parent
    /// has returned its leases. Memory and locks of the parent are left alone.
    pub(crate) fn close_inherited(&self) {
        // A thread of the parent may have held the lock. Then the files stay open until this process ends.
        let Ok(mut table) = self.0.table.try_lock() else { return };
        for file in table.forget() {
            #[allow(unsafe_code, reason = "closes descriptors whose owners were forgotten")]
            // SAFETY: the table has forgotten the files, and no other thread of this process exists.
            drop(unsafe { OwnedFd::from_raw_fd(file) });
        }
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests leases; the file of `id`, if it is among them.
    fn request(
        self: &Arc<Self>,
        whom: &Whom,
        dataset: &str,
        snapshot: &str,
        id: u64,
        wanted: &Wanted,
    ) -> Option<Arc<Kept>> {
        let mut connection = match self.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread requests leases: reading over the socket takes no longer than waiting for it.
            Err(TryLockError::WouldBlock) => return None,
        };
        match request_over(&mut connection, whom, dataset, snapshot, &wanted.ids) {
            Ok((items, answer)) => {
                self.table().insert(dataset, snapshot, items, answer, wanted.replaces_oldest);
                drop(connection);
                self.sweep_later();
            }
            Err(_) => {
                *connection = None;
                drop(connection);
                self.table().fail(dataset, snapshot);
            }
        }
        self.table().get(dataset, snapshot, id)
    }

    /// Reports reads of kept files. A report that does not arrive costs the statistics, not the reader.
    fn report(&self, dataset: &str, snapshot: &str, ids: &[u64]) {
        if let Ok(mut connection) = self.connection.try_lock()
            && let Some(open) = connection.as_mut()
        {
            let reported = open.handle(dataset, snapshot).and_then(|handle| open.client.touch_items(handle, ids));
            if reported.is_err() {
                *connection = None;
                drop(connection);
                self.table().clear();
            }
        }
    }

    /// Starts the background thread if it does not run.
    fn sweep_later(self: &Arc<Self>) {
        if self.is_swept.swap(true, Relaxed) {
            return;
        }
        let shared = Arc::downgrade(self);
        let sweep = move || {
            loop {
                std::thread::sleep(SWEEP_INTERVAL);
                let Some(shared) = shared.upgrade() else { return };
                shared.sweep();
                if shared.table().held() == 0 {
                    shared.is_swept.store(false, Relaxed);
                    // A lease that was granted in between needs this thread, unless another one was started for it.
                    if shared.table().held() == 0 || shared.is_swept.swap(true, Relaxed) {
                        return;
                    }
                }
            }
        };
        if std::thread::Builder::new().name("fodder-leases".into()).spawn(sweep).is_err() {
            // Without the thread nothing would be returned.
            self.table().clear();
            self.is_swept.store(false, Relaxed);
        }
    }

    /// Drops what was evicted or is unused.
    fn sweep(&self) {
        let (kept, oldest) = self.table().all(UNUSED_SECONDS);
        let is_done = |kept: &Kept| kept.used.load(Relaxed) < oldest || kept.is_evicted();
        let done: Vec<_> = kept.into_iter().filter(|(_, kept)| is_done(kept)).map(|(key, _)| key).collect();
        let reads = {
            let mut table = self.table();
            table.remove_all(&done);
            table.take_reads()
        };
        self.report_all(&reads);
    }

    /// Reports reads, returns leases that are not used any more, and finds out whether the node is still there.
    fn report_all(&self, reads: &[Reads]) {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = connection.as_mut().map_or(Ok(()), |open| {
            for (dataset, snapshot, ids) in reads {
                let handle = open.handle(dataset, snapshot)?;
                open.client.touch_items(handle, ids)?;
            }
            open.client.ping()
        });
        if outcome.is_err() {
            *connection = None;
            drop(connection);
            self.table().clear();
        }
    }
}

/// The items of the snapshot, and the leases that the node granted.
fn request_over(
    connection: &mut Option<Connection>,
    whom: &Whom,
    dataset: &str,
    snapshot: &str,
    ids: &[u64],
) -> Result<(u64, Answer)> {
    let mut open = match connection.take() {
        Some(open) => open,
        None => Connection::new(whom, 0)?,
    };
    let opened = open.open(dataset, snapshot)?;
    let leases = open.client.get_cached_leases(opened.handle, ids)?;
    *connection = Some(open);
    let mut answer = Answer::default();
    for (id, lease) in ids.iter().zip(leases) {
        match lease {
            // An answer about another item than the one that was asked for is not kept under its id.
            Ok(leased) if leased.asked == leased.served => answer.granted.push(leased),
            Err(Error::Invalid(_)) => answer.small.push(*id),
            _ => {}
        }
    }
    Ok((opened.items, answer))
}

/// Files that may be kept open: a quarter of what this process may open.
fn capacity() -> usize {
    const MOST: u64 = 8192;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    (limit.unwrap_or(u64::MAX) / 4).min(MOST) as usize
}

/// The descriptor of a file.
fn descriptor(kept: &Kept) -> RawFd {
    kept.file().as_raw_fd()
}
