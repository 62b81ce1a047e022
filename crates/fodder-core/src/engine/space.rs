//! The space of one tier, shared by the stocks of many datasets.
//!
//! Who makes room, in this order: objects that the newest snapshot has not got (removed ones after a grace period); copies of what other nodes own, for what this one
//! owns; datasets of earlier nodes that this one does not have; datasets that nobody reads, the longest idle first; datasets
//! that hold more than their share, if the newcomer's has less than its own; at last the newcomer's own policy, which may
//! rather keep the newcomer out.

use super::stock::{Claim, Stock};
use crate::{
    Result,
    config::TierConfig,
    id::PieceId,
    tier::{Reservation, Tier},
};
use fodder_policy::Pressure;
use parking_lot::RwLock;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Evictions for one newcomer. More than that means the space goes elsewhere (a disk that others fill), and the newcomer stays out.
const MAX_EVICTIONS: usize = 256;

/// Evictions of small objects for one newcomer: a large one may need the space of many.
const MAX_SMALL_EVICTIONS: usize = 32_768;

/// Where an admitted piece will go.
#[derive(Debug)]
pub(super) enum Place {
    /// Its space is set aside.
    Reserved(Room),
    /// Its space will be made when its bytes are there.
    ToMake,
}

/// Space that is set aside for a piece: in the tier, and in what its dataset may hold there.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) reservation: Reservation,
    /// Until the piece is on the shelf and counts as used.
    pub(super) claim: Claim,
}

impl Room {
    fn new(stock: &Arc<Stock>, reservation: Reservation, claim: Claim) -> Self {
        // The space of a small object is in use from the moment it is reserved.
        let claim = if reservation.is_charged() { stock.claim(0).unwrap_or(claim) } else { claim };
        Self { reservation, claim }
    }
}

/// One tier and everyone who keeps something in it.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) tier: Arc<Tier>,
    pub(super) path: PathBuf,
    stocks: RwLock<Vec<Arc<Stock>>>,
    /// A stock that nobody has read for longer yields before any other.
    idle_after: Duration,
    /// Datasets of which something is here are still to be added.
    awaits_datasets: AtomicBool,
}

impl Space {
    pub(super) fn open(config: &TierConfig, idle_after: Duration) -> Result<Self> {
        Ok(Self {
            tier: Tier::open(config)?,
            path: config.path.clone(),
            stocks: RwLock::default(),
            idle_after,
            awaits_datasets: AtomicBool::new(false),
        })
    }

    /// Whether datasets are still to be added. As long as they are, nothing that an earlier node left yields.
    pub(super) fn await_datasets(&self, awaits: bool) {
        self.awaits_datasets.store(awaits, Relaxed);
        self.tier.await_datasets(awaits);
    }

    pub(super) fn join(&self, stock: Arc<Stock>) {
        self.stocks.write().push(stock);
    }

    pub(super) fn leave(&self, stock: &Arc<Stock>) {
        self.stocks.write().retain(|other| !Arc::ptr_eq(other, stock));
    }

    /// Decides whether a piece that was missed shall be kept here: a guest only where there is room.
    pub(super) fn admit(&self, stock: &Arc<Stock>, piece: PieceId, bytes: u32, is_guest: bool) -> Option<Place> {
        if self.tier.rests() {
            return None;
        }
        let is_recovering = self.tier.is_recovering();
        let cost = stock.shelf.cost(piece);
        let claim = stock.claim(stock.shelf.charge(piece));
        let under_cap = claim.is_some();
        if let Some(claim) = claim
            && let Some(reservation) = stock.shelf.reserve_for(piece)
        {
            return stock.admits(piece, bytes, true).then(|| Place::Reserved(Room::new(stock, reservation, claim)));
        }
        if is_guest || is_recovering {
            return None;
        }
        let others_yield = || self.has_leftovers() || self.yielding_to(stock, cost).is_some();
        let room = stock.has_retired() || stock.has_guests() || (under_cap && others_yield());
        stock.admits(piece, bytes, room).then_some(Place::ToMake)
    }

