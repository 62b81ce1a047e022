//! Members by gossip: each node tells a few others, chosen by chance, what it heard, and they tell it what they heard. To how
//! many a node talks does not grow with the cluster, so it is for hundreds of nodes without any other service.
//!
//! Small sealed datagrams over UDP. A word that is newer than what is known here is a sign of life, whoever passes it on;
//! so a member is unreachable when nobody has heard it, and not when one link is cut.

#[cfg(test)]
mod tests;

use super::{
    Joined, Member, Members, Membership, NodeId, Seal, Seed, State, Terms,
    board::Board,
    probe::Prober,
    search::{Cause, Fault, Search},
    seed::{self, Found, Places},
    word::{self, Told},
};
use fodder_api::v1;
use fodder_core::{Error, Result};
use prost::Message;
use rand::seq::IndexedRandom;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    net::UdpSocket,
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior, sleep_until, timeout},
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

/// About of how many others a node tells at a time: all of a small cluster, and two fifths of a large one, so that everybody is
/// heard of three times a second however many there are.
fn others_told(members: usize) -> usize {
    (members * 2 / 5).clamp(40, 400)
}

/// The largest datagram that is sent: what is left of 1,280 bytes, which every link of IPv6 carries, beside headers. Larger ones
/// would be sent in fragments, and many a firewall and tunnel drops those.
const DATAGRAM_BYTES: usize = 1232;

/// The largest datagram that is heard.
const MAX_BYTES: usize = 65_507;

/// The most addresses of its own that it remembers.
const MAX_ECHOES: usize = 64;

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
            echoes: BTreeSet::new(),
            strangers: 0,
            sent_bytes: Arc::clone(&gossip_bytes),
        };
        let talk = talk.run(Places::follow(seeds, terms.look_up), terms.interval, Arc::clone(&gossip.hurry));
        tokio::spawn(gossip.stop.clone().run_until_cancelled_owned(talk));
        Ok(Joined { membership: Arc::new(gossip), board, seal: terms.seal, gossip: address, gossip_bytes })
    }
}

/// An address as everybody can use it: one of IPv4 is seen as one of IPv6 by who listens at [::], and only by them. To send there
/// it need not be turned back.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, address.port())),
        // Its scope stays with it.
        IpAddr::V6(_) => address,
    }
}

/// The loop that owns the socket.
struct Talk {
    socket: UdpSocket,
    board: Arc<Board>,
    seal: Seal,
    /// Where members gossip.
    places: BTreeMap<NodeId, SocketAddr>,
    /// From where this node hears itself.
    echoes: BTreeSet<SocketAddr>,
    /// Datagrams that were not believed.
    strangers: u64,
    sent_bytes: Arc<AtomicU64>,
}

