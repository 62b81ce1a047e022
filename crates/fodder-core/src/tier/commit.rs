//! The committer of a tier: makes what was written durable in groups, and then says so in the index.
//!
//! The one rule: no record of a piece before its bytes are synced. It decides when; the log knows how to write.

use super::{
    core::Core,
    files::{is_out_of_inodes, is_want_of_descriptors},
    log::{Log, PIECE_RECORD, Record},
    shelf::{LeftCell, Shelf, Written},
    space::file_bytes,
};
use crate::{Result, config::Medium};
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use std::{sync::Arc, time::Instant};

/// A group is committed when so much is waiting, or the oldest of it has waited for the interval.
const GROUP_BYTES: u64 = 64 << 20;
const GROUP_RECORDS: usize = 4096;
/// Up to so many files are synced one by one; more are cheaper by syncing the file system.
const FEW_FILES: usize = 16;
/// The index is rewritten when it is this long and less than half of it is needed.
const SHORTEST_REWRITE: u64 = 64 << 10;

/// How the committer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Commit what is waiting, then say that all is known.
    Clean,
    /// As a kill would: nothing more is written.
    Abandon,
}

/// What waits for the committer.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    done: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// What left, and datasets that came and went, in order. Written before the pieces of the same group.
    notes: Vec<Record>,
    pieces: Vec<(Arc<Shelf>, Written)>,
    /// Cells that are free when this is committed.
    left: Vec<(Arc<Shelf>, LeftCell)>,
    bytes: u64,
    since: Option<Instant>,
    /// Tickets of those who wait for a commit: asked for, and reached.
    asked: u64,
    reached: u64,
    stop: Option<Stop>,
}

impl Queue {
    pub(super) fn note(&self, record: Record) {
        let mut waiting = self.waiting.lock();
        waiting.notes.push(record);
        self.touch(&mut waiting);
    }

    pub(super) fn written(&self, shelf: Arc<Shelf>, written: Written, bytes: u64) {
        let mut waiting = self.waiting.lock();
        waiting.pieces.push((shelf, written));
        waiting.bytes += bytes;
        self.touch(&mut waiting);
    }

    /// A cell is to be released as soon as everything that was written so far is in the index.
    pub(super) fn left(&self, shelf: Arc<Shelf>, cell: LeftCell) {
        let mut waiting = self.waiting.lock();
        waiting.left.push((shelf, cell));
        self.touch(&mut waiting);
    }

    fn touch(&self, waiting: &mut Waiting) {
        if waiting.since.is_none() {
            waiting.since = Some(Instant::now());
            self.wake.notify_one();
        } else if waiting.full() {
            self.wake.notify_one();
        }
    }

    /// Waits while more than `most` bytes are not committed: it bounds what a crash leaves behind unknown.
    pub(super) fn wait_for_room(&self, most: u64) {
        let mut waiting = self.waiting.lock();
        while waiting.bytes > most && waiting.stop.is_none() {
            self.done.wait(&mut waiting);
        }
    }

    /// Waits until all that is here now is committed (or could not be).
    pub(super) fn flush(&self) {
        let mut waiting = self.waiting.lock();
        waiting.asked += 1;
        let ticket = waiting.asked;
        self.wake.notify_one();
        while waiting.reached < ticket && waiting.stop.is_none() {
            self.done.wait(&mut waiting);
        }
    }

    pub(super) fn stop(&self, how: Stop) {
        self.waiting.lock().stop.get_or_insert(how);
        self.wake.notify_all();
        self.done.notify_all();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let waiting = self.waiting.lock();
        waiting.notes.capacity() * size_of::<Record>()
            + waiting.pieces.capacity() * size_of::<(Arc<Shelf>, Written)>()
            + waiting.left.capacity() * size_of::<(Arc<Shelf>, LeftCell)>()
    }
}

impl Waiting {
    fn full(&self) -> bool {
        self.bytes >= GROUP_BYTES
            || self.pieces.len() >= GROUP_RECORDS
            || self.notes.len().max(self.left.len()) >= GROUP_RECORDS
    }
}

/// What one commit is about.
#[derive(Debug, Default)]
struct Group {
    notes: Vec<Record>,
    pieces: Vec<(Arc<Shelf>, Written)>,
    left: Vec<(Arc<Shelf>, LeftCell)>,
    bytes: u64,
}

