//! A real process that is really killed: what it said to be durable is here afterwards, and nothing is wrong.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "tier_common/world.rs"]
mod world;

use fodder_core::{
    id::{ObjectSlot, PieceId},
    tier::ShelfRead,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::fs::FileExt,
    path::Path,
    process::{Command, Stdio},
};
use world::*;

const DIRECTORY: &str = "FODDER_TIER_CRASH_DIRECTORY";
const ROUNDS: u64 = 12;
/// Objects that the child never evicts.
const KEPT: u32 = 30;

fn world() -> World {
    let sizes: Vec<u64> = (0..60).map(|slot| [3000, 20_000, 100_000, 400_000][slot % 4]).collect();
    World::new(&sizes)
}

/// Not a test of its own: the process that the next one starts and kills.
#[test]
fn a_process_that_churns_until_it_is_killed() {
    let Ok(home) = std::env::var(DIRECTORY) else { return };
    let (world, home) = (world(), Path::new(&home));
    let tier = open(home, 64 << 20);
    let shelf = tier.attach("birds", world.table()).unwrap();
    let mut random = SmallRng::seed_from_u64(u64::from(std::process::id()));
    let mut out = std::io::stdout();
    loop {
        let kept: Vec<u32> = (0..4).map(|_| random.random_range(0..world.first(KEPT))).collect();
        let filled: Vec<u32> = kept.into_iter().filter(|&piece| world.fill(&shelf, piece).is_ok()).collect();
        for _ in 0..20 {
            let piece = random.random_range(world.first(KEPT)..world.pieces());
            if random.random_bool(0.5) {
                shelf.evict(PieceId(piece));
            } else {
                let _ = world.fill(&shelf, piece);
            }
        }
        let slot = random.random_range(0..world.slots());
        let lease = shelf.lease(ObjectSlot(slot)).unwrap();
        if lease.is_some() {
            writeln!(out, "leased {slot}").unwrap();
        }
        tier.flush();
        // A piece whose bytes were found lost after an earlier kill may be dropped with its object at any time.
        for piece in filled.into_iter().filter(|&piece| shelf.has(PieceId(piece))) {
            writeln!(out, "durable {piece}").unwrap();
        }
        out.flush().unwrap();
    }
}

#[test]
fn a_killed_node_loses_nothing_durable_and_serves_nothing_wrong() {
    let home = tempfile::tempdir().unwrap();
    let world = world();
    let mut durable = std::collections::BTreeSet::new();
    let mut readers = Vec::new();
    let mut random = SmallRng::seed_from_u64(1);
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_that_churns_until_it_is_killed", "--nocapture"])
            .env(DIRECTORY, home.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..random.random_range(5..60) {
            let line = lines.next().unwrap().unwrap();
            if let Some(slot) = line.strip_prefix("leased ") {
                let slot: u32 = slot.parse().unwrap();
                // As a mount would hold it: the reader lives on when the node is gone. Gone already is fine too.
                if let Ok(file) = std::fs::File::open(world.path(home.path(), "birds", slot)) {
                    let sealed = std::os::unix::fs::MetadataExt::mode(&file.metadata().unwrap()) & 0o777 == 0o400;
                    readers.extend(sealed.then_some((slot, file)));
                }
            } else if let Some(piece) = line.strip_prefix("durable ") {
                durable.insert(piece.parse::<u32>().unwrap());
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let tier = open(home.path(), 64 << 20);
        let shelf = tier.attach("birds", world.table()).unwrap();
        tier.wait_swept();
        for lost in shelf.drain_lost() {
            // A lease seals at once; pieces of that file that were not committed leave it incomplete, and it goes whole.
            durable.remove(&lost.0);
        }
        for &piece in &durable {
            assert!(shelf.has(PieceId(piece)), "round {round}: piece {piece} was durable");
        }
        for piece in shelf.pieces() {
            let slot = world.slot_of(piece.0);
            let want = world.piece(piece.0);
            let offset = u64::from(piece.0 - world.first(slot.0)) * u64::from(GRID);
            let mut buf = vec![0; want.len()];
            match shelf.read(slot, offset, &mut buf, true) {
                ShelfRead::Done => assert!(buf == want, "round {round}: wrong bytes in piece {}", piece.0),
                ShelfRead::Corrupt | ShelfRead::Missing => {
                    assert!(
                        slot.0 >= KEPT,
                        "round {round}: piece {} of an object that nothing was evicted from",
                        piece.0
                    );
                }
                ShelfRead::WouldBlock => panic!("it may wait"),
            }
        }
        assert_quota(&tier, home.path());
        tier.close();
        for (slot, file) in &readers {
            let mut bytes = vec![0; world.size(*slot) as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert!(bytes == world.bytes(*slot), "round {round}: a reader of {slot} saw its file change");
        }
        readers.truncate(50);
    }
    assert!(!durable.is_empty());
}
