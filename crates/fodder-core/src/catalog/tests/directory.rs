//! The tree that a snapshot shows, against a naive one.

use super::*;
use proptest::prelude::*;

/// Name to whether it is a directory, of what lies directly below a directory. Empty directories have a slash at their end.
fn naive(paths: &[String], directory: &str) -> Option<BTreeMap<String, bool>> {
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let mut entries = BTreeMap::new();
    for rest in paths.iter().filter_map(|path| path.strip_prefix(&prefix)).filter(|rest| !rest.is_empty()) {
        let (name, is_directory) = rest.split_once('/').map_or((rest, false), |(name, _)| (name, true));
        *entries.entry(name.to_owned()).or_default() |= is_directory;
    }
    (directory.is_empty() || paths.iter().any(|path| path.starts_with(&prefix))).then_some(entries)
}

/// A whole directory, in pages.
fn walk(snapshot: &Snapshot, directory: &str, page: usize, by_name: bool) -> Option<Vec<Entry>> {
    let (mut all, mut at): (Vec<Entry>, Option<(u32, String)>) = (Vec::new(), None);
    loop {
        let from = match &at {
            None => Resume::Rank(0),
            Some((_, name)) if by_name => Resume::Name(name),
            Some((rank, _)) => Resume::Rank(*rank),
        };
        let entries = snapshot.children(directory, from, page)?;
        let Some(last) = entries.last() else { return Some(all) };
        let slash = if last.child == Child::Directory { "/" } else { "" };
        let before = at.map_or(0, |(rank, _)| rank);
        assert!(last.next > before, "the listing goes on behind what it has listed");
        at = Some((last.next, format!("{}{slash}", last.name)));
        all.extend(entries);
    }
}

/// Checks a snapshot of objects and of empty directories, which have a slash at their end.
fn check(paths: Vec<String>) {
    let (dir, source) = (scratch(), Memory::default());
    let (empty, objects): (Vec<&str>, Vec<&str>) =
        paths.iter().map(String::as_str).partition(|path| path.ends_with('/'));
    objects.iter().for_each(|path| source.put_size(path, "1", 1));
    source.put_empty_directories(&empty);
    // An empty directory is one only if nothing lies below it, and it hides no object.
    let is_clash = |directory: &str, other: &str| {
        other != directory
            && (other.starts_with(directory) || directory.starts_with(&format!("{other}/")) && !other.ends_with('/'))
    };
    let is_no_name = |path: &String| path.ends_with('/') && path.split('/').any(|part| matches!(part, "." | ".."));
    let paths: Vec<String> = paths.iter().filter(|path| !is_no_name(path)).cloned().collect();
    let clashes = |path: &String| path.ends_with('/') && paths.iter().any(|other| is_clash(path, other));
    let paths: Vec<String> = paths.iter().filter(|path| !clashes(path)).cloned().collect();
    let catalog = build(dir.path(), "files", &source).unwrap();
    let (snapshot, objects) = (catalog.current(), catalog.objects());
    let mut directories: Vec<String> =
        paths.iter().flat_map(|path| path.match_indices('/').map(|(at, _)| path[..at].to_owned())).collect();
    directories.extend([String::new(), "no such".into(), "a/no".into()]);
    for directory in &directories {
        let expected = naive(&paths, directory);
        for (page, by_name) in [(1, false), (1, true), (3, false), (3, true), (1000, false)] {
            let found = walk(&snapshot, directory, page, by_name);
            let found = found.map(|entries| {
                let count = entries.len();
                let map: BTreeMap<_, _> =
                    entries.into_iter().map(|entry| (entry.name, entry.child == Child::Directory)).collect();
                assert_eq!(map.len(), count, "an entry twice in {directory:?} of {paths:?}");
                map
            });
            assert_eq!(found, expected, "{directory:?} in pages of {page} of {paths:?}");
        }
    }
    for path in paths.iter().chain(&directories) {
        match snapshot.find(path) {
            Some(Child::Object(slot)) => assert_eq!(&objects.path(slot), path),
            Some(Child::Directory) => assert!(naive(&paths, path).is_some()),
            None if path.ends_with('/') => {}
            None => assert!(!paths.contains(path) && naive(&paths, path).is_none()),
        }
    }
    drop((snapshot, objects, catalog));
    let snapshot = reopen(dir.path(), "files").unwrap().current();
    for directory in &directories {
        let found = walk(&snapshot, directory, 7, false).map(|entries| entries.len());
        assert_eq!(found, naive(&paths, directory).map(|entries| entries.len()), "after a restart");
    }
    for rank in [0, 1, u32::MAX] {
        let _ = snapshot.children("a", Resume::Rank(rank), 2);
    }
}

#[test]
fn an_object_is_hidden_by_a_directory_of_its_name_and_by_nothing_else() {
    let paths = ["a", "a!", "a.txt", "a/b", "a0", "b", "b-", "b0", "c/d", "c/d/e", "c/d.e"];
    check(paths.iter().map(|path| (*path).to_owned()).collect());
    check(Vec::new());
}