/// The loop that owns the log.
#[derive(Debug)]
pub(super) struct Committer {
    core: Arc<Core>,
    log: Log,
    /// Bytes of the index that are charged.
    charged: u64,
    /// Notes that could not be written: they come first the next time.
    left: Vec<Record>,
    /// The log did not take an append or could not be synced: it is rewritten before anything is added.
    broken: bool,
}

impl Committer {
    /// Says in the index that the tier is open. A disk that does not take this is read from all the same.
    pub(super) fn new(core: Arc<Core>, log: Log) -> Self {
        let mut committer = Self { core, log, charged: 0, left: Vec::new(), broken: false };
        if let Err(error) = committer.append(&[Record::Opened]) {
            committer.index_failed(&error);
        }
        committer
    }

    fn index_failed(&mut self, error: &std::io::Error) {
        tracing::warn!(path = %self.core.path.display(), %error, "cannot write the tier's index");
        self.core.pulse.failed(Instant::now());
        self.broken = true;
    }

    pub(super) fn run(mut self) {
        loop {
            let (mut group, ticket, stop) = self.next();
            if stop == Some(Stop::Abandon) {
                return;
            }
            let (bytes, left) = (group.bytes, std::mem::take(&mut group.left));
            self.commit(group);
            if stop.is_some() {
                return self.finish();
            }
            release_left(left);
            if self.worth_rewriting(2) {
                self.rewrite();
            }
            let mut waiting = self.core.queue.waiting.lock();
            waiting.bytes -= bytes;
            waiting.reached = waiting.reached.max(ticket);
            drop(waiting);
            self.core.queue.done.notify_all();
        }
    }

    /// Waits for a group. Its bytes stay counted as waiting until it is committed.
    fn next(&self) -> (Group, u64, Option<Stop>) {
        let queue = &self.core.queue;
        let mut waiting = queue.waiting.lock();
        loop {
            let due = waiting.since.map(|since| since + self.core.options.commit_interval);
            let ready =
                waiting.full() || waiting.asked > waiting.reached || due.is_some_and(|due| due <= Instant::now());
            if ready || waiting.stop.is_some() {
                break;
            }
            match due {
                Some(due) => _ = queue.wake.wait_until(&mut waiting, due),
                None => queue.wake.wait(&mut waiting),
            }
        }
        waiting.since = None;
        let group = Group {
            notes: std::mem::take(&mut waiting.notes),
            pieces: std::mem::take(&mut waiting.pieces),
            left: std::mem::take(&mut waiting.left),
            bytes: waiting.bytes,
        };
        (group, waiting.asked, waiting.stop)
    }

    fn commit(&mut self, group: Group) {
        let Group { mut notes, mut pieces, .. } = group;
        notes.splice(0..0, std::mem::take(&mut self.left));
        pieces.retain(|(shelf, written)| shelf.still_holds(written));
        pieces.sort_unstable_by_key(|(shelf, written)| (shelf.id(), written.piece));
        self.sync_data(&pieces);
        if self.broken {
            // The rewritten index speaks of everything that is here.
            if !self.rewrite() {
                self.left = notes;
            }
            return;
        }
        let notes_len = notes.len();
        notes.extend(runs(&pieces));
        if notes.is_empty() {
            return;
        }
        if let Err(error) = self.append(&notes) {
            self.index_failed(&error);
            notes.truncate(notes_len);
            self.left = notes;
        }
    }

    /// Syncs the files of a group. What cannot be synced is not here any more.
    fn sync_data(&self, pieces: &[(Arc<Shelf>, Written)]) {
        if self.core.medium == Medium::Mem || pieces.is_empty() {
            return;
        }
        let mut files = FxHashMap::default();
        for (shelf, written) in pieces {
            files.insert((shelf.id(), shelf.file_number(written.slot)), shelf);
        }
        if files.len() > FEW_FILES && rustix::fs::syncfs(&self.core.root).is_ok() {
            return;
        }
        for ((_, number), shelf) in files {
            shelf.sync_file(number);
        }
    }

    fn append(&mut self, records: &[Record]) -> std::io::Result<()> {
        let mut groups = self.log.groups();
        records.iter().for_each(|record| groups.push(record));
        let appended = groups.finish().and_then(|()| self.log.sync());
        self.recharge(0);
        appended
    }

