//! The file system over a node in memory.
#![allow(clippy::unwrap_used)]

use super::{listing::Child, *};
use crate::{
    inode::ROOT,
    mode::Mode,
    testing::{Ids, Memory},
};
use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

fn mount(node: Memory, change: impl FnOnce(&mut Settings)) -> (FileSystem<Memory>, Arc<Ids>) {
    let mut settings = Settings {
        owner: (5, 6),
        immutable: false,
        policy: Policy::Passthrough,
        whole_bytes: 1000,
        inodes: 1000,
        files: 100,
    };
    change(&mut settings);
    let ids = Arc::new(Ids::default());
    let fs = FileSystem::new(node, settings, ids.clone());
    assert!(fs.changes().is_none(), "at first nothing has changed");
    (fs, ids)
}

fn small(node: impl IntoIterator<Item = (&'static str, Vec<u8>)>) -> (FileSystem<Memory>, Arc<Ids>) {
    mount(Memory::new(node), |_| {})
}

fn find(fs: &FileSystem<Memory>, path: &str) -> Result<Attr> {
    path.split('/').try_fold(fs.attributes(ROOT)?, |directory, name| fs.lookup(directory.ino, name.as_bytes()))
}

fn read(fs: &FileSystem<Memory>, ino: u64, handle: u64, offset: u64, length: u32) -> Result<Vec<u8>> {
    let file = FileRef { ino, handle: Some(handle).filter(|handle| *handle != 0), paged: false };
    let mut answer = None;
    fs.read(file, offset, length, &mut |bytes| answer = Some(bytes.map(<[u8]>::to_vec)));
    let mut quick = vec![0; length as usize];
    if let Some(tried) = fs.try_read(file, offset, length, |bytes| &mut quick[..bytes]) {
        assert_eq!(tried.map(|bytes| quick[..bytes].to_vec()), answer.clone().unwrap());
    }
    answer.unwrap()
}

fn list(fs: &FileSystem<Memory>, ino: u64, room: usize, plus: bool) -> Vec<(String, FileKind, u64)> {
    let handle = fs.open_directory(ino).unwrap();
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let before = all.len();
        let mut left = room;
        fs.entries(handle, cookie, plus, &mut |child| {
            if left == 0 {
                return true;
            }
            left -= 1;
            assert_eq!(child.attr.map(|attr| attr.ino), (plus && !child.name.starts_with('.')).then_some(child.ino));
            all.push((child.name.to_owned(), child.kind, child.ino));
            cookie = child.cookie;
            false
        })
        .unwrap();
        if all.len() == before {
            fs.release_directory(handle);
            return all;
        }
    }
}

#[test]
fn names_are_found_with_what_they_are() {
    let (fs, _) = small([("a/b/c", vec![1; 10]), ("d", vec![]), ("ünï cödé\n", vec![2; 3])]);
    let file = find(&fs, "a/b/c").unwrap();
    assert_eq!((file.kind, file.size, file.permissions, file.links), (FileKind::File, 10, 0o444, 1));
    assert_eq!((file.modified, file.owner), ((1, 500_000_000), (5, 6)));
    let directory = find(&fs, "a/b").unwrap();
    assert_eq!((directory.kind, directory.permissions), (FileKind::Directory, 0o555));
    assert_eq!(fs.attributes(directory.ino).unwrap(), directory);
    assert_eq!(find(&fs, "ünï cödé\n").unwrap().size, 3);
    assert_eq!(find(&fs, "nothing"), Err(Errno::NoEntry));
    assert_eq!(fs.lookup(ROOT, b"\xff\xfe"), Err(Errno::NoEntry));
    assert_eq!(fs.lookup(file.ino, b"x"), Err(Errno::NotDirectory));
    assert_eq!(fs.attributes(12345), Err(Errno::Stale));
}

