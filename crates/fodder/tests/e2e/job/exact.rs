//! Each job is given every planned item exactly once, in order or in a better one.

use super::world::{Door, Given, ITEM_BYTES, NAME, Rank, World, introduction};
use fodder_api::{Delivery, v1};
use fodder_policy::{
    permutation::Permutation,
    plan::Order,
    serving::{Approximation, Mode},
};

fn served(given: &[Given]) -> Vec<u32> {
    given.iter().map(|item| item.served).collect()
}

#[track_caller]
fn assert_each_once(given: &[Given], items: u32) {
    let mut ids = served(given);
    ids.sort_unstable();
    assert_eq!(ids, (0..items).collect::<Vec<_>>());
}

/// The audit of the epoch that a job's one rank leaves by beginning the next.
fn audit(rank: &Rank, next_epoch: u64) -> v1::Audit {
    rank.begin(next_epoch, &Order::Seed(9)).unwrap().audit.expect("the only rank has left the epoch")
}

#[test]
fn a_strict_job_is_given_its_plan_over_either_door() {
    let world = World::new(200);
    let node = world.start("minio", 0.3);
    for door in [Door::Grpc, Door::Frames] {
        let name = format!("strict-{door:?}");
        let mut rank = Rank::introduce(&node, door, introduction(&name, Mode::Strict, 1), 0).unwrap();
        let begun = rank.begin(0, &Order::Seed(9)).unwrap();
        assert_eq!((begun.items, begun.audit), (200, None));
        let given = rank.rest(0, 0, 7);
        let plan = Permutation::new(200, 9, 0);
        let planned: Vec<_> = (0..200).filter_map(|position| plan.at(position)).collect();
        assert_eq!(served(&given), planned);
        assert!(given.iter().all(|item| item.asked == item.served && item.delivery == Delivery::Planned));
        let audit = audit(&rank, 1);
        assert!(audit.is_exact() && audit.consumed == 200 && audit.displacement_max == 0, "{audit:?}");
        let table = node.client(&["jobs", NAME]).good().text();
        assert!(table.lines().any(|line| line.contains(&name) && line.ends_with("exactly once")), "{table}");
        let status = node.client(&["status"]).good().text();
        assert!(status.contains(&format!("job     {name}  strict, epoch 1: 0 of 200 items")), "{status}");
        rank.call(async |job| job.leave().await).unwrap();
    }
}

#[test]
fn a_batch_that_is_asked_for_again_is_the_same_and_no_duplicate() {
    let world = World::new(60);
    let node = world.start("minio", 0.5);
    let mode = Mode::Reorder { window: 30 };
    let mut frames = Rank::introduce(&node, Door::Frames, introduction("again", mode, 1), 0).unwrap();
    let mut grpc = Rank::introduce(&node, Door::Grpc, introduction("again", mode, 1), 0).unwrap();
    assert_eq!(frames.job.id(), grpc.job.id(), "the same introduction is the same job");
    frames.begin(0, &Order::Seed(3)).unwrap();
    let mut all = Vec::new();
    for number in 0..6 {
        let first = frames.next(0, number, 10, &[]).unwrap();
        let again = grpc.next(0, number, 10, &[]).unwrap();
        assert_eq!(served(&first), served(&again));
        grpc.call(async |job| job.acknowledge(0, 0, vec![number, number]).await).unwrap();
        all.extend(first);
    }
    assert_each_once(&all, 60);
    assert_eq!(frames.next(0, 6, 10, &[]).unwrap(), []);
    assert!(audit(&frames, 1).is_exact());
}

#[test]
fn a_list_of_ids_is_given_in_its_order() {
    let world = World::new(100);
    let node = world.start("minio", 0.5);
    let mut rank = Rank::introduce(&node, Door::Grpc, introduction("listed", Mode::Strict, 1), 0).unwrap();
    let ids: Vec<u32> = (0..100).rev().step_by(3).collect();
    let begun = rank.begin(4, &Order::Ids(ids.clone().into())).unwrap();
    assert_eq!(begun.items as usize, ids.len());
    assert_eq!(served(&rank.rest(4, 0, 5)), ids);
    let audit = audit(&rank, 5);
    assert!(audit.is_exact() && audit.planned == ids.len() as u64, "{audit:?}");
}

#[test]
fn a_job_that_takes_substitutes_gets_them_within_its_bounds() {
    let world = World::new(300);
    // What is fetched ahead is there when its turn comes, and needs no substitute.
    let node = world.start_on_demand("minio", 0.3);
    let bounds = Approximation { max_fraction: 0.2, same_class: false, max_repeats: 2 };
    let request = introduction("approx", Mode::Approx(bounds), 1);
    let mut rank = Rank::introduce(&node, Door::Frames, request, 0).unwrap();
    for epoch in 0..3 {
        rank.begin(epoch, &Order::Seed(5)).unwrap();
        let given = rank.rest(epoch, 0, 10);
        assert_eq!(given.len(), 300);
        let substitutes: Vec<_> = given.iter().filter(|item| item.delivery == Delivery::Substituted).collect();
        assert!(substitutes.iter().all(|item| item.asked != item.served));
        assert!(substitutes.len() <= 60, "{} of 300 are substitutes", substitutes.len());
        assert!(epoch == 0 || !substitutes.is_empty(), "nothing was substituted in epoch {epoch}");
        let most = (0..300).map(|id| given.iter().filter(|item| item.served == id).count()).max();
        assert!(most <= Some(2), "an item was given {most:?} times");
    }
    let audit = audit(&rank, 3);
    assert!(audit.is_exact() && audit.substitutions > 0 && audit.substitutions <= 60, "{audit:?}");
}

#[test]
fn jobs_in_step_have_each_item_fetched_once() {
    let world = World::new(200);
    let node = world.start("minio", 0.05);
    let request = |name: &str| v1::IntroduceRequest { in_step: "epoch".into(), ..introduction(name, Mode::Strict, 1) };
    let mut ranks = [("one", Door::Frames), ("two", Door::Grpc), ("three", Door::Frames)]
        .map(|(name, door)| Rank::introduce(&node, door, request(name), 0).unwrap());
    for epoch in 0..2 {
        for rank in &ranks {
            rank.begin(epoch, &Order::Seed(4)).unwrap();
        }
        for number in 0..20u64 {
            let before: Vec<_> = number.checked_sub(1).into_iter().collect();
            let given = ranks.each_mut().map(|rank| served(&rank.next(epoch, number, 10, &before).unwrap()));
            assert!(given.iter().all(|ids| *ids == given[0] && ids.len() == 10));
        }
        for rank in &ranks {
            rank.call(async |job| job.acknowledge(epoch, 0, vec![19]).await).unwrap();
        }
    }
    // The second epoch finds a few in the cache, and the one after it may be fetched ahead already: none is fetched twice
    // in an epoch.
    let fetched = node.status()["datasets"][0]["stats"]["bytes_from_origin"].as_u64().unwrap() / ITEM_BYTES as u64;
    assert!((200..=600).contains(&fetched), "{fetched} items were fetched for three epochs of 200");
}
