//! What a mount costs the origin: reads in order, files in order, reads at random.

use super::{Place, attribute, bytes, can_mount};
use crate::program::{Node, wait_for};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::FileExt,
    path::Path,
};

const LARGE: usize = 48 << 20;
/// What is read at random.
const SMALL: usize = 8 << 10;

/// A node whose origin is a little away.
fn slow_node(place: &Place) -> Node {
    let origin = format!("throttled:latency=5ms:{}", place.origin().display());
    Node::start(&place.cache(), &[&origin, "--name", "data", "--cache-size", "256MiB"])
}

fn count(node: &Node, name: &str) -> u64 {
    node.status()["datasets"][0]["stats"][name].as_u64().unwrap()
}

/// A number that follows from another, with no order in it.
fn scattered(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 13
}

#[test]
fn a_file_read_in_order_is_fetched_ahead_in_few_large_requests() {
    if !can_mount() {
        return;
    }
    let (place, expected) = (Place::new(), bytes(7, LARGE));
    place.put("large", &expected);
    let node = slow_node(&place);
    let mounted = place.mount(&[]);
    let mut file = File::open(place.mnt().join("large")).unwrap();
    let mut part = vec![0; 128 << 10];
    for at in (0..LARGE).step_by(part.len()) {
        file.read_exact(&mut part).unwrap();
        assert!(part == expected[at..at + part.len()], "at {at}");
    }
    assert_eq!(count(&node, "bytes_from_origin"), LARGE as u64, "every byte once");
    let requests = count(&node, "origin_requests");
    assert!(requests <= 48, "{} reads became {requests} requests", LARGE / part.len());
    let (ahead, used) = (count(&node, "readahead_bytes"), count(&node, "readahead_used_bytes"));
    assert!(ahead >= LARGE as u64 / 2 && used == ahead, "{used} of {ahead} bytes were used");
    let text = node.client(&["status"]).good().text();
    assert!(text.contains("fetched for readers without a job") && text.contains("used (100.0 %)"), "{text}");
    drop(file);
    mounted.unmount();
}

#[test]
fn large_files_in_order_are_brought_in_one_after_another_though_the_kernel_reads_them_itself() {
    if !can_mount() {
        return;
    }
    const FILE: usize = 20 << 20;
    let (place, expected) = (Place::new(), bytes(7, FILE + 6));
    for n in 0..6 {
        place.put(&format!("{n}"), &expected[n..n + FILE]);
    }
    let node = slow_node(&place);
    let mut mounted = place.mount(&[]);
    let path = |n: usize| place.mnt().join(n.to_string());
    assert!(fs::read(path(0)).unwrap() == expected[..FILE]);
    for n in 1..5 {
        // It has not been opened: it is fetched because the one before was read, or only opened.
        wait_until_fetched_after(&path(n - 1), &path(n));
        assert!(fs::read(path(n)).unwrap() == expected[n..n + FILE], "file {n}");
    }
    wait_until_fetched_after(&path(4), &path(5));
    let last = File::open(path(5)).unwrap();
    mounted.kill();
    let mut found = vec![0; FILE];
    last.read_exact_at(&mut found, 0).unwrap();
    assert!(found == expected[5..5 + FILE], "the kernel reads the file itself");
    // A busy disk may decline a piece, which is then fetched again.
    if count(&node, "unkept_pieces") == 0 {
        assert_eq!(count(&node, "bytes_from_origin"), 6 * FILE as u64, "every byte once");
        assert_eq!(count(&node, "readahead_wasted_bytes"), 0);
    }
}

/// Waits until a file is cached, opening the one before it again and again: on a busy machine readahead may be given up.
fn wait_until_fetched_after(before: &Path, path: &Path) {
    let size = fs::metadata(path).unwrap().len().to_string();
    wait_for("the next file to be cached", || {
        drop(File::open(before).unwrap());
        attribute(path, "user.fodder.cached") == size
    });
}

