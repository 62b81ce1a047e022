//! What a shelf promises while all goes well, and when a disk, a user or a restart comes in between.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "tier_common/world.rs"]
mod world;

use fodder_core::{
    Error,
    config::Medium,
    id::{ObjectSlot, PieceId},
    tier::{Health, ShelfRead, Tier},
};
use std::os::unix::fs::{FileExt, PermissionsExt};
use world::*;

#[test]
fn what_was_written_is_read_back_from_any_offset() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[10, 5000, 300_000, 0, 70_000]);
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    for piece in 0..world.pieces() {
        assert_eq!(shelf.read(world.slot_of(piece), 0, &mut [0], true), ShelfRead::Missing);
    }
    world.fill_all(&shelf);
    assert_eq!(shelf.len() as u32, world.pieces());
    for slot in 0..5 {
        let want = world.bytes(slot);
        for (offset, len) in ranges(want.len()) {
            let mut buf = vec![0xee; len];
            assert_eq!(shelf.read(ObjectSlot(slot), offset as u64, &mut buf, true), ShelfRead::Done);
            assert_eq!(buf, want[offset..offset + len]);
            assert_eq!(
                shelf.read(ObjectSlot(slot), offset as u64, &mut buf, false),
                ShelfRead::Done,
                "it is in memory"
            );
        }
    }
    assert_eq!(shelf.read(ObjectSlot(0), 5, &mut [0; 6], true), ShelfRead::Missing, "past the end");
    assert_eq!(shelf.read(ObjectSlot(99), 0, &mut [0; 6], true), ShelfRead::Missing);
    assert_quota(&tier, home.path());
    assert_eq!(real_du(home.path()), du(home.path()));
}

#[test]
fn files_are_raw_private_and_where_a_person_looks_for_them() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[300_000]);
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    world.fill_all(&shelf);
    let path = world.path(home.path(), "birds", 0);
    assert_eq!(std::fs::read(&path).unwrap(), world.bytes(0));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for directory in [path.parent().unwrap(), path.parent().unwrap().parent().unwrap(), &home.path().join("t/data")] {
        assert_eq!(std::fs::metadata(directory).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[test]
fn a_restart_finds_everything_unverified_and_checks_it_once() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[300_000, 10, 70_000]);
    for how in ["close", "drop", "kill after a flush"] {
        let tier = open(home.path(), 64 << 20);
        let shelf = tier.attach("birds", world.table()).unwrap();
        world.fill_all(&shelf);
        match how {
            "close" => tier.close(),
            "drop" => drop(tier),
            _ => {
                tier.flush();
                tier.abandon();
            }
        }
        let tier = open(home.path(), 64 << 20);
        let shelf = tier.attach("birds", world.table()).unwrap();
        assert_eq!(shelf.len() as u32, world.pieces(), "{how}");
        assert_eq!(shelf.pieces().len() as u32, world.pieces());
        let mut buf = vec![0; 10];
        assert_eq!(shelf.read(ObjectSlot(0), 5, &mut buf, false), ShelfRead::WouldBlock, "not checked yet");
        assert_eq!(shelf.read(ObjectSlot(0), 5, &mut buf, true), ShelfRead::Done);
        assert_eq!(buf, world.bytes(0)[5..15]);
        assert_eq!(shelf.read(ObjectSlot(0), 5, &mut buf, false), ShelfRead::Done);
        tier.wait_swept();
        assert_quota(&tier, home.path());
        let used = tier.used_bytes();
        assert!(shelf.used_bytes() < used);
        tier.close();
        assert_eq!(shelf.read(ObjectSlot(0), 5, &mut buf, true), ShelfRead::Missing, "closed");
        assert!(shelf.reserve(1).is_none());
    }
}

#[test]
fn a_second_node_is_told_who_has_the_tier() {
    let home = tempfile::tempdir().unwrap();
    let tier = open(home.path(), 64 << 20);
    let Err(Error::Conflict(message)) = Tier::open(&config(home.path(), 64 << 20, Medium::Ssd)) else {
        panic!("it opened twice")
    };
    assert!(message.contains(&std::process::id().to_string()), "{message}");
    tier.close();
    open(home.path(), 64 << 20);
}

