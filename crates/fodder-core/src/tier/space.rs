//! The space of a tier: what is charged, what is set aside, what the disk must keep free.
//!
//! Charges are chosen so that `du` never sees more than is charged. It knows nothing of files and pieces but their sizes.

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::StatVfs;
use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// A file's name in its directory: entries are about 40 bytes, and split directory blocks are half empty.
pub(super) const NAME_BYTES: u64 = 128;
/// A directory that was just made.
pub(super) const DIRECTORY_BYTES: u64 = 4096;
/// Pieces of one file that share a block of its extent tree. It has room for 340 extents, so a piece may be in several.
const EXTENTS: u64 = 64;
/// The free space of the disk is read again after this time, or after so many bytes were set aside.
const DISK_AGE: Duration = Duration::from_secs(1);
const DISK_BYTES: u64 = 64 << 20;
/// Inodes that a new file may take: its own and those of two directories.
pub(super) const FILE_INODES: u64 = 3;
/// The most inodes that are kept free.
const MAX_INODE_FLOOR: u64 = 10_000;

/// What a piece is charged: its blocks and, in a file of several pieces, its share of the extent tree.
pub(super) fn piece_bytes(size: u64, index: u32, grid: u32, block: u64) -> u64 {
    let share = if size > u64::from(grid) { block / EXTENTS } else { 0 };
    piece_len(size, index, grid).next_multiple_of(block) + share
}

/// Bytes of one piece: the grid, except for the object's last one.
#[inline]
pub(super) fn piece_len(size: u64, index: u32, grid: u32) -> u64 {
    size.saturating_sub(u64::from(index) * u64::from(grid)).min(u64::from(grid))
}

/// What a file is charged beside its pieces: the first block of its extent tree. Four extents fit into the inode, so
/// that a file of four blocks never needs one.
pub(super) fn file_bytes(size: u64, block: u64) -> u64 {
    if size <= 4 * block { 0 } else { block }
}

/// What a group file of so many bytes is charged: its blocks, each of which may be an extent, the first block of its extent tree
/// and its name.
pub(super) fn group_bytes(len: u64, block: u64) -> u64 {
    len.div_ceil(block) * (block + block / EXTENTS) + block + NAME_BYTES
}

/// What is charged, and the limits.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) quota: u64,
    /// Bytes of a block of the file system.
    pub(super) block: u64,
    used: AtomicU64,
    /// Of `used`: set aside and not written yet.
    reserved: AtomicU64,
    /// Kept free for the index to be rewritten.
    headroom: AtomicU64,
    floor: u64,
    /// Inodes that are set aside for files that are not created yet.
    reserved_inodes: AtomicU64,
    /// Free inodes that the file system must keep: for the index, the catalog and other programs.
    inode_floor: u64,
    /// When a create last failed for want of an inode or a directory entry, if no file has been unlinked since.
    inodes_exhausted: Mutex<Option<Instant>>,
    disk: Mutex<Disk>,
    directory: File,
}

#[derive(Debug)]
struct Disk {
    available: u64,
    /// None: the file system allocates inodes as it needs them (btrfs and others report a total of 0).
    free_inodes: Option<u64>,
    read_at: Instant,
    /// Set aside since it was read.
    since: u64,
    inodes_since: u64,
}

impl Disk {
    fn read(directory: &File) -> std::io::Result<(Self, StatVfs)> {
        let stat = rustix::fs::fstatvfs(directory)?;
        let disk = Self {
            available: stat.f_bavail * stat.f_frsize,
            free_inodes: (stat.f_files > 0).then_some(stat.f_favail),
            read_at: Instant::now(),
            since: 0,
            inodes_since: 0,
        };
        Ok((disk, stat))
    }

    fn has(&self, bytes: u64, inodes: u64) -> bool {
        let free_inodes = self.free_inodes.map_or(u64::MAX, |free| free.saturating_sub(self.inodes_since));
        self.available.saturating_sub(self.since) >= bytes && free_inodes >= inodes
    }
}