#[test]
fn a_link_is_shown_as_a_link_and_says_where_it_leads() {
    let (fs, _) = small([("a/b/c", vec![1; 10]), ("d", vec![]), ("file", vec![1; 10]), ("link/c", vec![1; 10])]);
    fs.node.links.lock().extend([("file".to_owned(), "a/b/c"), ("link".to_owned(), "a/\u{10F7FF}")]);
    let (file, directory) = (find(&fs, "file").unwrap(), find(&fs, "link").unwrap());
    assert_eq!((file.kind, file.size, file.permissions, file.modified), (FileKind::Link, 5, 0o777, (2, 0)));
    assert_eq!((directory.kind, directory.size), (FileKind::Link, 3));
    assert_eq!(fs.attributes(file.ino).unwrap(), file);
    assert_eq!(fs.link(file.ino).unwrap(), b"a/b/c");
    assert_eq!(fs.link(directory.ino).unwrap(), b"a/\xff", "bytes, not their spelling");
    for plus in [false, true] {
        let all = list(&fs, ROOT, 100, plus);
        let links: Vec<_> = all.iter().filter(|entry| entry.1 == FileKind::Link).collect();
        assert_eq!((all.len(), links.len()), (2 + 4, 2));
        assert_eq!((links[0].2, links[1].2), (file.ino, directory.ino));
    }
    assert_eq!(fs.lookup(directory.ino, b"c"), Err(Errno::NotDirectory));
    assert_eq!(fs.link(find(&fs, "d").unwrap().ino), Err(Errno::Invalid));
    assert_eq!(fs.attribute_names(file.ino), Ok(Vec::new()));
    assert_eq!(fs.attribute(file.ino, b"user.fodder.cached"), Err(Errno::NoAttribute));
    fs.node.links.lock().insert("file".into(), "d");
    assert_ne!(find(&fs, "file").unwrap().ino, file.ino, "a changed link is another inode");
}

#[test]
fn a_directory_is_read_whole_in_whatever_portions_the_kernel_asks() {
    let names: Vec<String> = (0..3000).map(|number| format!("dir/{number:05}")).collect();
    let objects = names.iter().map(|name| (name.as_str(), vec![0])).chain([("dir/sub/x", vec![]), ("zzz", vec![])]);
    let (fs, _) = mount(Memory::new(objects), |_| {});
    let ino = find(&fs, "dir").unwrap().ino;
    for (room, plus) in [(1, false), (7, true), (100_000, false)] {
        fs.node.lists.store(0, Relaxed);
        let all = list(&fs, ino, room, plus);
        assert_eq!(all.len(), 3000 + 1 + 2);
        assert_eq!((all[0].2, all[1].2), (ino, ROOT));
        assert_eq!(all.last().unwrap().1, FileKind::Directory);
        assert!(fs.node.lists.load(Relaxed) <= 4, "a page is asked for once");
        for (name, _, number) in &all[2..] {
            assert_eq!(find(&fs, &format!("dir/{name}")).unwrap().ino, *number, "readdir and stat agree");
        }
    }
}

#[test]
fn a_listing_goes_on_when_the_dataset_changes_and_when_its_snapshot_is_gone() {
    let names: Vec<String> = (0..3000).map(|number| format!("{number:05}")).collect();
    let (fs, _) = mount(Memory::new(names.iter().map(|name| (name.as_str(), vec![0]))), |_| {});
    let handle = fs.open_directory(ROOT).unwrap();
    let (mut seen, mut cookie, mut rounds) = (Vec::new(), 0, 0);
    loop {
        let before = seen.len();
        fs.entries(handle, cookie, false, &mut |child| {
            seen.push(child.name.to_owned());
            cookie = child.cookie;
            false
        })
        .unwrap();
        if seen.len() == before {
            break;
        }
        // Sorts first, so that every rank moves.
        fs.node.put(&format!("!{rounds}"), vec![]);
        rounds += 1;
        if rounds == 2 {
            fs.node.kept_from.store(2, Relaxed);
        }
    }
    let old: Vec<_> = seen.into_iter().filter(|name| !name.starts_with(['.', '!'])).collect();
    assert_eq!(old, names, "what was there all the time is listed exactly once");
}

