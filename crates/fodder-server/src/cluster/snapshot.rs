//! Snapshots that this node has not: asked of the others by name, page by page, and taken if they are what the name says.
//!
//! Whoever is asked answers from what it has, so there are no circles. Those who have it are asked one after the other, and
//! one snapshot is taken at a time. What a snapshot is, and whether what came is it, the engine decides.

use super::{Peering, peer::Failure};
use fodder_api::v1::{PeerMessage, SnapshotPage, SnapshotQuestion, peer_message, peer_reply};
use fodder_core::{
    Dataset, Engine, Error, Result,
    catalog::{Arriving, Snapshot},
    id::SnapshotId,
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// Bytes in one page, of what a frame has room for.
const PAGE: u32 = 512 << 10;

/// How long others may take to say whether they have it, and for one page of it.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(1_500), Duration::from_secs(5));

/// How long somebody waits for a snapshot. What has come by then is not lost: it is taken to the end.
const DEADLINE: Duration = Duration::from_secs(120);

/// How long one is not asked for again that came and could not be taken, and that nobody had.
const AGAIN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(1));

/// What is asked for, and was lately.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// Held by whoever takes one.
    turn: tokio::sync::Mutex<()>,
    /// Those that are not asked for again until then, by dataset and by how they begin.
    until: Mutex<HashMap<(String, Vec<u8>), Instant>>,
}

impl Asking {
    fn may_ask(&self, dataset: &str, name: &[u8]) -> bool {
        let mut until = self.until.lock();
        until.retain(|_, until| *until > Instant::now());
        !until.contains_key(&(dataset.to_owned(), name.to_owned()))
    }

    fn put_off(&self, dataset: &str, name: &[u8], time: Duration) {
        self.until.lock().insert((dataset.to_owned(), name.to_owned()), Instant::now() + time);
    }
}

impl Peering {
    /// The snapshot whose id begins with `name`: if it is not here, from whoever has it.
    pub(crate) async fn pull_snapshot(&self, dataset: &Arc<Dataset>, name: &[u8]) -> Option<Arc<Snapshot>> {
        let here = || dataset.snapshot_beginning(name);
        if here().is_some() || self.is_alone() {
            return here();
        }
        timeout(DEADLINE, self.pull_in_turn(dataset, name)).await.ok().flatten().or_else(here)
    }

    async fn pull_in_turn(&self, dataset: &Arc<Dataset>, name: &[u8]) -> Option<Arc<Snapshot>> {
        let _turn = self.asking.turn.lock().await;
        let of = &dataset.config().name;
        let here = dataset.snapshot_beginning(name);
        if here.is_some() || !self.asking.may_ask(of, name) {
            return here;
        }
        let who = self.who_has(dataset, name).await;
        let again = if who.is_empty() { AGAIN.1 } else { AGAIN.0 };
        for other in who {
            match self.pull_snapshot_from(other, dataset, name).await {
                Ok(snapshot) => {
                    tracing::info!(dataset = of, snapshot = %snapshot.id(), "took a snapshot from another node");
                    // It may be newer than what is here: only the origin knows.
                    if self.may_refresh(of) {
                        dataset.refresh_aside();
                    }
                    return Some(snapshot);
                }
                Err(error) => tracing::warn!(dataset = of, %error, "a snapshot is not taken from another node"),
            }
        }
        self.asking.put_off(of, name, again);
        None
    }

    /// Who says to have it. All are asked at once; those of an older version have none to give.
    async fn who_has(&self, dataset: &Arc<Dataset>, name: &[u8]) -> Vec<u128> {
        let others: Vec<u128> = self.view().peers().map(|peer| peer.id).collect();
        let asked = others.into_iter().map(|other| async move {
            let page = self.page_of_snapshot(other, dataset, name, 0, 0, PATIENCE.0).await;
            page.ok().filter(|page| !page.snapshot.is_empty()).map(|_| other)
        });
        futures::future::join_all(asked).await.into_iter().flatten().collect()
    }