impl Talk {
    async fn run(mut self, mut places: watch::Receiver<Places>, interval: Duration, hurry: Arc<Notify>) {
        let (mut buffer, mut search) = (vec![0; MAX_BYTES], Search::default());
        let _ = timeout(seed::FIRST, places.changed()).await;
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
            self.board.pass();
            let chosen = self.chosen(&places.borrow());
            for place in chosen {
                self.say(place, false).await;
            }
            if said >= eager_until {
                search.tell(self.lacking(&places.borrow()));
            }
        }
    }

    /// The seeds that are no names; and while nobody was heard, all but those at which this node hears itself.
    fn lacking(&self, places: &Places) -> BTreeMap<Seed, Fault> {
        let is_alone = self.board.members().borrow().others().next().is_none();
        let fault = |(seed, found): (&Seed, &Found)| match found {
            Err(why) => Some((seed.clone(), Fault::new(Cause::Name, why))),
            Ok(found) if is_alone && self.echoes.is_disjoint(found) => {
                Some((seed.clone(), Fault::new(Cause::Gossip, "no node answers")))
            }
            Ok(_) => None,
        };
        places.0.iter().filter_map(fault).collect()
    }

    /// A few of those who were heard lately, and one who was not: a seed, or somebody who is silent. As long as nobody was
    /// heard, more of those.
    fn chosen(&mut self, seeds: &Places) -> BTreeSet<SocketAddr> {
        let members = self.board.members().borrow().clone();
        self.places.retain(|id, _| members.get(*id).is_some());
        let place = |unreachable: bool| {
            let others = members.others().filter(move |seen| seen.unreachable == unreachable);
            others.filter_map(|seen| self.places.get(&seen.member.id).copied()).collect::<Vec<_>>()
        };
        let (heard, mut silent) = (place(false), place(true));
        let known: HashSet<_> = heard.iter().collect();
        silent.extend(seeds.all().filter(|seed| !known.contains(seed)));
        let mut random = rand::rng();
        let silent_told = if heard.is_empty() { FIRST_TOLD } else { 1 };
        heard.sample(&mut random, FANOUT).chain(silent.sample(&mut random, silent_told)).copied().collect()
    }

    async fn say(&self, to: SocketAddr, answer: bool) {
        for datagram in self.datagrams(answer) {
            self.send(&datagram, to).await;
        }
    }

    /// Tells a member what is known of it, since it has forgotten that. Nobody else is told of: who plays something again to be
    /// answered learns nothing.
    async fn remind(&self, to: SocketAddr, reminder: Member) {
        let words: Vec<_> = self.board.tell(0).into_iter().chain([reminder]).collect();
        let places = vec![None; words.len()];
        self.send(&word::sealed_told(&Told { words, places, answer: true }, &self.seal).encode_to_vec(), to).await;
    }

    async fn send(&self, message: &[u8], to: SocketAddr) {
        match self.socket.send_to(message, to).await {
            Ok(bytes) => drop(self.sent_bytes.fetch_add(bytes as u64, Relaxed)),
            Err(error) => tracing::debug!(%to, %error, "cannot send a datagram"),
        }
    }

    /// What is known here, in datagrams that every network carries whole.
    fn datagrams(&self, answer: bool) -> impl Iterator<Item = Vec<u8>> {
        let words = self.board.tell(others_told(self.places.len()));
        let places = words.iter().map(|word| self.places.get(&word.id).copied()).collect();
        let parts = word::sealed_in_parts(&Told { words, places, answer }, DATAGRAM_BYTES, &self.seal);
        parts.into_iter().map(|part| part.encode_to_vec())
    }

    async fn hear(&mut self, datagram: &[u8], from: SocketAddr) {
        let from = canonical(from);
        let told =
            v1::HelloMessage::decode(datagram).ok().and_then(|message| word::opened_told(&message, &self.seal).ok());
        let Some(told) = told else {
            self.strangers += 1;
            if self.strangers.is_power_of_two() {
                tracing::warn!(%from, count = self.strangers, "received gossip of another cluster: check that all nodes have the same token");
            }
            return;
        };
        let Some(own) = told.words.first().cloned() else { return };
        if own.id == self.board.me().id {
            if self.echoes.len() < MAX_ECHOES {
                self.echoes.insert(from);
            }
            return;
        }
        let members = self.board.members().borrow().clone();
        let ids: Vec<_> = told.words.iter().map(|word| word.id).collect();
        let news = self.board.gossiped(told.words);
        // What is played again is not new, and has no effect: it moves nobody, and nobody is answered.
        for ((id, place), _) in ids.iter().zip(&told.places).zip(&news).filter(|(_, is_new)| **is_new) {
            let heard = members.get(*id).is_some_and(|seen| !seen.unreachable);
            match place {
                _ if *id == own.id => self.places.insert(*id, from),
                // Hearsay does not move somebody who is heard where it is.
                Some(place) if !heard => self.places.insert(*id, canonical(*place)),
                _ => None,
            };
        }
        if let Some(reminder) = self.board.reminder(&own) {
            self.remind(from, reminder).await;
        } else if !told.answer && news.first() == Some(&true) {
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
