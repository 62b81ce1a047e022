//! Readers, writers, evictions and leases of the same objects at once; a disk that is full.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "tier_common/world.rs"]
mod world;

use fodder_core::{
    Error,
    config::Medium,
    id::{ObjectSlot, PieceId},
    tier::{Health, ShelfRead, Tier, TierOptions},
};
use fodder_testing::skip;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use world::*;

#[test]
fn readers_never_see_a_wrong_byte_while_others_evict_and_refill() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[400_000, 200_000, 65_536, 3000, 130_000, 400_000]);
    // Few kept files, so that they are opened anew all the time.
    let options = TierOptions { kept_files: Some(1), commit_interval: Duration::from_millis(5), ..options() };
    let tier = Tier::open_with(&config(home.path(), 16 << 20, Medium::Ssd), options).unwrap();
    let shelf = tier.attach("birds", world.table()).unwrap();
    world.fill_all(&shelf);
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let expected: Vec<Vec<u8>> = (0..world.slots()).map(|slot| world.bytes(slot)).collect();
    let expected = &expected;
    let pieces: Vec<Vec<u8>> = (0..world.pieces()).map(|piece| world.piece(piece)).collect();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (world, shelf, stop, done) = (&world, &shelf, &stop, &done);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed);
                while !stop.load(Ordering::Relaxed) {
                    let slot = random.random_range(0..world.slots());
                    let size = world.size(slot);
                    let offset = random.random_range(0..size);
                    let len = random.random_range(1..=(size - offset).min(150_000)) as usize;
                    let mut buf = vec![0; len];
                    let read = if random.random_bool(0.5) {
                        // As who sends it elsewhere does it, or another process that was shown the file.
                        let view = shelf.view(ObjectSlot(slot), &(offset..offset + len as u64));
                        view.is_some_and(|view| {
                            let shown = if random.random_bool(0.5) { shelf.show(&view) } else { None };
                            let file = shown.as_ref().map_or(view.file(), |(file, _)| file);
                            let read = file.read_exact_at(&mut buf, offset);
                            shelf.still_shows(&view) && read.is_ok()
                        })
                    } else {
                        shelf.read(ObjectSlot(slot), offset, &mut buf, random.random_bool(0.5)) == ShelfRead::Done
                    };
                    if read {
                        assert!(buf == expected[slot as usize][offset as usize..offset as usize + len], "wrong bytes");
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for seed in 10..12 {
            let (world, shelf, stop, pieces) = (&world, &shelf, &stop, &pieces);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed);
                while !stop.load(Ordering::Relaxed) {
                    let piece = PieceId(random.random_range(0..world.pieces()));
                    // Conflicts with the other writer and refusals are part of the game.
                    if let Some(reservation) = shelf.reserve(shelf.cost(piece)) {
                        let _ = shelf.write(piece, &[&pieces[piece.0 as usize]], reservation);
                    }
                }
            });
        }
        let mut random = SmallRng::seed_from_u64(20);
        let mut leases = Vec::new();
        for round in 0..4000 {
            match random.random_range(0..20) {
                0 => leases.extend(
                    shelf.lease(ObjectSlot(round % world.slots())).unwrap().map(|l| (round % world.slots(), l)),
                ),
                1 => _ = shelf.evict_object(ObjectSlot(round % world.slots())),
                _ => _ = shelf.evict(PieceId(random.random_range(0..world.pieces()))),
            }
            if leases.len() > 8 {
                for (slot, lease) in leases.drain(..) {
                    let mut bytes = vec![0; expected[slot as usize].len()];
                    lease.file.read_exact_at(&mut bytes, 0).unwrap();
                    assert!(bytes == expected[slot as usize], "a leased file changed");
                }
            }
        }
        // On a busy machine the readers may not have had their turn yet.
        let deadline = Instant::now() + Duration::from_secs(20);
        while done.load(Ordering::Relaxed) < 100 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(done.load(Ordering::Relaxed) > 0, "some reads were hits");
    assert_eq!(tier.health(), Health::Ok);
    assert_eq!(shelf.drain_lost(), [], "nothing was taken for damaged");
    let checked = shelf.verify(|_| true);
    assert_eq!((checked.corrupt, checked.good as usize), (0, shelf.len()));
    tier.flush();
    assert_quota(&tier, home.path());
    for piece in shelf.pieces() {
        shelf.evict(piece);
    }
    assert_eq!((shelf.used_bytes(), shelf.len()), (0, 0), "every charge came back");
}

