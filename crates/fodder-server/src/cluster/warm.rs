//! Bringing a dataset in on all nodes of a cluster together: each brings in what it owns, so each byte leaves the origin once.
//!
//! The node that is asked tells the others, asks them how far they are, and adds up. `order` is what a node does that is
//! told, `part` what is known of one node, and how the parts are added and bounds divided: pure.
//!
//! Who owns what may change on the way: a node dies, another comes. So it goes in rounds. A round counts if every node that
//! was told has come to its end, and if what they say they own adds up to what is wanted; else there is another, with the
//! members as they are then. What is there already costs nothing.

mod order;
mod part;

pub(crate) use order::Orders;

use super::{Failure, Peering};
use crate::{
    NodeInfo,
    warm::{INTERVAL, Unknown, Wanted, Wish, message},
};
use fodder_api::v1::{
    PeerMessage, PeerWarmOrder, PeerWarmQuestion, StandingQuestion, WarmProgress, peer_message, peer_reply,
};
use fodder_core::{
    Dataset, Result,
    engine::warm::{Order, Share, Warming},
};
use futures::{
    future::join_all,
    stream::{self, BoxStream},
};
use part::{Part, Told, Whole, divide};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// Rounds, before it is told as it stands.
const ROUNDS: usize = 12;
/// How long to wait for the members to agree before the next round, at least and at most.
const AGREE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(120));
/// A node that does not answer for so long has left the round.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes of paths in one message.
const CHUNK_BYTES: usize = 128 << 10;

/// A warm-up of all nodes.
pub(crate) struct Spread {
    peering: Arc<Peering>,
    /// Where this node is reached.
    address: String,
    dataset: Arc<Dataset>,
    wish: Wish,
    /// What the wish means here: looked at once.
    look: Warming,
}

/// What one round is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// To see what there is.
    Look,
    /// What nodes own.
    Owned,
    /// What they keep beside the owners.
    Copies,
}

impl Spread {
    /// Looks at what is wanted. An error if it means nothing.
    pub(crate) fn new(peering: Arc<Peering>, info: &NodeInfo, dataset: Arc<Dataset>, wish: Wish) -> Result<Self> {
        let selection = wish.selection.clone().into();
        let all = Order { selection, share: Share::All, max_bytes: Some(0), bytes_per_second: None, workers: 1 };
        let address = match info.state.cluster() {
            Some(joined) => joined.membership.members().borrow().me().address.clone(),
            None => info.addresses.grpc.to_string(),
        };
        let look = dataset.warm(all)?;
        Ok(Self { peering, address, dataset, wish, look })
    }

