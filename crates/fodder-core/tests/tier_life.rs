//! The life of a cache file, at random, against a naive model: fill, seal, lease, readers that outlive the node, eviction,
//! damage, crash, restart. After every step every byte that is served is right, and `du` is within the quota.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "tier_common/world.rs"]
mod world;

use fodder_core::{
    Error,
    id::{ObjectSlot, PieceId},
    tier::{Lease, Shelf, ShelfRead, Tier},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{collections::BTreeSet, os::unix::fs::FileExt, path::Path, sync::Arc};
use world::*;

const SIZES: [u64; 26] = [
    1, 4096, 16_385, 65_536, 65_537, 200_000, 140_000, 655_360, 0, 100_000, 10, 16, 4090, 4091, 4092, 4093, 4094, 4095,
    4000, 3990, 3980, 3970, 3960, 3950, 3940, 100,
];
const QUOTA: u64 = 900_000;

/// The real thing beside what it should be.
struct Life {
    home: tempfile::TempDir,
    world: World,
    tier: Arc<Tier>,
    shelf: Arc<Shelf>,
    random: SmallRng,
    /// Pieces that are here.
    here: BTreeSet<u32>,
    /// Pieces the index knew at the last flush.
    durable: BTreeSet<u32>,
    /// Small objects that left since then: a crash may bring them back or not, as their cells were used again or not.
    left: BTreeSet<u32>,
    damaged_running: bool,
    /// Readers: leases of this node and of nodes that are gone.
    readers: Vec<(u32, Lease)>,
}

fn attach(home: &Path, world: &World) -> (Arc<Tier>, Arc<Shelf>) {
    let tier = open_lazy(home, QUOTA);
    let shelf = tier.attach("birds", world.table()).unwrap();
    (tier, shelf)
}

impl Life {
    fn new(seed: u64) -> Self {
        let home = tempfile::tempdir().unwrap();
        let world = World::new(&SIZES);
        let (tier, shelf) = attach(home.path(), &world);
        let (here, durable, left) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (random, readers) = (SmallRng::seed_from_u64(seed), Vec::new());
        Self { home, world, tier, shelf, random, here, durable, left, damaged_running: false, readers }
    }

    fn piece(&mut self) -> u32 {
        self.random.random_range(0..self.world.pieces())
    }

    fn slot(&mut self) -> u32 {
        self.random.random_range(0..SIZES.len() as u32)
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..30 => self.fill(),
            30..36 => self.fill_object(),
            36..54 => self.evict(),
            54..70 => self.read(),
            70..80 => self.lease(),
            80..84 => drop(self.readers.pop()),
            84..87 => self.evict_object(),
            87..92 => self.flush(),
            92..94 => self.damage_running(),
            94..97 => self.verify(),
            97..99 => self.crash(),
            _ => self.close(),
        }
        self.forget_lost();
        let held: BTreeSet<u32> = self.shelf.pieces().into_iter().map(|piece| piece.0).collect();
        assert_eq!(held, self.here);
        assert_eq!(self.shelf.len(), held.len());
        self.check_readers();
        assert_quota(&self.tier, self.home.path());
    }

    fn forget_lost(&mut self) {
        for piece in self.shelf.drain_lost() {
            assert!(self.here.remove(&piece.0), "{piece:?} was lost without having been here");
            self.note_left(piece);
        }
    }

    fn note_left(&mut self, piece: PieceId) {
        if self.world.size(self.world.slot_of(piece.0).0) <= 4096 {
            self.left.insert(piece.0);
        }
    }

    fn fill(&mut self) {
        let piece = self.piece();
        match self.world.fill(&self.shelf, piece) {
            Ok(()) => _ = self.here.insert(piece),
            Err(Error::Full(_)) => self.evict(),
            // A file in the place of one that was removed behind the tier's back.
            Err(error) => panic!("{error}"),
        }
    }

    fn fill_object(&mut self) {
        let slot = self.slot();
        for piece in self.pieces_of(slot) {
            let filled = self.world.fill(&self.shelf, piece).is_ok();
            self.forget_lost();
            if filled {
                self.here.insert(piece);
            }
        }
    }

    fn pieces_of(&self, slot: u32) -> std::ops::Range<u32> {
        self.world.first(slot)..self.world.first(slot) + self.world.size(slot).div_ceil(u64::from(GRID)) as u32
    }

    fn evict(&mut self) {
        let piece = self.piece();
        let had = self.here.contains(&piece);
        let gone = self.shelf.evict(PieceId(piece));
        assert_eq!(gone.contains(&PieceId(piece)), had);
        for piece in gone {
            assert!(self.here.remove(&piece.0));
            self.note_left(piece);
        }
    }

    fn evict_object(&mut self) {
        let slot = self.slot();
        for piece in self.shelf.evict_object(ObjectSlot(slot)) {
            assert!(self.here.remove(&piece.0));
            self.note_left(piece);
        }
    }

    fn read(&mut self) {
        let slot = self.slot();
        let size = self.world.size(slot);
        let offset = self.random.random_range(0..=size);
        let len = self.random.random_range(0..=(size - offset).min(200_000)) as usize;
        let wait = self.random.random_bool(0.7);
        self.read_range(slot, offset, len, wait);
    }

    fn read_range(&mut self, slot: u32, offset: u64, len: usize, wait: bool) {
        let mut buf = vec![0xaa; len];
        let outcome = self.shelf.read(ObjectSlot(slot), offset, &mut buf, wait);
        let covered = (offset / u64::from(GRID)) as u32..(offset + len as u64).div_ceil(u64::from(GRID)) as u32;
        let all_here = len == 0 || covered.clone().all(|index| self.here.contains(&(self.world.first(slot) + index)));
        match outcome {
            ShelfRead::Done => assert!(all_here && buf == self.world.range(slot, offset, len), "wrong bytes of {slot}"),
            ShelfRead::Missing => assert!(!all_here, "{slot} {offset} {len} is here"),
            ShelfRead::WouldBlock => assert!(!wait),
            ShelfRead::Corrupt => assert!(wait && all_here),
        }
        self.forget_lost();
    }

    fn lease(&mut self) {
        let slot = self.slot();
        let complete = self.pieces_of(slot).all(|piece| self.here.contains(&piece));
        if let Some(lease) = self.shelf.lease(ObjectSlot(slot)).unwrap() {
            assert!(complete);
            self.readers.push((slot, lease));
        }
        if self.readers.len() > 6 {
            self.readers.remove(0);
        }
    }

    fn check_readers(&self) {
        for (slot, lease) in &self.readers {
            let mut bytes = vec![0; self.world.size(*slot) as usize];
            lease.file.read_exact_at(&mut bytes, 0).unwrap();
            assert!(bytes == self.world.bytes(*slot), "a reader of {slot} saw its file change");
        }
    }

    fn flush(&mut self) {
        self.left.clear();
        self.tier.flush();
        // What the committer itself found lost is in the index until the next flush.
        self.forget_lost();
        self.durable.clone_from(&self.here);
    }

    fn verify(&mut self) {
        self.shelf.verify(|_| true);
    }

    /// The file of a random object that no reader holds: readers' inodes are the tier's to protect from itself, not
    /// from others.
    fn victim(&mut self) -> Option<std::path::PathBuf> {
        let slot = self.slot();
        let (path, _) = stored(self.home.path(), &self.world, &self.shelf, slot);
        (path.exists() && self.readers.iter().all(|(held, _)| *held != slot)).then_some(path)
    }

    fn damage_running(&mut self) {
        let Some(path) = self.victim() else { return };
        self.damaged_running = true;
        if self.random.random_bool(0.5) {
            std::fs::remove_file(path).unwrap();
        } else {
            let len = self.random.random_range(0..=std::fs::metadata(&path).unwrap().len());
            cut(&path, len);
        }
    }

    /// Whether anything was damaged.
    fn damage_stopped(&mut self) -> bool {
        let mut damaged = self.damaged_running;
        for _ in 0..self.random.random_range(0..4) {
            let Some(path) = self.victim() else { continue };
            damaged = true;
            let len = std::fs::metadata(&path).unwrap().len();
            match self.random.random_range(0..4) {
                0 => std::fs::remove_file(path).unwrap(),
                1 => cut(&path, len / 2),
                _ if len > 0 => flip(&path, self.random.random_range(0..len)),
                _ => {}
            }
        }
        if self.random.random_bool(0.3) {
            // A write that was torn by the crash.
            let index = std::fs::OpenOptions::new().append(true).open(self.home.path().join("t/index.log")).unwrap();
            let torn: Vec<u8> = (0..self.random.random_range(1..60)).map(|_| self.random.random()).collect();
            std::io::Write::write_all(&mut &index, &torn).unwrap();
        }
        self.damaged_running = false;
        damaged
    }

    fn crash(&mut self) {
        self.tier.abandon();
        self.restart();
    }

    fn close(&mut self) {
        self.tier.close();
        self.durable.clone_from(&self.here);
        self.left.clear();
        self.restart();
    }

    fn restart(&mut self) {
        let damaged = self.damage_stopped();
        (self.tier, self.shelf) = attach(self.home.path(), &self.world);
        self.tier.wait_swept();
        self.here.clone_from(&self.durable);
        self.forget_lost();
        // What the index names beyond the end of a group file is not there.
        let gone: Vec<u32> = self.here.iter().copied().filter(|&piece| !self.shelf.has(PieceId(piece))).collect();
        for piece in gone {
            let size = self.world.size(self.world.slot_of(piece).0);
            assert!(size <= 4096 && (damaged || self.left.contains(&piece)), "{piece} was durable");
            self.here.remove(&piece);
            self.left.insert(piece);
        }
        self.here.extend(self.left.iter().filter(|&&piece| self.shelf.has(PieceId(piece))));
        // A sealed file that was incomplete in the index was dropped; that is not durable until the next flush, and a
        // second crash would bring it back.
        for slot in 0..SIZES.len() as u32 {
            if self.random.random_bool(0.5) {
                self.read_range(slot, 0, SIZES[slot as usize] as usize, true);
            }
        }
    }
}

fn cut(path: &Path, len: u64) {
    let permissions = std::fs::metadata(path).unwrap().permissions();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
    std::fs::set_permissions(path, permissions).unwrap();
}

#[test]
fn every_byte_that_is_served_is_right_whatever_happens() {
    let lives = std::env::var("FODDER_TIER_LIVES").map_or(6, |lives| lives.parse().unwrap());
    for seed in 0..lives {
        println!("life {seed}");
        let mut life = Life::new(seed);
        for _ in 0..400 {
            life.step();
        }
        life.readers.clear();
        for piece in life.shelf.pieces() {
            life.shelf.evict(piece);
        }
        life.tier.flush();
        assert_eq!(life.shelf.used_bytes(), 0, "everything that was charged came back");
    }
}
