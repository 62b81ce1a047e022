//! A job that plans by lists: nodes where none of its ranks is get the list from one that has it.

use crate::world::{One, World, introduce, until};
use fodder_core::job::{Audit, BatchRequest, Introduction, JobId, Order};
use futures::future::join_all;

const BYTES: usize = 4 << 10;
const ITEMS: usize = 97;

fn of(one: &One) -> Option<(Audit, Vec<u8>)> {
    let jobs = one.dataset.jobs();
    let job = jobs.find("train")?;
    Some((jobs.audit(job, 0).ok()?, jobs.checkpoint(job).ok()?))
}

async fn consume(one: &One, job: JobId, number: u64) {
    let request = BatchRequest { job, epoch: 0, rank: 0, number, count: 8 };
    one.dataset.jobs().next_batch(request).await.unwrap();
    one.dataset.jobs().acknowledge(job, 0, 0, number).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_no_rank_of_a_job_gets_its_list_and_knows_how_far_it_is() {
    let world = World::new(ITEMS, BYTES).await;
    let nodes = world.nodes(2, 1 << 30).await;
    let jobs = nodes[0].dataset.jobs();
    let job = jobs.introduce(Introduction::new("train")).unwrap();
    jobs.begin(job, 0, 0, Order::Ids((0..ITEMS as u32).rev().collect())).unwrap();
    consume(&nodes[0], job, 0).await;
    let is_known = |one: &One, items| of(one).is_some_and(|(audit, _)| audit.consumed == items);
    until("the second node to know the epoch", || is_known(&nodes[1], 8)).await;
    assert_eq!(of(&nodes[1]), of(&nodes[0]));

    // The first is gone, and one that comes later has it from the second.
    let mut nodes = nodes;
    consume(&nodes[0], job, 1).await;
    until("the second node to hear of it", || is_known(&nodes[1], 16)).await;
    nodes[0].die();
    let late = world.node(77, 1 << 30).await;
    introduce(&[&nodes[1], &late]).await;
    until("the late node to know the epoch", || is_known(&late, 16)).await;
    join_all(nodes.into_iter().map(One::end)).await;
    late.end().await;
}
