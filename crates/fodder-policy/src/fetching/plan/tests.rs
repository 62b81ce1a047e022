//! Prefetch by plan against a sorted list of all uses to come.

use super::{super::conformance::World, *};
use crate::permutation::Permutation;

/// Everything it proposes until it rests.
fn drain(ahead: &mut Ahead, world: &mut World, room_bytes: u64) -> Vec<u32> {
    world.drain(ahead, room_bytes).into_iter().flat_map(|fetch| fetch.ids).collect()
}

fn order(items: u32, seed: u64) -> Vec<u32> {
    let permutation = Permutation::new(items, seed, 0);
    (0..items).filter_map(|position| permutation.at(position)).collect()
}

#[test]
fn several_plans_are_merged_by_the_time_of_use() {
    let mut world = World::new(300, 1);
    // One job is three times as fast as the other.
    for (seed, each) in [(1, 10), (2, 30)] {
        world.plan(order(300, seed), each);
    }
    world.held = (0..300).step_by(7).collect();
    let mut uses: Vec<(u64, u32)> = Vec::new();
    for (order, _, each) in &world.plans {
        uses.extend((0..).zip(order).map(|(position, &id)| (position * each, id)));
    }
    uses.sort_by_key(|&(at, _)| at);
    let mut expected: Vec<u32> = Vec::new();
    for (_, id) in uses {
        if !world.held.contains(&id) && !expected.contains(&id) {
            expected.push(id);
        }
    }
    let proposed = drain(&mut Ahead::new(u64::MAX), &mut world, u64::MAX);
    assert_eq!(proposed, expected);
}

#[test]
fn it_goes_as_far_ahead_as_the_budget_and_on_with_every_use() {
    let mut world = World::new(100, 10);
    world.plan(order(100, 1), 1);
    let plan = world.plans[0].0.clone();
    let mut ahead = Ahead::new(95);
    assert_eq!(drain(&mut ahead, &mut world, u64::MAX), plan[..9]);
    for step in 0..91 {
        let id = world.take(0).expect("there is more");
        ahead.taken(id, &world);
        assert_eq!(drain(&mut ahead, &mut world, u64::MAX), plan[9 + step..10 + step]);
    }
    assert_eq!(ahead.waiting_bytes, 90);
}

#[test]
fn what_was_lost_no_longer_counts_against_the_budget() {
    let mut world = World::new(100, 10);
    world.plan(order(100, 1), 1);
    let mut ahead = Ahead::new(50);
    let first = drain(&mut ahead, &mut world, u64::MAX);
    // It is not held any more, but no job needs it either.
    world.held.remove(&first[0]);
    world.take(0);
    ahead.lost(first[0], &world);
    ahead.lost(first[0], &world);
    assert_eq!(drain(&mut ahead, &mut world, u64::MAX), world.plans[0].0[5..6]);
}

#[test]
fn what_is_lost_behind_the_walk_is_brought_in_again_and_first() {
    let mut world = World::new(100, 10);
    world.plan(order(100, 1), 1);
    let plan = world.plans[0].0.clone();
    world.held = plan[..50].iter().copied().collect();
    let mut ahead = Ahead::new(100);
    assert_eq!(drain(&mut ahead, &mut world, u64::MAX), plan[50..60]);
    for place in [40, 7, 52] {
        world.held.remove(&plan[place]);
        ahead.lost(plan[place], &world);
    }
    // One that it had brought in itself: its room is free again. Of the two others, that which is needed first.
    assert_eq!(drain(&mut ahead, &mut world, u64::MAX), [plan[7]]);
    for _ in 0..8 {
        let id = world.take(0).expect("there is more");
        ahead.taken(id, &world);
    }
    assert_eq!(drain(&mut ahead, &mut world, u64::MAX), [plan[40]]);
}

#[test]
fn very_much_that_is_lost_is_walked_again() {
    let items = 3 * MOST_BEHIND as u32;
    let mut world = World::new(items, 1);
    world.plan((0..items).collect(), 1);
    world.held = (0..items).collect();
    let mut ahead = Ahead::new(u64::MAX);
    assert!(drain(&mut ahead, &mut world, u64::MAX).is_empty());
    world.held.clear();
    for id in (0..items).rev() {
        ahead.lost(id, &world);
        assert!(ahead.walks.values().all(|walk| walk.behind.len() <= MOST_BEHIND));
    }
    let again = drain(&mut ahead, &mut world, u64::MAX);
    assert!(again.is_sorted(), "in the order of their use");
    assert_eq!(again.len() as u32, items);
}

#[test]
fn another_plan_is_walked_from_its_begin() {
    let mut world = World::new(20, 1);
    world.plan((0..20).collect(), 1);
    let mut ahead = Ahead::new(10);
    assert_eq!(drain(&mut ahead, &mut world, u64::MAX), Vec::from_iter(0..10));
    world.plans[0].0.reverse();
    ahead.replanned();
    (0..10).for_each(|id| ahead.taken(id, &world));
    assert_eq!(drain(&mut ahead, &mut world, u64::MAX), Vec::from_iter((10..20).rev()));
}

#[test]
fn without_room_the_order_is_kept_and_a_huge_item_comes_alone() {
    let mut world = World::new(3, 10);
    world.sizes[1] = 1_000;
    world.plan(vec![1, 0, 2], 1);
    let mut ahead = Ahead::new(100);
    assert!(drain(&mut ahead, &mut world, 999).is_empty());
    assert_eq!(drain(&mut ahead, &mut world, 1_000), [1]);
    let id = world.take(0).expect("there is more");
    ahead.taken(id, &world);
    assert_eq!(drain(&mut ahead, &mut world, 1_000), [0, 2]);
}

#[test]
fn a_plan_of_which_all_is_held_is_passed_over_in_steps() {
    let mut world = World::new(10_000, 1);
    world.plan(order(10_000, 1), 1);
    world.held = (0..10_000).collect();
    let mut ahead = Ahead::new(100);
    let steps = std::iter::from_fn(|| (ahead.next(&world, 1) == Next::Searching).then_some(())).count();
    assert_eq!(steps, 2);
}

#[test]
fn a_job_that_left_leaves_no_cursor() {
    let mut world = World::new(10, 1);
    world.plan(order(10, 1), 1);
    let mut ahead = Ahead::new(100);
    drain(&mut ahead, &mut world, 1);
    world.plans.clear();
    assert_eq!(ahead.next(&world, 1), Next::Nothing);
    assert!(ahead.walks.is_empty());
}
