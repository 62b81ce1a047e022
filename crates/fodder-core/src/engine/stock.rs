//! What one dataset holds in one tier: a shelf of bytes, and the policy that orders them.
//!
//! The shelf knows where bytes are, the policy who goes next; this is the only place where the two meet.

use super::{
    guest::Guests,
    hold::{Holds, Reason},
    job::{Note, Notices},
    retired::{Ends, Retired},
};
use crate::{
    config::Medium,
    id::{ObjectSlot, PieceId},
    tier::Shelf,
};
use fodder_policy::{Pressure, Residency, Signal, residency::Explanation};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// One dataset's stock in one tier.
#[derive(Debug)]
pub(super) struct Stock {
    pub(super) shelf: Arc<Shelf>,
    pub(super) medium: Medium,
    policy: Mutex<Box<dyn Residency>>,
    heeds_hits: bool,
    heeds_plans: bool,
    heeds_next_use: bool,
    heeds_neighbours: bool,
    notices: Arc<Notices>,
    /// What jobs are about to read.
    pub(super) holds: Holds,
    /// The most this dataset may hold here: `u64::MAX` where only its share bounds it.
    cap_bytes: AtomicU64,
    /// Of that, claimed by pieces that are on their way.
    claimed_bytes: AtomicU64,
    born: Instant,
    /// Milliseconds after `born` at which it was last read.
    last_read: AtomicU64,
    /// Objects that the newest snapshot no longer has: evicted first.
    retired: Mutex<Retired>,
    /// What is here and belongs to other nodes: next to go.
    guests: Guests,
    /// Of that, what has another owner since not long ago, who may still look for it: it goes after them.
    sought: Guests,
    evicted: AtomicU64,
}

impl Stock {
    /// Puts a policy over what is on the shelf.
    pub(super) fn new(
        shelf: Arc<Shelf>,
        medium: Medium,
        mut policy: Box<dyn Residency>,
        notices: Arc<Notices>,
        piece_bytes: u32,
    ) -> Self {
        for piece in shelf.pieces() {
            policy.inserted(piece.0, piece_bytes);
        }
        Self {
            shelf,
            medium,
            heeds_hits: policy.heeds_hits(),
            heeds_plans: policy.heeds_plans(),
            heeds_next_use: policy.heeds_next_use(),
            heeds_neighbours: policy.heeds_neighbours(),
            notices,
            policy: Mutex::new(policy),
            holds: Holds::default(),
            cap_bytes: AtomicU64::new(u64::MAX),
            claimed_bytes: AtomicU64::new(0),
            born: Instant::now(),
            last_read: AtomicU64::new(0),
            retired: Mutex::default(),
            guests: Guests::default(),
            sought: Guests::default(),
            evicted: AtomicU64::new(0),
        }
    }

    /// Pieces were read from the shelf. Why one of them was held, if one was.
    pub(super) fn hit(&self, pieces: Range<u32>) -> Option<Reason> {
        self.touch();
        if self.heeds_hits {
            let mut policy = self.policy.lock();
            pieces.clone().for_each(|piece| policy.hit(piece));
        }
        if self.holds.is_empty() { None } else { pieces.fold(None, |why, piece| self.holds.redeem(piece).or(why)) }
    }

    /// Whether the policy wants to know what jobs plan and consume.
    pub(super) fn heeds_plans(&self) -> bool {
        self.heeds_plans
    }

    /// Whether the policy wants to know when pieces are next needed.
    pub(super) fn heeds_next_use(&self) -> bool {
        self.heeds_next_use
    }

    /// Whether the policy wants to know what is alike.
    pub(super) fn heeds_neighbours(&self) -> bool {
        self.heeds_neighbours
    }

    /// Tells the policy what reads do not.
    pub(super) fn signal(&self, signal: Signal<'_>) {
        self.policy.lock().signal(signal);
    }

    /// Lets the policy do a little of what signals have left to do; whether there is more.
    pub(super) fn settle(&self, steps: usize) -> bool {
        self.policy.lock().settle(steps)
    }

    /// What a policy that chooses among others has chosen, and why.
    pub(super) fn explain(&self) -> Option<Explanation> {
        self.policy.lock().explain()
    }

    /// The piece here that may answer for a missing one.
    pub(super) fn stand_in(&self, piece: PieceId) -> Option<PieceId> {
        self.policy.lock().stand_in(piece.0).map(PieceId)
    }

    /// Whether the policy wants a piece that was missed.
    pub(super) fn admits(&self, piece: PieceId, bytes: u32, room: bool) -> bool {
        self.touch();
        self.policy.lock().admit(piece.0, bytes, room)
    }

    /// A piece was written to the shelf.
    pub(super) fn inserted(&self, piece: PieceId, bytes: u32, is_guest: bool) {
        self.guests.mark(piece, is_guest);
        self.sought.mark(piece, false);
        self.policy.lock().inserted(piece.0, bytes);
        self.notices.leave([Note::Inserted(piece.0)]);
    }

    /// The shelf lost pieces by itself (damaged, deleted behind our back). How many.
    pub(super) fn forget_lost(&self) -> u64 {
        let mut lost = self.shelf.drain_lost();
        // What was fetched again meanwhile is the policy's.
        lost.retain(|piece| !self.shelf.has(*piece));
        self.forget(&lost);
        lost.len() as u64
    }

