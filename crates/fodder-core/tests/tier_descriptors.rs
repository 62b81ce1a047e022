//! A node that may open no more files. By itself in its process, all of which has to do without.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "tier_common/world.rs"]
mod world;

use fodder_core::{
    config::Medium,
    id::PieceId,
    tier::{Health, Tier, TierOptions},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;
use world::*;

/// Does something while no file can be opened.
fn without_descriptors<T>(work: impl FnOnce() -> T) -> T {
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limits }).unwrap();
    let outcome = work();
    setrlimit(Resource::Nofile, limits).unwrap();
    outcome
}

#[test]
fn want_of_descriptors_is_a_miss_and_no_fault_of_the_disk() {
    let home = tempfile::tempdir().unwrap();
    // As many files as are synced one by one, and more than are kept open.
    let world = World::new(&[2 * u64::from(GRID); 14]);
    let options = TierOptions { kept_files: Some(1), commit_interval: Duration::from_secs(3600), ..options() };
    let tier = Tier::open_with(&config(home.path(), 64 << 20, Medium::Ssd), options.clone()).unwrap();
    let shelf = tier.attach("birds", world.table()).unwrap();
    // The first piece of each but the last.
    (0..13).for_each(|slot| world.fill(&shelf, 2 * slot).unwrap());
    // So much comes and goes that the index is worth being written anew, which takes a file too.
    for _ in 0..4000 {
        world.fill(&shelf, 26).unwrap();
        shelf.evict(PieceId(26));
    }

    without_descriptors(|| {
        assert!(world.fill(&shelf, 26).is_err(), "no file can be made");
        assert!(world.fill(&shelf, 1).is_err(), "none can be opened");
        tier.flush();
    });
    assert_eq!(tier.health(), Health::Ok);
    assert_eq!((shelf.len(), shelf.drain_lost()), (13, vec![]), "what was there stays");
    assert!(world.fill(&shelf, 26).is_ok() && world.fill(&shelf, 1).is_ok());

    tier.abandon();
    drop((shelf, tier));
    let tier = Tier::open_with(&config(home.path(), 64 << 20, Medium::Ssd), options).unwrap();
    let shelf = tier.attach("birds", world.table()).unwrap();
    assert!((0..13).all(|slot| shelf.has(PieceId(2 * slot))), "what was committed meanwhile is durable");
    assert_eq!(shelf.verify(|_| true).corrupt, 0);
}
