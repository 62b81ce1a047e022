//! What the engine sees of the other nodes: who they are, how long each may take, and what they are asked.

use super::{
    job::waiting::Waiting,
    peer::{Failure, Given, Peer, PeerStatus, Ways},
    race::{Lost, race},
    snapshot::Asking,
    token::Token,
    trust::Trust,
    view::{Ask, Contents, Manner, Neighbour, View},
};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use fodder_api::v1::{PeerMessage, PeerReply};
use fodder_core::{
    Dataset,
    engine::peer::{self, Peers, Role, Wanted},
    id::FileKey,
    job::{Embeddings, PlanSnapshot, Scores},
};
use fodder_policy::placement::MAX_LOADS;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Notify, time::timeout};

/// How long each step of asking a peer may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Until a connection is there, greeted and proven.
    pub connect: Duration,
    /// Until the first bytes come, or the word that they will: then the next is asked beside it.
    pub hedge: Duration,
    /// Until the first bytes or that word must have come, from anybody.
    pub first_word: Duration,
    /// Between one word that an answer will come and the next; and all that its parts may be late together.
    pub progress: Duration,
    /// How long a peer may go on saying that the bytes will come.
    pub coming: Duration,
    /// How long a peer may take to fetch what it is told to own.
    pub hand_over: Duration,
}

impl Patience {
    /// The longest that a read waits for nodes that say nothing more: for one that answers in the last moment that it is not
    /// the owner, for the next, and for the rest of what that one has begun to send.
    pub fn longest(&self) -> Duration {
        self.first_word + self.hedge + self.progress
    }

    /// All steps as long as they are by default, measured by how long a first word may take.
    pub fn with_first_word(first_word: Duration) -> Self {
        let all = Self::default();
        let stretch = |step: Duration| step.mul_f64(first_word.as_secs_f64() / all.first_word.as_secs_f64());
        let (connect, hedge) = (stretch(all.connect), stretch(all.hedge));
        // Also a patient peer says only now and then that bytes will come.
        let progress = stretch(all.progress).max(MIN_PROGRESS);
        let coming = all.coming.max(progress);
        Self { connect, hedge, first_word, progress, coming, ..all }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(400),
            hedge: Duration::from_millis(300),
            first_word: Duration::from_millis(800),
            progress: Duration::from_millis(600),
            coming: Duration::from_secs(60),
            hand_over: Duration::from_secs(60),
        }
    }
}

/// How often, and how far apart, somebody is asked again who says that it is not the owner.
const AGAIN: (u32, Duration) = (4, Duration::from_millis(50));

/// Three times the time between two words of a peer that bytes will come.
const MIN_PROGRESS: Duration = Duration::from_millis(600);

/// What one of the others answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// Who it is.
    pub id: u128,
    /// Where it was asked.
    pub address: String,
    /// What it said.
    pub answer: Result<PeerReply, Failure>,
}

/// This node's dealings with the others.
#[derive(Debug)]
pub struct Peering {
    me: u128,
    replicas: usize,
    ways: Arc<Ways>,
    view: ArcSwap<View>,
    /// Told of each new view.
    seen: Notify,
    /// The view in which somebody was asked again and again, in vain.
    vain: AtomicU64,
    known: Mutex<Known>,
    /// When datasets were refreshed because others speak of a snapshot that was not here.
    pub(super) refreshed: Mutex<HashMap<String, Instant>>,
    /// Snapshots that are asked of others.
    pub(super) asking: Asking,
    /// Scores that are to be passed on.
    pub(super) scores: Waiting,
    /// Embeddings that wait to be passed on.
    pub(super) embeddings: Waiting,
    /// What others said of jobs and could not be taken.
    pub(super) refused_words: AtomicU64,
}

/// What views are made of.
#[derive(Debug, Default)]
struct Known {
    members: Vec<Neighbour>,
    /// Every peer that was seen lately, so that what is known of one outlives a change of the members.
    peers: Vec<Arc<Peer>>,
    contents: Contents,
}

