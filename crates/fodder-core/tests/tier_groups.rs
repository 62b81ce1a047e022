//! Small objects, which share group files.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "tier_common/world.rs"]
mod world;

use fodder_core::{
    config::Medium,
    id::{ObjectSlot, PieceId},
    tier::{Shelf, ShelfRead, Tier},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use world::*;

fn group_files(home: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.join("t/data/birds/groups")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn read(world: &World, shelf: &Shelf, slot: u32) -> ShelfRead {
    let mut buf = vec![0; world.size(slot) as usize];
    let outcome = shelf.read(ObjectSlot(slot), 0, &mut buf, true);
    assert!(outcome != ShelfRead::Done || buf == world.bytes(slot), "wrong bytes of {slot}");
    outcome
}

fn all_right(world: &World, shelf: &Shelf) {
    for piece in shelf.pieces() {
        assert_eq!(read(world, shelf, world.slot_of(piece.0).0), ShelfRead::Done);
    }
}

#[test]
fn many_tiny_objects_take_one_file_and_little_more_space_than_their_bytes() {
    const OBJECTS: u32 = 20_000;
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[18; OBJECTS as usize]);
    {
        let tier = open(home.path(), 64 << 20);
        let shelf = tier.attach("birds", world.table()).unwrap();
        world.fill_all(&shelf);
        tier.flush();
        assert_eq!(group_files(home.path()).len(), 1);
        assert!(shelf.used_bytes() < 41 * u64::from(OBJECTS) + 65_536, "{} bytes", shelf.used_bytes());
        assert_quota(&tier, home.path());
        assert!(shelf.lease(ObjectSlot(7)).unwrap().is_none(), "the file holds other objects too");
        assert!(shelf.view(ObjectSlot(7), &(0..18)).is_none());
        tier.close();
    }
    let tier = open(home.path(), 64 << 20);
    let before = tier.used_bytes();
    let shelf = tier.attach("birds", world.table()).unwrap();
    assert_eq!(shelf.len() as u32, OBJECTS);
    assert!(tier.used_bytes().abs_diff(before) < 65_536, "{before} before, {} now", tier.used_bytes());
    all_right(&world, &shelf);
    assert_eq!(shelf.verify(|_| true).good, u64::from(OBJECTS));
    assert_quota(&tier, home.path());
}

#[test]
fn a_group_file_shrinks_as_objects_leave_and_all_others_stay() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[1000; 2000]);
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    world.fill_all(&shelf);
    tier.flush();
    let full = shelf.used_bytes();
    // Those that stay lie all over the file.
    for slot in (0..2000).filter(|slot| slot % 4 != 1) {
        assert_eq!(shelf.evict_object(ObjectSlot(slot)).len(), 1);
    }
    tier.flush();
    assert!(shelf.used_bytes() < full / 3, "{} of {full}", shelf.used_bytes());
    assert_quota(&tier, home.path());
    assert_eq!(shelf.len(), 500);
    all_right(&world, &shelf);
    // And so it is after a restart, and as durable as it was before anything was moved.
    tier.abandon();
    drop((shelf, tier));
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    assert_eq!(shelf.len(), 500);
    all_right(&world, &shelf);
    shelf.pieces().into_iter().for_each(|piece| drop(shelf.evict(piece)));
    tier.flush();
    assert_eq!(shelf.used_bytes(), 0);
}

#[test]
fn what_was_moved_and_not_committed_survives_a_crash() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[4000; 60]);
    {
        let tier = open_lazy(home.path(), 64 << 20);
        let shelf = tier.attach("birds", world.table()).unwrap();
        world.fill_all(&shelf);
        tier.flush();
        (0..30).for_each(|slot| drop(shelf.evict_object(ObjectSlot(slot))));
        let moved = (30..60).filter(|&slot| shelf.cell_range(ObjectSlot(slot)).unwrap().1.start < 30 * 4112);
        assert!(moved.count() > 10, "objects are moved to the cells that are free");
        // New ones come into the cells that are free, and none into those that the index still names.
        (0..20).for_each(|piece| world.fill(&shelf, piece).unwrap());
        tier.abandon();
    }
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    for slot in 30..60 {
        assert_eq!(read(&world, &shelf, slot), ShelfRead::Done, "{slot} was durable");
    }
}

#[test]
fn a_cell_that_was_reused_before_a_crash_is_not_taken_for_the_object_before() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[100, 100, 100]);
    {
        let tier = open_lazy(home.path(), 64 << 20);
        let shelf = tier.attach("birds", world.table()).unwrap();
        (0..2).for_each(|piece| world.fill(&shelf, piece).unwrap());
        tier.flush();
        let cell = shelf.cell_range(ObjectSlot(0));
        shelf.evict(PieceId(0));
        world.fill(&shelf, 2).unwrap();
        assert_eq!(shelf.cell_range(ObjectSlot(2)), cell);
        tier.abandon();
    }
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    assert!(shelf.has(PieceId(0)) && !shelf.has(PieceId(2)), "so the index says");
    assert_eq!(read(&world, &shelf, 0), ShelfRead::Corrupt);
    assert_eq!(read(&world, &shelf, 1), ShelfRead::Done);
    assert_eq!(shelf.drain_lost(), [PieceId(0)]);
}

