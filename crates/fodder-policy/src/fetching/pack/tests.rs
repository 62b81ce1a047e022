//! Packs: dense runs are found, sparse ones are not.

use super::{super::conformance::World, *};

const KIB: u64 = 1 << 10;

fn packs(world: &mut World) -> Vec<Fetch> {
    world.drain(&mut Packs::default(), u64::MAX)
}

#[test]
fn most_of_a_pack_is_wanted_and_it_begins_and_ends_with_a_wanted_item() {
    let mut world = World::new(10_000, 100 * KIB);
    // Two of three are wanted in the first half, one of ten in the second.
    world.low = (0..10_000).filter(|id| if *id < 5_000 { id % 3 > 0 } else { id % 10 == 0 }).collect();
    let low = world.low.clone();
    let found = packs(&mut world);
    for fetch in &found {
        let through = fetch.through.clone().expect("a pack is a run");
        assert!(fetch.ids.iter().all(|id| low.contains(id)));
        assert!(fetch.ids.len() >= LEAST && fetch.ids.len() * 2 > through.len());
        assert!(through.len() as u64 * 100 * KIB <= PACK_BYTES);
        assert_eq!((fetch.ids.first(), fetch.ids.last().map(|id| id + 1)), (Some(&through.start), Some(through.end)));
    }
    let packed = world.held.iter().filter(|&&id| id < 5_000).count();
    assert!(packed > 3_300, "{packed} of 3,333 wanted ones in the dense half");
    assert!(world.held.len() - packed < 10, "sparse ones are not worth a read");
    assert!(found.len() < 80, "{} reads", found.len());
}

#[test]
fn a_pack_does_not_cross_objects_and_is_no_larger_than_the_room() {
    let mut world = World::new(1_000, KIB);
    world.low = (0..1_000).collect();
    world.first = (0..1_000).step_by(100).collect();
    for fetch in packs(&mut world.clone()) {
        let through = fetch.through.expect("a pack is a run");
        assert_eq!(through.start / 100, (through.end - 1) / 100);
    }
    let Next::Fetch(fetch) = Packs::default().next(&world, 10 * KIB) else { panic!("there is enough") };
    assert_eq!((fetch.ids.len(), fetch.bytes), (10, 10 * KIB));
}

#[test]
fn what_is_held_or_matters_is_not_packed() {
    let mut world = World::new(1_000, KIB);
    assert_eq!(packs(&mut world), [], "nothing is low");
    world.low = (0..1_000).collect();
    world.held = (0..1_000).collect();
    assert_eq!(packs(&mut world), [], "all is held");
}

#[test]
fn all_items_are_gone_through_and_then_again() {
    let mut world = World::new(50_000, KIB);
    world.low = (40_000..41_000).collect();
    let mut packs = Packs::default();
    let mut find = |world: &World| loop {
        match packs.next(world, u64::MAX) {
            Next::Searching => {}
            other => return other,
        }
    };
    assert!(matches!(find(&world), Next::Fetch(fetch) if fetch.ids.len() == 1_000));
    world.held = (40_000..41_000).collect();
    assert_eq!(find(&world), Next::Nothing);
    world.held.clear();
    assert!(matches!(find(&world), Next::Fetch(_)));
}
