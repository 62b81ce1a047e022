//! What jobs say of the importance of items, at nodes that were not told.

use crate::{
    job::{ORDER, Rank},
    world::{One, World, introduce, until},
};
use fodder_api::client::Scores;
use fodder_policy::Policy;
use futures::future::join_all;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const ITEMS: usize = 97;
const BYTES: usize = 4 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn scores_that_are_reported_at_one_node_take_effect_at_all() {
    let world = World::new(ITEMS, BYTES).await;
    let nodes = world.nodes(3, 1 << 30).await;
    let mut ranks = join_all((0..3).map(|rank| Rank::new(&nodes[rank as usize], rank, 3))).await;
    for rank in &mut ranks {
        rank.begin(0).await;
    }
    let scores: Vec<f32> = (0..ITEMS).map(|id| id as f32).collect();
    ranks[0].job.report_scores(Scores::Dense(scores.into())).await.unwrap();
    for rank in &mut ranks {
        rank.take_all().await;
    }
    // They take effect at the end of the epoch, of which every node hears.
    let mut epoch = 0;
    until("scores to be in effect everywhere", || {
        nodes.iter().all(|one| one.dataset.jobs().scores_applied() > 0) || {
            epoch += 1;
            let begin =
                async { join_all(ranks.iter().map(|rank| rank.job.begin_epoch(rank.rank, epoch, &ORDER))).await };
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(begin));
            false
        }
    })
    .await;
    join_all(nodes.into_iter().map(One::end)).await;
}

/// An epoch of all ranks.
async fn epoch(ranks: &mut [Rank], number: u64) {
    for rank in &mut *ranks {
        rank.begin(number).await;
    }
    for rank in ranks {
        rank.take_all().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_important_to_a_job_at_one_node_is_kept_at_another() {
    const BYTES: usize = 64 << 10;
    let world = World { policy: Policy::Importance, ..World::new(96, BYTES).await };
    // Room for half of what each owns.
    let nodes = world.nodes(2, 24 * BYTES as u64).await;
    let mut ranks = join_all((0..2).map(|rank| Rank::new(&nodes[rank as usize], rank, 2))).await;
    epoch(&mut ranks, 0).await;
    let here = &nodes[1];
    let missing: Vec<&str> = here.owned(&world).into_iter().filter(|path| !here.holds(path)).collect();
    assert!(missing.len() >= 12, "there is no room for all, so {} is too few", missing.len());
    // The node that keeps none of these is told nothing; the other one is.
    let important: Vec<&str> = missing[..12].to_vec();
    let snapshot = nodes[0].dataset.snapshot();
    let objects = nodes[0].dataset.objects();
    let path = |id: u64| objects.path(snapshot.item(id).unwrap().object);
    let scores = (0..snapshot.len()).map(|id| if important.contains(&path(id).as_str()) { 10.0 } else { 1.0 });
    ranks[0].job.report_scores(Scores::Dense(scores.collect())).await.unwrap();
    until("the scores to be passed on", || has_score(here)).await;
    let mut number = 0;
    while !important.iter().all(|path| here.holds(path)) {
        number += 1;
        assert!(number < 20, "of {important:?} the node still lacks some");
        epoch(&mut ranks, number).await;
    }
    join_all(nodes.into_iter().map(One::end)).await;
}

/// Whether a node knows what a job has reported.
fn has_score(one: &One) -> bool {
    one.dataset.jobs().scores_from("train", 0).is_some_and(|page| !page.collected.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_later_has_the_scores_that_were_reported_before() {
    let world = World::new(ITEMS, BYTES).await;
    let nodes = world.nodes(2, 1 << 30).await;
    let mut ranks = join_all((0..2).map(|rank| Rank::new(&nodes[rank as usize], rank, 2))).await;
    let scores = |first: usize| Scores::Dense((0..ITEMS).map(|id| (first + id) as f32).collect());
    ranks[0].job.report_scores(scores(0)).await.unwrap();
    epoch(&mut ranks, 0).await;
    ranks[0].begin(1).await;
    until("the first scores to take effect", || nodes[0].dataset.jobs().scores_applied() > 0).await;
    // These do when the epoch ends.
    ranks[0].job.report_scores(scores(1000)).await.unwrap();

    let late = world.node(77, 1 << 30).await;
    introduce(&[&nodes[0], &nodes[1], &late]).await;
    until("the scores to be there", || late.dataset.jobs().scores_from("train", 0).is_some()).await;
    let page = |one: &One| one.dataset.jobs().scores_from("train", 0).unwrap();
    assert_eq!(page(&late), page(&nodes[0]));
    assert_eq!((page(&late).collected[5], page(&late).effective[5]), (1005.0, 5.0));
    until("those that take effect to do so", || late.dataset.jobs().scores_applied() > 0).await;
    join_all(nodes.into_iter().map(One::end)).await;
    late.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_later_has_the_embeddings_that_were_reported_before() {
    let world = World { policy: Policy::Semantic, ..World::new(ITEMS, BYTES).await };
    let first = world.node(1, 1 << 30).await;
    let mut rank = Rank::new(&first, 0, 1).await;
    rank.begin(0).await;
    let ids: Arc<[u32]> = (0..ITEMS as u32).collect();
    // So long that it takes several pages.
    let values: Arc<[f32]> = ids.iter().flat_map(|id| (0..2048).map(move |at| (id % (at + 2)) as f32)).collect();
    rank.job.report_embeddings(2048, ids, values).await.unwrap();
    rank.begin(1).await;
    let second = world.node(2, 1 << 30).await;
    introduce(&[&first, &second]).await;
    // Nothing is reported any more, and no epoch ends.
    let applied = |one: &One| one.dataset.jobs().likenesses_applied() > 0;
    until("neighbours to be looked for at both", || applied(&first) && applied(&second)).await;
    let told = |one: &One| {
        let all = one.dataset.jobs().embeddings_of("train").unwrap();
        let page = all.page(0, usize::MAX).0;
        (page.ids.to_vec(), page.values.to_vec())
    };
    assert!(told(&first) == told(&second));
    join_all([first, second].into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embeddings_that_are_reported_at_one_node_change_what_another_keeps() {
    let world = World { policy: Policy::Semantic, ..World::new(ITEMS, BYTES).await };
    let nodes = world.nodes(2, 1 << 30).await;
    // The only rank is at the first node.
    let mut rank = Rank::new(&nodes[0], 0, 1).await;
    rank.begin(0).await;
    until("the second node to hear of the job", || nodes[1].dataset.jobs().find("train").is_some()).await;
    let ids: Arc<[u32]> = (0..ITEMS as u32).collect();
    let values: Arc<[f32]> = ids.iter().flat_map(|id| [(id % 7) as f32, 1.0, (id % 3) as f32]).collect();
    // They take effect at the end of an epoch. A busy node may not take a message, and then the next report makes up for it.
    let deadline = Instant::now() + Duration::from_secs(60);
    for number in 1.. {
        rank.job.report_embeddings(3, Arc::clone(&ids), Arc::clone(&values)).await.unwrap();
        if nodes.iter().all(|one| one.dataset.jobs().likenesses_applied() > 0) {
            break;
        }
        let applied: Vec<u64> = nodes.iter().map(|one| one.dataset.jobs().likenesses_applied()).collect();
        assert!(Instant::now() < deadline, "neighbours were not looked for at both: {applied:?}");
        rank.begin(number).await;
    }
    join_all(nodes.into_iter().map(One::end)).await;
}