#[test]
fn a_lease_is_immutable_and_stays_charged_until_it_is_given_back() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[300_000, 0]);
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    let last = PieceId(world.pieces() - 1);
    for piece in 0..last.0 {
        world.fill(&shelf, piece).unwrap();
    }
    assert!(shelf.lease(ObjectSlot(0)).unwrap().is_none(), "not complete");
    world.fill(&shelf, last.0).unwrap();
    let lease = shelf.lease(ObjectSlot(0)).unwrap().unwrap();
    let second = shelf.lease(ObjectSlot(0)).unwrap().unwrap();
    assert_eq!(lease.size, 300_000);
    let path = world.path(home.path(), "birds", 0);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o400, "sealed");
    let used = shelf.used_bytes();
    assert_eq!(shelf.evict(PieceId(1)).len() as u32, world.pieces(), "a sealed object goes whole");
    assert!(!path.exists());
    assert_eq!(shelf.used_bytes(), used, "the lease still holds its blocks");
    world.fill(&shelf, 0).unwrap();
    shelf.evict(PieceId(0));
    let mut bytes = vec![0; 300_000];
    lease.file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, world.bytes(0));
    assert!(lease.file.write_at(b"x", 0).is_err(), "open for reading only");
    drop(lease);
    assert_eq!(shelf.used_bytes(), used);
    drop(second);
    assert_eq!(shelf.used_bytes(), 0);
    let empty = shelf.lease(ObjectSlot(1)).unwrap().unwrap();
    assert_eq!((empty.size, empty.file.metadata().unwrap().len()), (0, 0));
}

#[test]
fn a_file_that_is_shown_counts_until_something_is_taken_away_and_cannot_be_written() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[300_000, 300_000]);
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    assert!(shelf.view(ObjectSlot(0), &(0..10)).is_none(), "nothing is here");
    world.fill(&shelf, 0).unwrap();
    world.fill(&shelf, 1).unwrap();
    let there = 2 * u64::from(GRID);
    assert!(shelf.view(ObjectSlot(0), &(0..there + 1)).is_none(), "a part of it is not here");
    assert!(shelf.view(ObjectSlot(0), &(7..7)).is_none() && shelf.view(ObjectSlot(9), &(0..1)).is_none());
    let view = shelf.view(ObjectSlot(0), &(0..there)).unwrap();
    let mut read = vec![0; there as usize];
    let (file, _shown) = shelf.show(&view).unwrap();
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read == world.bytes(0)[..there as usize]);
    assert!(file.write_at(b"poison", 0).is_err(), "it is open for reading only");
    // What is added takes nothing away.
    world.fill(&shelf, 2).unwrap();
    assert!(shelf.still_shows(&view));
    assert_eq!(shelf.evict(PieceId(1)), [PieceId(1)]);
    assert!(!shelf.still_shows(&view));
    let view = shelf.view(ObjectSlot(0), &(0..10)).unwrap();
    tier.close();
    assert!(!shelf.still_shows(&view), "what becomes of the file is another node's to say");
}

#[test]
fn lost_bytes_are_noticed_named_and_written_into_a_new_file() {
    type Damage = fn(&std::path::Path);
    let damages: [(&str, Damage); 4] = [
        ("flip", |path| flip(path, 70_000)),
        ("truncate", |path| std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(1000).unwrap()),
        ("delete", |path| std::fs::remove_file(path).unwrap()),
        ("replace by a directory", |path| {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        }),
    ];
    for (name, damage) in damages {
        let home = tempfile::tempdir().unwrap();
        let world = World::new(&[300_000, 10]);
        let tier = open(home.path(), 64 << 20);
        let shelf = tier.attach("birds", world.table()).unwrap();
        world.fill_all(&shelf);
        tier.close();
        let path = world.path(home.path(), "birds", 0);
        damage(&path);
        let tier = open(home.path(), 64 << 20);
        let shelf = tier.attach("birds", world.table()).unwrap();
        let mut buf = vec![0; 300_000];
        assert_eq!(shelf.read(ObjectSlot(0), 0, &mut buf, false), ShelfRead::WouldBlock, "{name}");
        assert_eq!(shelf.read(ObjectSlot(0), 0, &mut buf, true), ShelfRead::Corrupt, "{name}");
        assert_eq!(shelf.drain_lost().len() as u32, world.pieces() - 1, "{name}");
        assert_eq!(shelf.drain_lost(), []);
        assert_eq!(shelf.read(ObjectSlot(0), 0, &mut buf, true), ShelfRead::Missing, "{name}");
        if name == "replace by a directory" {
            assert!(world.fill(&shelf, 0).is_err(), "somebody else's name is not taken");
            continue;
        }
        world.fill_all(&shelf);
        assert_eq!(shelf.read(ObjectSlot(0), 0, &mut buf, true), ShelfRead::Done, "{name}");
        assert_eq!(buf, world.bytes(0));
        assert_quota(&tier, home.path());
    }
}

