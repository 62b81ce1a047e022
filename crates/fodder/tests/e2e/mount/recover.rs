//! Leases of a mount that outlives its node: they count against the quota of the next node, and are verified by it.

use super::{Place, Way, bytes, over_each_transport, wait_until_cached};
use crate::program::{Node, wait_for};
use fodder_api::{
    Address,
    frames::{Batch, FrameClient},
};
use rustix::{
    fs::Advice,
    process::{Pid, Signal, kill_process},
};
use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

over_each_transport! {
    files_that_are_open_through_a_mount_count_against_the_quota_after_a_crash,
    bits_that_flip_while_the_node_is_down_are_not_served_once_it_is_back,
}

const FILE: usize = 1 << 20;
const QUOTA: &str = "32MiB";
const QUOTA_BYTES: u64 = 32 << 20;

/// Blocks of every file below a directory, and of files of it that are unlinked and that these processes have open.
fn disk_usage(dir: &Path, pids: &[u32]) -> u64 {
    let mut blocks = HashMap::new();
    let mut add = |found: fs::Metadata| blocks.insert((found.dev(), found.ino()), found.blocks() * 512);
    let mut pending = vec![dir.to_path_buf()];
    while let Some(path) = pending.pop() {
        // Files come and go meanwhile.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if found.is_dir() {
            pending.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        add(found);
    }
    pids.iter().flat_map(|pid| unlinked(dir, *pid)).for_each(|path| drop(fs::metadata(path).map(&mut add)));
    blocks.values().sum()
}

/// Open files of a process that are unlinked and were below a directory.
fn unlinked(dir: &Path, pid: u32) -> Vec<PathBuf> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let was_below = |path: &PathBuf| {
        let name = fs::read_link(path).unwrap_or_default();
        name.starts_with(dir) && name.to_string_lossy().ends_with(" (deleted)")
    };
    open.filter(was_below).collect()
}

/// How many files there are.
fn distinct(paths: &[PathBuf]) -> usize {
    let inodes = paths.iter().filter_map(|path| fs::metadata(path).ok()).map(|found| (found.dev(), found.ino()));
    inodes.collect::<HashSet<_>>().len()
}

/// The cache files of a node.
fn cache_files(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut pending) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(path) = pending.pop() {
        match path.is_dir() {
            true => pending.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
            false => found.push(path),
        }
    }
    found.retain(|path| path.file_name().unwrap().len() == 32);
    found
}

/// Waits until the index has every cache file: what it does not have when the node is killed is removed by the next one.
fn wait_until_durable(cache: &Path) {
    let tier = cache.join("tier");
    wait_for("the cache files to be in the index", || {
        let index = fs::read(tier.join("index.log")).unwrap();
        cache_files(&tier).iter().all(|path| {
            let key = u128::from_str_radix(&path.file_name().unwrap().to_string_lossy(), 16).unwrap().to_be_bytes();
            index.windows(key.len()).any(|bytes| bytes == key)
        })
    });
}

/// Reads objects past the mount, so that it holds nothing of them.
fn read_items(node: &Node, ids: std::ops::Range<u64>) {
    let mut client = FrameClient::connect(&Address::Unix(Path::new(node.line("socket")).into())).unwrap();
    let (handle, mut batch) = (client.open("data", None).unwrap().handle, Batch::new());
    for id in ids {
        client.get_items(handle, &[id], &mut batch).unwrap();
        assert!(batch.get(0).unwrap().data.unwrap() == bytes(id, FILE), "object {id}");
    }
}

