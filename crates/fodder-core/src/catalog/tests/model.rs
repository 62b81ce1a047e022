//! Random changes of the origin, refreshes and restarts, against a map.

use super::{compact::Keeping, *};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Clone)]
enum Step {
    Put {
        path: String,
        version: u8,
        size: u64,
    },
    Remove {
        path: String,
    },
    MakeDirectory {
        path: String,
    },
    RemoveDirectories,
    Refresh,
    Reopen,
    /// Somebody takes the newest snapshot, or lets go of all that were taken.
    Take,
    LetGo,
    /// Removes what nothing needs; of so many of eight objects, something is kept.
    Compact {
        kept: u32,
    },
    /// The same, and the node is killed at one of several moments.
    Crash {
        moment: usize,
    },
}

fn path() -> impl Strategy<Value = String> {
    "[ab]{1,2}(/[ab.-]{1,2}){0,2}(\\.jpg)?"
}

fn directory() -> impl Strategy<Value = String> {
    "[ab]{1,2}(/[ab]{1,2}){0,2}/"
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![Just(0u64), 1u64..100, (1u64 << 20)..(4 << 20)];
    prop_oneof![
        6 => (path(), 0u8..3, size).prop_map(|(path, version, size)| Step::Put { path, version, size }),
        2 => path().prop_map(|path| Step::Remove { path }),
        3 => directory().prop_map(|path| Step::MakeDirectory { path }),
        1 => Just(Step::RemoveDirectories),
        2 => Just(Step::Refresh),
        1 => Just(Step::Reopen),
        1 => Just(Step::Take),
        1 => Just(Step::LetGo),
        2 => (0u32..4).prop_map(|kept| Step::Compact { kept }),
        1 => (0usize..4).prop_map(|moment| Step::Crash { moment }),
    ]
}

type Listed = BTreeMap<String, (String, u64, Bytes)>;

/// What was promised to hold for ever.
#[derive(Default)]
struct Promises {
    /// Slot to (path, version, size).
    slots: HashMap<u32, (String, String, u64)>,
    /// Slot to first piece, while the catalog is open.
    pieces: HashMap<u32, u32>,
    /// Snapshots that somebody holds.
    held: Vec<(Arc<Snapshot>, Listed)>,
    /// Listings by snapshot, in the order they were sealed.
    sealed: Vec<(SnapshotId, Listed, Vec<String>)>,
}

fn naive_items(layout: &str, listed: &Listed) -> Vec<(String, Range<u64>)> {
    let mut items = Vec::new();
    if layout == "blocks:1MiB" {
        for (path, (_, size, _)) in listed {
            for start in (0..*size).step_by(1 << 20) {
                items.push((path.clone(), start..(start + (1 << 20)).min(*size)));
            }
        }
        return items;
    }
    let mut paths: Vec<&String> = listed.keys().collect();
    if paths.iter().any(|path| path.contains('/') && path.ends_with(".jpg")) {
        paths.retain(|path| path.contains('/') && path.ends_with(".jpg"));
        paths.sort_by_key(|path| {
            let (directory, name) = path.rsplit_once('/').unwrap();
            (path.split('/').next().unwrap(), directory, name)
        });
    }
    items.extend(paths.into_iter().map(|path| (path.clone(), 0..listed[path].1)));
    items
}