#[test]
fn a_piece_that_is_punched_and_filled_again_is_never_read_as_a_hole() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[3 * u64::from(GRID)]);
    let tier = open_unsynced(home.path(), 16 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    world.fill_all(&shelf);
    let (want, middle) = (world.piece(1), PieceId(1));
    let (stop, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut buf = vec![0; want.len()];
                while !stop.load(Ordering::Relaxed) {
                    if shelf.read(ObjectSlot(0), u64::from(GRID), &mut buf, true) == ShelfRead::Done {
                        assert!(buf == want, "a hole was read");
                        hits.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        for round in 0.. {
            let enough = round >= 5000 && hits.load(Ordering::Relaxed) >= 500;
            if enough || Instant::now() > deadline {
                break;
            }
            assert_eq!(shelf.evict(middle), [middle]);
            let reservation = shelf.reserve(shelf.cost(middle)).unwrap();
            shelf.write(middle, &[&want], reservation).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(hits.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_file_that_leaves_and_comes_anew_beside_a_commit_is_not_taken_for_lost() {
    let home = tempfile::tempdir().unwrap();
    // Few enough to be synced one by one: by the time of the last the first have left and come anew.
    let world = World::new(&[3000; 12]);
    let options = TierOptions { commit_interval: Duration::from_micros(100), ..options() };
    let tier = Tier::open_with(&config(home.path(), 16 << 20, Medium::Ssd), options).unwrap();
    let shelf = tier.attach("birds", world.table()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        for piece in 0..world.pieces() {
            world.fill(&shelf, piece).unwrap();
        }
        for piece in 0..world.pieces() {
            assert_eq!(shelf.evict(PieceId(piece)), [PieceId(piece)], "nobody else dropped it");
        }
    }
    assert_eq!(tier.health(), Health::Ok);
    assert_eq!(shelf.drain_lost(), []);
}

#[test]
fn what_a_crash_left_behind_keeps_no_object_out_that_is_asked_for_at_once() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[100; 500]);
    let before = open_lazy(home.path(), 64 << 20);
    world.fill_all(&before.attach("birds", world.table()).unwrap());
    before.abandon();
    drop(before);
    // Enough of it that the sweep takes a while.
    for n in 0..20_000_u128 {
        let shard = home.path().join(format!("t/data/birds/{:02x}", n % 256));
        std::fs::create_dir_all(&shard).unwrap();
        std::fs::File::create(shard.join(format!("{:02x}{n:030x}", n % 256))).unwrap();
    }
    // Readers ask for everything while it is on its way to files that no index knows.
    let tier = open_unsynced(home.path(), 1 << 30);
    let shelf = tier.attach("birds", world.table()).unwrap();
    (0..world.pieces()).for_each(|piece| _ = world.fill(&shelf, piece));
    tier.wait_swept();
    world.fill_all(&shelf);
    assert_quota(&tier, home.path());
}

#[test]
fn what_is_cached_of_a_dataset_that_was_removed_and_added_is_there_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[1; 6000]);
    // Commits all the time, so that the index is written anew in the middle of the removal.
    let options = TierOptions { commit_interval: Duration::ZERO, ..options() };
    let tier = Tier::open_with(&config(home.path(), 1 << 30, Medium::Mem), options).unwrap();
    world.fill_all(&tier.attach("birds", world.table()).unwrap());
    tier.detach("birds").unwrap();
    // Little of it, since writing the index anew once more would put right what was wrong.
    let shelf = tier.attach("birds", world.table()).unwrap();
    (0..10).for_each(|piece| world.fill(&shelf, piece).unwrap());
    tier.close();
    drop((shelf, tier));
    let tier = open_unsynced(home.path(), 1 << 30);
    let shelf = tier.attach("birds", world.table()).unwrap();
    assert_eq!(shelf.len(), 10);
    assert_eq!(tier.unattached(), [""; 0]);
}

/// A tmpfs that is unmounted when the test ends, however it ends.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(bytes: u64) -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(home.path())
            .output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(Self(home))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_a_miss_and_heals() {
    let Some(disk) = SmallDisk::new(2 << 20) else {
        skip!("mounting a small tmpfs needs root");
    };
    let home = disk.0.path();
    let world = World::new(&[200_000; 20]);
    let tier = open(home, 1 << 30);
    let shelf = tier.attach("birds", world.table()).unwrap();
    (0..12).for_each(|piece| world.fill(&shelf, piece).unwrap());
    // Somebody else fills the disk after the space was set aside.
    let reserved: Vec<_> = (12..20).map(|piece| (piece, shelf.reserve(shelf.cost(PieceId(piece))).unwrap())).collect();
    let ballast = home.join("ballast");
    let _ = std::fs::write(&ballast, vec![1; 4 << 20]);
    for (piece, reservation) in reserved {
        let failed = shelf.write(PieceId(piece), &[&world.piece(piece)], reservation);
        assert!(matches!(failed, Err(Error::Full(_))), "{failed:?}");
        assert_ne!(tier.health(), Health::Ok);
    }
    assert_eq!(tier.health(), Health::Down);
    assert!(shelf.reserve(1).is_none(), "nothing is tried while it rests");
    tier.flush();
    assert_eq!(shelf.len(), 12);
    for piece in shelf.pieces() {
        let want = world.piece(piece.0);
        let slot = world.slot_of(piece.0);
        let mut buf = vec![0; want.len()];
        let offset = u64::from(piece.0 - world.first(slot.0)) * u64::from(GRID);
        assert_eq!(shelf.read(slot, offset, &mut buf, true), ShelfRead::Done, "reads go on");
        assert!(buf == want);
    }
    std::fs::remove_file(ballast).unwrap();
    // It rests for a while; then one write is tried, and heals it.
    let deadline = Instant::now() + Duration::from_secs(30);
    while tier.health() != Health::Ok {
        assert!(Instant::now() < deadline, "it does not heal");
        let _ = world.fill(&shelf, 40);
        std::thread::yield_now();
    }
    tier.flush();
    let here = shelf.pieces();
    tier.close();
    let tier = open(home, 1 << 30);
    let shelf = tier.attach("birds", world.table()).unwrap();
    assert_eq!(shelf.pieces(), here, "the index was mended");
    assert_eq!(shelf.verify(|_| true).corrupt, 0);
}

#[test]
fn a_mem_tier_answers_without_waiting() {
    let Some(disk) = SmallDisk::new(16 << 20) else {
        skip!("mounting a small tmpfs needs root");
    };
    let world = World::new(&[200_000; 3]);
    let tier = Tier::open_with(&config(disk.0.path(), 8 << 20, Medium::Mem), options()).unwrap();
    let shelf = tier.attach("birds", world.table()).unwrap();
    world.fill_all(&shelf);
    let mut buf = vec![0; 200_000];
    assert_eq!(shelf.read(ObjectSlot(1), 0, &mut buf, false), ShelfRead::Done);
    assert_eq!(buf, world.bytes(1));
    assert_quota(&tier, disk.0.path());
}

#[test]
fn the_floor_of_free_space_stops_filling_before_the_disk_is_full() {
    let Some(disk) = SmallDisk::new(4 << 20) else {
        skip!("mounting a small tmpfs needs root");
    };
    let world = World::new(&[65_536; 64]);
    let options = TierOptions { floor_bytes: Some(2 << 20), ..options() };
    let tier = Tier::open_with(&config(disk.0.path(), 1 << 30, Medium::Ssd), options).unwrap();
    let shelf: Arc<_> = tier.attach("birds", world.table()).unwrap();
    let filled = (0..64).filter(|&piece| world.fill(&shelf, piece).is_ok()).count();
    assert!((10..34).contains(&filled), "{filled} of 64 KiB, and 2 MiB stay free");
    assert_eq!(tier.health(), Health::Ok, "no write failed");
}
