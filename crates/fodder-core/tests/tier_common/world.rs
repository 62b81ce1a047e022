//! Objects with recognisable bytes, and a tier in a temporary directory.

#![allow(dead_code, unreachable_pub, missing_docs)]

use fodder_core::{
    Result,
    config::{Medium, TierConfig},
    id::{FileKey, ObjectSlot, PieceId},
    tier::{ObjectTable, Shelf, Tier, TierOptions},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub const GRID: u32 = 64 << 10;

/// Objects as a catalog would list them, over a vector.
#[derive(Debug)]
pub struct Table {
    sizes: Vec<u64>,
    firsts: Vec<u32>,
    seed: u64,
    grid: u32,
}

impl ObjectTable for Table {
    fn len(&self) -> u32 {
        self.sizes.len() as u32
    }
    fn pieces(&self) -> u32 {
        self.firsts[self.sizes.len()]
    }
    fn piece_bytes(&self) -> u32 {
        self.grid
    }
    fn size(&self, slot: ObjectSlot) -> u64 {
        self.sizes[slot.0 as usize]
    }
    fn first_piece(&self, slot: ObjectSlot) -> PieceId {
        PieceId(self.firsts[slot.0 as usize])
    }
    fn object_of(&self, piece: PieceId) -> Option<ObjectSlot> {
        Some(ObjectSlot(self.firsts.partition_point(|&first| first <= piece.0) as u32 - 1))
    }
    fn key(&self, slot: ObjectSlot) -> FileKey {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&mix(self.seed ^ u64::from(slot.0)).to_be_bytes());
        key[8..].copy_from_slice(&mix(self.seed ^ u64::from(slot.0) ^ (1 << 40)).to_be_bytes());
        FileKey(key)
    }
}

pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A dataset whose bytes follow from slot and offset.
#[derive(Debug, Clone)]
pub struct World {
    table: Arc<Table>,
}

impl World {
    pub fn new(sizes: &[u64]) -> Self {
        Self::with_grid(sizes, GRID)
    }
    pub fn with_grid(sizes: &[u64], grid: u32) -> Self {
        Self::with_seed(sizes, 0, grid)
    }
    pub fn with_seed(sizes: &[u64], seed: u64, grid: u32) -> Self {
        let mut firsts = vec![0];
        for size in sizes {
            firsts.push(firsts[firsts.len() - 1] + size.div_ceil(u64::from(grid)) as u32);
        }
        Self { table: Arc::new(Table { sizes: sizes.to_vec(), firsts, seed, grid }) }
    }
    pub fn table(&self) -> Arc<dyn ObjectTable> {
        self.table.clone()
    }
    pub fn pieces(&self) -> u32 {
        self.table.pieces()
    }
    pub fn slots(&self) -> u32 {
        self.table.len()
    }
    pub fn size(&self, slot: u32) -> u64 {
        self.table.sizes[slot as usize]
    }
    pub fn first(&self, slot: u32) -> u32 {
        self.table.firsts[slot as usize]
    }
    pub fn slot_of(&self, piece: u32) -> ObjectSlot {
        self.table.object_of(PieceId(piece)).expect("a piece of an object")
    }
    /// Bytes of a range. Never zero, so that a hole is noticed; but every seventh object is nothing but zeros.
    pub fn range(&self, slot: u32, offset: u64, len: usize) -> Vec<u8> {
        if slot % 7 == 6 {
            return vec![0; len];
        }
        let byte = |at: u64| (mix((u64::from(slot) << 40) | (at / 8)) >> (8 * (at % 8))) as u8 | 1;
        (offset..offset + len as u64).map(byte).collect()
    }
    pub fn bytes(&self, slot: u32) -> Vec<u8> {
        self.range(slot, 0, self.size(slot) as usize)
    }
    pub fn piece(&self, piece: u32) -> Vec<u8> {
        let slot = self.slot_of(piece).0;
        let start = u64::from(piece - self.first(slot)) * u64::from(self.table.grid);
        self.range(slot, start, (self.size(slot) - start).min(u64::from(self.table.grid)) as usize)
    }
    pub fn fill(&self, shelf: &Shelf, piece: u32) -> Result<()> {
        let full = || fodder_core::Error::Full("no reservation".into());
        let reservation = shelf.reserve_for(PieceId(piece)).ok_or_else(full)?;
        shelf.write(PieceId(piece), &[&self.piece(piece)], reservation)
    }
    pub fn fill_all(&self, shelf: &Shelf) {
        (0..self.pieces()).for_each(|piece| self.fill(shelf, piece).unwrap());
    }
    pub fn path(&self, home: &Path, dataset: &str, slot: u32) -> PathBuf {
        let name = self.table.key(ObjectSlot(slot)).to_string();
        home.join("t/data").join(dataset).join(&name[..2]).join(name)
    }
}