#[test]
fn a_small_object_is_fetched_whole_once_and_passed_through() {
    let (fs, ids) =
        mount(Memory::new([("a", (0..200).cycle().take(5000).collect())]), |settings| settings.whole_bytes = 5000);
    let ino = find(&fs, "a").unwrap().ino;
    assert!(fs.try_open(ino).is_none(), "nothing is at hand yet");
    let first = fs.open(ino).unwrap();
    let second = fs.try_open(ino).unwrap().unwrap();
    let (Mode::Passthrough(one), Mode::Passthrough(two)) = (&first.mode, &second.mode) else { panic!("{first:?}") };
    assert!(Arc::ptr_eq(one, two));
    assert_eq!(fs.node.reads.load(Relaxed), 1);
    assert_eq!(read(&fs, ino, first.handle, 10, 20).unwrap(), (10..30).collect::<Vec<u8>>());
    drop((first.mode, second.mode));
    fs.release(ino, first.handle);
    assert_eq!(ids.open(), 1);
    fs.release(ino, second.handle);
    assert_eq!(ids.open(), 0, "memory of an object that is not cached is given back");
    fs.node.fill("a");
    let third = fs.open(ino).unwrap();
    assert!(matches!(third.mode, Mode::Passthrough(_)));
    fs.release(ino, third.handle);
    assert_eq!((fs.node.reads.load(Relaxed), ids.open()), (1, 1), "a leased file is kept");
    assert!(fs.try_open(ino).unwrap().is_ok());
}

#[test]
fn an_object_without_a_cache_file_of_its_own_stays_in_memory_and_its_opens_are_reported() {
    let (fs, ids) = small([("a", (0..200).collect())]);
    let ino = find(&fs, "a").unwrap().ino;
    for _ in 0..3 {
        let opened = fs.open(ino).unwrap();
        assert_eq!(read(&fs, ino, opened.handle, 10, 20).unwrap(), (10..30).collect::<Vec<u8>>());
        drop(opened.mode);
        fs.release(ino, opened.handle);
    }
    assert_eq!((fs.node.reads.load(Relaxed), ids.open()), (1, 1));
    fs.tell_touched();
    assert_eq!(fs.node.touched.lock().len(), 2, "the node gave the bytes once, and knows");
}

#[test]
fn a_large_object_is_direct_until_it_is_whole_and_closed() {
    let bytes: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
    let (fs, ids) = small([("big", bytes.clone())]);
    let ino = find(&fs, "big").unwrap().ino;
    let first = fs.open(ino).unwrap();
    assert!(matches!(first.mode, Mode::Direct));
    assert_eq!(read(&fs, ino, first.handle, 4990, 100).unwrap(), &bytes[4990..]);
    assert_eq!(read(&fs, ino, first.handle, 9000, 100).unwrap(), b"");
    fs.node.fill("big");
    let second = fs.open(ino).unwrap();
    assert!(matches!(second.mode, Mode::Direct), "no two modes at a time");
    for _ in 0..100 {
        assert_eq!(read(&fs, ino, first.handle, 0, 10).unwrap(), &bytes[..10]);
    }
    let asked = fs.node.reads.load(Relaxed);
    assert_eq!(read(&fs, ino, first.handle, 0, 10).unwrap(), &bytes[..10]);
    assert_eq!(fs.node.reads.load(Relaxed), asked, "a file that has become whole is read without the node");
    fs.release(ino, first.handle);
    fs.release(ino, second.handle);
    let third = fs.open(ino).unwrap();
    assert!(matches!(third.mode, Mode::Passthrough(_)));
    assert_eq!(ids.open(), 1);
}

#[test]
fn the_last_bytes_of_a_page_come_with_those_before_them() {
    let bytes: Vec<u8> = (0..20_000u32).map(|at| (at / 7) as u8).collect();
    let (fs, _) = small([("big", bytes.clone())]);
    let ino = find(&fs, "big").unwrap().ino;
    let open = fs.open(ino).unwrap();
    let file = FileRef { ino, handle: Some(open.handle), paged: false };
    let mut room = [0; 100];
    assert_eq!(read(&fs, ino, open.handle, 0, 8192 - 16).unwrap(), &bytes[..8192 - 16]);
    let asked = fs.node.reads.load(Relaxed);
    assert_eq!(fs.try_read(file, 8192 - 16, 16, |bytes| &mut room[..bytes]), Some(Ok(16)));
    assert_eq!(room[..16], bytes[8192 - 16..8192]);
    assert_eq!(fs.try_read(file, 8192 - 16, 17, |bytes| &mut room[..bytes]), None, "not all of it is there");
    assert_eq!(fs.try_read(file, 8192 - 17, 2, |bytes| &mut room[..bytes]), None);
    assert_eq!(fs.node.reads.load(Relaxed), asked);
    assert_eq!(read(&fs, ino, open.handle, 19_990, 5).unwrap(), &bytes[19_990..19_995]);
    assert_eq!(fs.try_read(file, 19_995, 100, |bytes| &mut room[..bytes]), Some(Ok(5)), "to the end of the file");
    assert_eq!(room[..5], bytes[19_995..]);
}