impl Peering {
    /// A node that knows nobody yet. `replicas` nodes keep each parcel; others are believed by what `trust` has.
    pub fn new(me: u128, replicas: usize, trust: impl Into<Trust>, patience: Patience) -> Arc<Self> {
        Arc::new(Self {
            me,
            replicas,
            ways: Arc::new(Ways { patience, trust: trust.into(), born: Instant::now() }),
            view: ArcSwap::default(),
            seen: Notify::new(),
            vain: AtomicU64::new(u64::MAX),
            known: Mutex::default(),
            refreshed: Mutex::default(),
            asking: Asking::default(),
            scores: Waiting::default(),
            embeddings: Waiting::default(),
            refused_words: AtomicU64::new(0),
        })
    }

    /// From now on these are the members, this node among them. Tell the engine afterwards that its peers have changed. Adds
    /// up who owns how much of what: not to be called where nothing may wait.
    pub fn set(&self, members: &[Neighbour]) {
        self.learn(|known| known.members = members.to_vec());
    }

    /// Sees the others anew, with what was learnt.
    fn learn(&self, learn: impl FnOnce(&mut Known)) {
        let mut known = self.known.lock();
        learn(&mut known);
        let peer = |one: &Neighbour| {
            let same = known.peers.iter().find(|peer| peer.id == one.id && peer.address == one.address);
            same.map_or_else(|| Arc::new(Peer::new(one.id, one.address.clone())), Arc::clone)
        };
        let (before, now) = (self.view.load(), self.ways.now());
        let view = View::after(&before, (self.me, self.replicas), &known.members, &known.contents, now, peer);
        let gone = known.peers.iter().filter(|peer| !view.peers().any(|other| Arc::ptr_eq(peer, other)));
        let gone: Vec<_> = gone.map(Arc::clone).collect();
        known.peers = view.peers().map(Arc::clone).collect();
        self.view.store(Arc::new(view));
        // Nobody need wait any longer for one that cannot be reached.
        gone.iter().for_each(|peer| peer.is_not_waited_for());
        self.seen.notify_waiters();
    }

    /// How each of the others stands, as seen from here.
    pub fn status(&self) -> Vec<PeerStatus> {
        let mut all: Vec<_> = self.view.load().peers().map(|peer| peer.status()).collect();
        all.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// Who this node is.
    pub fn me(&self) -> u128 {
        self.me
    }

    /// Whether there is nobody else who can be asked.
    pub fn is_alone(&self) -> bool {
        self.view.load().is_alone()
    }

    /// Whether this node owns a share, as it sees the members itself.
    pub fn owns_a_share(&self) -> bool {
        self.view.load().share(self.me) > 0.0
    }

    /// Asks all others at once in words, each within its deadlines; in the order of their identities.
    pub async fn tell_all(&self, message: &PeerMessage) -> Vec<Told> {
        let view = self.view();
        let mut all: Vec<_> = view.peers().collect();
        all.sort_unstable_by_key(|peer| peer.id);
        let tell = |peer: &Arc<Peer>| {
            let peer = Arc::clone(peer);
            async move {
                let answer = peer.tell(&self.ways, message).await;
                Told { id: peer.id, address: peer.address.clone(), answer }
            }
        };
        futures::future::join_all(all.into_iter().map(tell)).await
    }

    /// Asks one of the others in words.
    pub async fn tell(&self, id: u128, message: &PeerMessage) -> Result<PeerReply, Failure> {
        let view = self.view();
        let peer = view.peers().find(|peer| peer.id == id);
        let peer = peer.ok_or_else(|| Failure::Silent("it is no member that can be reached".into()))?;
        peer.tell(&self.ways, message).await
    }

    /// What a peer must prove before it is given anything.
    pub(crate) fn token(&self) -> Option<&Token> {
        self.ways.trust.token.as_ref()
    }

    /// Asks whoever has these bytes or fetches them for all. Two nodes may see different members for a moment: one that says
    /// that it is not the owner is asked again, or another, until they agree or the time for that is over.
    async fn ask(&self, wanted: &Wanted) -> Option<Given> {
        let (mut again, mut until) = (0, None);
        loop {
            let seen = self.seen.notified();
            let view = self.view.load_full();
            let asks = view.whom_to_ask(wanted, self.ways.now());
            let holders: Vec<_> = asks.iter().filter(|(_, manner)| *manner == Manner::Holder).cloned().collect();
            if asks.is_empty() {
                return None;
            }
            if again >= AGAIN.0 {
                self.vain.store(view.number(), Relaxed);
            }
            let minds = self.vain.load(Relaxed) != view.number();
            // One that keeps a copy, and has none yet, says so too.
            match race(&self.ways, asks, wanted, minds && view.replicas() == 1, until).await {
                Ok(given) => return Some(given),
                Err(Lost::Late) => return None,
                Err(Lost::Refused) if !holders.is_empty() => return self.ask_former(&view, holders, wanted).await,
                Err(Lost::Refused) if !minds => return None,
                Err(Lost::Refused) => again += 1,
            }
            // Whatever comes of asking again, it takes no longer than that.
            until.get_or_insert(Instant::now() + self.ways.patience.hedge);
            let _ = timeout(AGAIN.1, seen).await;
        }
    }

    /// Nobody holds what this node owns. If that is since a moment ago, one of them may still take itself for the owner: then
    /// it is the one to fetch, or both would.
    async fn ask_former(&self, view: &View, holders: Vec<Ask>, wanted: &Wanted) -> Option<Given> {
        if !view.is_settling(self.ways.now()) {
            return None;
        }
        let until = Some(Instant::now() + self.ways.patience.hedge);
        for (peer, _) in holders {
            match race(&self.ways, vec![(peer, Manner::FormerOwner)], wanted, false, until).await {
                Ok(given) => return Some(given),
                Err(Lost::Refused) => {}
                Err(Lost::Late) => return None,
            }
        }
        None
    }

    pub(super) fn ways(&self) -> &Arc<Ways> {
        &self.ways
    }

    pub(super) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }
}