/// The file that has the bytes of an object, and where in it: its own, or that of its group.
pub fn stored(home: &Path, world: &World, shelf: &Shelf, slot: u32) -> (PathBuf, std::ops::Range<u64>) {
    match shelf.cell_range(ObjectSlot(slot)) {
        Some((cell_bytes, range)) => {
            (home.join("t/data").join(shelf.name()).join("groups").join(cell_bytes.to_string()), range)
        }
        None => (world.path(home, shelf.name(), slot), 0..world.size(slot)),
    }
}

pub fn config(home: &Path, quota_bytes: u64, medium: Medium) -> TierConfig {
    TierConfig { path: home.join("t"), medium, quota_bytes }
}

pub fn options() -> TierOptions {
    let (first_rest, recovery) = (Duration::from_millis(20), Duration::ZERO);
    TierOptions { floor_bytes: Some(0), first_rest, recovery, ..TierOptions::default() }
}

pub fn open(home: &Path, quota_bytes: u64) -> Arc<Tier> {
    Tier::open_with(&config(home, quota_bytes, Medium::Ssd), options()).unwrap()
}

/// A tier that does not sync, for tests that commit a lot on a disk that others write to as well.
pub fn open_unsynced(home: &Path, quota_bytes: u64) -> Arc<Tier> {
    Tier::open_with(&config(home, quota_bytes, Medium::Mem), options()).unwrap()
}

/// A tier that commits only when told to.
pub fn open_lazy(home: &Path, quota_bytes: u64) -> Arc<Tier> {
    let options = TierOptions { commit_interval: Duration::from_secs(3600), ..options() };
    Tier::open_with(&config(home, quota_bytes, Medium::Ssd), options).unwrap()
}

/// `du -s --block-size=1` of the tier, without starting a process.
pub fn du(home: &Path) -> u64 {
    fn walk(path: &Path) -> u64 {
        // A sweep may take a file away while this walks.
        let Ok(found) = std::fs::symlink_metadata(path) else { return 0 };
        let below = std::fs::read_dir(path).into_iter().flatten().flatten();
        std::os::unix::fs::MetadataExt::blocks(&found) * 512 + below.map(|entry| walk(&entry.path())).sum::<u64>()
    }
    walk(&home.join("t"))
}

/// The same, asked of the real one.
pub fn real_du(home: &Path) -> u64 {
    let output = std::process::Command::new("du").args(["-s", "--block-size=1"]).arg(home.join("t")).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

pub fn assert_quota(tier: &Tier, home: &Path) {
    let (du, used, quota) = (du(home), tier.used_bytes(), tier.quota_bytes());
    assert!(du <= used && used <= quota, "du {du}, used {used}, quota {quota}");
}

pub fn flip(path: &Path, at: u64) {
    use std::os::unix::fs::{FileExt, PermissionsExt};
    let permissions = std::fs::metadata(path).unwrap().permissions();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    std::fs::set_permissions(path, permissions).unwrap();
}

/// Offsets and lengths that cross pieces, begin and end on them, and cover everything.
pub fn ranges(size: usize) -> Vec<(usize, usize)> {
    let grid = GRID as usize;
    let all =
        [(0, size), (0, 1), (1, 100), (grid - 1, 2), (grid, grid), (grid - 7, grid + 14), (size.saturating_sub(1), 1)];
    all.into_iter().filter(|(offset, len)| offset + len <= size).collect()
}