    /// Names who goes next, and has the policy forget it: the caller takes it off the shelf. What a job is about to
    /// read is put off, unless the space is another's.
    pub(super) fn next_victim(&self, pressure: Pressure) -> Option<PieceId> {
        if let Some(overdue) = self.holds.overdue() {
            return Some(PieceId(overdue));
        }
        let mut policy = self.policy.lock();
        loop {
            let victim = policy.victim(pressure)?;
            policy.removed(victim);
            if pressure == Pressure::Yield || !self.holds.put_off(victim) {
                return Some(PieceId(victim));
            }
        }
    }

    /// Takes a piece off the shelf. How many left with it (a sealed object leaves whole).
    pub(super) fn evict(&self, piece: PieceId) -> u64 {
        let left = self.shelf.evict(piece);
        self.forget(&left);
        self.policy.lock().removed(piece.0);
        self.holds.forget(piece.0);
        self.guests.mark(piece, false);
        self.sought.mark(piece, false);
        self.evicted.fetch_add(left.len() as u64, Relaxed);
        left.len() as u64
    }

    /// Takes a whole object off the shelf. How many pieces left.
    pub(super) fn evict_object(&self, object: ObjectSlot) -> u64 {
        let left = self.shelf.evict_object(object);
        self.forget(&left);
        self.evicted.fetch_add(left.len() as u64, Relaxed);
        left.len() as u64
    }

    /// Sets the objects that the newest snapshot does not have.
    pub(super) fn retire(&self, retired: Retired) {
        *self.retired.lock() = retired;
    }

    /// Drops the next retired object that holds anything. False if there is none.
    pub(super) fn evict_retired(&self) -> bool {
        loop {
            let Some(object) = self.retired.lock().pop() else { return false };
            if self.evict_object(object) > 0 {
                return true;
            }
        }
    }

    /// Finds out anew which pieces are guests, and which of them their owners may look for.
    pub(super) fn recount_guests(&self, is_guest: impl Fn(PieceId) -> bool, is_sought: impl Fn(PieceId) -> bool) {
        for piece in self.shelf.pieces() {
            let is_guest = is_guest(piece);
            let is_sought = is_guest && is_sought(piece);
            self.guests.mark(piece, is_guest && !is_sought);
            self.sought.mark(piece, is_sought);
        }
    }

    /// Drops the next guest. False if there is none.
    pub(super) fn evict_guest(&self) -> bool {
        while let Some(guest) = self.guests.next().or_else(|| self.sought.next()) {
            if self.evict(guest) > 0 {
                return true;
            }
        }
        false
    }

    pub(super) fn has_guests(&self) -> bool {
        !self.guests.is_empty() || !self.sought.is_empty()
    }

    pub(super) fn has_retired(&self) -> bool {
        !self.retired.lock().is_empty()
    }

    /// Claims so much of what this dataset may hold here for a piece on its way. None if that is more than is left.
    pub(super) fn claim(self: &Arc<Self>, bytes: u64) -> Option<Claim> {
        let left = self.cap_bytes().saturating_sub(self.used_bytes());
        let fits = |claimed: u64| claimed.checked_add(bytes).filter(|claimed| *claimed <= left);
        self.claimed_bytes.try_update(Relaxed, Relaxed, fits).ok()?;
        Some(Claim { stock: Arc::clone(self), bytes })
    }

    pub(super) fn cap_bytes(&self) -> u64 {
        self.cap_bytes.load(Relaxed)
    }

    pub(super) fn set_cap_bytes(&self, bytes: u64) {
        self.cap_bytes.store(bytes, Relaxed);
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.shelf.used_bytes()
    }

    /// What it holds, and what is set aside for pieces on their way.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.used_bytes() + self.claimed_bytes.load(Relaxed)
    }

    pub(super) fn evicted_pieces(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Somebody reads it. Written seldom: on the warm path even a store that threads share is felt.
    fn touch(&self) {
        let now = self.born.elapsed().as_millis() as u64;
        if now >= self.last_read.load(Relaxed) + 1000 {
            self.last_read.store(now, Relaxed);
        }
    }

    /// How long nobody has read it, to a second.
    pub(super) fn idle_for(&self) -> Duration {
        self.born.elapsed().saturating_sub(Duration::from_millis(self.last_read.load(Relaxed)))
    }

    /// Bytes of memory its policy holds.
    pub(super) fn policy_memory_bytes(&self) -> usize {
        self.policy.lock().memory_bytes() + self.guests.memory_bytes() + self.sought.memory_bytes()
    }

    /// Pieces that are not here will have other numbers, and these will be those of others.
    pub(super) fn forget_signals(&self, pieces: &[u32]) {
        self.policy.lock().forget(pieces);
    }

    /// Objects that were removed not long ago, and keep what is cached of them.
    pub(super) fn in_grace(&self) -> FxHashSet<ObjectSlot> {
        self.retired.lock().in_grace()
    }

    /// When the grace of each removed object ends.
    pub(super) fn ends_of_grace(&self) -> Arc<Ends> {
        self.retired.lock().ends()
    }

    pub(super) fn forget(&self, pieces: &[PieceId]) {
        if !pieces.is_empty() {
            let mut policy = self.policy.lock();
            for piece in pieces {
                policy.removed(piece.0);
                self.holds.forget(piece.0);
                self.guests.mark(*piece, false);
                self.sought.mark(*piece, false);
            }
            drop(policy);
            self.notices.leave(pieces.iter().map(|piece| Note::Evicted(piece.0)));
        }
    }
}

/// A claim on what a dataset may hold, given back when dropped.
#[derive(Debug)]
pub(super) struct Claim {
    stock: Arc<Stock>,
    bytes: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.stock.claimed_bytes.fetch_sub(self.bytes, Relaxed);
    }
}