#[async_trait]
impl Peers for Peering {
    async fn read(&self, wanted: Wanted) -> Option<Box<dyn peer::Given>> {
        self.ask(&wanted).await.map(|given| Box::new(given) as _)
    }

    fn hander(&self, dataset: &str, key: FileKey, offset: u64) -> Option<u128> {
        self.view.load().hander(dataset, key, offset, self.ways.now())
    }

    async fn hand(&self, hander: u128, wanted: Vec<Wanted>) -> Result<Box<dyn peer::Handed>, Duration> {
        let view = self.view.load_full();
        let peer = view.peers().find(|peer| peer.id == hander).map(Arc::clone).ok_or(Duration::ZERO)?;
        let handed = peer.hand(Arc::clone(&self.ways), wanted).await?;
        Ok(Box::new(handed))
    }

    fn role(&self, dataset: &str, key: FileKey, offset: u64) -> Role {
        let view = self.view.load();
        if view.is_alone() { Role::Owner } else { view.role(dataset, key, offset, self.ways.now()) }
    }

    fn is_sought(&self, dataset: &str, key: FileKey, offset: u64) -> bool {
        self.view.load().is_sought(dataset, key, offset)
    }

    fn consists(&self, dataset: &Dataset) {
        let (name, snapshot) = (&dataset.config().name, dataset.snapshot().id());
        if self.known.lock().contents.is_known(name, snapshot) {
            return;
        }
        let extents = dataset.extents(MAX_LOADS).unwrap_or_default();
        self.learn(|known| known.contents.set(name, snapshot, &extents));
    }

    fn forgets(&self, dataset: &str) {
        self.learn(|known| known.contents.forget(dataset));
    }

    fn scored(&self, dataset: &str, job: &str, items: u32, scores: Scores<'_>) {
        if !self.is_alone() {
            self.scores.push(dataset, job, items, scores);
        }
    }

    fn embedded(&self, dataset: &str, job: &str, on: PlanSnapshot, embeddings: Embeddings<'_>) {
        if !self.is_alone() {
            self.embeddings.push_embeddings(dataset, job, on, embeddings);
        }
    }

    fn scores_apply(&self, dataset: &str, job: &str) {
        if !self.is_alone() {
            self.scores.push_apply(dataset, job);
        }
    }
}