#[test]
fn verify_drops_exactly_what_differs() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[300_000, 10, 5000, 70_000]);
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    world.fill_all(&shelf);
    tier.flush();
    let (small, at) = stored(home.path(), &world, &shelf, 1);
    flip(&small, at.start + 3);
    std::fs::remove_file(world.path(home.path(), "birds", 2)).unwrap();
    let checked = shelf.verify(|_| true);
    assert_eq!(checked.corrupt, 1, "the vanished file is still open and still right: {checked:?}");
    assert_eq!(checked.good as u32, world.pieces() - 1);
    assert_eq!(shelf.drain_lost(), [PieceId(world.first(1))]);
    assert_eq!(shelf.verify(|_| false).corrupt, 0);
}

#[test]
fn a_removed_dataset_leaves_nothing_and_may_come_again() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[300_000, 10, 5000]);
    let tier = open(home.path(), 64 << 20);
    let before = tier.used_bytes();
    let shelf = tier.attach("birds", world.table()).unwrap();
    assert!(matches!(tier.attach("birds", world.table()), Err(Error::Conflict(_))));
    world.fill_all(&shelf);
    tier.flush();
    tier.detach("birds").unwrap();
    assert!(matches!(tier.detach("birds"), Err(Error::NotFound(_))));
    assert!(!home.path().join("t/data/birds").exists());
    assert!(world.fill(&shelf, 0).is_err());
    assert_eq!(shelf.read(ObjectSlot(0), 0, &mut [0], true), ShelfRead::Missing);
    tier.flush();
    assert!(tier.used_bytes() <= before + 4096, "{before} {}", tier.used_bytes());
    let shelf = tier.attach("birds", world.table()).unwrap();
    assert!(shelf.is_empty());
    world.fill_all(&shelf);
    tier.close();
    let tier = open(home.path(), 64 << 20);
    assert_eq!(tier.unattached(), ["birds"]);
    assert!(tier.used_bytes() > 310_000, "what is not attached is charged");
    tier.detach("birds").unwrap();
    tier.wait_swept();
    assert!(tier.used_bytes() <= before + 8192);
    assert!(!home.path().join("t/data/birds").exists());
}

#[test]
fn another_grid_or_other_objects_make_what_was_there_disappear() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[300_000, 10]);
    let tier = open(home.path(), 64 << 20);
    world.fill_all(&tier.attach("birds", world.table()).unwrap());
    tier.close();
    let tier = open(home.path(), 64 << 20);
    let other = World::with_grid(&[300_000, 10], 128 << 10);
    let shelf = tier.attach("birds", other.table()).unwrap();
    assert!(shelf.is_empty());
    tier.wait_swept();
    assert!(!world.path(home.path(), "birds", 0).exists());
    other.fill_all(&shelf);
    tier.close();
    let tier = open(home.path(), 64 << 20);
    let stranger = World::with_seed(&[300_000, 10], 77, 128 << 10);
    assert!(tier.attach("birds", stranger.table()).unwrap().is_empty());
    tier.wait_swept();
    assert!(!other.path(home.path(), "birds", 0).exists());
    assert_quota(&tier, home.path());
}

#[test]
fn a_refresh_adds_objects_and_moves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[300_000, 10]);
    let grown = World::new(&[300_000, 10, 5000, 70_000]);
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    world.fill_all(&shelf);
    shelf.follow(grown.table());
    assert_eq!(shelf.len() as u32, world.pieces());
    grown.fill_all(&shelf);
    for slot in 0..4 {
        let mut buf = vec![0; grown.bytes(slot).len()];
        assert_eq!(shelf.read(ObjectSlot(slot), 0, &mut buf, true), ShelfRead::Done);
        assert_eq!(buf, grown.bytes(slot));
    }
}

