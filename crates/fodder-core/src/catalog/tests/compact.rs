//! Removing what nothing needs any more.

use super::*;
use std::{collections::HashSet, sync::atomic::AtomicBool};

/// Keeps something of so many of eight objects that no snapshot has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keeping(pub(super) u32);

impl Release for Keeping {
    fn wanted(&self, objects: &[ObjectSlot]) -> rustc_hash::FxHashSet<ObjectSlot> {
        objects.iter().copied().filter(|object| object.0 % 8 < self.0).collect()
    }

    fn release(&self, objects: &[ObjectSlot]) -> rustc_hash::FxHashSet<ObjectSlot> {
        objects.iter().copied().collect()
    }

    fn left(&self, before: &Objects, released: &rustc_hash::FxHashSet<ObjectSlot>) {
        assert!(released.iter().all(|object| before.contains(*object)));
    }

    fn stay(&self, _released: &rustc_hash::FxHashSet<ObjectSlot>) {}
}

impl Catalog {
    /// Removes all objects that nothing needs.
    pub(super) fn compact_all(&self, release: &dyn Release) -> bool {
        let guard = self.changing.clone().try_lock_owned().unwrap();
        self.inner.compact(&guard, release, super::super::compact::Worth::ALWAYS).unwrap()
    }
}

fn files(dir: &Path) -> HashSet<std::ffi::OsString> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Leaves the directory as a kill leaves it that comes in the middle of a compaction.
pub(super) fn crash(catalog: &Catalog, dir: &Path, moment: usize) {
    let saved = scratch();
    let before = files(dir);
    let copy = |from: &Path, to: &Path, name: &std::ffi::OsString| {
        fs::copy(from.join(name), to.join(name)).unwrap();
    };
    before.iter().for_each(|name| copy(dir, saved.path(), name));
    catalog.compact_all(&Keeping(0));
    let after = files(dir);
    let restore = |names: &mut dyn Iterator<Item = &std::ffi::OsString>| {
        names.for_each(|name| copy(saved.path(), dir, name));
    };
    match moment {
        // The segment is being written.
        0 => {
            for name in after.difference(&before) {
                let bytes = fs::read(dir.join(name)).unwrap();
                fs::write(dir.join(name).with_extension("tmp"), &bytes[..bytes.len() / 2]).unwrap();
                fs::remove_file(dir.join(name)).unwrap();
            }
            restore(&mut before.iter());
        }
        // The manifest is being written.
        1 => {
            fs::write(dir.join("manifest.tmp"), "not yet").unwrap();
            restore(&mut before.iter());
        }
        // What the new manifest does not name is still there.
        2 => restore(&mut before.difference(&after)),
        _ => {}
    }
}

/// Changes all of `count` objects.
fn change(source: &Memory, count: u32, version: u32) {
    (0..count).for_each(|n| source.put_size(&format!("{n:05}"), &format!("v{version}"), 100 + u64::from(version)));
}

#[test]
fn sixty_refreshes_that_change_everything_leave_a_small_catalog() {
    let (dir, source) = (scratch(), Memory::default());
    change(&source, 3000, 0);
    let catalog = build(dir.path(), "files", &source).unwrap();
    let disk = || fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>();
    let first_bytes = disk();
    for version in 1..=60 {
        change(&source, 3000, version);
        wait(catalog.refresh_from(&source)).unwrap();
        wait(catalog.compact(Arc::new(Keeping(0)))).unwrap();
        let objects = catalog.objects();
        // Four snapshots are kept, and as many objects again may wait for the next compaction.
        assert!(objects.count() <= 9 * 3000, "{} objects after {version} refreshes", objects.count());
        assert!(objects.pieces() <= 9 * 3000, "{} pieces after {version} refreshes", objects.pieces());
        assert!(disk() <= 12 * first_bytes, "{} bytes after {version} refreshes, {first_bytes} at first", disk());
    }
    assert_eq!(catalog.snapshots().len(), KEPT_SNAPSHOTS);
    assert_eq!(catalog.objects().len(), 61 * 3000, "no slot was given out twice");
    let (id, names_before) = (catalog.current().id(), names(&catalog.current()));
    drop(catalog);
    let catalog = reopen(dir.path(), "files").unwrap();
    assert_eq!((catalog.current().id(), names(&catalog.current())), (id, names_before));
    assert_eq!(catalog.objects().pieces(), catalog.objects().piece_count(), "an opened catalog has no gaps");
}

