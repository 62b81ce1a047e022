//! Asks several nodes for the same bytes: one after the other, the next beside the last when that one is late, and nobody any
//! more when the time is over. It knows nothing of who owns what.

use super::{
    peer::{Failure, Given, Ways},
    view::{Ask, Manner},
};
use fodder_core::engine::peer::Wanted;
use futures::{FutureExt, StreamExt, TryFutureExt, future::BoxFuture, stream::FuturesUnordered};
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
struct UnderWay(FuturesUnordered<BoxFuture<'static, Result<Given, (Failure, Manner)>>>);

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

/// Why nobody has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// Somebody was late, or did not answer as it should.
    Late,
    /// All that were asked have said no.
    Refused,
}

/// The first who answers, in time, and before `until`. `minds` the word of an owner that it is none: then nobody is asked in
/// its place.
pub(super) async fn race(
    ways: &Arc<Ways>,
    asks: Vec<Ask>,
    wanted: &Wanted,
    minds: bool,
    until: Option<std::time::Instant>,
) -> Result<Given, Lost> {
    let patience = ways.patience;
    // The first who is asked was waited for already, in vain.
    let [next_after, first_word] = [patience.hedge, patience.first_word].map(|step| step.saturating_sub(wanted.waited));
    // Whoever holds it has it at hand. And that is asked for a peer who waits meanwhile, so nobody is waited for in turn.
    let only_held = asks.iter().all(|(_, manner)| manner.is_only_held());
    let until = until.map(Instant::from_std);
    let mut deadline = if only_held { Some(Instant::now() + patience.hedge) } else { None };
    deadline = deadline.into_iter().chain(until).min();
    let (mut asks, mut under_way, mut lost) = (asks.into_iter(), UnderWay::default(), Lost::Refused);
    loop {
        let mut hedge = None;
        if let Some((peer, manner)) = asks.next() {
            let slot = if under_way.0.is_empty() {
                let turn = deadline.unwrap_or(Instant::now() + patience.coming);
                timeout_at(turn, peer.slot(ways, manner)).await.ok().and_then(Result::ok)
            } else {
                peer.try_slot(manner)
            };
            let Some(slot) = slot else {
                lost = Lost::Late;
                continue;
            };
            let (is_trial, is_last) = (peer.is_on_trial(), asks.len() == 0);
            // Whoever has waited for its turn at one that then stopped answering has waited long enough.
            let limit = if is_trial && is_last || lost == Lost::Late { patience.hedge } else { first_word };
            deadline.get_or_insert(Instant::now() + limit);
            hedge = match () {
                () if is_last => None,
                // All of them at once.
                () if only_held => Some(Duration::ZERO),
                () if is_trial => Some(patience.hedge / TRIAL),
                () => Some(next_after),
            };
            let given = peer.give(Arc::clone(ways), wanted.clone(), manner, slot);
            under_way.0.push(given.map_err(move |failure| (failure, manner)).boxed());
        }
        let Some(deadline) = deadline.filter(|_| !under_way.0.is_empty()) else { return Err(lost) };
        let late = async {
            match hedge {
                Some(Duration::ZERO) => {}
                Some(hedge) => sleep(hedge).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = under_way.0.next() => match answer {
                Some(Ok(given)) => return Ok(given),
                Some(Err((Failure::Refused(_), Manner::Owner))) if minds && under_way.0.is_empty() => {
                    return Err(Lost::Refused);
                }
                Some(Err((Failure::Refused(_), _))) | None => {}
                Some(Err(_)) => lost = Lost::Late,
            },
            () = sleep_until(deadline) => return Err(Lost::Late),
            () = late => {}
        }
    }
}