    /// Makes room for a piece that was admitted. None if it must stay out after all.
    ///
    /// `demote` is offered every victim of the dataset's own policy before it is dropped.
    pub(super) fn make_room(&self, stock: &Arc<Stock>, piece: PieceId, demote: impl Fn(PieceId)) -> Option<Room> {
        let (mut evictions, mut small_evictions, mut is_flushed) = (0, 0, false);
        while evictions < MAX_EVICTIONS && small_evictions < MAX_SMALL_EVICTIONS {
            // What a small object costs depends on the room that others have left.
            let (cost, charge) = (stock.shelf.cost(piece), stock.shelf.charge(piece));
            if self.tier.rests() || cost > self.tier.quota_bytes() || charge > stock.cap_bytes() {
                return None;
            }
            let claim = stock.claim(charge);
            let under_cap = claim.is_some();
            if let Some(claim) = claim
                && let Some(reservation) = stock.shelf.reserve_for(piece)
            {
                return Some(Room::new(stock, reservation, claim));
            }
            // Clients may have open what would be evicted, and have not said so yet: that would free nothing.
            if self.tier.is_recovering() {
                return None;
            }
            if self.tier.is_compacting() && !is_flushed {
                // Perhaps enough has left already: its room is there with the next commit.
                self.tier.flush();
                is_flushed = true;
                continue;
            }
            (evictions, is_flushed) = (evictions + 1, false);
            if stock.evict_retired() || stock.evict_guest() || (under_cap && self.others_give_way(stock, cost)) {
                continue;
            }
            let victim = stock.next_victim(Pressure::Newcomer)?;
            demote(victim);
            if stock.shelf.is_small(victim) {
                (evictions, small_evictions) = (evictions - 1, small_evictions + 1);
            }
            self.evict_victim(stock, victim);
        }
        None
    }

    /// Evicts what the tier holds beyond its quota because a client reported a file that was not known: as many bytes, whether
    /// or not clients have them open.
    pub(super) fn shrink(&self) {
        let excess = self.tier.excess_bytes();
        let mut evicted = 0;
        while evicted < excess {
            let stocks = self.stocks.read().clone();
            let Some(largest) = stocks.iter().max_by_key(|stock| stock.used_bytes()) else { return };
            let Some(victim) = largest.next_victim(Pressure::Yield) else { return };
            evicted += largest.shelf.footprint(victim).max(1);
            largest.evict(victim);
        }
    }

    /// How much a stock may hold here: its cap, or a fair share.
    pub(super) fn share_of(&self, stock: &Stock) -> u64 {
        match stock.cap_bytes() {
            u64::MAX => fair_share(self.tier.quota_bytes(), &self.stocks.read()),
            cap => cap.min(self.tier.quota_bytes()),
        }
    }

    fn others_give_way(&self, stock: &Arc<Stock>, cost: u64) -> bool {
        let retired = self.stocks.read().iter().find(|other| other.has_retired()).cloned();
        if retired.is_some_and(|other| other.evict_retired())
            || (self.has_leftovers() && self.tier.evict_unattached(cost))
        {
            return true;
        }
        let Some(other) = self.yielding_to(stock, cost) else { return false };
        other.next_victim(Pressure::Yield).is_some_and(|victim| {
            self.evict_victim(&other, victim);
            true
        })
    }

    /// Evicts what a policy chose: its whole object where the file system lacks inodes, because a piece frees none.
    fn evict_victim(&self, stock: &Stock, victim: PieceId) {
        let whole = self.tier.lacks_inodes();
        stock.evict(victim);
        if whole && let Some(object) = stock.shelf.object_containing(victim) {
            stock.evict_object(object);
        }
    }

    /// Whether there is something of datasets that an earlier node had and this one does not.
    fn has_leftovers(&self) -> bool {
        !self.awaits_datasets.load(Relaxed) && self.tier.has_unattached()
    }

    /// The stock that owes its space to `stock` before any other.
    fn yielding_to(&self, stock: &Arc<Stock>, cost: u64) -> Option<Arc<Stock>> {
        let stocks = self.stocks.read();
        let others = || stocks.iter().filter(|other| !Arc::ptr_eq(other, stock) && other.used_bytes() > 0);
        let idle = others().max_by_key(|other| other.idle_for());
        if let Some(idle) = idle.filter(|idle| idle.idle_for() > self.idle_after) {
            return Some(Arc::clone(idle));
        }
        let fair = fair_share(self.tier.quota_bytes(), &stocks);
        let share = |stock: &Stock| if stock.cap_bytes() == u64::MAX { fair } else { stock.cap_bytes() };
        if stock.taken_bytes() + cost > share(stock) {
            return None;
        }
        let excess = |other: &Stock| other.used_bytes().saturating_sub(share(other));
        others().filter(|other| excess(other) > 0).max_by_key(|other| excess(other)).cloned()
    }
}

/// What each dataset without a quota of its own may count on: an equal part of what the quotas leave.
fn fair_share(tier_bytes: u64, stocks: &[Arc<Stock>]) -> u64 {
    let capped: u64 = stocks.iter().map(|stock| stock.cap_bytes()).filter(|cap| *cap != u64::MAX).sum();
    let free = stocks.iter().filter(|stock| stock.cap_bytes() == u64::MAX).count() as u64;
    tier_bytes.saturating_sub(capped).checked_div(free).unwrap_or(tier_bytes)
}