fn check_snapshot(layout: &str, snapshot: &Snapshot, objects: &Objects, listed: &Listed) {
    assert_eq!(snapshot.object_count() as usize, listed.len());
    assert_eq!(snapshot.total_bytes(), listed.values().map(|(_, size, _)| size).sum::<u64>());
    let all = snapshot.list("", None, usize::MAX);
    assert_eq!(
        all.iter().map(|slot| objects.path(*slot)).collect::<Vec<_>>(),
        listed.keys().cloned().collect::<Vec<_>>()
    );
    for (path, (version, size, _)) in listed {
        let slot = snapshot.lookup(path).unwrap();
        assert_eq!((&*objects.version(slot).0, objects.size(slot)), (&version[..], *size));
        let behind = snapshot.list(path, Some(path), usize::MAX).len();
        let expected = listed.keys().filter(|other| other.starts_with(path.as_str()) && *other > path).count();
        assert_eq!(behind, expected);
    }
    let items = naive_items(layout, listed);
    assert_eq!(snapshot.len(), items.len() as u64);
    let mut classes: Vec<&str> = listed.keys().filter_map(|path| Some(path.split_once('/')?.0)).collect();
    classes.dedup();
    classes.sort_unstable();
    for (id, (path, range)) in items.iter().enumerate() {
        let item = snapshot.item(id as u64).unwrap();
        assert_eq!((objects.path(item.object), &item.range), (path.clone(), range));
        assert!(snapshot.items_of(item.object).contains(&(id as u64)));
        let label = item.label.map(|label| snapshot.classes()[label as usize].as_str());
        assert_eq!(label, (!snapshot.classes().is_empty()).then(|| path.split('/').next().unwrap()));
        assert!(snapshot.classes().is_empty() || snapshot.classes() == classes);
    }
    let of_objects: u64 = all.iter().map(|slot| snapshot.items_of(*slot)).map(|ids| ids.end - ids.start).sum();
    assert_eq!(of_objects, snapshot.len());
}

/// The markers that stand for empty directories beside these objects.
fn naive_empty(markers: &[String], listed: &Listed) -> Vec<String> {
    let is_empty = |marker: &&String| {
        let below = markers.iter().chain(listed.keys()).any(|path| path != *marker && path.starts_with(*marker));
        let file = listed.keys().any(|path| marker.starts_with(&format!("{path}/")));
        !below && !file
    };
    markers.iter().filter(is_empty).cloned().collect()
}

fn check_directories(snapshot: &Snapshot, listed: &Listed, empty: &[String]) {
    assert!(snapshot.empty_directories().are(empty));
    for directory in empty {
        assert_eq!(snapshot.children(directory.trim_end_matches('/'), Resume::Rank(0), 10), Some(Vec::new()));
    }
    let top: std::collections::BTreeSet<&str> =
        listed.keys().chain(empty).map(|path| path.split('/').next().unwrap()).collect();
    let root = snapshot.children("", Resume::Rank(0), usize::MAX).unwrap();
    let found: std::collections::BTreeSet<&str> = root.iter().map(|entry| &*entry.name).collect();
    assert_eq!((root.len(), found), (top.len(), top));
}

impl Promises {
    fn check(&mut self, layout: &str, catalog: &Catalog) {
        let objects = catalog.objects();
        let (mut keys, mut pieces) = (HashSet::new(), HashSet::new());
        for at in objects.slots(0..objects.len()) {
            let found = (objects.path(at), objects.version(at).to_string(), objects.size(at));
            assert_eq!(self.slots.entry(at.0).or_insert_with(|| found.clone()), &found);
            assert!(keys.insert(found), "two slots for one version");
            let first = objects.first_piece(at).0;
            assert!(objects.pieces_of(at) == 0 || *self.pieces.entry(at.0).or_insert(first) == first);
            for piece in first..first + objects.pieces_of(at) {
                assert_eq!(objects.object_of(PieceId(piece)), Some(at));
                assert!(pieces.insert(piece), "two objects have a piece");
            }
        }
        assert_eq!(keys.len(), objects.count() as usize);
        assert_eq!(pieces.len(), objects.piece_count() as usize);
        assert_eq!(pieces.iter().max().map_or(0, |last| last + 1), objects.pieces());
        for slot in (0..objects.len()).map(ObjectSlot).filter(|slot| !objects.contains(*slot)) {
            assert_eq!((objects.path(slot), objects.size(slot), objects.pieces_of(slot)), (String::new(), 0, 0));
        }
        for (snapshot, listed) in &self.held {
            check_snapshot(layout, snapshot, &objects, listed);
        }
        let middle = objects.len() / 2;
        for range in [0..middle, middle..objects.len()] {
            objects.each_key(range, &mut |slot, key| assert_eq!(key, objects.key(slot)));
        }
        for (age, (id, listed, empty)) in self.sealed.iter().rev().enumerate() {
            match catalog.snapshot(*id) {
                Some(snapshot) => {
                    check_snapshot(layout, &snapshot, &objects, listed);
                    check_directories(&snapshot, listed, empty);
                }
                None => assert!(age >= KEPT_SNAPSHOTS),
            }
        }
    }
}