#[test]
fn the_node_is_told_which_reads_belong_to_one_open_file() {
    let (fs, _) = small([("big", vec![7; 5000])]);
    let ino = find(&fs, "big").unwrap().ino;
    let handles = [fs.open(ino).unwrap().handle, fs.open(ino).unwrap().handle];
    for (handle, readers) in [(handles[0], 1), (handles[0], 1), (handles[1], 2), (handles[0], 2)] {
        read(&fs, ino, handle, 100, 100).unwrap();
        assert_eq!(fs.node.readers.lock().len(), readers);
    }
    assert!(!fs.node.readers.lock().contains(&0));
}

#[test]
fn without_passthrough_the_kernel_keeps_what_it_gets() {
    let (fs, ids) = mount(Memory::new([("a", vec![7; 50])]), |settings| settings.policy = Policy::KeepCache);
    let ino = find(&fs, "a").unwrap().ino;
    let open = fs.open(ino).unwrap();
    assert!(matches!(open.mode, Mode::Cached));
    assert_eq!(read(&fs, ino, open.handle, 0, 100).unwrap(), vec![7; 50]);
    assert_eq!(ids.open(), 0);
}

#[test]
fn a_file_that_was_never_opened_is_read_by_its_number() {
    let (fs, _) = mount(Memory::new([("a", vec![7; 50])]), |settings| settings.immutable = true);
    let ino = find(&fs, "a").unwrap().ino;
    assert_eq!(read(&fs, ino, 0, 40, 100).unwrap(), vec![7; 10]);
    fs.node.fill("a");
    assert_eq!(read(&fs, ino, 0, 0, 100).unwrap(), vec![7; 50]);
    let mut room = [0; 10];
    assert!(fs.try_read(FileRef { ino, handle: None, paged: false }, 0, 10, |bytes| &mut room[..bytes]).is_some());
}

#[test]
fn a_changed_object_is_another_inode_and_open_handles_keep_the_old_bytes() {
    let (fs, _) = small([("a", vec![1; 20]), ("b", vec![3; 20])]);
    let old = find(&fs, "a").unwrap();
    let open = fs.open(old.ino).unwrap();
    fs.node.put("a", vec![2; 30]);
    let new = find(&fs, "a").unwrap();
    assert_ne!(new.ino, old.ino);
    assert_eq!((new.size, fs.attributes(old.ino).unwrap().size), (30, 20));
    assert_eq!(read(&fs, old.ino, open.handle, 0, 100).unwrap(), vec![1; 20]);
    let changes = fs.changes().unwrap();
    assert!(changes.entries.iter().any(|(parent, name)| (*parent, &**name) == (ROOT, "a")));
    assert_eq!(changes.directories, [ROOT]);
    let again = fs.changes().unwrap();
    assert_eq!(
        again.entries.len(),
        changes.entries.len(),
        "what was on its way to the kernel meanwhile is looked at, too"
    );
    assert!(fs.changes().is_none(), "a change is told twice, and no more");
}

#[test]
fn a_listing_that_goes_on_in_an_old_snapshot_tells_names_and_not_what_they_were() {
    let names: Vec<String> = (0..3000).map(|number| format!("{number:05}")).collect();
    let (fs, _) = mount(Memory::new(names.iter().map(|name| (name.as_str(), vec![0]))), |_| {});
    let handle = fs.open_directory(ROOT).unwrap();
    let page = |cookie: u64| {
        let mut told = Vec::new();
        let mut take = |child: Child<'_>| {
            told.push((child.cookie, child.name.to_owned(), child.attr.is_some()));
            false
        };
        fs.entries(handle, cookie, true, &mut take).unwrap();
        told
    };
    let first = page(0);
    assert!(first.iter().all(|(_, name, known)| *known != name.starts_with('.')));
    fs.node.put("02000", vec![0; 2]);
    assert!(fs.changes().is_some());
    let known = fs.inodes.len();
    let second = page(first.last().unwrap().0);
    assert!(second.iter().any(|(_, name, _)| name == "01500"));
    assert!(second.iter().all(|(_, _, known)| !known), "the kernel would keep what was true before");
    assert_eq!(fs.inodes.len(), known);
    assert_eq!(find(&fs, "02000").unwrap().size, 2);
}