fn files_that_are_open_through_a_mount_count_against_the_quota_after_a_crash(way: Way) {
    let place = Place::over(way);
    let name = |number: u64| format!("{number:03}");
    (0..80).for_each(|number| place.put(&name(number), &bytes(number, FILE)));
    let flags = ["--policy", "lru", "--cache-size", QUOTA];
    let mut node = place.node(&flags);
    let mounted = place.mount(&[]);
    let open = |number: u64| {
        let path = place.mnt().join(name(number));
        assert!(fs::read(&path).unwrap() == bytes(number, FILE));
        wait_until_cached(&path);
        let file = File::open(&path).unwrap();
        assert!(fs::read(&path).unwrap() == bytes(number, FILE));
        file
    };
    // Some are evicted before the crash, some are not. In no order, so that nothing is read ahead.
    let evicted: Vec<File> = (0..8).map(|n| open(n * 5 % 8)).collect();
    node.client(&["evict", "data"]).good();
    let cached: Vec<File> = (0..12).map(|n| open(8 + n * 5 % 12)).collect();
    let mount_pid = mounted.child.id();
    assert_eq!(distinct(&unlinked(&place.cache(), mount_pid)), 8);
    wait_until_durable(&place.cache());
    node.child.kill().unwrap();
    node.child.wait().unwrap();
    node = place.node(&flags);
    assert_eq!(distinct(&unlinked(&place.cache(), mount_pid)), 8, "the next node has what was cached");
    let pids = [mount_pid, node.child.id()];
    let (tier, mut most) = (place.cache().join("tier"), 0);
    wait_for("all open files to be evicted", || {
        for id in 20..80 {
            read_items(&node, id..id + 1);
            most = most.max(disk_usage(&tier, &pids));
            assert!(most <= QUOTA_BYTES + (1 << 20), "{most} bytes on disk, and the quota is {QUOTA_BYTES}");
        }
        distinct(&unlinked(&place.cache(), mount_pid)) >= 20
    });
    let numbers = (0..8).map(|n| n * 5 % 8).chain((0..12).map(|n| 8 + n * 5 % 12));
    for (number, file) in numbers.zip(evicted.iter().chain(&cached)) {
        let mut found = vec![0; FILE];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == bytes(number, FILE), "open file {number}");
    }
    drop((evicted, cached));
    wait_for("closed files to be given back", || unlinked(&place.cache(), mount_pid).is_empty());
    mounted.unmount();
}

fn bits_that_flip_while_the_node_is_down_are_not_served_once_it_is_back(way: Way) {
    for flags in [&[][..], &["--no-passthrough"]] {
        for signal in [Signal::TERM, Signal::KILL] {
            flip_bits(way, flags, signal);
        }
    }
}

fn flip_bits(way: Way, flags: &[&str], signal: Signal) {
    let place = Place::over(way);
    let names = ["closed", "open"];
    let expected: Vec<Vec<u8>> = [(1, 100_000), (2, FILE + 77)].map(|(seed, size)| bytes(seed, size)).into();
    names.iter().zip(&expected).for_each(|(name, bytes)| place.put(name, bytes));
    let mut node = place.node(&[]);
    let mounted = place.mount(flags);
    for (name, expected) in names.iter().zip(&expected) {
        let path = place.mnt().join(name);
        assert!(fs::read(&path).unwrap() == *expected);
        wait_until_cached(&path);
        // Opened again, it is leased.
        assert!(fs::read(&path).unwrap() == *expected);
    }
    let open = File::open(place.mnt().join("open")).unwrap();
    wait_until_durable(&place.cache());
    kill_process(Pid::from_child(&node.child), signal).unwrap();
    node.child.wait().unwrap();
    let files = cache_files(&place.cache());
    assert_eq!(files.len(), 2, "{files:?}");
    for path in files {
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 54_321).unwrap();
        file.write_all_at(&[byte[0] ^ 4], 54_321).unwrap();
    }
    for (name, expected) in names.iter().zip(&expected) {
        let file = File::open(place.mnt().join(name)).unwrap();
        // What the kernel kept of the file is as it was.
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let mut found = vec![0; expected.len()];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found != *expected, "{name} is not read from the cache file ({flags:?})");
    }
    let _node = place.node(&[]);
    for (name, expected) in names.iter().zip(&expected) {
        let is_right = || fs::read(place.mnt().join(name)).unwrap() == *expected;
        wait_for(&format!("{name} to be right ({flags:?}, {signal:?})"), is_right);
        assert!(is_right(), "{name} stays right");
    }
    drop(open);
    mounted.unmount();
}