impl Space {
    /// `floor` is what the disk must keep free; None means 1 GiB or 5 % of it, whichever is smaller.
    /// `inode_floor` is the number of inodes it must keep free; None means 5 %, at most 10,000.
    pub(super) fn new(
        quota: u64,
        directory: File,
        floor: Option<u64>,
        inode_floor: Option<u64>,
    ) -> std::io::Result<Self> {
        let (disk, stat) = Disk::read(&directory)?;
        let floor = floor.unwrap_or_else(|| (1 << 30).min(stat.f_blocks.saturating_mul(stat.f_frsize) / 20));
        Ok(Self {
            quota,
            block: stat.f_bsize.clamp(4096, 1 << 16),
            used: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            headroom: AtomicU64::new(0),
            floor,
            reserved_inodes: AtomicU64::new(0),
            inode_floor: inode_floor.unwrap_or_else(|| (stat.f_files / 20).min(MAX_INODE_FLOOR)),
            inodes_exhausted: Mutex::new(None),
            disk: Mutex::new(disk),
            directory,
        })
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Charges what is there whether or not it fits.
    pub(super) fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn release(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "released {bytes} of {before}");
    }

    pub(super) fn set_headroom(&self, bytes: u64) {
        self.headroom.store(bytes, Ordering::Relaxed);
    }

    /// Sets `bytes` and `inodes` aside if quota and disk allow it.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64, inodes: u64) -> Option<Grant> {
        if inodes > 0 && self.inodes_exhausted() {
            return None;
        }
        let limit = self.quota.saturating_sub(self.headroom.load(Ordering::Relaxed));
        let fits = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
        self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        let grant = Grant { space: self.clone(), bytes, inodes };
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
        self.reserved_inodes.fetch_add(inodes, Ordering::Relaxed);
        self.disk_has(bytes, inodes).then_some(grant)
    }

    /// A grant of nothing, for what is charged already.
    pub(super) fn none(self: &Arc<Self>) -> Grant {
        Grant { space: self.clone(), bytes: 0, inodes: 0 }
    }

    /// How much must leave before so much more fits: what the quota lacks, or all of it where it is the disk that is full.
    pub(super) fn lacks(&self, bytes: u64) -> u64 {
        let limit = self.quota.saturating_sub(self.headroom.load(Ordering::Relaxed));
        let over = self.used().saturating_add(bytes).saturating_sub(limit);
        if over == 0 { bytes } else { over }
    }

    /// Whether the file system lacks free inodes, so that only removing files makes room for more.
    pub(super) fn lacks_inodes(&self) -> bool {
        let reserved = self.reserved_inodes.load(Ordering::Relaxed);
        let wanted = self.inode_floor.saturating_add(reserved).saturating_add(FILE_INODES);
        self.inodes_exhausted() || !self.fresh_disk(0, wanted).has(0, wanted)
    }

    /// The inodes that other users of the file system and this tier can still create; None where it sets no limit.
    pub(super) fn free_inodes(&self) -> Option<u64> {
        self.fresh_disk(0, 0).free_inodes
    }

    /// A create failed because the file system has no inode or directory entry left, whatever statvfs reports (quotas).
    pub(super) fn inodes_ran_out(&self) {
        *self.inodes_exhausted.lock() = Some(Instant::now());
    }

    /// After a moment a create is tried again: another program may have removed files.
    fn inodes_exhausted(&self) -> bool {
        self.inodes_exhausted.lock().is_some_and(|since| since.elapsed() < DISK_AGE)
    }

    /// A file was unlinked.
    pub(super) fn inode_freed(&self) {
        *self.inodes_exhausted.lock() = None;
    }

    fn disk_has(&self, bytes: u64, inodes: u64) -> bool {
        let wanted = self.floor.saturating_add(self.reserved.load(Ordering::Relaxed));
        let wanted_inodes = match inodes {
            0 => 0,
            _ => self.inode_floor.saturating_add(self.reserved_inodes.load(Ordering::Relaxed)),
        };
        let mut disk = self.fresh_disk(wanted, wanted_inodes);
        let has = disk.has(wanted, wanted_inodes);
        disk.since += bytes;
        disk.inodes_since += inodes;
        has
    }

    /// What the file system reported lately; asked again if that is old or less than wanted.
    fn fresh_disk(&self, wanted: u64, wanted_inodes: u64) -> MutexGuard<'_, Disk> {
        let mut disk = self.disk.lock();
        let stale = disk.read_at.elapsed() > DISK_AGE || disk.since > DISK_BYTES;
        if stale || !disk.has(wanted, wanted_inodes) {
            match Disk::read(&self.directory) {
                Ok((now, _)) => *disk = now,
                Err(_) => disk.available = 0,
            }
        }
        disk
    }
}