#[test]
fn a_file_is_opened_though_the_node_has_built_its_catalog_anew() {
    let (fs, _) = small([("a", vec![1; 20])]);
    let ino = find(&fs, "a").unwrap().ino;
    fs.node.slot.store(7, Relaxed);
    assert_eq!(fs.open(ino).unwrap_err(), Errno::Stale, "the kernel then looks it up again");
    assert_eq!(find(&fs, "a").unwrap().ino, ino);
    let open = fs.open(ino).unwrap();
    assert_eq!(read(&fs, ino, open.handle, 0, 100).unwrap(), vec![1; 20]);
}

#[test]
fn attributes_tell_what_is_cached() {
    let (fs, _) = small([("d/a", vec![1; 20])]);
    let ino = find(&fs, "d/a").unwrap().ino;
    let get = |name: &str| fs.attribute(ino, name.as_bytes()).map(|value| String::from_utf8(value).unwrap());
    let all = |fs: &FileSystem<Memory>| {
        let names = String::from_utf8(fs.attribute_names(ino).unwrap()).unwrap();
        names.split_terminator('\0').map(|name| (name.to_owned(), get(name).unwrap())).collect::<BTreeMap<_, _>>()
    };
    assert_eq!((&*all(&fs)["user.fodder.cached"], &*all(&fs)["user.fodder.tier"]), ("0", "none"));
    fs.node.fill("d/a");
    assert_eq!((&*all(&fs)["user.fodder.cached"], &*all(&fs)["user.fodder.tier"]), ("20", "SSD"));
    assert_eq!(all(&fs)["user.fodder.etag"], "\"v\"");
    assert_eq!(get("user.other"), Err(Errno::NoAttribute));
    let directory = find(&fs, "d").unwrap().ino;
    assert_eq!(fs.attribute(directory, b"user.fodder.cached"), Err(Errno::NoAttribute));
    assert_eq!(fs.attribute_names(directory).unwrap(), b"");
}

#[test]
fn a_node_that_is_away_is_an_error_only_for_what_needs_it() {
    let (fs, _) = small([("a", vec![1; 20]), ("b", vec![1; 20])]);
    fs.node.fill("a");
    let (a, b) = (find(&fs, "a").unwrap().ino, find(&fs, "b").unwrap().ino);
    let open = fs.open(a).unwrap();
    fs.node.away.store(true, Relaxed);
    assert_eq!(read(&fs, a, open.handle, 0, 5).unwrap(), vec![1; 5]);
    assert!(fs.open(a).is_ok(), "a kept file needs no node");
    assert_eq!(fs.open(b).map(|_| ()), Err(Errno::Io));
    assert!(fs.changes().is_none());
    fs.node.away.store(false, Relaxed);
    assert!(fs.open(b).is_ok());
}

#[test]
fn memory_is_flat_over_many_opens() {
    let (fs, ids) = mount(Memory::new([("a", vec![1; 20])]), |settings| settings.inodes = 4);
    fs.node.fill("a");
    for _ in 0..1000 {
        let ino = find(&fs, "a").unwrap().ino;
        let open = fs.open(ino).unwrap();
        fs.release(ino, open.handle);
        fs.forget(ino, 1);
    }
    assert_eq!((fs.counts(), ids.open()), ((1, 0, 1), 1));
    assert!(fs.tidy().is_empty());
}

#[test]
fn the_node_is_told_of_opens_that_it_does_not_see() {
    let (fs, _) = small([("a", vec![1; 10]), ("b", vec![2; 10])]);
    ["a", "b"].iter().for_each(|path| fs.node.fill(path));
    let a = find(&fs, "a").unwrap().ino;
    let object = fs.object(a).unwrap().id;
    fs.open(a).unwrap();
    fs.tell_touched();
    assert!(fs.node.touched.lock().is_empty(), "the node gave the file, and knows");
    for _ in 0..3 {
        let opened = fs.try_open(a).unwrap().unwrap();
        fs.release(a, opened.handle);
    }
    fs.tell_touched();
    fs.tell_touched();
    assert_eq!(*fs.node.touched.lock(), [object; 3]);
    (0..2 * MAX_TOUCHED as u64).for_each(|ino| fs.touch(ino, object));
    fs.tell_touched();
    let told = fs.node.touched.lock().len() - 3;
    assert!((MAX_TOUCHED / 2..=MAX_TOUCHED).contains(&told), "{told}");
}

