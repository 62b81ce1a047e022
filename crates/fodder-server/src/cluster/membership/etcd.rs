//! Members by etcd: each keeps a lease there and a key under it, and watches the keys of the others. One connection a node,
//! so it is for the largest clusters.
//!
//! etcd going away stops nothing: what was seen stays, and members are asked directly whether they live until it is back.
//! So is one whose lease ran out while etcd answers: it may be cut off from etcd alone, and answers all the same.

mod access;
mod session;

use super::{Joined, Member, Members, Membership, Seed, State, Terms, board::Board, probe::Prober};
pub use access::EtcdConfig;
use session::Session;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, watch},
    time::MissedTickBehavior,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// etcd's port where none is given.
pub(crate) const PORT: u16 = 2379;

/// How soon etcd is tried again, at first: nodes may start together with it.
const RETRY: Duration = Duration::from_millis(100);

/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Membership by etcd.
#[derive(Debug)]
pub struct Etcd {
    board: Arc<Board>,
    prober: Arc<Prober>,
    stop: CancellationToken,
    /// This node has something new to say.
    news: Arc<Notify>,
    /// The lease that is kept, to give it back.
    session: watch::Receiver<Option<Session>>,
}

impl Etcd {
    /// Begins to keep a lease at one of these, reached like this, with keys under a prefix; ends when it is dropped or left.
    pub fn start(me: Member, servers: Vec<Seed>, prefix: &str, access: EtcdConfig, terms: Terms) -> Joined {
        let board = Board::new(me, terms.patience);
        let prober = Prober::new(Arc::clone(&board), terms.seal.clone(), Arc::clone(&terms.dial));
        let (sender, session) = watch::channel(None);
        let etcd =
            Self { board: Arc::clone(&board), prober, stop: CancellationToken::new(), news: Arc::default(), session };
        let shared = Shared {
            board: Arc::clone(&board),
            prober: Arc::clone(&etcd.prober),
            news: Arc::clone(&etcd.news),
            prefix: prefix.to_owned(),
            access,
            terms: terms.clone(),
            session: sender,
        };
        tokio::spawn(etcd.stop.clone().run_until_cancelled_owned(shared.run(servers)));
        Joined { membership: Arc::new(etcd), board, seal: terms.seal, gossip: None, gossip_bytes: Arc::default() }
    }
}

/// What the loop has.
struct Shared {
    board: Arc<Board>,
    prober: Arc<Prober>,
    news: Arc<Notify>,
    prefix: String,
    access: EtcdConfig,
    terms: Terms,
    session: watch::Sender<Option<Session>>,
}

impl Shared {
    /// One session after another, each at the next server; between them members are asked directly.
    async fn run(self, servers: Vec<Seed>) {
        let (mut away, mut wait) = (false, RETRY);
        loop {
            for server in &servers {
                let board = Arc::clone(&self.board);
                let address = server.to_string();
                let prober = Arc::clone(&self.prober);
                let way = (&self.prefix[..], &self.access);
                let opened = Session::open(&address, way, &self.terms, board, prober);
                let error = match self.asking_meanwhile(opened).await {
                    Ok(mut session) => {
                        tracing::info!(%server, "etcd answers");
                        (away, wait) = (false, RETRY);
                        self.session.send_replace(Some(session.clone()));
                        session.keep(&self.news).await
                    }
                    Err(error) => error,
                };
                self.session.send_replace(None);
                if !std::mem::replace(&mut away, true) {
                    tracing::warn!(%server, error, "etcd does not answer: polling the known members directly until it does");
                }
                self.asking_meanwhile(tokio::time::sleep(wait)).await;
                wait = (wait * 2).min(self.terms.interval.max(RETRY));
            }
        }
    }

    /// Waits for something, and asks the known members whether they live meanwhile.
    async fn asking_meanwhile<T>(&self, what: impl Future<Output = T>) -> T {
        let mut what = std::pin::pin!(what);
        let tasks = TaskTracker::new();
        let mut ticks = tokio::time::interval(self.terms.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                done = &mut what => return done,
                _ = ticks.tick() => {
                    self.board.pass();
                    self.prober.ask_all(&BTreeSet::new(), &tasks);
                }
            }
        }
    }
}

#[async_trait::async_trait]
impl Membership for Etcd {
    fn members(&self) -> watch::Receiver<Arc<Members>> {
        self.board.members()
    }

    async fn first_answer(&self) {
        let _ = self.session.clone().wait_for(Option::is_some).await;
    }

    async fn announce(&self, state: State) {
        self.board.say(state);
        self.news.notify_one();
    }

    async fn leave(&self) {
        self.board.say(State::Left);
        self.stop.cancel();
        let session = self.session.borrow().clone();
        let revoked = async {
            if let Some(session) = session {
                session.end().await;
            }
        };
        let _ = tokio::time::timeout(GOODBYE, async { tokio::join!(revoked, self.prober.tell_all(GOODBYE)) }).await;
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