    /// Charges the index as long as it is now, and keeps room for writing it anew.
    fn recharge(&mut self, beside: u64) {
        let space = &self.core.space;
        let cost = |len: u64| len.next_multiple_of(space.block) + file_bytes(len, space.block);
        let now = cost(self.log.len()) + cost(beside);
        space.charge(now);
        space.release(self.charged);
        self.charged = now;
        space.set_headroom(self.needed() + (GROUP_RECORDS as u64 * PIECE_RECORD).min(space.quota / 16));
    }

    /// Bytes of an index without garbage, at most.
    fn needed(&self) -> u64 {
        self.core.registry.lock().pieces() * PIECE_RECORD
    }

    fn worth_rewriting(&self, times: u64) -> bool {
        self.broken || self.log.len() > SHORTEST_REWRITE.max(times * self.needed())
    }

    /// Writes the index anew, with only what is here. Whether it worked.
    fn rewrite(&mut self) -> bool {
        let beside = match self.log.successor() {
            // No fault of the disk, and the log is as good as it was.
            Err(error)
                if Errno::from_io_error(&error)
                    .is_some_and(|error| is_want_of_descriptors(error) || is_out_of_inodes(error)) =>
            {
                return false;
            }
            beside => beside.map_err(|error| self.unwritable(&error)),
        };
        match beside.and_then(|log| self.try_rewrite(log)) {
            Ok(log) => {
                self.log = log;
                self.broken = false;
                self.recharge(0);
                true
            }
            Err(error) => {
                tracing::warn!(path = %self.core.path.display(), %error, "cannot rewrite the tier's index");
                self.core.pulse.failed(Instant::now());
                self.broken = true;
                self.recharge(0);
                false
            }
        }
    }

    fn unwritable(&self, error: &std::io::Error) -> crate::Error {
        crate::Error::io("write the index of", &self.core.path, error)
    }

    fn try_rewrite(&mut self, mut log: Log) -> Result<Log> {
        let mut groups = log.groups();
        groups.push(&Record::Opened);
        self.core.registry.lock().for_each(|define, forgotten, found, shelf| {
            let Record::Define { dataset, .. } = define else { return };
            groups.push(&define);
            if forgotten {
                groups.push(&Record::Forget { dataset });
            }
            for (&key, found) in found {
                let key = crate::id::FileKey(key.to_be_bytes());
                found.pieces.for_each(|first, crc| {
                    groups.push(&match found.pieces.cell() {
                        Some(cell) => Record::Cell { dataset, key, size: found.size as u32, cell, crc },
                        None => Record::Pieces { dataset, key, size: found.size, first, crcs: vec![crc] },
                    });
                });
            }
            if let Some(shelf) = shelf {
                shelf.for_each_run(|record| groups.push(&record));
            }
        });
        groups.finish().map_err(|error| self.unwritable(&error))?;
        // Pieces that were written but not committed are in it: their bytes first, then the new name.
        if self.core.medium != Medium::Mem {
            rustix::fs::syncfs(&self.core.root).map_err(|error| self.unwritable(&error.into()))?;
        }
        let beside = log.len();
        self.recharge(beside);
        log.install()
    }

    fn finish(mut self) {
        if self.worth_rewriting(4) && !self.rewrite() {
            return;
        }
        let all_known = self.left.is_empty() && !self.core.keeper.unfinished();
        if all_known && let Err(error) = self.append(&[Record::Closed]) {
            tracing::warn!(path = %self.core.path.display(), %error, "cannot close the tier's index");
        }
    }
}

/// Releases cells that were left, of each shelf together.
fn release_left(mut left: Vec<(Arc<Shelf>, LeftCell)>) {
    left.sort_unstable_by_key(|(shelf, _)| shelf.id());
    for of_shelf in left.chunk_by(|a, b| a.0.id() == b.0.id()) {
        let cells: Vec<LeftCell> = of_shelf.iter().map(|(_, cell)| *cell).collect();
        of_shelf[0].0.release_left(&cells);
    }
}

/// Records of pieces that are still here, neighbours in one.
fn runs(pieces: &[(Arc<Shelf>, Written)]) -> Vec<Record> {
    let mut runs: Vec<Record> = Vec::new();
    let mut before: Option<(u16, u32, u32)> = None;
    for (shelf, written) in pieces {
        let Some((record, crc)) = shelf.record_of(written) else { continue };
        let adjacent = before == Some((shelf.id(), written.slot, written.piece));
        match runs.last_mut() {
            Some(Record::Pieces { crcs, .. }) if adjacent => crcs.push(crc),
            _ => runs.push(record),
        }
        before = Some((shelf.id(), written.slot, written.piece + 1));
    }
    runs
}
