//! Which way bytes take: large files that become whole, mapped files, files that change. The kernel's matrix of modes,
//! asked of the kernel.

use super::{Place, Way, bytes, over_each_transport, wait_until_cached};
use crate::program::wait_for;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
};

over_each_transport! {
    a_large_file_is_right_in_parts_and_is_the_kernels_once_it_is_whole,
    every_order_of_opening_and_mapping_gives_the_bytes,
    an_open_file_keeps_its_version_and_a_new_open_sees_the_change,
    the_place_of_what_was_evicted_is_free_again_though_nobody_reads_any_more,
}

const LARGE: usize = (24 << 20) + 3;

/// Whether the kernel reads a file by itself: then it can be read although the mount's process is gone.
fn read_at(file: &File, at: usize, length: usize) -> std::io::Result<Vec<u8>> {
    let mut found = vec![0; length];
    file.read_exact_at(&mut found, at as u64).map(|()| found)
}

/// The bytes of a file, mapped.
fn mapped(path: &Path, flags: MapFlags) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len() as usize;
    // SAFETY: a new mapping, read only while it is there, of a file that nobody shortens.
    #[allow(unsafe_code, reason = "mapping a file is what is tested")]
    unsafe {
        let at = mmap(std::ptr::null_mut(), length, ProtFlags::READ, flags, &file, 0).unwrap();
        let found = std::slice::from_raw_parts(at.cast::<u8>(), length).to_vec();
        munmap(at, length).unwrap();
        found
    }
}

fn a_large_file_is_right_in_parts_and_is_the_kernels_once_it_is_whole(way: Way) {
    let (place, expected) = (Place::over(way), bytes(7, LARGE));
    place.put("large", &expected);
    let _node = place.node(&["--cache-size", "128MiB"]);
    let mounted = place.mount(&[]);
    let path = place.mnt().join("large");
    let partial = File::open(&path).unwrap();
    for at in [0, 1, (1 << 20) - 1, 9_999_999, LARGE - 1000] {
        assert!(read_at(&partial, at, 1000).unwrap() == expected[at..at + 1000], "at {at}");
    }
    let mut end = vec![0; 100];
    assert_eq!(partial.read_at(&mut end, LARGE as u64 - 10).unwrap(), 10);
    assert_eq!(partial.read_at(&mut end, LARGE as u64 + 10).unwrap(), 0);
    assert!(fs::read(&path).unwrap() == expected);
    wait_until_cached(&path);
    // A handle that is not passed through is open, so this one is not either; no open fails.
    let beside = File::open(&path).unwrap();
    assert!(read_at(&beside, 5_000_000, 1 << 20).unwrap() == expected[5_000_000..][..1 << 20]);
    drop((partial, beside));
    // The kernel tells of a closed file some time later, so a fresh mount shows what the next open is.
    mounted.unmount();
    let mut mounted = place.mount(&[]);
    let (whole, again) = (File::open(&path).unwrap(), File::open(&path).unwrap());
    mounted.kill();
    assert!(read_at(&whole, 0, LARGE).unwrap() == expected, "the kernel reads the file itself");
    assert!(read_at(&again, 0, LARGE).unwrap() == expected);
}

fn every_order_of_opening_and_mapping_gives_the_bytes(way: Way) {
    let (place, expected) = (Place::over(way), bytes(7, LARGE));
    let node = place.node(&["--cache-size", "128MiB"]);
    for name in ["private", "shared", "small"] {
        let length = if name == "small" { 300_001 } else { LARGE };
        place.put(name, &expected[..length]);
    }
    node.client(&["index", "data"]).good();
    for flags in [&[][..], &["--no-passthrough"]] {
        node.client(&["evict", "data"]).good();
        let mounted = place.mount(flags);
        for (name, map) in [("private", MapFlags::PRIVATE), ("shared", MapFlags::SHARED), ("small", MapFlags::SHARED)] {
            let path = place.mnt().join(name);
            let expected = &expected[..fs::metadata(&path).unwrap().len() as usize];
            // Partial and direct, mapped; beside it a plain handle; then whole, opened beside and after.
            let first = File::open(&path).unwrap();
            assert!(read_at(&first, 10, 10).unwrap() == expected[10..20]);
            assert!(mapped(&path, map) == expected, "{name} mapped while partial");
            assert!(fs::read(&path).unwrap() == expected, "{name} read after it was mapped");
            wait_until_cached(&path);
            assert!(fs::read(&path).unwrap() == expected, "{name} read beside an old handle");
            drop(first);
            let whole = File::open(&path).unwrap();
            assert!(mapped(&path, map) == expected, "{name} mapped when whole");
            assert!(read_at(&whole, 0, expected.len()).unwrap() == expected);
        }
        mounted.unmount();
    }
}

fn an_open_file_keeps_its_version_and_a_new_open_sees_the_change(way: Way) {
    let place = Place::over(way);
    let (old, new) = (bytes(1, 50_000), bytes(2, 70_000));
    let (old_large, new_large) = (bytes(3, LARGE), bytes(4, LARGE));
    place.put("small", &old);
    place.put("large", &old_large);
    let node = place.node(&["--cache-size", "128MiB"]);
    let mounted = place.mount(&[]);
    let (small, large) = (place.mnt().join("small"), place.mnt().join("large"));
    let (open, open_large) = (File::open(&small).unwrap(), File::open(&large).unwrap());
    let number = rustix::fs::stat(&small).unwrap().st_ino;
    assert!(read_at(&open_large, 0, 1000).unwrap() == old_large[..1000]);
    place.put("small", &new);
    place.put("large", &new_large);
    place.put("added", b"added");
    node.client(&["index", "data"]).good();
    wait_for("a new open to see the change", || fs::read(&small).unwrap() == new);
    wait_for("an added file to be there", || place.mnt().join("added").exists());
    assert_ne!(rustix::fs::stat(&small).unwrap().st_ino, number);
    assert!(read_at(&open, 0, 50_000).unwrap() == old, "an open handle keeps its version");
    // Bytes that were not cached of a version that is gone cannot be had: that is said, and nothing else is given.
    let stale = read_at(&open_large, LARGE - 1000, 1000).unwrap_err();
    assert_eq!(stale.raw_os_error(), Some(rustix::io::Errno::STALE.raw_os_error()), "{stale}");
    assert!(read_at(&open_large, 0, 1000).unwrap() == old_large[..1000], "what was cached of it still is");
    assert!(fs::read(&large).unwrap() == new_large);
    let names: Vec<_> = fs::read_dir(place.mnt()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    drop((open, open_large));
    mounted.unmount();
}

fn the_place_of_what_was_evicted_is_free_again_though_nobody_reads_any_more(way: Way) {
    let place = Place::over(way);
    let name = |number: u64| format!("{number:03}");
    (0..64).for_each(|number| place.put(&name(number), &bytes(number, 100_000)));
    let node = place.node(&["--cache-size", "128MiB"]);
    let mounted = place.mount(&[]);
    // Readers at once have connections of their own, and each of those has leases.
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let mnt = place.mnt();
            let read = move |number| assert!(fs::read(mnt.join(name(number))).unwrap() == bytes(number, 100_000));
            scope.spawn(move || (0..64).map(|n| (n + reader * 8) % 64).for_each(read));
        }
    });
    node.client(&["evict", "data"]).good();
    wait_for("the place to be free", || node.status()["datasets"][0]["cached_bytes"] == 0);
    mounted.unmount();
}
