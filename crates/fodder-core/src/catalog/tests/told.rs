//! Snapshots that one node tells another.

use super::{shards::tar, *};

/// What a node tells of a snapshot, in pages of about so many bytes.
fn pages(snapshot: &Snapshot, bytes: usize) -> Vec<Vec<u8>> {
    let (mut pages, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let (page, next) = snapshot.tell(at, bytes);
        assert!(next.is_none_or(|next| next > at));
        pages.push(page);
        from = next;
    }
    pages
}

fn take(catalog: &Catalog, id: SnapshotId, pages: &[Vec<u8>], source: &Memory) -> Result<Arc<Snapshot>> {
    let mut arriving = catalog.arriving().unwrap();
    pages.iter().for_each(|page| arriving.push(page).unwrap());
    wait(catalog.adopt_from(id, arriving, source))
}

/// Everything that a snapshot says.
fn all(snapshot: &Snapshot) -> Vec<(String, String, Item)> {
    let one = |id| {
        let item = snapshot.item(id).unwrap();
        let version = snapshot.object_table().version(item.object).0.to_string();
        (snapshot.item_name(id).unwrap(), version, Item { object: ObjectSlot(0), ..item })
    };
    (0..snapshot.len()).map(one).collect()
}

fn origin() -> Memory {
    let source = Memory::default();
    for n in 0..50u64 {
        source.put_size(&format!("class{}/{n:03}.jpg", n % 3), &format!("\"{n:032x}\""), n << 16);
    }
    source.put_size("README", "mtime:17-3", 3);
    let link = |path: &str| Link { path: path.into(), target: "class0".into(), modified_ns: -5 };
    source.links.lock().unwrap().extend([link("b"), link("a")]);
    source.put_empty_directories(&["class1/none/", "a-/", "class1/a/b/", "z/"]);
    source
}

#[test]
fn what_one_node_tells_is_the_same_snapshot_at_another_and_the_newest_stays() {
    for layout in ["files", "blocks"] {
        for bytes in [1, 300, 1 << 20] {
            let (here, there, source) = (scratch(), scratch(), origin());
            let old = build(here.path(), layout, &source).unwrap().current();
            source.put_size("class1/new.jpg", "9", 9);
            source.put_size("class1/001.jpg", "changed", 9);
            source.remove("class2/002.jpg");
            source.links.lock().unwrap().pop();
            source.put_empty_directories(&["class1/none/", "new/"]);
            let catalog = build(there.path(), layout, &source).unwrap();
            let newest = catalog.current();
            let told = take(&catalog, old.id(), &pages(&old, bytes), &source).unwrap();
            assert_eq!((told.id(), told.classes(), all(&told)), (old.id(), old.classes(), all(&old)));
            assert_eq!((told.link("a"), told.link("b")), (old.link("a"), old.link("b")));
            assert!(told.empty_directories().are(&["a-/", "class1/a/b/", "class1/none/", "z/"].map(String::from)));
            assert_eq!((catalog.current().id(), all(&catalog.current())), (newest.id(), all(&newest)));
            // What both have is there once: nothing that is cached is lost.
            assert_eq!(catalog.objects().len(), newest.object_count() + 2);
            let again = reopen(there.path(), layout).unwrap();
            assert_eq!(again.current().id(), newest.id());
            assert_eq!(all(&again.snapshot(old.id()).unwrap()), all(&old));
            // The origin is as it was: that is the newest again, and no other snapshot.
            wait(again.refresh_from(&origin())).unwrap();
            assert_eq!((again.current().id(), again.snapshots().len()), (old.id(), 2));
        }
    }
}

#[test]
fn whatever_is_not_what_the_name_says_changes_nothing() {
    let (here, there, source) = (scratch(), scratch(), origin());
    let told = build(here.path(), "files", &source).unwrap().current();
    source.remove("README");
    let catalog = build(there.path(), "files", &source).unwrap();
    let (before, whole) = (catalog.objects().len(), pages(&told, 1 << 20).concat());
    for at in (0..whole.len()).step_by(7) {
        let mut wrong = whole.clone();
        wrong[at] ^= 1;
        let error = take(&catalog, told.id(), &[wrong], &source).unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
        assert!(take(&catalog, told.id(), &[whole[..at].to_vec()], &source).is_err());
    }
    assert!(take(&catalog, told.id(), &[whole.clone(), vec![0]], &source).is_err());
    let blocks = build(&there.path().join("blocks"), "blocks", &source).unwrap();
    let error = take(&blocks, told.id(), &[whole], &source).unwrap_err();
    assert!(matches!(&error, Error::Conflict(text) if text.contains("the same layout on all nodes")), "{error}");
    assert_eq!((catalog.snapshots().len(), catalog.objects().len(), blocks.snapshots().len()), (1, before, 1));
    let files = fs::read_dir(there.path()).unwrap().filter(|file| file.as_ref().unwrap().path().is_file());
    assert_eq!(files.count(), 3, "nothing is left behind");
}

