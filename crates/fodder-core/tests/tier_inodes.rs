//! A file system that runs out of inodes before it runs out of blocks.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "tier_common/world.rs"]
mod world;

use fodder_core::{
    Error,
    config::Medium,
    id::{ObjectSlot, PieceId},
    tier::{Health, ShelfRead, Tier, TierOptions},
};
use std::process::Command;
use world::*;

/// A tmpfs with few inodes, unmounted when the test ends.
struct FewInodes(tempfile::TempDir);

impl FewInodes {
    fn new(inodes: u32) -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let options = format!("size=64m,nr_inodes={inodes}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(home.path()).output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(Self(home))
    }
}

impl Drop for FewInodes {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn evicting_files_makes_room_where_inodes_run_out() {
    let Some(disk) = FewInodes::new(600) else {
        fodder_testing::skip!("mounting a small tmpfs needs root");
    };
    let world = World::new(&[5000; 1000]);
    let tier = Tier::open_with(&config(disk.0.path(), 1 << 30, Medium::Ssd), options()).unwrap();
    let shelf = tier.attach("birds", world.table()).unwrap();
    let mut oldest = 0;
    for piece in 0..1000 {
        let reservation = loop {
            if let Some(reservation) = shelf.reserve_for(PieceId(piece)) {
                break reservation;
            }
            assert!(tier.lacks_inodes() && oldest < piece, "only inodes are scarce");
            assert_eq!(shelf.evict(PieceId(oldest)).len(), 1);
            oldest += 1;
        };
        shelf.write(PieceId(piece), &[&world.piece(piece)], reservation).unwrap();
        assert!(tier.free_inodes().unwrap() >= 30, "the floor of free inodes is kept");
    }
    assert_eq!(tier.health(), Health::Ok);
    assert!(shelf.len() > 200, "{} files are kept", shelf.len());
    tier.flush();
    let checked = shelf.verify(|_| true);
    assert_eq!((checked.corrupt, checked.good as usize), (0, shelf.len()));
    let mut last = vec![0; 5000];
    assert_eq!(shelf.read(ObjectSlot(999), 0, &mut last, true), ShelfRead::Done);
    assert!(last == world.bytes(999));
}

#[test]
fn a_create_without_a_free_inode_is_full_and_not_a_failing_disk() {
    let Some(disk) = FewInodes::new(300) else {
        fodder_testing::skip!("mounting a small tmpfs needs root");
    };
    let world = World::new(&[5000; 100]);
    let few = TierOptions { floor_inodes: Some(0), ..options() };
    let tier = Tier::open_with(&config(disk.0.path(), 1 << 30, Medium::Ssd), few).unwrap();
    let shelf = tier.attach("birds", world.table()).unwrap();
    (0..20).for_each(|piece| world.fill(&shelf, piece).unwrap());
    let reservations: Vec<_> =
        (20..40).map(|piece| (piece, shelf.reserve(shelf.cost(PieceId(piece))).unwrap())).collect();
    // Another program takes the rest of the inodes after the space was reserved.
    let ballast = disk.0.path().join("ballast");
    std::fs::create_dir(&ballast).unwrap();
    assert!((0..1000).any(|file| std::fs::File::create(ballast.join(file.to_string())).is_err()));
    for (piece, reservation) in reservations {
        let failed = shelf.write(PieceId(piece), &[&world.piece(piece)], reservation);
        assert!(matches!(failed, Err(Error::Full(_))), "{failed:?}");
    }
    assert_eq!(tier.health(), Health::Ok, "no bytes were refused");
    assert!(tier.lacks_inodes() && shelf.reserve_for(PieceId(40)).is_none());
    assert_eq!(shelf.len(), 20, "what is cached stays");
    // Every eviction gives one file's inode to a new file in a directory that exists.
    shelf.evict(PieceId(0));
    assert!(world.fill(&shelf, 0).is_ok(), "the inode that was freed is used again");
    tier.flush();
    assert_eq!(tier.health(), Health::Ok);
}
