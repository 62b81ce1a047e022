//! iCache's clients at several nodes: they do not say which job they are of, and share importance and epochs all the same.

use crate::world::{One, World, introduce, until};
use fodder_api::icache::{DcReply, DcRequest, OpType, operator_client::OperatorClient};
use fodder_policy::Policy;
use futures::future::join_all;
use std::collections::BTreeSet;

const BYTES: usize = 4 << 10;
const ITEMS: usize = 40;

async fn submit(one: &One, operation: OpType, fields: DcRequest) -> DcReply {
    let mut operator = OperatorClient::connect(format!("http://{}", one.me.address)).await.unwrap();
    operator.dc_submit(DcRequest { r#type: operation as i32, ..fields }).await.unwrap().into_inner()
}

async fn ask(one: &One, id: u32) {
    let imgidx_t = format!("{{\"{id}\": 1}}");
    let reply = submit(one, OpType::ReadimgByidxT, DcRequest { imgidx_t, ..Default::default() }).await;
    assert_eq!((reply.imgidx, reply.len), (i64::from(id), BYTES as i64), "{}", reply.msg);
}

async fn report(one: &One, id: u32, loss: f32) {
    let kvlist_json = format!("{{\"{id}\": {loss}}}");
    let reply = submit(one, OpType::UpdateIvpersample, DcRequest { kvlist_json, ..Default::default() }).await;
    assert!(reply.msg.contains("accepted"), "{}", reply.msg);
}

async fn end_epoch(one: &One) {
    submit(one, OpType::RefreshServerIvpsample, DcRequest::default()).await;
}

async fn any(one: &One) -> u32 {
    let reply = submit(one, OpType::ReadimgByidx, DcRequest { imgidx: -1, ..Default::default() }).await;
    u32::try_from(reply.imgidx).unwrap_or_else(|_| panic!("{}", reply.msg))
}

/// The epoch that a job is in, as a node sees it.
fn epoch(one: &One, name: &str) -> Option<u64> {
    let status = one.dataset.jobs().status().into_iter().find(|status| status.introduction.name == name)?;
    status.epoch
}

/// The loss of a sample that a node knows of.
fn loss(one: &One, id: usize) -> Option<f32> {
    let page = one.dataset.jobs().scores_from("icache", 0)?;
    page.collected.get(id).copied().filter(|loss| !loss.is_nan())
}

#[tokio::test(flavor = "multi_thread")]
async fn losses_are_known_at_all_nodes_also_where_the_first_client_comes_later() {
    let world = World { policy: Policy::Importance, ..World::new(ITEMS, BYTES).await };
    let first = world.node(1, 1 << 30).await;
    ask(&first, 0).await;
    report(&first, 3, 0.75).await;
    let second = world.node(2, 1 << 30).await;
    introduce(&[&first, &second]).await;
    // Its client comes before anybody has told it anything.
    ask(&second, 1).await;
    report(&second, 5, 0.5).await;
    let knows = |one: &One| (loss(one, 3), loss(one, 5)) == (Some(0.75), Some(0.5));
    until("both to know both losses", || knows(&first) && knows(&second)).await;
    join_all([first, second].into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_that_ends_for_the_clients_of_each_node_is_one_epoch() {
    let world = World { policy: Policy::Importance, ..World::new(ITEMS, BYTES).await };
    let nodes = world.nodes(2, 1 << 30).await;
    let all_in = async |number| {
        until("all nodes to be in one epoch", || nodes.iter().all(|one| epoch(one, "icache") == Some(number))).await;
    };
    for one in &nodes {
        ask(one, 0).await;
    }
    for number in 1..=3 {
        // The clients of the second node are done after all have heard of those of the first.
        end_epoch(&nodes[0]).await;
        all_in(number).await;
        report(&nodes[1], number as u32, 2.0).await;
        end_epoch(&nodes[1]).await;
        all_in(number).await;
    }
    // In whatever order they come.
    for _ in 0..2 {
        end_epoch(&nodes[1]).await;
    }
    for _ in 0..2 {
        end_epoch(&nodes[0]).await;
    }
    all_in(5).await;
    until("what was reported to take effect at both", || {
        nodes.iter().all(|one| one.dataset.jobs().scores_applied() > 0 && loss(one, 3) == Some(2.0))
    })
    .await;
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_that_another_nodes_cache_had_are_reported_as_remote_hits() {
    let world = World::new(ITEMS, BYTES).await;
    let nodes = world.nodes(2, 1 << 30).await;
    let remote_hits = async |one: &One| submit(one, OpType::GetCacheInfo, DcRequest::default()).await.id;
    let read_all = async |one: &One| {
        for imgidx in 0..ITEMS as i64 {
            let reply = submit(one, OpType::ReadimgByidx, DcRequest { imgidx, ..Default::default() }).await;
            assert_eq!((reply.imgidx, reply.len), (imgidx, BYTES as i64), "{}", reply.msg);
        }
    };
    assert_eq!(remote_hits(&nodes[1]).await, 0);
    // Each node has then asked the other for what that owns.
    for one in &nodes {
        read_all(one).await;
    }
    for one in &nodes {
        let from_peers = one.dataset.status().stats.peer as i64;
        assert!(from_peers > 0, "the other node owns some of the samples");
        assert_eq!(remote_hits(one).await, from_peers);
    }
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_sample_is_each_sample_once_an_epoch_whichever_node_is_asked() {
    let world = World::new(ITEMS, BYTES).await;
    let nodes = world.nodes(2, 1 << 30).await;
    for number in 0..3 {
        let mut seen = BTreeSet::new();
        for (one, share) in nodes.iter().zip([ITEMS - 7, 7]) {
            for _ in 0..share {
                assert!(seen.insert(any(one).await), "a sample came twice in epoch {number}");
            }
            let consumed = |one: &One| {
                let job = one.dataset.jobs().find("icache-any")?;
                Some(one.dataset.jobs().audit(job, number).ok()?.consumed)
            };
            until("both to know what was taken", || nodes.iter().all(|one| consumed(one) == Some(seen.len() as u64)))
                .await;
        }
        assert!(nodes.iter().all(|one| epoch(one, "icache-any") == Some(number)));
    }
    join_all(nodes.into_iter().map(One::end)).await;
}