fn run(layout: &str, steps: Vec<Step>) {
    let (dir, source) = (scratch(), Memory::default());
    source.put_size("a/first.jpg", "0", 1);
    let mut catalog = build(dir.path(), layout, &source).unwrap();
    let mut promises = Promises::default();
    let mut last = (source.objects.lock().unwrap().clone(), Vec::new());
    promises.sealed.push((catalog.current().id(), last.0.clone(), last.1.clone()));
    for step in steps {
        match step {
            Step::Put { path, version, size } => source.put_size(&path, &format!("\"{version:032x}\""), size),
            Step::Remove { path } => source.remove(&path),
            Step::MakeDirectory { path } => source.empty_directories.lock().unwrap().push(path),
            Step::RemoveDirectories => source.put_empty_directories(&[]),
            Step::Reopen => {
                promises.pieces.clear();
                promises.held.clear();
                catalog = reopen(dir.path(), layout).unwrap();
            }
            Step::Take => promises.held.push((catalog.current(), last.0.clone())),
            Step::LetGo => promises.held.clear(),
            Step::Compact { kept } => {
                catalog.compact_all(&Keeping(kept));
                let objects = catalog.objects();
                let gone = |slot: &u32| !objects.contains(ObjectSlot(*slot));
                promises.pieces.retain(|slot, _| !gone(slot));
            }
            Step::Crash { moment } => {
                promises.pieces.clear();
                promises.held.clear();
                compact::crash(&catalog, dir.path(), moment);
                catalog = reopen(dir.path(), layout).unwrap();
            }
            Step::Refresh => {
                let before = catalog.current().id();
                let report = wait(catalog.refresh_from(&source)).unwrap();
                let now = source.objects.lock().unwrap().clone();
                let mut markers = source.empty_directories.lock().unwrap().clone();
                markers.sort();
                markers.dedup();
                let now = (now.clone(), naive_empty(&markers, &now));
                let same = |path: &String| last.0.get(path).is_some_and(|old| old == &now.0[path]);
                let known = |path: &&String| last.0.contains_key(*path);
                assert_eq!(report.unchanged as usize, now.0.keys().filter(|path| same(path)).count());
                assert_eq!(report.changed as usize, now.0.keys().filter(known).filter(|path| !same(path)).count());
                assert_eq!(report.added as usize, now.0.keys().filter(|path| !known(path)).count());
                assert_eq!(report.removed as usize, last.0.keys().filter(|path| !now.0.contains_key(*path)).count());
                assert_eq!(catalog.current().id() == before, now == last);
                if now != last {
                    promises.sealed.retain(|(id, ..)| *id != catalog.current().id());
                    promises.sealed.push((catalog.current().id(), now.0.clone(), now.1.clone()));
                }
                last = now;
            }
        }
        promises.check(layout, &catalog);
    }
    let fresh = scratch();
    wait(catalog.refresh_from(&source)).unwrap();
    let elsewhere = build(fresh.path(), layout, &source).unwrap();
    assert_eq!(catalog.current().id(), elsewhere.current().id(), "the same data has the same name on any node");
    assert_eq!(names(&catalog.current()), names(&elsewhere.current()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_catalog_of_files_is_what_a_naive_map_says(steps in prop::collection::vec(step(), 0..50)) {
        run("files", steps);
    }

    #[test]
    fn a_catalog_of_blocks_is_what_a_naive_map_says(steps in prop::collection::vec(step(), 0..50)) {
        run("blocks:1MiB", steps);
    }
}