#[test]
fn nonsense_under_its_right_name_is_refused() {
    let (dir, source) = (scratch(), origin());
    let catalog = build(dir.path(), "files", &source).unwrap();
    let object = |path: &str, items: u8| {
        let mut bytes = vec![path.len() as u8];
        bytes.extend_from_slice(path.as_bytes());
        bytes.extend_from_slice(&[1, 1, b'v', items]);
        bytes
    };
    let link: &[u8] = &[0, 1, 1, b'l', 1, b't', 0, 0, 0, 0, 0, 0, 0, 0];
    let directory = |path: &str| [&[0, 2, path.len() as u8], path.as_bytes()].concat();
    for (body, is_good) in [
        ([object("a", 1), object("b", 1), link.to_vec()].concat(), true),
        ([object("b", 1), object("a", 1)].concat(), false),
        ([object("a", 1), object("a", 1)].concat(), false),
        ([link.to_vec(), object("a", 1)].concat(), false),
        ([link, link].concat(), false),
        ([object("a", 1), link.to_vec(), directory("b/"), directory("c/d/")].concat(), true),
        ([directory("b/"), link.to_vec()].concat(), false),
        ([directory("b/"), object("c", 1)].concat(), false),
        ([directory("c/"), directory("b/")].concat(), false),
        ([directory("b/"), directory("b/")].concat(), false),
        ([directory("b/"), directory("b/c/")].concat(), false),
        ([object("b", 1), directory("b/")].concat(), false),
        ([object("b", 1), directory("b/c/")].concat(), false),
        ([object("b/c", 1), directory("b/")].concat(), false),
        (directory("../b/"), false),
        (directory("b/../"), false),
        (directory("./"), false),
        (directory("/b/"), false),
        (directory("b//"), false),
        (directory("/"), false),
        (directory("b"), false),
        (directory(""), false),
        (directory("b/")[..4].to_vec(), false),
        (vec![0, 3, 1, b'b'], false),
        (vec![0], false),
        (object("a", 2), false),
        (object("a", 1)[..3].to_vec(), false),
        (vec![0xff; 20], false),
        (vec![0x80, 0x80, 0x80, 0x80, 0x10], false),
        (vec![1, 0xff, 1, 1, b'v', 1], false),
    ] {
        let bytes = [&[5][..], b"files", &body].concat();
        let mut hasher = crate::catalog::told::hasher();
        hasher.update(&bytes);
        let taken = take(&catalog, crate::catalog::told::name(&hasher), &[bytes], &source);
        assert_eq!(taken.is_ok(), is_good, "{body:?}: {taken:?}");
    }
}

#[test]
fn shards_have_the_records_that_the_teller_found_or_the_snapshot_is_not_taken() {
    let (here, there, source) = (scratch(), scratch(), Memory::default());
    let mut broken = tar(&[("1", 10), ("2", 10)]);
    broken[2048] ^= 1;
    source.put("a.tar", "1", tar(&[("x0", 10), ("x1", 2000)]));
    source.put("b.tar", "1", broken);
    source.put("c.tar", "1", tar(&[("k7", 1536)]));
    source.put("empty.tar", "1", tar(&[]));
    let old = build(here.path(), "tar", &source).unwrap().current();
    let told = pages(&old, 1);
    // Another node, from whose view a shard has changed since.
    source.put("c.tar", "2", tar(&[("k8", 5)]));
    let catalog = build(there.path(), "tar", &source).unwrap();
    let taken = take(&catalog, old.id(), &told, &source);
    assert!(matches!(taken, Err(Error::Stale(_))), "what records it had nobody can say: {taken:?}");
    source.put("c.tar", "1", tar(&[("k7", 0), ("k9", 0)]));
    let taken = take(&catalog, old.id(), &told, &source);
    assert!(matches!(&taken, Err(Error::Corrupt(text)) if text.contains("c.tar has 2 items here")), "{taken:?}");
    source.put("c.tar", "1", tar(&[("k7", 1536)]));
    source.reads.lock().unwrap().clear();
    let taken = take(&catalog, old.id(), &told, &source).unwrap();
    assert_eq!((all(&taken), taken.problems()), (all(&old), old.problems()));
    let read: Vec<_> = source.reads.lock().unwrap().iter().map(|(path, _)| path.clone()).collect();
    assert!(!read.is_empty() && read.iter().all(|path| path == "c.tar"), "only what is new here is read: {read:?}");
}

#[test]
fn no_more_snapshots_are_kept_than_before_and_never_the_newest_goes() {
    let (here, there, source) = (scratch(), scratch(), origin());
    let catalog = build(there.path(), "files", &source).unwrap();
    let newest = catalog.current().id();
    let teller = build(here.path(), "files", &source).unwrap();
    for n in 0..6 {
        source.put_size("README", &n.to_string(), n);
        wait(teller.refresh_from(&source)).unwrap();
        let told = teller.current();
        take(&catalog, told.id(), &pages(&told, 1000), &source).unwrap();
        assert!(catalog.snapshot(told.id()).is_some());
    }
    assert_eq!((catalog.current().id(), catalog.snapshots().len()), (newest, KEPT_SNAPSHOTS));
}
