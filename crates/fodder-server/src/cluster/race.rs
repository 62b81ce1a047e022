//! Asks several nodes for the same bytes: one after the other, the next beside the last when that one is late, and nobody any
//! more when the time is over. It knows nothing of who owns what.

use super::{
    peer::{Failure, Given, Ways},
    view::{Ask, Manner},
};
use fodder_core::engine::peer::Wanted;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use std::{sync::Arc, time::Duration};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, sleep_until, timeout_at},
};

/// For one that is on trial nobody waits this many times as long as for others.
const TRIAL: u32 = 8;

/// Those who were asked and have not answered. Whoever loses the race is still heard: that it was late must be known, or the
/// next reader waits for it as long.
#[derive(Default)]
struct UnderWay(FuturesUnordered<BoxFuture<'static, Result<Given, Failure>>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let late = std::mem::take(&mut self.0);
        if let Ok(runtime) = Handle::try_current()
            && !late.is_empty()
        {
            runtime.spawn(late.for_each(|_| async {}));
        }
    }
}

/// The first who answers. None: nobody has, in time.
pub(super) async fn race(ways: &Arc<Ways>, asks: Vec<Ask>, wanted: &Wanted) -> Option<Given> {
    let patience = ways.patience;
    // Whoever holds it has it at hand. And that is asked for a peer who waits meanwhile, so nobody is waited for in turn.
    let only_held = asks.iter().all(|(_, manner)| *manner == Manner::Holder);
    let mut deadline = only_held.then(|| Instant::now() + patience.hedge);
    let (mut asks, mut under_way) = (asks.into_iter(), UnderWay::default());
    loop {
        let mut hedge = None;
        if let Some((peer, manner)) = asks.next() {
            let slot = if under_way.0.is_empty() {
                let turn = deadline.unwrap_or(Instant::now() + patience.coming);
                timeout_at(turn, peer.slot(ways)).await.ok().and_then(Result::ok)
            } else {
                peer.try_slot()
            };
            let Some(slot) = slot else { continue };
            let (is_trial, is_last) = (peer.is_on_trial(), asks.len() == 0);
            let limit = if is_trial && is_last { patience.hedge } else { patience.first_word };
            deadline.get_or_insert(Instant::now() + limit);
            hedge = match () {
                () if is_last => None,
                // All of them at once.
                () if only_held => Some(Duration::ZERO),
                () if is_trial => Some(patience.hedge / TRIAL),
                () => Some(patience.hedge),
            };
            under_way.0.push(peer.give(Arc::clone(ways), wanted.clone(), manner, slot).boxed());
        }
        let deadline = deadline.filter(|_| !under_way.0.is_empty())?;
        let late = async {
            match hedge {
                Some(Duration::ZERO) => {}
                Some(hedge) => sleep(hedge).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = under_way.0.next() => if let Some(Ok(given)) = answer { return Some(given) },
            () = sleep_until(deadline) => return None,
            () = late => {}
        }
    }
}
