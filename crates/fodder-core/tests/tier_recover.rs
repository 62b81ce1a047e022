//! Files that clients have open while a tier evicts them, and when another node has taken it over.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "tier_common/world.rs"]
mod world;

use fodder_core::{
    config::Medium,
    id::ObjectSlot,
    tier::{LeaseCheck, Shelf, Tier, TierOptions},
};
use std::{fs::File, os::unix::fs::FileExt, path::Path, sync::Arc, time::Duration};
use world::*;

const QUOTA: u64 = 8 << 20;
const LONG: Duration = Duration::from_secs(3600);
const SLOT: ObjectSlot = ObjectSlot(0);
/// More than directories, names and the index may differ by.
const SLACK: u64 = 64 << 10;

fn open_with(home: &Path, world: &World, recovery: Duration) -> (Arc<Tier>, Arc<Shelf>) {
    let tier = Tier::open_with(&config(home, QUOTA, Medium::Ssd), TierOptions { recovery, ..options() }).unwrap();
    let shelf = tier.attach("birds", world.table()).unwrap();
    tier.wait_swept();
    (tier, shelf)
}

/// A tier with two objects of a megabyte, and a client's file of the first.
fn leased(home: &Path) -> (World, Arc<Tier>, Arc<Shelf>, File) {
    let world = World::new(&[1 << 20, 1 << 20]);
    let (tier, shelf) = open_with(home, &world, LONG);
    world.fill_all(&shelf);
    tier.flush();
    let file = shelf.lease(SLOT).unwrap().unwrap().file.try_clone().unwrap();
    (world, tier, shelf, file)
}

#[track_caller]
fn assert_near(used: u64, expected: u64) {
    assert!(used.abs_diff(expected) < SLACK, "{used} bytes are charged, and not {expected}");
}

#[test]
fn the_next_node_reserves_what_was_evicted_while_leased_until_clients_report_it() {
    for is_crash in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let (world, tier, shelf, file) = leased(home.path());
        let lease = shelf.lease(SLOT).unwrap().unwrap();
        let before = tier.used_bytes();
        assert!(!shelf.evict_object(SLOT).is_empty());
        assert_eq!(tier.used_bytes(), before, "a leased file stays charged");
        tier.flush();
        // The node goes, and its connections with it; the client keeps the file.
        tier.keep_lease_record();
        if is_crash {
            tier.abandon()
        } else {
            tier.close()
        }
        drop((lease, shelf, tier));
        let (tier, shelf) = open_with(home.path(), &world, LONG);
        assert!(tier.is_recovering());
        assert_eq!(tier.excess_bytes(), 0, "nothing is evicted for what is only reserved");
        assert_near(tier.used_bytes(), before);
        let found = file.metadata().unwrap();
        assert!(shelf.may_own(&found, None));
        let reports = [shelf.hold_unlinked(&found).unwrap(), shelf.hold_unlinked(&found).unwrap()];
        assert_near(tier.used_bytes(), before);
        assert_eq!(reports[0].check(), LeaseCheck::Unlinked);
        drop(reports);
        assert_near(tier.used_bytes(), before - (1 << 20));
    }
}

#[test]
fn what_no_client_reports_is_free_when_the_recovery_ends() {
    let home = tempfile::tempdir().unwrap();
    let (world, tier, shelf, _file) = leased(home.path());
    let lease = shelf.lease(SLOT).unwrap().unwrap();
    shelf.evict_object(SLOT);
    tier.flush();
    let before = tier.used_bytes();
    tier.abandon();
    drop((lease, shelf, tier));
    let (tier, _shelf) = open_with(home.path(), &world, Duration::ZERO);
    assert!(!tier.is_recovering());
    assert_near(tier.used_bytes(), before - (1 << 20));
}

#[test]
fn space_stays_reserved_until_the_datasets_of_all_clients_are_there() {
    let home = tempfile::tempdir().unwrap();
    let (world, tier, shelf, file) = leased(home.path());
    let lease = shelf.lease(SLOT).unwrap().unwrap();
    shelf.evict_object(SLOT);
    tier.flush();
    let before = tier.used_bytes();
    tier.keep_lease_record();
    tier.abandon();
    drop((lease, shelf, tier));
    let options = TierOptions { recovery: Duration::ZERO, ..options() };
    let tier = Tier::open_with(&config(home.path(), QUOTA, Medium::Ssd), options).unwrap();
    // The dataset is listed meanwhile, for longer than clients have for their reports.
    tier.await_datasets(true);
    tier.wait_swept();
    assert!(!tier.is_recovering(), "datasets that are there may evict");
    assert_near(tier.used_bytes(), before);
    assert_eq!(tier.excess_bytes(), 0);
    let shelf = tier.attach("birds", world.table()).unwrap();
    let report = shelf.hold_unlinked(&file.metadata().unwrap()).unwrap();
    assert_near(tier.used_bytes(), before);
    tier.await_datasets(false);
    assert_near(tier.used_bytes(), before);
    drop(report);
    assert_near(tier.used_bytes(), before - (1 << 20));
}

#[test]
fn a_node_that_never_leased_a_file_is_followed_by_no_recovery() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[1 << 20]);
    let (tier, shelf) = open_with(home.path(), &world, LONG);
    world.fill_all(&shelf);
    tier.abandon();
    drop((tier, shelf));
    assert!(!open_with(home.path(), &world, LONG).0.is_recovering());
}