/// Bytes and inodes that are set aside, given back when dropped unused.
#[derive(Debug)]
pub(super) struct Grant {
    space: Arc<Space>,
    bytes: u64,
    inodes: u64,
}

impl Grant {
    /// How much of it is left.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Turns a part of it into a charge that stays. What it does not cover is charged all the same.
    pub(super) fn spend(&mut self, bytes: u64) {
        let covered = bytes.min(self.bytes);
        self.bytes -= covered;
        self.space.reserved.fetch_sub(covered, Ordering::Relaxed);
        self.space.charge(bytes - covered);
    }

    /// An inode that was set aside is in use now.
    pub(super) fn spend_inode(&mut self) {
        if self.inodes > 0 {
            self.inodes -= 1;
            self.space.reserved_inodes.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn of(&self, space: &Arc<Space>) -> bool {
        Arc::ptr_eq(&self.space, space)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.space.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
        self.space.reserved_inodes.fetch_sub(self.inodes, Ordering::Relaxed);
        self.space.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn space(quota: u64, floor: Option<u64>) -> Arc<Space> {
        Arc::new(Space::new(quota, File::open(std::env::temp_dir()).unwrap(), floor, Some(0)).unwrap())
    }

    #[test]
    fn reservations_never_pass_the_quota_and_come_back_when_dropped() {
        let space = space(10_000, Some(0));
        let first = space.reserve(6_000, 0).unwrap();
        assert!(space.reserve(6_000, 0).is_none());
        drop(first);
        let mut second = space.reserve(6_000, 0).unwrap();
        second.spend(4_096);
        drop(second);
        assert_eq!(space.used(), 4_096);
        assert!(space.reserve(u64::MAX, 0).is_none());
        space.set_headroom(5_000);
        assert!(space.reserve(1_000, 0).is_none());
        space.release(4_096);
        assert!(space.reserve(1_000, 0).is_some());
    }

    #[test]
    fn the_floor_of_free_space_is_kept() {
        assert!(space(u64::MAX, Some(u64::MAX)).reserve(4096, 0).is_none());
        assert!(space(u64::MAX, Some(0)).reserve(4096, 0).is_some());
    }

    #[test]
    fn small_files_cost_their_blocks_and_large_ones_their_extent_tree_too() {
        assert_eq!(piece_bytes(1, 0, 1 << 20, 4096), 4096);
        assert_eq!(piece_bytes((1 << 20) + 1, 1, 1 << 20, 4096), 4096 + 64);
        assert_eq!(file_bytes(16_384, 4096), 0);
        assert_eq!(file_bytes(16_385, 4096), 4096);
        assert_eq!(piece_bytes(100_000, 0, 1 << 20, 4096), 102_400);
        assert_eq!(piece_bytes(1 << 40, 5, 1 << 20, 4096), (1 << 20) + 64);
    }

    #[test]
    fn running_out_of_inodes_stops_new_files_and_nothing_else() {
        let space = space(1 << 30, Some(0));
        assert!(space.reserve(4096, 1).is_some() && !space.lacks_inodes());
        space.inodes_ran_out();
        assert!(space.reserve(4096, 1).is_none() && space.lacks_inodes());
        assert!(space.reserve(4096, 0).is_some(), "a piece of a file that exists needs no inode");
        space.inode_freed();
        assert!(space.reserve(4096, 1).is_some());
    }
}