    /// Begins, and tells how far it is until its end. Dropped, it ends on all nodes.
    pub(crate) fn begin(self) -> BoxStream<'static, Result<WarmProgress>> {
        let (tell, told) = mpsc::channel(1);
        let work = Box::pin(self.run(tell));
        Box::pin(stream::unfold(Some((work, told)), |state| async {
            let (mut work, mut told) = state?;
            tokio::select! {
                biased;
                Some(progress) = told.recv() => Some((Ok(progress), Some((work, told)))),
                last = &mut work => Some((last, None)),
            }
        }))
    }

    async fn run(mut self, tell: mpsc::Sender<WarmProgress>) -> Result<WarmProgress> {
        let began = Instant::now();
        let all = self.look.ended().await?;
        let mut whole = Whole::new(all.files, all.bytes, self.wish.unknown.clone());
        for _ in 0..ROUNDS {
            let bounds = match self.wish.max_bytes {
                None => None,
                Some(most) => Some(divide(most, &self.round(Goal::Look, None, &mut whole, &tell).await)),
            };
            let mut parts = self.round(Goal::Owned, bounds.as_deref(), &mut whole, &tell).await;
            if parts.iter().all(|part| !part.has_left()) && self.peering.view().replicas() > 1 {
                parts = self.round(Goal::Copies, None, &mut whole, &tell).await;
            }
            // One that refuses will do so again.
            if parts.iter().any(Part::refuses) || !parts.iter().any(Part::has_left) && whole.adds_up() {
                break;
            }
            self.agreed(&parts).await;
        }
        Ok(whole.last(began.elapsed()))
    }

    /// Waits until the members may agree about those who left: they are back, or own nothing any more.
    async fn agreed(&self, parts: &[Part]) {
        tokio::time::sleep(AGREE.0).await;
        let (message, began) = (peer_message::Message::Standing(StandingQuestion {}), Instant::now());
        let message = PeerMessage { message: Some(message) };
        for part in parts.iter().filter(|part| part.has_left()) {
            while began.elapsed() < AGREE.1
                && self.peering.view().share(part.id) > 0.0
                && self.peering.tell(part.id, &message).await.is_err()
            {
                tokio::time::sleep(INTERVAL).await;
            }
        }
    }

    /// Lets all nodes do their part, and waits until they have done it or have left.
    async fn round(
        &self,
        goal: Goal,
        bounds: Option<&[(u128, u64)]>,
        whole: &mut Whole,
        tell: &mpsc::Sender<WarmProgress>,
    ) -> Vec<Part> {
        let name: [u8; 16] = rand::random();
        let view = self.peering.view();
        let mut parts = vec![Part::new(self.peering.me(), self.address.clone())];
        parts.extend(view.peers().map(|peer| Part::new(peer.id, peer.address.clone())));
        parts.sort_unstable_by_key(|part| part.id);
        let _stop = StopAll { peering: Arc::clone(&self.peering), name };
        let orders = parts.iter().map(|part| {
            let max_bytes = match goal {
                Goal::Look => Some(0),
                _ => bounds.map(|all| all.iter().find(|(id, _)| *id == part.id).map_or(0, |(_, bytes)| *bytes)),
            };
            self.order(&name, goal, view.share(part.id), max_bytes)
        });
        let orders: Vec<_> = orders.collect();
        let mut mine = None;
        for (part, order) in parts.iter_mut().zip(&orders) {
            if part.id == self.peering.me() {
                match self.dataset.warm(self.as_done_here(order)) {
                    Ok(warming) => mine = Some(warming),
                    Err(error) => part.told(Told::Refused(error.to_string())),
                }
            }
        }
        let told = join_all(parts.iter().zip(&orders).map(|(part, order)| self.tell_order(part, order))).await;
        for (part, told) in parts.iter_mut().zip(told) {
            told.into_iter().for_each(|told| part.told(told));
        }
        loop {
            whole.take_in(&parts, goal == Goal::Copies, goal == Goal::Look);
            if parts.iter().all(Part::is_over) {
                return parts;
            }
            if goal != Goal::Look {
                // Whoever listens may be gone: then this is dropped soon.
                let _ = tell.try_send(whole.progress());
            }
            tokio::time::sleep(INTERVAL).await;
            let told = join_all(parts.iter().map(|part| self.ask(part, &name))).await;
            for (part, told) in parts.iter_mut().zip(told) {
                told.into_iter().for_each(|told| part.told(told));
            }
            if let Some(warming) = &mut mine
                && let Some(part) = parts.iter_mut().find(|part| part.id == self.peering.me())
                && !part.is_over()
            {
                part.told(match tokio::time::timeout(Duration::ZERO, warming.ended()).await {
                    Ok(Err(error)) => Told::Refused(error.to_string()),
                    _ => Told::Progress(Box::new(message(warming.progress(), &Unknown::default()))),
                });
            }
        }
    }

    /// What a node is told. Bounds on speed are for all together: each gets as much as it owns.
    fn order(&self, name: &[u8; 16], goal: Goal, share: f64, max_bytes: Option<u64>) -> PeerWarmOrder {
        let part_of = |all: u64| ((all as f64 * share) as u64).max(1);
        let (path, shown, listed) = match &self.wish.selection {
            Wanted::Below { path, shown } => (path.clone(), *shown, false),
            Wanted::Listed(_) => (String::new(), false, true),
        };
        PeerWarmOrder {
            order: name.to_vec().into(),
            dataset: self.dataset.config().name.clone(),
            snapshot: self.dataset.snapshot().id().0.to_vec().into(),
            path,
            shown,
            listed,
            paths: Vec::new(),
            more: false,
            copies: goal == Goal::Copies,
            max_bytes,
            bytes_per_second: self.wish.bytes_per_second.map_or(0, part_of),
            workers: u32::try_from(part_of(self.wish.workers as u64)).unwrap_or(u32::MAX),
        }
    }

    fn as_done_here(&self, order: &PeerWarmOrder) -> Order {
        Order {
            selection: self.wish.selection.clone().into(),
            share: if order.copies { Share::Copies } else { Share::Owned },
            max_bytes: order.max_bytes,
            bytes_per_second: Some(order.bytes_per_second).filter(|rate| *rate > 0),
            workers: order.workers as usize,
        }
    }

    /// Tells another node what to do; a long list in several messages. What it said, unless that is this node.
    async fn tell_order(&self, part: &Part, order: &PeerWarmOrder) -> Option<Told> {
        if part.id == self.peering.me() {
            return None;
        }
        let Wanted::Listed(slots) = &self.wish.selection else {
            return Some(self.say(part, peer_message::Message::Warm(order.clone())).await);
        };
        let (objects, mut slots) = (self.dataset.objects(), slots.iter().peekable());
        loop {
            let (mut paths, mut bytes) = (Vec::new(), 0);
            while bytes < CHUNK_BYTES
                && let Some(slot) = slots.next()
            {
                let path = objects.path(*slot);
                bytes += path.len() + 8;
                paths.push(path);
            }
            let more = slots.peek().is_some();
            let told =
                self.say(part, peer_message::Message::Warm(PeerWarmOrder { paths, more, ..order.clone() })).await;
            if !more || !matches!(told, Told::Progress(_)) {
                return Some(told);
            }
        }
    }

    /// Asks a node that is not done how far it is.
    async fn ask(&self, part: &Part, name: &[u8; 16]) -> Option<Told> {
        if part.is_over() || part.id == self.peering.me() {
            return None;
        }
        let question = PeerWarmQuestion { order: name.to_vec().into(), stop: false };
        Some(match self.say(part, peer_message::Message::Warmed(question)).await {
            Told::Silent(why) if part.heard_at.elapsed() > SILENCE => Told::Left(why),
            told => told,
        })
    }

    async fn say(&self, part: &Part, message: peer_message::Message) -> Told {
        let is_member = self.peering.view().peers().any(|peer| peer.id == part.id);
        match self.peering.tell(part.id, &PeerMessage { message: Some(message) }).await {
            Ok(reply) => match reply.reply {
                Some(peer_reply::Reply::Warm(progress)) => Told::Progress(Box::new(progress)),
                _ => Told::Refused("it sent an unexpected reply".into()),
            },
            Err(Failure::Refused(why)) if why == order::NO_ORDER => Told::Left("it was restarted".into()),
            Err(Failure::Refused(why) | Failure::Full(why)) => Told::Refused(why),
            Err(why) if !is_member => Told::Left(why.to_string()),
            Err(why) => Told::Silent(why.to_string()),
        }
    }
}

/// Ends an order on all nodes, wherever it is still under way.
struct StopAll {
    peering: Arc<Peering>,
    name: [u8; 16],
}

impl Drop for StopAll {
    fn drop(&mut self) {
        let question = PeerWarmQuestion { order: self.name.to_vec().into(), stop: true };
        let (peering, began) = (Arc::clone(&self.peering), Instant::now());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                peering.tell_all(&PeerMessage { message: Some(peer_message::Message::Warmed(question)) }).await;
                tracing::trace!(took = ?began.elapsed(), "stopped a warm-up on all nodes");
            });
        }
    }
}
