//! Members by gossip: each node tells a few others, chosen by chance, what it heard, and they tell it what they heard. To how
//! many a node talks does not grow with the cluster, so it is for hundreds of nodes without any other service.
//!
//! Small sealed datagrams over UDP. A word that is newer than what is known here is a sign of life, whoever passes it on;
//! so a member is unreachable when nobody has heard it, and not when one link is cut.

use super::{
    Joined, Member, Members, Membership, NodeId, Seal, Seed, State, Terms,
    board::Board,
    probe::Prober,
    seed::look_up,
    word::{self, Told},
};
use fodder_api::v1;
use fodder_core::{Error, Result};
use prost::Message;
use rand::seq::IndexedRandom;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    net::UdpSocket,
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// The port where none is given.
pub(crate) const PORT: u16 = 18282;

/// To how many of those who were heard lately a node talks at a time; and to one who was not.
const FANOUT: usize = 3;

/// To how many, while nobody was heard.
const FIRST_TOLD: usize = 16;

/// How soon what is new is passed on, after something else was said, in a cluster of so many and no longer than between two
/// ticks: datagrams are the longer the more members there are, and when many start at once there is always something new.
fn pass_on_after(members: usize, interval: Duration) -> Duration {
    (PASS_ON * u32::try_from(members / 8).unwrap_or(u32::MAX).clamp(1, 1000)).min(interval)
}

/// How soon in a small one.
const PASS_ON: Duration = Duration::from_millis(50);

/// How often a node that knows nobody yet talks, and how long: nodes may start together.
const EAGER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// About how many others a datagram tells: all of a small cluster, and two fifths of a large one, so that everybody is heard
/// of three times a second however many there are, and datagrams stay below what UDP carries.
fn others_told(members: usize) -> usize {
    (members * 2 / 5).clamp(40, 400)
}

/// The largest datagram.
const MAX_BYTES: usize = 65_507;

/// How often names are looked up anew.
const LOOK_UP: Duration = Duration::from_secs(10);

/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Membership by gossip.
#[derive(Debug)]
pub struct Gossip {
    board: Arc<Board>,
    prober: Arc<Prober>,
    stop: CancellationToken,
    /// Talks to somebody now.
    hurry: Arc<Notify>,
}

impl Gossip {
    /// Listens and begins to talk; ends when it is dropped or left.
    pub async fn start(me: Member, seeds: Vec<Seed>, listen: SocketAddr, terms: Terms) -> Result<Joined> {
        let socket = UdpSocket::bind(listen)
            .await
            .map_err(|error| Error::Invalid(format!("cannot listen for gossip at {listen}: {error}")))?;
        let address = socket.local_addr().ok();
        let board = Board::new(me, terms.patience);
        let gossip = Self {
            prober: Prober::new(Arc::clone(&board), terms.seal.clone(), Arc::clone(&terms.dial)),
            board: Arc::clone(&board),
            stop: CancellationToken::new(),
            hurry: Arc::default(),
        };
        let gossip_bytes: Arc<AtomicU64> = Arc::default();
        let talk = Talk {
            socket,
            board: Arc::clone(&board),
            seal: terms.seal.clone(),
            places: BTreeMap::new(),
            strangers: 0,
            sent_bytes: Arc::clone(&gossip_bytes),
        };
        let talk = talk.run(seeds, terms.interval, Arc::clone(&gossip.hurry));
        tokio::spawn(gossip.stop.clone().run_until_cancelled_owned(talk));
        Ok(Joined { membership: Arc::new(gossip), board, seal: terms.seal, gossip: address, gossip_bytes })
    }
}

/// The loop that owns the socket.
struct Talk {
    socket: UdpSocket,
    board: Arc<Board>,
    seal: Seal,
    /// Where members gossip.
    places: BTreeMap<NodeId, SocketAddr>,
    /// Datagrams that were not believed.
    strangers: u64,
    sent_bytes: Arc<AtomicU64>,
}