#[test]
fn empty_directories_are_listed_wherever_they_are() {
    let trees: &[&[&str]] = &[
        &["valid/"],
        &["a/b/c/", "a/d/", "z/"],
        &["a", "b/x", "b/y/", "b0/", "b-/", "b!", "valid/", "z"],
        &["a/", "b", "b/", "c/d", "c/", "d/e/", "d/e/f/", "g", "g/h/"],
        &["x/0", "x/1/", "x/2", "x/3/4/", "x/5", "x/é/"],
    ];
    for tree in trees {
        check(tree.iter().map(|path| (*path).to_owned()).collect());
    }
}

#[test]
fn a_refresh_that_changes_only_empty_directories_makes_another_snapshot_of_the_same_items() {
    let (dir, source) = (scratch(), Memory::default());
    ["b/1.jpg", "d/2.jpg"].iter().for_each(|path| source.put_size(path, "1", 1));
    let catalog = build(dir.path(), "files", &source).unwrap();
    let plain = catalog.current();
    source.put_empty_directories(&["a/", "c/x/", "d/y/"]);
    let report = wait(catalog.refresh_from(&source)).unwrap();
    assert_eq!((report.added, report.removed, report.unchanged), (0, 0, 2));
    let snapshot = catalog.current();
    assert_ne!(snapshot.id(), plain.id());
    assert_eq!((names(&snapshot), snapshot.classes()), (names(&plain), plain.classes()), "labels do not move");
    assert_eq!(snapshot.find("c"), Some(Child::Directory));
    let [problem] = snapshot.problems() else { panic!("{:?}", snapshot.problems()) };
    assert!(problem.starts_with("2 top-level directories") && problem.contains("such as a ("), "{problem}");
    wait(catalog.refresh_from(&source)).unwrap();
    assert_eq!(catalog.current().id(), snapshot.id(), "the same again is the same snapshot");
    // A file takes the name of a directory, and another gets a file.
    source.put_size("a", "1", 1);
    source.put_size("c/x/f", "1", 1);
    source.put_empty_directories(&["d/y/"]);
    wait(catalog.refresh_from(&source)).unwrap();
    let filled = catalog.current();
    assert!(matches!(filled.find("a"), Some(Child::Object(_))));
    assert_eq!((filled.find("c/x"), filled.find("d/y")), (Some(Child::Directory), Some(Child::Directory)));
    assert_eq!(walk(&filled, "c/x", 5, false).unwrap().len(), 1);
    assert_eq!(walk(&snapshot, "c/x", 5, false).unwrap().len(), 0, "an older snapshot stays as it is");
    ["a", "c/x/f"].iter().for_each(|path| source.remove(path));
    source.put_empty_directories(&[]);
    wait(catalog.refresh_from(&source)).unwrap();
    assert_eq!(catalog.current().id(), plain.id());
    assert_eq!(reopen(dir.path(), "files").unwrap().snapshot(snapshot.id()).unwrap().find("a"), Some(Child::Directory));
}

#[test]
fn links_are_kept_with_their_snapshot_and_a_changed_one_makes_another() {
    let (dir, source) = (scratch(), Memory::default());
    ["a/x", "b/x", "link/x", "short"].iter().for_each(|path| source.put_size(path, "1", 1));
    let catalog = build(dir.path(), "files", &source).unwrap();
    let plain = catalog.current().id();
    let link = |path: &str, target: &str| Link { path: path.into(), target: target.into(), modified_ns: -5 };
    let links = vec![link("short", "a/x"), link("link", "a"), link("nowhere", "a")];
    source.links.lock().unwrap().clone_from(&links);
    wait(catalog.refresh_from(&source)).unwrap();
    let linked = catalog.current();
    assert_ne!(linked.id(), plain);
    wait(catalog.refresh_from(&source)).unwrap();
    assert_eq!(catalog.current().id(), linked.id(), "the same again is the same snapshot");
    let check = |snapshot: &Snapshot, target: &str| {
        let root = snapshot.children("", Resume::Rank(0), 10).unwrap();
        let shown: Vec<_> = root.iter().map(|entry| (&*entry.name, entry.child == Child::Directory)).collect();
        assert_eq!(shown, [("a", true), ("b", true), ("link", true), ("short", false)]);
        assert_eq!((&root[0].link, &root[2].link), (&None, &Some(link("link", target))));
        assert_eq!(root[3].link, Some(link("short", "a/x")));
        let linked: Vec<_> = (0..5).map(|place| snapshot.is_linked(place)).collect();
        assert_eq!(linked, [false, false, true, true, false]);
        assert_eq!((snapshot.link("link"), snapshot.link("link/x")), (Some(link("link", target)), None));
    };
    check(&linked, "a");
    source.links.lock().unwrap()[1] = link("link", "b");
    let report = wait(catalog.refresh_from(&source)).unwrap();
    assert_eq!((report.added, report.changed, report.unchanged), (0, 0, 4));
    assert_ne!(catalog.current().id(), linked.id());
    drop(catalog);
    let catalog = reopen(dir.path(), "files").unwrap();
    check(&catalog.current(), "b");
    check(&catalog.snapshot(linked.id()).unwrap(), "a");
    source.links.lock().unwrap().clear();
    wait(catalog.refresh_from(&source)).unwrap();
    assert_eq!(catalog.current().id(), plain);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_directory_in_pages_is_what_a_naive_walk_sees(
        paths in prop::collection::btree_set("[a-c!.0]{1,2}(/[ab.0é]{1,2}){0,3}/?", 0..60),
    ) {
        check(paths.into_iter().collect());
    }
}
