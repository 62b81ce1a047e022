//! What other nodes have told this one to bring in: begun, asked about, and ended when nobody asks any more.

use crate::warm::{Unknown, message};
use fodder_api::v1::{PeerWarmOrder, PeerWarmQuestion, WarmProgress};
use fodder_core::{
    Dataset, Engine, Error, Result,
    engine::warm::{Order, Selection, Share, Warming},
    id::{ObjectSlot, SnapshotId},
};
use futures::FutureExt;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Orders at a time; whoever has more waits.
const MAX_ORDERS: usize = 16;
/// Who does not ask how far its order is for so long is gone, and the order with it.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(5);

/// What is said of an order that is not known here.
pub(super) const NO_ORDER: &str = "this node has no such warm-up";

/// The orders of other nodes.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    all: Mutex<HashMap<[u8; 16], Held>>,
}

#[derive(Debug)]
struct Held {
    asked_at: Instant,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// More paths are to come.
    Listing(Vec<ObjectSlot>),
    Running(Warming),
}

impl Orders {
    /// Takes an order, or more of its paths, and begins with the last of them.
    pub(crate) async fn begin(self: &Arc<Self>, engine: &Engine, order: PeerWarmOrder) -> Result<WarmProgress> {
        let name = name(&order.order)?;
        let dataset = engine.dataset(&order.dataset)?;
        same_listing(&dataset, &order.snapshot).await?;
        let mut slots = match self.take(&name) {
            Some(Stage::Listing(slots)) => slots,
            _ => Vec::new(),
        };
        let snapshot = dataset.snapshot();
        slots.extend(order.paths.iter().filter_map(|path| snapshot.lookup(path)));
        if slots.len() > snapshot.object_count() as usize {
            return Err(Error::Invalid("a list with more paths than there are objects".into()));
        }
        let stage = if order.listed && order.more {
            Stage::Listing(slots)
        } else {
            let selection = match (order.listed, order.shown) {
                (true, _) => Selection::Objects(slots),
                (false, true) => Selection::Shown(order.path),
                (false, false) => Selection::Path(order.path),
            };
            Stage::Running(dataset.warm(Order {
                selection,
                share: if order.copies { Share::Copies } else { Share::Owned },
                max_bytes: order.max_bytes,
                bytes_per_second: Some(order.bytes_per_second).filter(|rate| *rate > 0),
                workers: order.workers as usize,
            })?)
        };
        self.keep(name, stage)?;
        Ok(WarmProgress::default())
    }

    /// How far an order is; ends it, if it is to end or has ended.
    pub(crate) fn answer(&self, question: &PeerWarmQuestion) -> Result<WarmProgress> {
        let name = name(&question.order)?;
        let mut all = self.all.lock();
        let Some(held) = all.get_mut(&name) else {
            // To end what has ended is no mistake.
            return if question.stop { Ok(WarmProgress::default()) } else { Err(Error::NotFound(NO_ORDER.into())) };
        };
        held.asked_at = Instant::now();
        let answer = match &mut held.stage {
            Stage::Listing(_) => Ok(WarmProgress::default()),
            Stage::Running(warming) => match warming.ended().now_or_never() {
                Some(Err(error)) => Err(error),
                _ => Ok(message(warming.progress(), &Unknown::default())),
            },
        };
        if question.stop || answer.is_err() {
            all.remove(&name);
        }
        answer
    }

    fn take(&self, name: &[u8; 16]) -> Option<Stage> {
        self.all.lock().remove(name).map(|held| held.stage)
    }

    fn keep(self: &Arc<Self>, name: [u8; 16], stage: Stage) -> Result<()> {
        let mut all = self.all.lock();
        if all.len() >= MAX_ORDERS {
            return Err(Error::Full(format!("this node already runs {MAX_ORDERS} warm-ups of other nodes")));
        }
        let is_first = all.is_empty();
        all.insert(name, Held { asked_at: Instant::now(), stage });
        drop(all);
        if is_first {
            let orders = Arc::downgrade(self);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(LOOK).await;
                    let Some(orders) = orders.upgrade() else { return };
                    let mut all = orders.all.lock();
                    all.retain(|_, held| held.asked_at.elapsed() < FORGOTTEN);
                    if all.is_empty() {
                        return;
                    }
                }
            });
        }
        Ok(())
    }
}

fn name(bytes: &[u8]) -> Result<[u8; 16]> {
    bytes.try_into().map_err(|_| Error::Invalid("the id of a warm-up has 16 bytes".into()))
}

/// Makes sure that both nodes mean the same objects: this one lists the origin again, if it must.
async fn same_listing(dataset: &Arc<Dataset>, wanted: &[u8]) -> Result<()> {
    let is_same = || dataset.snapshot().id() == SnapshotId(wanted.try_into().unwrap_or_default());
    if !is_same() {
        dataset.refresh().await?;
    }
    if !is_same() {
        let name = &dataset.config().name;
        let text = format!("this node has another listing of {name:?}: run `fodder index {name}` on all nodes");
        return Err(Error::Stale(text));
    }
    Ok(())
}