impl Talk {
    async fn run(mut self, seeds: Vec<Seed>, interval: Duration, hurry: Arc<Notify>) {
        let mut buffer = vec![0; MAX_BYTES];
        let mut addresses = BTreeSet::new();
        let mut looked_up: Option<Instant> = None;
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut news, mut is_news, mut said) = (self.board.members(), false, Instant::now());
        let eager_until = said + EAGER.1;
        loop {
            let pass_on = said + pass_on_after(self.places.len(), interval);
            let is_alone = said < eager_until && news.borrow().others().next().is_none();
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => {
                    match received {
                        Ok((length, from)) => self.hear(&buffer[..length], from).await,
                        // An answer that could not be delivered: it was for somebody who is gone.
                        Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                    }
                    continue;
                }
                changed = news.changed(), if !is_news => {
                    is_news = changed.is_ok();
                    continue;
                }
                _ = ticks.tick() => {}
                () = hurry.notified() => {}
                // Whoever hears something new passes it on at once.
                () = sleep_until(pass_on), if is_news => {}
                () = sleep_until(said + EAGER.0), if is_alone => {}
            }
            (is_news, said) = (false, Instant::now());
            if looked_up.is_none_or(|at| at.elapsed() >= LOOK_UP) {
                addresses = look_up(&seeds, addresses).await;
                looked_up = Some(Instant::now());
            }
            self.board.pass();
            for place in self.chosen(&addresses) {
                self.say(place, false).await;
            }
        }
    }

    /// A few of those who were heard lately, and one who was not: a seed, or somebody who is silent. As long as nobody was
    /// heard, more of those.
    fn chosen(&mut self, seeds: &BTreeSet<String>) -> BTreeSet<SocketAddr> {
        let members = self.board.members().borrow().clone();
        self.places.retain(|id, _| members.get(*id).is_some());
        let place = |unreachable: bool| {
            let others = members.others().filter(move |seen| seen.unreachable == unreachable);
            others.filter_map(|seen| self.places.get(&seen.member.id).copied()).collect::<Vec<_>>()
        };
        let (heard, mut silent) = (place(false), place(true));
        silent.extend(
            seeds.iter().filter_map(|seed| seed.parse::<SocketAddr>().ok()).filter(|seed| !heard.contains(seed)),
        );
        let mut random = rand::rng();
        let silent_told = if heard.is_empty() { FIRST_TOLD } else { 1 };
        heard.sample(&mut random, FANOUT).chain(silent.sample(&mut random, silent_told)).copied().collect()
    }

    async fn say(&self, to: SocketAddr, answer: bool) {
        let message = self.datagram(answer);
        match self.socket.send_to(&message, to).await {
            Ok(bytes) => drop(self.sent_bytes.fetch_add(bytes as u64, Relaxed)),
            Err(error) => tracing::debug!(%to, %error, "a datagram could not be sent"),
        }
    }

    /// What is known here, as much of it as fits.
    fn datagram(&self, answer: bool) -> Vec<u8> {
        let mut others = others_told(self.places.len());
        loop {
            let words = self.board.tell(others);
            let places = words.iter().map(|word| self.places.get(&word.id).copied()).collect();
            let message = word::sealed_told(&Told { words, places, answer }, &self.seal).encode_to_vec();
            if message.len() <= MAX_BYTES || others == 0 {
                return message;
            }
            others /= 2;
        }
    }

    async fn hear(&mut self, datagram: &[u8], from: SocketAddr) {
        let told =
            v1::HelloMessage::decode(datagram).ok().and_then(|message| word::opened_told(&message, &self.seal).ok());
        let Some(told) = told else {
            self.strangers += 1;
            if self.strangers.is_power_of_two() {
                tracing::warn!(%from, count = self.strangers, "gossip that is not of this cluster: see that all nodes have the same token");
            }
            return;
        };
        let own = told.words.first().map(|word| word.id);
        if own == Some(self.board.me().id) {
            return;
        }
        let members = self.board.members().borrow().clone();
        for (word, place) in told.words.iter().zip(&told.places) {
            let heard = members.get(word.id).is_some_and(|seen| !seen.unreachable);
            match place {
                _ if Some(word.id) == own => self.places.insert(word.id, from),
                // Hearsay does not move somebody who is heard where it is.
                Some(place) if !heard => self.places.insert(word.id, *place),
                _ => None,
            };
        }
        self.board.gossiped(told.words);
        if !told.answer {
            self.say(from, true).await;
        }
    }
}

#[async_trait::async_trait]
impl Membership for Gossip {
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

impl Drop for Gossip {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{super::tests::member, *};

    #[tokio::test]
    async fn a_datagram_carries_as_much_as_fits_and_always_something() {
        let board = Board::new(member(1), super::super::Patience::default());
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut talk = Talk {
            socket,
            board: Arc::clone(&board),
            seal: Seal::new("token"),
            places: BTreeMap::new(),
            strangers: 0,
            sent_bytes: Arc::default(),
        };
        for id in 2..1000 {
            let address = format!("{}{id}:18284", "long-".repeat(40));
            board.gossiped(vec![Member { address, ..member(id) }]);
            talk.places.insert(NodeId(id), "10.0.0.1:18282".parse().unwrap());
        }
        let datagram = talk.datagram(false);
        assert!((20_000..=MAX_BYTES).contains(&datagram.len()), "{} bytes", datagram.len());
        let told = word::opened(&v1::HelloMessage::decode(&datagram[..]).unwrap(), &talk.seal).unwrap();
        assert!(told.len() > 100, "{} words", told.len());
    }
}