#[test]
fn what_a_snapshot_has_that_somebody_holds_stays() {
    let (dir, source) = (scratch(), Memory::default());
    change(&source, 10, 0);
    let catalog = build(dir.path(), "files", &source).unwrap();
    let held = catalog.current();
    let slots: Vec<ObjectSlot> = held.objects().collect();
    for version in 1..10 {
        change(&source, 10, version);
        wait(catalog.refresh_from(&source)).unwrap();
        catalog.compact_all(&Keeping(0));
        let objects = catalog.objects();
        assert!(slots.iter().all(|slot| objects.version(*slot) == Version("v0".into())));
    }
    assert!(catalog.snapshot(held.id()).is_none(), "it is not among the newest four");
    drop(held);
    change(&source, 10, 10);
    wait(catalog.refresh_from(&source)).unwrap();
    while catalog.compact_all(&Keeping(0)) {}
    assert!(slots.iter().all(|slot| !catalog.objects().contains(*slot)));
}

#[test]
fn pieces_of_objects_that_have_left_are_reused_and_slots_are_not() {
    let (dir, source) = (scratch(), Memory::default());
    let sizes = [0, 1, 5 << 20, 1 << 20, 3 << 20];
    let catalog = build(dir.path(), "files", &source).unwrap();
    for version in 0..20u64 {
        for n in 0..50 {
            source.put_size(&format!("{n:02}"), &format!("v{version}"), sizes[(n + version as usize) % 5]);
        }
        wait(catalog.refresh_from(&source)).unwrap();
        catalog.compact_all(&Keeping(0));
    }
    let objects = catalog.objects();
    assert_eq!(objects.len(), 20 * 50);
    // 100 pieces a version, of which four snapshots are kept.
    assert!(objects.pieces() <= 1100, "{} pieces", objects.pieces());
}

#[test]
fn pieces_are_not_reused_while_a_table_may_still_be_in_use() {
    struct Busy(Arc<AtomicBool>);
    impl Tables for Busy {
        fn follow(&self, _objects: &Arc<Objects>) {}
        fn may_reuse(&self) -> bool {
            !self.0.load(std::sync::atomic::Ordering::Relaxed)
        }
    }
    let (dir, source, busy) = (scratch(), Memory::default(), Arc::new(AtomicBool::new(true)));
    change(&source, 10, 0);
    let catalog = build(dir.path(), "files", &source).unwrap();
    catalog.followed_by(Busy(Arc::clone(&busy)));
    for version in 1..10 {
        change(&source, 10, version);
        wait(catalog.refresh_from(&source)).unwrap();
        catalog.compact_all(&Keeping(0));
    }
    assert_eq!(catalog.objects().pieces(), 100);
    // Neither are those behind all that are left.
    change(&source, 20, 10);
    wait(catalog.refresh_from(&source)).unwrap();
    (10..20).for_each(|n| source.remove(&format!("{n:05}")));
    for n in 1..6 {
        let path = format!("{n:05}");
        source.remove(&path);
        wait(catalog.refresh_from(&source)).unwrap();
        source.put_size(&path, "v10", 110);
        wait(catalog.refresh_from(&source)).unwrap();
        catalog.compact_all(&Keeping(0));
    }
    assert_eq!((catalog.objects().pieces(), catalog.objects().count()), (110, 10));
    let changed = |version: u32| {
        source.put_size("00000", &format!("v{version}"), 1);
        wait(catalog.refresh_from(&source)).unwrap();
        catalog.objects().first_piece(catalog.current().lookup("00000").unwrap()).0
    };
    assert_eq!(changed(11), 120);
    busy.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(changed(12), 0);
}

#[test]
fn shards_keep_their_records_and_problems_when_others_leave() {
    let (dir, source) = (scratch(), Memory::default());
    source.put("good.tar", "1", shards::tar(&[("one1", 10), ("two2", 20)]));
    source.put("bad.tar", "1", vec![7; 1024]);
    let catalog = build(dir.path(), "tar", &source).unwrap();
    for version in 1..20 {
        source.put("changing.tar", &version.to_string(), shards::tar(&[(&format!("v{version}"), version)]));
        wait(catalog.refresh_from(&source)).unwrap();
    }
    let before = (names(&catalog.current()), catalog.current().problems().to_vec());
    assert_eq!((before.0.len(), before.1.len()), (3, 1));
    let count = catalog.objects().count();
    assert_eq!(count, 21);
    assert!(catalog.compact_all(&Keeping(0)));
    assert_eq!(catalog.objects().count(), 2 + KEPT_SNAPSHOTS as u32);
    assert_eq!((names(&catalog.current()), catalog.current().problems().to_vec()), before);
    let reopened = reopen(dir.path(), "tar").unwrap();
    assert_eq!((names(&reopened.current()), reopened.current().problems().to_vec()), before);
}
