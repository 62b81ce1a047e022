//! The plan of one epoch and what of it was consumed, computed here as it is at a node: a loader knows its ids, its audit
//! and its checkpoint without asking anybody.

use crate::{
    error::{raise, raise_policy},
    job::{audit, unpack},
};
use fodder_api::{Error, v1};
use fodder_policy::{
    ledger::{Checkpoint, Ledger},
    plan::{self, Deal, Order, Rest, Share, Snapshot, Uneven},
    serving::{Kind, Served},
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::sync::{Arc, Mutex, PoisonError};

/// One epoch of a job, dealt out to ranks.
#[pyclass(frozen, module = "fodder._fodder")]
#[derive(Debug)]
pub(crate) struct Plan {
    deal: Deal,
    /// From where the ranks began, if not from the beginning.
    base: Option<Checkpoint>,
    ledger: Mutex<Ledger>,
}

#[pymethods]
impl Plan {
    /// A whole epoch.
    #[new]
    #[pyo3(signature = (snapshot, items, epoch, *, seed = None, ids = None, world = 1, uneven = "pad"))]
    fn new(
        snapshot: &str,
        items: u32,
        epoch: u64,
        seed: Option<u64>,
        ids: Option<&[u8]>,
        world: u32,
        uneven: &str,
    ) -> PyResult<Self> {
        let plan = plan::Plan::new(seen(snapshot, items)?, epoch, order(seed, ids)?).map_err(raise_policy)?;
        let rest = Rest::whole(plan.len());
        Self::dealt(plan, rest, share(world, uneven)?, None)
    }

    /// The rest of an epoch.
    #[staticmethod]
    #[pyo3(signature = (checkpoint, snapshot, items, *, ids = None, world = 1, uneven = "pad"))]
    fn resume(
        checkpoint: &[u8],
        snapshot: &str,
        items: u32,
        ids: Option<&[u8]>,
        world: u32,
        uneven: &str,
    ) -> PyResult<Self> {
        let checkpoint = Checkpoint::decode(checkpoint, seen(snapshot, items)?).map_err(raise_policy)?;
        let plan = checkpoint.plan(ids.map(|ids| unpack(ids).into())).map_err(raise_policy)?;
        let rest = checkpoint.rest();
        Self::dealt(plan, rest, share(world, uneven)?, Some(checkpoint))
    }

    #[getter]
    fn epoch(&self) -> u64 {
        self.deal.plan().epoch()
    }

    /// How many items the epoch has for all ranks, from its beginning.
    fn __len__(&self) -> usize {
        self.deal.plan().len() as usize
    }

    /// How many items a rank has.
    fn share_of(&self, rank: u32) -> u32 {
        self.deal.slice(rank).len()
    }

    /// The ids of a rank in order from `start` on, at most `count`, and for each whether it is a pad.
    fn ids<'py>(
        &self,
        py: Python<'py>,
        rank: u32,
        start: u32,
        count: u32,
    ) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let (ids, pads) = py.detach(|| {
            let slice = self.deal.slice(rank);
            let end = start.saturating_add(count).min(slice.len());
            let (mut ids, mut pads) = (Vec::new(), Vec::new());
            for place in (start..end).filter_map(|index| slice.at(index)) {
                ids.extend_from_slice(&place.id.to_ne_bytes());
                pads.push(u8::from(place.pad));
            }
            (ids, pads)
        });
        (PyBytes::new(py, &ids), PyBytes::new(py, &pads))
    }

    /// What a rank has not taken yet, in order, and for each whether it is a pad: whatever the mode, a rank is given what
    /// is in its own share. `pads` of its pads were taken.
    fn left<'py>(&self, py: Python<'py>, rank: u32, pads: u32) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let (ids, flags) = py.detach(|| {
            let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            let (slice, plan) = (self.deal.slice(rank), self.deal.plan());
            let (mut ids, mut flags, mut passed) = (Vec::new(), Vec::new(), 0);
            for place in (0..slice.len()).filter_map(|index| slice.at(index)) {
                let is_taken = if place.pad {
                    passed += 1;
                    passed <= pads
                } else {
                    plan.position_of(place.id).is_some_and(|position| ledger.is_consumed(position))
                };
                if !is_taken {
                    ids.extend_from_slice(&place.id.to_ne_bytes());
                    flags.push(u8::from(place.pad));
                }
            }
            (ids, flags)
        });
        (PyBytes::new(py, &ids), PyBytes::new(py, &flags))
    }

    /// A rank's loop took a batch: what was asked for, what was served, and how they relate, as the batch says it.
    fn take(&self, rank: u32, asked: Vec<u32>, served: Vec<u32>, deliveries: Vec<String>) -> PyResult<()> {
        let rows = asked.into_iter().zip(served).zip(&deliveries);
        let items: Arc<[Served]> = rows
            .map(|((asked, served), delivery)| {
                let kind = match delivery.as_str() {
                    "reordered" => Kind::Reordered,
                    "substituted" => Kind::Substituted,
                    "pad" => Kind::Pad,
                    _ => Kind::Planned,
                };
                Served { asked, served, kind }
            })
            .collect();
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        consume(&mut ledger, &self.deal, rank, items).map_err(raise_policy)
    }

    /// What is needed to go on after what was taken here.
    fn checkpoint<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        PyBytes::new(py, &ledger.checkpoint(self.deal.plan()).encode())
    }

    /// What is needed to go on when each rank has taken its first `count` items, in the order planned.
    fn checkpoint_in_step<'py>(&self, py: Python<'py>, count: u32) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            let mut ledger = self.fresh();
            for rank in 0..self.deal.share().world() {
                let slice = self.deal.slice(rank);
                let places = (0..count.min(slice.len())).filter_map(|index| slice.at(index));
                let kind = |pad| if pad { Kind::Pad } else { Kind::Planned };
                let items = places.map(|place| Served { kind: kind(place.pad), ..Served::planned(place.id) }).collect();
                consume(&mut ledger, &self.deal, rank, items)?;
            }
            Ok(ledger.checkpoint(self.deal.plan()).encode())
        });
        Ok(PyBytes::new(py, &bytes.map_err(raise_policy)?))
    }

    /// Checkpoints that several ranks made of this epoch, as one.
    fn merge<'py>(&self, py: Python<'py>, checkpoints: Vec<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
        let snapshot = self.deal.plan().snapshot();
        let mut merged = self.fresh().checkpoint(self.deal.plan());
        for checkpoint in checkpoints {
            let checkpoint = Checkpoint::decode(&checkpoint, snapshot).map_err(raise_policy)?;
            merged.merge(&checkpoint).map_err(raise_policy)?;
        }
        Ok(PyBytes::new(py, &merged.encode()))
    }

    /// What was taken here comes to.
    fn audit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        audit(py, &v1::Audit::from(ledger.audit(&self.deal)))
    }
}

