//! Chunks: two at a time, each loaded once, the next when the one before is used up.

use super::{super::conformance::World, *};
use std::collections::BTreeSet;

/// Everything proposed until it rests, and how many chunks began with it.
fn drain(chunks: &mut Chunks, world: &mut World) -> (Vec<u32>, usize) {
    let fetches = world.drain(chunks, u64::MAX);
    let begun = fetches.iter().filter(|fetch| fetch.begins_chunk).count();
    (fetches.into_iter().flat_map(|fetch| fetch.ids).collect(), begun)
}

#[test]
fn two_chunks_are_loaded_and_the_next_when_the_first_is_used() {
    let mut world = World::new(1_000, 1);
    world.plan((0..1_000).collect(), 1);
    let mut chunks = Chunks::new(Over::Ids, 100, 1);
    let (ids, begun) = drain(&mut chunks, &mut world);
    assert_eq!((ids.len(), begun), (200, 2));
    assert!(ids[..100].is_sorted() && ids[100..].is_sorted(), "each is a stretch");
    assert!(ids[..100].iter().zip(&ids[1..100]).all(|(a, b)| b - a == 1));
    // Nine tenths of the first are used, and then the rest of a tenth of it does not hold up the next.
    for &id in &ids[..89] {
        world.pending[id as usize] = 0;
        chunks.taken(id, &world);
        assert_eq!(chunks.next(&world, u64::MAX), Next::Nothing);
    }
    world.pending[ids[89] as usize] = 0;
    chunks.taken(ids[89], &world);
    let (next, begun) = drain(&mut chunks, &mut world);
    assert_eq!((next.len(), begun), (100, 1));
}

#[test]
fn a_round_of_chunks_covers_everything_once_and_the_next_is_in_another_order() {
    let mut world = World::new(1_000, 1);
    let mut chunks = Chunks::new(Over::Ids, 100, 1);
    let mut rounds: Vec<Vec<u32>> = Vec::new();
    for _ in 0..2 {
        let mut round = Vec::new();
        while round.len() < 1_000 {
            let (ids, _) = drain(&mut chunks, &mut world);
            for &id in &ids {
                chunks.taken(id, &world);
                world.held.remove(&id);
            }
            round.extend(ids);
        }
        assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 1_000);
        rounds.push(round);
    }
    assert_ne!(rounds[0], rounds[1]);
}

#[test]
fn nothing_is_passed_over_where_items_differ_in_size() {
    let mut world = World::new(1_000, 1);
    // The first tenth has as many bytes as all others.
    world.sizes[..100].fill(9);
    let mut chunks = Chunks::new(Over::Ids, 180, 1);
    let (mut loaded, mut bytes) = (BTreeSet::new(), 0);
    while loaded.len() < 1_000 {
        for fetch in world.drain(&mut chunks, u64::MAX) {
            bytes = fetch.bytes + if fetch.begins_chunk { 0 } else { bytes };
            assert!(bytes <= 180);
            for id in fetch.ids {
                assert!(loaded.insert(id), "{id} was loaded twice in a round");
                chunks.taken(id, &world);
            }
        }
    }
}

#[test]
fn the_plan_of_another_job_is_walked_from_its_beginning() {
    let mut world = World::new(100, 1);
    world.plan((0..100).collect(), 1);
    let mut chunks = Chunks::new(Over::Plan, 10, 1);
    assert_eq!(drain(&mut chunks, &mut world).0.len(), 20);
    chunks.job = Some(JobId(9));
    world.held.clear();
    chunks.loading.unused = IdSet::default();
    chunks.reading.unused = IdSet::default();
    assert_eq!(drain(&mut chunks, &mut world).0[..2], [0, 1]);
}

#[test]
fn a_chunk_of_the_plan_is_what_comes_next_in_it() {
    let mut world = World::new(1_000, 10);
    let order: Vec<u32> = (0..1_000).rev().collect();
    world.plan(order.clone(), 1);
    let mut chunks = Chunks::new(Over::Plan, 1_005, 1);
    let (ids, begun) = drain(&mut chunks, &mut world);
    assert_eq!((&ids[..], begun), (&order[..200], 2));
    for _ in 0..100 {
        let id = world.take(0).expect("there is more");
        chunks.taken(id, &world);
    }
    let (ids, begun) = drain(&mut chunks, &mut world);
    assert_eq!((&ids[..], begun), (&order[200..300], 1));
}

#[test]
fn what_nobody_needs_any_more_is_not_loaded() {
    let mut world = World::new(1_000, 1);
    world.plan((0..500).collect(), 1);
    let mut chunks = Chunks::new(Over::Ids, 10_000, 1);
    let (ids, _) = drain(&mut chunks, &mut world);
    assert!(ids.into_iter().eq(0..500));
}

#[test]
fn a_part_is_no_larger_than_the_room() {
    let world = World::new(1_000, 10);
    let mut chunks = Chunks::new(Over::Ids, 1_000, 1);
    let Next::Fetch(fetch) = chunks.next(&world, 55) else { panic!("there is room") };
    assert_eq!((fetch.ids.len(), fetch.bytes, fetch.begins_chunk), (5, 50, true));
    let Next::Fetch(next) = chunks.next(&world, 20) else { panic!("there is room") };
    assert_eq!((next.ids[0], next.begins_chunk), (fetch.ids[4] + 1, false));
    assert_eq!(chunks.next(&world, 9), Next::Nothing);
}