#[test]
fn files_read_in_the_order_of_their_names_are_there_before_they_are_opened() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let name = |number: u64| format!("{number:03}");
    (0..40).for_each(|number| place.put(&name(number), &bytes(number, 100_000)));
    let node = slow_node(&place);
    let mounted = place.mount(&[]);
    for number in 0..40 {
        assert!(fs::read(place.mnt().join(name(number))).unwrap() == bytes(number, 100_000));
        if number == 2 {
            wait_for("the next four to be fetched", || count(&node, "bytes_from_origin") >= 700_000);
        }
    }
    assert_eq!(count(&node, "bytes_from_origin"), 4_000_000);
    wait_for("what was guessed to be used", || count(&node, "readahead_used_bytes") == count(&node, "readahead_bytes"));
    assert!(count(&node, "readahead_bytes") > 400_000);
    mounted.unmount();
}

/// Reads a mapped file at random places; the kernel is told so, or nothing.
fn read_mapped(path: &Path, expected: &[u8], advice: Advice, places: impl Iterator<Item = usize>) {
    let file = File::open(path).unwrap();
    // SAFETY: a new mapping, read only while it is there, of a file that nobody shortens.
    #[allow(unsafe_code, reason = "mapping a file is what is tested")]
    unsafe {
        let at = mmap(std::ptr::null_mut(), LARGE, ProtFlags::READ, MapFlags::SHARED, &file, 0).unwrap();
        madvise(at, LARGE, advice).unwrap();
        let mapped = std::slice::from_raw_parts(at.cast::<u8>(), LARGE);
        for place in places {
            assert!(mapped[place..place + SMALL] == expected[place..place + SMALL], "at {place}");
        }
        munmap(at, LARGE).unwrap();
    }
}

#[test]
fn reads_at_random_of_a_large_file_fetch_little_more_than_they_read() {
    if !can_mount() {
        return;
    }
    let (place, expected) = (Place::new(), bytes(7, LARGE));
    place.put("large", &expected);
    let node = slow_node(&place);
    let mounted = place.mount(&[]);
    let path = place.mnt().join("large");
    let at = |n: u64| 8192 + (scattered(n) as usize % (LARGE / SMALL - 1)) * SMALL;
    let file = File::open(&path).unwrap();
    let mut part = vec![0; SMALL];
    for place in (1..=100).map(at) {
        file.read_exact_at(&mut part, place as u64).unwrap();
        assert!(part == expected[place..place + SMALL], "at {place}");
    }
    let used = 100 * SMALL as u64;
    let fetched = count(&node, "bytes_from_origin");
    assert!(fetched <= 2 * used + (1 << 20), "{fetched} bytes fetched for {used} read");
    read_mapped(&path, &expected, Advice::Random, (101..=200).map(at));
    let (used, fetched) = (2 * used, count(&node, "bytes_from_origin"));
    assert!(fetched <= 17 * used, "{fetched} bytes fetched for {used} read and mapped");
    assert_eq!(count(&node, "readahead_bytes"), 0, "reads that jump bring in nothing ahead");
    drop(file);
    mounted.unmount();
}

#[test]
fn a_page_of_a_mapped_file_brings_in_little_around_it_though_nobody_said_how_it_is_read() {
    if !can_mount() {
        return;
    }
    let (place, expected) = (Place::new(), bytes(7, LARGE));
    place.put("large", &expected);
    let node = slow_node(&place);
    let mounted = place.mount(&[]);
    let at = |n: u64| 8192 + (scattered(n) as usize % (LARGE / SMALL - 1)) * SMALL;
    read_mapped(&place.mnt().join("large"), &expected, Advice::Normal, (1..=100).map(at));
    let (used, fetched) = (100 * SMALL as u64, count(&node, "bytes_from_origin"));
    assert!(fetched <= 9 * used, "{fetched} bytes fetched for {used} mapped");
    mounted.unmount();
}

#[test]
fn large_reads_at_random_fetch_little_more_than_they_read() {
    const READ: usize = 4 << 20;
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let size = 4u64 << 30;
    File::create(place.origin().join("large")).unwrap().set_len(size).unwrap();
    let node = slow_node(&place);
    let mounted = place.mount(&[]);
    let file = File::open(place.mnt().join("large")).unwrap();
    let mut part = vec![1; READ];
    for n in 1..=12 {
        file.read_exact_at(&mut part, (1 << 20) + scattered(n) % (size / 2)).unwrap();
        assert!(part.iter().all(|byte| *byte == 0));
    }
    let fetched = count(&node, "bytes_from_origin");
    assert!(fetched <= 2 * 12 * READ as u64, "{fetched} bytes fetched for twelve reads");
    drop(file);
    mounted.unmount();
}