#[test]
fn a_file_that_the_kernel_reads_itself_is_also_read_for_it() {
    let (fs, ids) =
        mount(Memory::new([("a", (0..200).cycle().take(5000).collect())]), |settings| settings.whole_bytes = 5000);
    let ino = find(&fs, "a").unwrap().ino;
    let opened = fs.open(ino).unwrap();
    assert!(matches!(opened.mode, Mode::Passthrough(_)) && fs.counts().1 == 0);
    assert_eq!(read(&fs, ino, opened.handle, 4990, 100).unwrap(), (190..200).collect::<Vec<u8>>());
    assert!(fs.begin_read(FileRef { ino, handle: Some(opened.handle), paged: false }, 0, 100).1.is_empty());
    drop(opened.mode);
    fs.release(ino, opened.handle);
    assert_eq!(read(&fs, ino, opened.handle, 0, 100), Err(Errno::Stale));
    fs.release(ino, opened.handle);
    assert_eq!(ids.open(), 0);
}

#[test]
fn many_who_open_and_close_at_the_same_time_leave_nothing_behind() {
    let names: Vec<String> = (0..64).map(|number| format!("{number:02}")).collect();
    let (fs, ids) = mount(Memory::new(names.iter().map(|name| (name.as_str(), vec![1; 20]))), |settings| {
        settings.files = 32;
    });
    let numbers: Vec<u64> = names.iter().map(|name| find(&fs, name).unwrap().ino).collect();
    names.iter().skip(16).for_each(|name| fs.node.fill(name));
    std::thread::scope(|scope| {
        for first in 0..8 {
            let (fs, numbers) = (&fs, &numbers);
            scope.spawn(move || {
                for round in 0..200 {
                    let ino = numbers[(first * 31 + round * 7) % numbers.len()];
                    let opened = fs.open(ino).unwrap();
                    assert!(matches!(opened.mode, Mode::Passthrough(_)));
                    fs.release(ino, opened.handle);
                }
            });
        }
    });
    let (inodes, handles, files) = fs.counts();
    assert_eq!((inodes, handles, files), (65, 0, 32));
    assert_eq!(ids.open(), files, "only what is kept has a number");
    assert!(
        numbers
            .iter()
            .all(|ino| matches!(&fs.inodes.lock(*ino)[ino].kind, Kind::File(_, state) if state.handles() == 0))
    );
}

#[test]
fn it_is_as_large_as_the_dataset() {
    let (fs, _) = small([("a", vec![1; 5000]), ("d/b", vec![2; 10])]);
    let size = fs.size();
    assert_eq!((size.files, size.blocks, size.block_bytes, size.longest_name), (2, 2, 4096, 255));
}

#[test]
fn who_reads_a_large_file_in_order_finds_the_next_part_read_before_it_asks() {
    const PART: u32 = 128 << 10;
    let bytes: Vec<u8> = (0..20 * PART + 5000).map(|n| (n % 251) as u8).collect();
    let (fs, _) = small([("large", bytes.clone())]);
    let ino = find(&fs, "large").unwrap().ino;
    let handle = fs.open(ino).unwrap().handle;
    let file = FileRef { ino, handle: Some(handle), paged: false };
    let mut found = 0;
    for offset in (0..bytes.len() as u64).step_by(PART as usize) {
        let want = &bytes[offset as usize..bytes.len().min((offset + u64::from(PART)) as usize)];
        let (kept, errands) = fs.begin_read(file, offset, PART);
        // Whoever has a part on its way finds it, however late it comes.
        errands.into_iter().for_each(|errand| fs.bring(errand));
        match kept {
            Some(kept) => {
                found += 1;
                assert_eq!(&*kept, want);
            }
            None => assert_eq!(read(&fs, ino, handle, offset, PART).unwrap(), want),
        }
    }
    assert_eq!(found, 19, "all but the first two");
    let (reads, (kept, errands)) = (fs.node.reads.load(Relaxed), fs.begin_read(file, 77, 1000));
    assert!(kept.is_none() && errands.is_empty(), "a jump");
    assert_eq!(reads, 2);
    assert!(fs.begin_read(file, u64::from(PART) * 30, 1000).0.is_none(), "past the end");
}
