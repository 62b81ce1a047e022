//! Members by a list of addresses: everybody on it is asked who it is, again and again, and so is everybody whom those
//! know. No other service is needed. Each node asks each, so it is for tens of nodes, not for thousands.

use super::{
    Joined, Member, Members, Membership, Seed, State, Terms,
    board::Board,
    probe::Prober,
    search::Search,
    seed::{self, Places},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How often a node that knows nobody yet asks, and how long: nodes may start together.
const EAGER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Membership by a list of addresses.
#[derive(Debug)]
pub struct Fixed {
    board: Arc<Board>,
    prober: Arc<Prober>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Asks everybody now.
    hurry: Arc<Notify>,
}

impl Fixed {
    /// Begins to ask. Needs a tokio runtime around it; ends when it is dropped or left.
    pub fn start(me: Member, seeds: Vec<Seed>, terms: Terms) -> Joined {
        let board = Board::new(me, terms.patience);
        let prober = Prober::new(Arc::clone(&board), terms.seal.clone(), Arc::clone(&terms.dial));
        let fixed = Self {
            board: Arc::clone(&board),
            prober,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            hurry: Arc::default(),
        };
        fixed.tasks.spawn(fixed.stop.clone().run_until_cancelled_owned(ask_for_ever(
            Arc::clone(&board),
            Arc::clone(&fixed.prober),
            Places::follow(seeds, terms.look_up),
            terms.interval,
            fixed.tasks.clone(),
            Arc::clone(&fixed.hurry),
        )));
        Joined { membership: Arc::new(fixed), board, seal: terms.seal, gossip: None, gossip_bytes: Arc::default() }
    }
}

async fn ask_for_ever(
    board: Arc<Board>,
    prober: Arc<Prober>,
    mut places: watch::Receiver<Places>,
    interval: Duration,
    tasks: TaskTracker,
    hurry: Arc<Notify>,
) {
    let (mut news, mut search) = (board.members(), Search::default());
    let _ = timeout(seed::FIRST, places.changed()).await;
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let began = Instant::now();
    loop {
        let is_alone = began.elapsed() < EAGER.1 && news.borrow().others().next().is_none();
        tokio::select! {
            _ = ticks.tick() => {}
            () = hurry.notified() => {}
            // Somebody was heard of: ask it at once.
            _ = news.changed() => {}
            () = sleep(EAGER.0), if is_alone => {}
        }
        news.mark_unchanged();
        board.pass();
        let seeds = places.borrow().all().map(|place| place.to_string()).collect();
        prober.ask_all(&seeds, &tasks);
        if began.elapsed() >= EAGER.1 {
            search.tell(prober.lacking(&places.borrow()));
        }
    }
}

#[async_trait::async_trait]
impl Membership for Fixed {
    fn members(&self) -> watch::Receiver<Arc<Members>> {
        self.board.members()
    }

    async fn announce(&self, state: State) {
        self.board.say(state);
        self.hurry.notify_one();
    }

    async fn leave(&self) {
        self.board.say(State::Left);
        self.stop.cancel();
        self.prober.tell_all(GOODBYE).await;
    }
}

impl Drop for Fixed {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