    async fn pull_snapshot_from(&self, other: u128, dataset: &Arc<Dataset>, name: &[u8]) -> Result<Arc<Snapshot>> {
        let at = Arc::clone(dataset);
        let mut arriving = aside(move || at.arriving()).await?;
        let (mut id, mut from) = (None, 0);
        loop {
            let page = self.page_of_snapshot(other, dataset, name, from, PAGE, PATIENCE.1).await?;
            let theirs = page.snapshot[..].try_into().ok().filter(|id: &[u8; 16]| id.starts_with(name)).map(SnapshotId);
            let theirs = theirs.ok_or_else(|| Error::NotFound("it has not got it any more".into()))?;
            if *id.get_or_insert(theirs) != theirs {
                return Err(Error::Corrupt("it tells of two snapshots at once".into()));
            }
            arriving = aside(move || arriving.push(&page.told).map(|()| arriving)).await?;
            match page.next {
                // It must come to an end, whatever the other says.
                Some(next) if next > from => from = next,
                Some(_) => return Err(Error::Corrupt("it tells the same again and again".into())),
                None => return self.take_snapshot(other, dataset, theirs, arriving).await,
            }
        }
    }

    async fn take_snapshot(
        &self,
        other: u128,
        dataset: &Arc<Dataset>,
        id: SnapshotId,
        arriving: Arriving,
    ) -> Result<Arc<Snapshot>> {
        if !arriving.is(id) {
            let why = format!("what it tells as snapshot {id} is something else");
            if let Some(peer) = self.view().peers().find(|peer| peer.id == other) {
                peer.failed(&Failure::Lied(why.clone()), None, self.ways().now());
            }
            return Err(Error::Corrupt(why));
        }
        dataset.adopt(id, arriving).await
    }

    async fn page_of_snapshot(
        &self,
        other: u128,
        dataset: &Arc<Dataset>,
        name: &[u8],
        from: u64,
        most_bytes: u32,
        patience: Duration,
    ) -> Result<SnapshotPage> {
        let question = SnapshotQuestion {
            dataset: dataset.config().name.clone(),
            identity: dataset.identity().to_vec().into(),
            snapshot: name.to_vec().into(),
            from,
            most_bytes,
        };
        let message = PeerMessage { message: Some(peer_message::Message::SnapshotFrom(question)) };
        let late = |_| Error::Unavailable(format!("it did not answer within {patience:?}"));
        let reply = timeout(patience, self.tell(other, &message)).await.map_err(late)?;
        match reply.map_err(|failure| Error::Unavailable(failure.to_string()))?.reply {
            Some(peer_reply::Reply::SnapshotPage(page)) => Ok(page),
            _ => Err(Error::Unavailable("it does not know the question".into())),
        }
    }
}

/// Answers a node that lacks a snapshot, from what is here.
pub(super) async fn answer(engine: &Arc<Engine>, asked: SnapshotQuestion) -> Result<SnapshotPage> {
    let dataset = engine.dataset(&asked.dataset)?;
    let is_of_this = matches!(asked.snapshot.len(), 8 | 16) && dataset.identity() == asked.identity[..];
    let found = is_of_this.then(|| dataset.snapshot_beginning(&asked.snapshot)).flatten();
    let Some(snapshot) = found else { return Ok(SnapshotPage::default()) };
    let id = snapshot.id().0.to_vec().into();
    if asked.most_bytes == 0 {
        return Ok(SnapshotPage { snapshot: id, next: Some(0), ..SnapshotPage::default() });
    }
    let most_bytes = asked.most_bytes.min(PAGE) as usize;
    let (told, next) = aside(move || Ok(snapshot.tell(asked.from, most_bytes))).await?;
    Ok(SnapshotPage { snapshot: id, told: told.into(), next })
}

/// What waits for a disk, away from the threads that serve.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}
