//! Follows the members: tells placement and the engine of every change, then offers what other nodes own now.

use super::{
    handover::Offer,
    membership::{Members, Seen},
    peering::Peering,
    view::Neighbour,
};
use fodder_core::Engine;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// How long the members must be the same before anything is moved because of them.
const SETTLED: Duration = Duration::from_secs(3);

impl Peering {
    /// Follows the members until nobody tells of them any more.
    pub async fn follow(self: Arc<Self>, engine: Arc<Engine>, mut members: watch::Receiver<Arc<Members>>) {
        loop {
            let now = Arc::clone(&members.borrow_and_update());
            let (peering, neighbours) = (Arc::clone(&self), now.all().iter().map(neighbour).collect::<Vec<_>>());
            // It adds up who owns how much, which takes its time where there is much.
            let _ = tokio::task::spawn_blocking(move || peering.set(&neighbours)).await;
            let move_on = async {
                if let Err(error) = engine.peers_changed().await {
                    tracing::debug!(%error, "cannot search the cache after a change of members");
                }
                tokio::time::sleep(SETTLED).await;
                let done = self.hand_over(&engine, Offer::OwnedBefore).await;
                if done.taken + done.left > 0 {
                    tracing::info!(
                        taken = done.taken,
                        bytes = done.bytes,
                        left = done.left,
                        "handed over to other nodes"
                    );
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                changed = members.changed() => if changed.is_err() { return },
                () = move_on => {}
            }
        }
    }
}

fn neighbour(seen: &Seen) -> Neighbour {
    let member = &seen.member;
    Neighbour {
        id: member.id.0,
        address: member.address.clone(),
        zone: member.zone.clone(),
        capacity_bytes: member.capacity_bytes,
        owns: seen.owns(),
        answers: !seen.unreachable,
    }
}