#[test]
fn a_file_that_may_be_leased_stays_charged_if_it_is_evicted_before_clients_report() {
    let home = tempfile::tempdir().unwrap();
    let (world, tier, shelf, file) = leased(home.path());
    tier.abandon();
    drop((shelf, tier));
    let (tier, shelf) = open_with(home.path(), &world, LONG);
    let before = tier.used_bytes();
    shelf.evict_object(SLOT);
    assert_eq!(tier.used_bytes(), before, "a client may have it open");
    shelf.evict_object(ObjectSlot(1));
    assert_near(tier.used_bytes(), before - (1 << 20));
    let report = shelf.hold_unlinked(&file.metadata().unwrap()).unwrap();
    assert_near(tier.used_bytes(), before - (1 << 20));
    drop(report);
    assert_near(tier.used_bytes(), before - (1 << 20));
}

#[test]
fn a_reported_file_is_pinned_and_a_damaged_one_is_dropped_from_the_cache() {
    let home = tempfile::tempdir().unwrap();
    let (world, tier, shelf, file) = leased(home.path());
    let good = shelf.lease(ObjectSlot(1)).unwrap().unwrap().file.try_clone().unwrap();
    tier.close();
    drop((shelf, tier));
    let path = world.path(home.path(), "birds", 0);
    let damage = File::options().write(true).open(path).unwrap();
    damage.write_all_at(b"\0", 777_777).unwrap();
    let (tier, shelf) = open_with(home.path(), &world, Duration::ZERO);
    let before = tier.used_bytes();
    let held = shelf.hold(SLOT, &file.metadata().unwrap()).unwrap().unwrap();
    assert!(held.is_cached());
    assert_eq!(held.check(), LeaseCheck::Corrupt);
    assert!(!held.is_cached() && shelf.lease(SLOT).unwrap().is_none());
    assert_near(tier.used_bytes(), before);
    drop(held);
    assert_near(tier.used_bytes(), before - (1 << 20));
    let held = shelf.hold(ObjectSlot(1), &good.metadata().unwrap()).unwrap().unwrap();
    assert_eq!((held.check(), held.check()), (LeaseCheck::Good, LeaseCheck::Good));
    assert!(shelf.hold(SLOT, &good.metadata().unwrap()).unwrap().is_none(), "it is another object's");
}

#[test]
fn a_linked_file_that_is_reported_and_cannot_be_pinned_is_charged_once() {
    let home = tempfile::tempdir().unwrap();
    let (world, tier, shelf, file) = leased(home.path());
    let other = shelf.lease(ObjectSlot(1)).unwrap().unwrap().file.try_clone().unwrap();
    tier.close();
    drop((shelf, tier));
    // Also behind the recovery: a client may be late.
    for recovery in [LONG, Duration::ZERO] {
        let (tier, shelf) = open_with(home.path(), &world, recovery);
        let before = tier.used_bytes();
        assert!(shelf.hold(ObjectSlot(1), &file.metadata().unwrap()).unwrap().is_none(), "it is another object's");
        let reports = [shelf.hold_linked(&file).unwrap(), shelf.hold_linked(&file).unwrap()];
        assert_eq!(tier.used_bytes(), before, "the cache file is charged already");
        assert_eq!(reports[0].check(), LeaseCheck::Unlinked);
        drop(reports);
        assert_eq!(tier.used_bytes(), before, "it is still cached");
        tier.close();
    }
    let (tier, shelf) = open_with(home.path(), &world, Duration::ZERO);
    let before = tier.used_bytes();
    let [first, second] = [shelf.hold_linked(&file).unwrap(), shelf.hold_linked(&file).unwrap()];
    assert!(!shelf.evict_object(SLOT).is_empty() && !shelf.evict_object(ObjectSlot(1)).is_empty());
    assert_near(tier.used_bytes(), before - (1 << 20));
    drop(first);
    assert_near(tier.used_bytes(), before - (1 << 20));
    drop(second);
    assert_near(tier.used_bytes(), before - (2 << 20));
    assert!(shelf.hold_linked(&other).is_none(), "it was unlinked before it was reported");
}

#[test]
fn a_file_that_is_no_cache_file_is_not_counted() {
    let home = tempfile::tempdir().unwrap();
    let (_world, tier, shelf, file) = leased(home.path());
    let before = tier.used_bytes();
    let foreign = tempfile::tempfile_in(home.path()).unwrap();
    foreign.set_len(1 << 20).unwrap();
    assert!(!shelf.may_own(&foreign.metadata().unwrap(), None), "it is not sealed");
    assert!(!shelf.may_own(&File::open("/dev/null").unwrap().metadata().unwrap(), None));
    assert!(shelf.hold(SLOT, &foreign.metadata().unwrap()).unwrap().is_none());
    assert!(!shelf.may_own(&file.metadata().unwrap(), Some(Path::new("/elsewhere"))));
    assert_eq!(tier.used_bytes(), before);
}

#[test]
fn a_file_that_a_client_is_shown_stays_charged_until_it_has_read_it() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(&[1 << 20]);
    let (tier, shelf) = open_with(home.path(), &world, LONG);
    world.fill_all(&shelf);
    let before = tier.used_bytes();
    let (view, other) = (shelf.view(SLOT, &(0..1000)).unwrap(), shelf.view(SLOT, &(0..1000)).unwrap());
    let shown = [shelf.show(&view).unwrap(), shelf.show(&other).unwrap()];
    assert!(!shelf.evict_object(SLOT).is_empty());
    assert_eq!(tier.used_bytes(), before);
    assert!(shelf.show(&view).is_none(), "it was evicted meanwhile");
    drop(shown);
    assert_near(tier.used_bytes(), before - (1 << 20));
    // And one that is filled again is another file.
    world.fill_all(&shelf);
    shelf.evict_object(SLOT);
    assert_near(tier.used_bytes(), before - (1 << 20));
}
