//! Mounts of many tiny files, which share cache files.

use super::{Place, can_mount};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

const FILES: usize = 3000;

fn path(number: usize) -> String {
    format!("{}/{number:05}", number % 7)
}

fn content(number: usize) -> String {
    format!("this is file {number:05}")
}

fn read_all(place: &Place) {
    for number in 0..FILES {
        assert_eq!(fs::read_to_string(place.mnt().join(path(number))).unwrap(), content(number));
    }
}

/// Files below a directory, and the bytes of their blocks.
fn usage(directory: &Path) -> (usize, u64) {
    let entries: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.into_iter().fold((0, 0), |(files, bytes), path| match path.is_dir() {
        true => {
            let below = usage(&path);
            (files + below.0, bytes + below.1)
        }
        false => (files + 1, bytes + path.metadata().unwrap().blocks() * 512),
    })
}

#[test]
fn tiny_files_take_little_space_and_are_read_from_the_cache_without_their_origin() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    (0..FILES).for_each(|number| place.put(&path(number), content(number).as_bytes()));
    let node = place.node(&[]);
    let mounted = place.mount(&[]);
    node.client(&["warm", "data"]).good();
    let (files, bytes) = usage(&place.cache().join("tier/data"));
    assert!(files < 5 && bytes < 100 * FILES as u64, "{files} files with {bytes} bytes");
    fs::rename(place.origin(), place.origin().with_extension("away")).unwrap();
    read_all(&place);
    // The second time from the mount's memory.
    read_all(&place);
    mounted.unmount();
    drop(node);
    fs::rename(place.origin().with_extension("away"), place.origin()).unwrap();
    // After a restart from the files again, and compared with their checksums.
    let node = place.node(&[]);
    let mounted = place.mount(&[]);
    fs::rename(place.origin(), place.origin().with_extension("away")).unwrap();
    read_all(&place);
    assert_eq!(node.status()["datasets"][0]["stats"]["bytes_from_origin"].as_u64().unwrap(), 0);
    mounted.unmount();
}