impl Plan {
    fn dealt(plan: plan::Plan, rest: Rest, share: Share, base: Option<Checkpoint>) -> PyResult<Self> {
        let deal = Deal::new(Arc::new(plan), rest, share);
        let ledger = Mutex::new(begun(&deal, base.as_ref()));
        Ok(Self { deal, base, ledger })
    }

    /// The ledger as it was when the ranks began.
    fn fresh(&self) -> Ledger {
        begun(&self.deal, self.base.as_ref())
    }
}

fn begun(deal: &Deal, base: Option<&Checkpoint>) -> Ledger {
    match base {
        Some(base) => Ledger::resume(base.clone(), deal),
        None => Ledger::new(deal),
    }
}

/// Notes a batch as delivered and consumed at once.
fn consume(ledger: &mut Ledger, deal: &Deal, rank: u32, items: Arc<[Served]>) -> fodder_policy::Result<()> {
    let number = ledger.next_number(rank)?;
    ledger.deliver(&deal.slice(rank), items.len() as u32, items)?;
    ledger.acknowledge(deal, rank, number).map(drop)
}

/// The order that a seed or a list gives.
pub(crate) fn order(seed: Option<u64>, ids: Option<&[u8]>) -> PyResult<Order> {
    match (seed, ids) {
        (_, Some(ids)) => Ok(Order::Ids(unpack(ids).into())),
        (Some(seed), None) => Ok(Order::Seed(seed)),
        (None, None) => Err(raise(Error::Invalid("a plan needs a seed or a list of ids".into()))),
    }
}

/// What ranks do with what does not divide, by its name.
pub(crate) fn uneven(name: &str) -> PyResult<Uneven> {
    match name {
        "pad" => Ok(Uneven::Pad),
        "drop" => Ok(Uneven::Drop),
        "exact" => Ok(Uneven::Exact),
        _ => Err(raise(Error::Invalid(format!("unknown value {name:?}: use pad, drop or exact")))),
    }
}

fn share(world: u32, name: &str) -> PyResult<Share> {
    Share::new(world, uneven(name)?).map_err(raise_policy)
}

/// A snapshot as plans see it: they call it by the first half of its id.
fn seen(snapshot: &str, items: u32) -> PyResult<Snapshot> {
    let id = u128::from_str_radix(snapshot, 16)
        .map_err(|_| raise(Error::Invalid(format!("{snapshot:?} is not a snapshot id (32 hexadecimal digits)"))))?;
    let half: [u8; 8] = id.to_be_bytes()[..8].try_into().expect("eight bytes");
    Ok(Snapshot { fingerprint: u64::from_le_bytes(half), items })
}
