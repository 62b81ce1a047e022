//! Handing over: after the members have changed, what this node holds and others own now is offered to them.
//!
//! The owner is told, and fetches by itself: so it takes no more than it wants, checks what comes, and the one who hands over
//! knows when it is there. A node that joins gets its share this way; one that drains goes when nobody needs it any more.

use super::{peer::Failure, peering::Peering, view::Manner};
use fodder_core::{
    Engine,
    engine::peer::{Given, Held, Wanted},
};
use futures::{StreamExt, stream};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Offers under way at a time.
const OFFERS: usize = 4;

/// What became of the parcels that were offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handover {
    /// Ranges whose owners have them now.
    pub taken: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Ranges whose owners would not or could not take them.
    pub left: u64,
    /// Of these, ranges whose owners have no room for them.
    pub without_room: u64,
}

/// What is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Everything that is held here and owned elsewhere: before a node goes.
    All,
    /// Of that, what this node owned before the members changed. Of what it holds beside that, the owner knows.
    OwnedBefore,
    /// Nothing: owners are asked whether they have what was offered before. A policy that evicts makes room for what comes
    /// last, also of what has just come.
    Nothing,
}

/// How soon what was not taken is offered again, at first and at most: a new owner takes nothing before it has heard that it
/// is one.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How long nothing more may be taken before this node stops offering.
const GIVE_UP: Duration = Duration::from_secs(30);

impl Peering {
    /// Hands over everything that others own, of a node that has said that it goes: until they have all that they have room for,
    /// or for some time take no more, or there is nobody else. What it says of it they were asked for at the end.
    pub async fn hand_over_all(self: &Arc<Self>, engine: &Engine) -> Handover {
        let (mut least, mut wait, mut since) = (u64::MAX, AGAIN.0, Instant::now());
        loop {
            // Its own word reaches its own view by the same way as all others do.
            let is_late = since.elapsed() > GIVE_UP;
            if is_late || self.view().share(self.me()) == 0.0 {
                let done = self.hand_over(engine, Offer::All).await;
                if done.left == done.without_room || is_late || self.view().is_alone() {
                    let without_room = done.without_room;
                    return Handover { without_room, ..self.hand_over(engine, Offer::Nothing).await };
                }
                if done.left < least {
                    (least, wait, since) = (done.left, AGAIN.0, Instant::now());
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(AGAIN.1);
        }
    }

    /// Offers what is held here and owned elsewhere to its owners. What they have already costs a word. Where a node that goes
    /// reaches nobody, everything that it holds is left.
    pub async fn hand_over(self: &Arc<Self>, engine: &Engine, offer: Offer) -> Handover {
        let mut done = Handover::default();
        // For its readers a node that is alone owns everything.
        let held = if offer != Offer::OwnedBefore && self.is_alone() { Held::All } else { Held::ForOthers };
        for dataset in engine.datasets() {
            let mut next = Some(0);
            while let Some(from) = next {
                let Ok((page, behind)) = dataset.held(held, from).await else { break };
                next = behind;
                self.hand_over_page(page, offer, &mut done).await;
            }
        }
        done
    }

    async fn hand_over_page(&self, mut page: Vec<Wanted>, offer: Offer, done: &mut Handover) {
        if offer == Offer::OwnedBefore {
            let view = self.view();
            page.retain(|wanted| view.owned_before(&wanted.dataset, wanted.key, wanted.range.start));
        }
        let offers = stream::iter(page).map(|wanted| async move {
            let bytes = wanted.range.end - wanted.range.start;
            (bytes, self.offer(&wanted, offer).await)
        });
        let mut offers = offers.buffer_unordered(OFFERS);
        while let Some((bytes, outcome)) = offers.next().await {
            match outcome {
                Ok(()) => {
                    done.taken += 1;
                    done.bytes += bytes;
                }
                Err(failure) => {
                    done.left += 1;
                    done.without_room += u64::from(matches!(failure, Failure::Full(_)));
                }
            }
        }
    }

    async fn offer(&self, wanted: &Wanted, offer: Offer) -> Result<(), Failure> {
        let view = self.view();
        let owner = view.owner(wanted, self.ways().now());
        let owner = owner.ok_or_else(|| Failure::Refused("no other node owns it".into()))?;
        if offer != Offer::Nothing {
            return owner.take(self.ways(), wanted).await;
        }
        // Of what is held one byte says enough.
        let first = wanted.range.start..wanted.range.start + 1;
        let (wanted, slot) =
            (Wanted { range: first, ..wanted.clone() }, owner.slot(self.ways(), Manner::Holder).await?);
        let mut given = Arc::clone(owner).give(Arc::clone(self.ways()), wanted, Manner::Holder, slot).await?;
        match given.next(&mut [0]).await {
            Ok(1) => Ok(()),
            _ => Err(Failure::Refused("it did not say what it has".into())),
        }
    }
}