#[test]
fn a_name_that_is_no_directory_name_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let tier = open(home.path(), 64 << 20);
    let world = World::new(&[1]);
    for name in ["", ".", "..", ".x", "a/b", "a\nb", "ä", &"x".repeat(65)] {
        assert!(matches!(tier.attach(name, world.table()), Err(Error::Invalid(_))), "{name:?}");
    }
}

#[test]
fn an_object_larger_than_a_file_can_be_is_an_error_and_not_a_fault() {
    let home = tempfile::tempdir().unwrap();
    let world = World::with_grid(&[1 << 45, 10], 1 << 20);
    let tier = open(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    let reservation = shelf.reserve(shelf.cost(PieceId(0))).unwrap();
    let result = shelf.write(PieceId(0), &[&vec![1; 1 << 20]], reservation);
    if let Err(error) = result {
        assert!(error.to_string().contains("larger than a file in this tier can be"), "{error}");
        assert_eq!(tier.health(), Health::Ok);
    }
    let last = world.pieces() - 1;
    world.fill(&shelf, last).unwrap();
    assert!(shelf.has(PieceId(last)));
}

#[test]
fn the_index_stays_short_under_churn_and_is_right_afterwards() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[5000; 200]);
    let tier = open_unsynced(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    for round in 0..30 {
        world.fill_all(&shelf);
        if round % 3 == 0 {
            tier.flush();
        }
        for piece in 0..150 {
            shelf.evict(PieceId((piece * 7 + round) % 200));
        }
        tier.flush();
    }
    let here = shelf.pieces();
    assert!(std::fs::metadata(home.path().join("t/index.log")).unwrap().len() < 200 << 10);
    tier.abandon();
    let tier = open_unsynced(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    assert_eq!(shelf.pieces(), here);
    assert_eq!(shelf.verify(|_| true).corrupt, 0);
    tier.wait_swept();
    assert_quota(&tier, home.path());
}

#[test]
fn files_and_blocks_that_the_index_does_not_know_are_swept() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[300_000, 5000, 5000]);
    let tier = open_lazy(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    world.fill(&shelf, 0).unwrap();
    world.fill(&shelf, world.first(1)).unwrap();
    tier.flush();
    world.fill(&shelf, 2).unwrap();
    world.fill(&shelf, world.first(2)).unwrap();
    tier.abandon();
    let foreign = home.path().join("t/data/birds/README");
    std::fs::write(&foreign, "a person's").unwrap();
    let tier = open_lazy(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    tier.wait_swept();
    assert_eq!(shelf.pieces(), [PieceId(0), PieceId(world.first(1))]);
    assert!(world.path(home.path(), "birds", 1).exists());
    assert!(!world.path(home.path(), "birds", 2).exists());
    let partial = world.path(home.path(), "birds", 0);
    let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&partial).unwrap()) * 512;
    assert!(blocks <= u64::from(GRID) + 4096, "the unknown piece was punched out: {blocks}");
    assert!(foreign.exists(), "only cache files are swept");
    std::fs::remove_file(foreign).unwrap();
    assert_quota(&tier, home.path());
    world.fill_all(&shelf);
    assert_eq!(shelf.verify(|_| true).good as u32, world.pieces());
}

#[test]
fn a_file_that_was_leased_is_not_changed_by_the_node_after_a_crash() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[300_000]);
    let tier = open_lazy(home.path(), 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    world.fill(&shelf, 0).unwrap();
    tier.flush();
    world.fill_all(&shelf);
    let lease = shelf.lease(ObjectSlot(0)).unwrap().unwrap();
    tier.abandon();
    // The index knows one piece; the reader has them all. While the tier is swept, 256 MiB of it are set aside.
    let tier = open_lazy(home.path(), 1 << 30);
    let shelf = tier.attach("birds", world.table()).unwrap();
    world.fill(&shelf, 2).unwrap();
    tier.wait_swept();
    shelf.evict(PieceId(0));
    shelf.evict(PieceId(2));
    world.fill(&shelf, 1).unwrap();
    let mut bytes = vec![0; 300_000];
    lease.file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, world.bytes(0));
}
