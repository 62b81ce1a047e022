//! How a node that starts comes to know the others of its cluster before it answers readers: what it would fetch alone, others
//! may have. All of it takes bounded time, whether there are others or not.

use fodder_core::Engine;
use fodder_server::{
    Node,
    cluster::{
        Way,
        membership::{Members, State},
    },
};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long etcd may take to answer for the first time.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// How long a node waits for a word of another, and then for those whom it has heard of.
const MEETING: Duration = Duration::from_millis(500);

/// How long a node that is ready waits for others that start as well.
const TOGETHER: Duration = Duration::from_secs(1);

/// Waits until it is known who is there. As long as nobody serves yet, readers have to ask again.
pub(super) async fn hear_of_others(engine: &Engine, node: &Node, way: Way) {
    let Some(cluster) = node.info().state.cluster() else { return };
    let within = if way == Way::Etcd { FIRST_ANSWER } else { MEETING };
    let is_answered = timeout(within, cluster.membership.first_answer()).await.is_ok();
    if !is_answered && way == Way::Etcd {
        tracing::warn!(
            "etcd has not answered within {FIRST_ANSWER:?}: the node starts alone, and fetches from the origin what other nodes \
             may have, until it knows them"
        );
    }
    let mut members = cluster.membership.members();
    let all_heard = |members: &Members| {
        let mut others = members.others().peekable();
        others.peek().is_some() && others.all(|seen| !seen.unreachable)
    };
    if is_answered {
        let _ = timeout(MEETING, members.wait_for(|members| all_heard(members))).await;
    }
    let is_served = members.borrow().owners().next().is_some();
    engine.hold_readers(!is_served);
}

/// Says that the node serves, and waits for others that are about to, so that all who start together begin with the same
/// owners.
pub(super) async fn take_up_service(engine: &Engine, node: &Node) {
    let state = &node.info().state;
    let (Some(cluster), Some(peering)) = (state.cluster(), state.peering()) else { return };
    cluster.membership.announce(State::Serving).await;
    let mut members = cluster.membership.members();
    let all_serve =
        |members: &Members| !members.others().any(|seen| seen.member.state == State::Joining && !seen.unreachable);
    let settled = async {
        let _ = members.wait_for(|members| all_serve(members)).await;
        while !peering.owns_a_share() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let _ = timeout(TOGETHER, settled).await;
    engine.hold_readers(false);
}