#[test]
fn a_group_file_that_another_program_cuts_or_removes_costs_misses_and_is_filled_again() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[500; 400]);
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    let damages: [fn(&Path) -> std::io::Result<()>; 3] =
        [|path| std::fs::remove_file(path), |path| cut(path, 5000), |path| cut(path, 0)];
    for damage in damages {
        (0..200).for_each(|piece| drop(world.fill(&shelf, piece)));
        damage(&group_files(home.path())[0]).unwrap();
        (200..400).for_each(|piece| drop(world.fill(&shelf, piece)));
        shelf.drain_lost();
        (0..400).for_each(|slot| _ = read(&world, &shelf, slot));
        shelf.drain_lost();
        (0..400).for_each(|piece| drop(world.fill(&shelf, piece)));
        assert_eq!(shelf.len(), 400);
        all_right(&world, &shelf);
        tier.flush();
        assert_quota(&tier, home.path());
        shelf.pieces().into_iter().for_each(|piece| drop(shelf.evict(piece)));
        tier.flush();
        assert_eq!(shelf.used_bytes(), 0);
    }
}

fn cut(path: &Path, len: u64) -> std::io::Result<()> {
    std::fs::OpenOptions::new().write(true).open(path)?.set_len(len)
}

#[test]
fn small_objects_of_a_dataset_that_nobody_attaches_are_counted_and_give_way() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[2000; 500]);
    let with_birds = || {
        let tier = open(home.path(), 64 << 20);
        // A node that was stopped while it removed files is followed by one that sweeps first.
        tier.wait_swept();
        world.fill_all(&tier.attach("birds", world.table()).unwrap());
        tier.close();
    };
    with_birds();
    let tier = open(home.path(), 4 << 20);
    let used = tier.used_bytes();
    assert!(used > 500 * 2000 && du(home.path()) <= used, "{used} bytes are counted");
    assert!(tier.evict_unattached(3 << 20));
    assert!(group_files(home.path()).is_empty() && tier.unattached().is_empty());
    assert!(tier.used_bytes() < used - 500 * 2000);
    tier.close();
    with_birds();
    let tier = open(home.path(), 64 << 20);
    tier.detach("birds").unwrap();
    tier.wait_swept();
    assert!(!home.path().join("t/data/birds").exists());
    tier.close();
    // With its index a tier loses what it holds.
    with_birds();
    std::fs::remove_file(home.path().join("t/index.log")).unwrap();
    let tier = open(home.path(), 64 << 20);
    tier.wait_swept();
    assert!(!home.path().join("t/data/birds").exists());
}

#[test]
fn readers_of_small_objects_never_see_a_wrong_byte_while_others_evict_refill_and_move() {
    const SLOTS: u32 = 600;
    let home = tempfile::tempdir().unwrap();
    let sizes: Vec<u64> = (0..SLOTS).map(|slot| [20, 400, 3900, 4096][slot as usize % 4]).collect();
    let world = World::new(&sizes);
    let tier = Tier::open_with(&config(home.path(), 900_000, Medium::Mem), options()).unwrap();
    let shelf = tier.attach("birds", world.table()).unwrap();
    let (stop, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (world, shelf, stop, hits) = (&world, Arc::clone(&shelf), &stop, &hits);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed);
                while !stop.load(Ordering::Relaxed) {
                    let slot = random.random_range(0..SLOTS);
                    let outcome = read(world, &shelf, slot);
                    assert_ne!(outcome, ShelfRead::Corrupt);
                    hits.fetch_add(u64::from(outcome == ShelfRead::Done), Ordering::Relaxed);
                }
            });
        }
        let writers: Vec<_> = (10..12)
            .map(|seed| {
                let (world, shelf) = (&world, Arc::clone(&shelf));
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(seed);
                    for _ in 0..40_000 {
                        let slot = random.random_range(0..SLOTS);
                        match random.random_range(0..5) {
                            // More leave than come now and then, so that cells are moved.
                            0..2 => drop(shelf.evict_object(ObjectSlot(slot))),
                            2 if slot < 20 => {
                                (0..100).for_each(|at| drop(shelf.evict_object(ObjectSlot(slot + 4 * at))))
                            }
                            _ => drop(world.fill(&shelf, world.first(slot))),
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    assert!(hits.load(Ordering::Relaxed) > 1000);
    assert!(shelf.drain_lost().is_empty());
    all_right(&world, &shelf);
    assert_quota(&tier, home.path());
}
