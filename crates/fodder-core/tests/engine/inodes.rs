//! A cache on a file system that has fewer inodes than the dataset has files.

use crate::world::{World, content, read};
use fodder_policy::Policy;
use std::{fs, path::PathBuf, process::Command};

/// A tmpfs with few inodes, unmounted when the test ends.
struct FewInodes(PathBuf);

impl FewInodes {
    fn at(dir: PathBuf, inodes: u32) -> Option<Self> {
        fs::create_dir_all(&dir).unwrap();
        let options = format!("size=256m,nr_inodes={inodes}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&dir).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(Self(dir))
    }
}

impl Drop for FewInodes {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_lru_cache_over_more_files_than_inodes_goes_on_admitting_evicting_and_hitting() {
    const FILES: usize = 700;
    const BYTES: u64 = 5000;
    let mut world = World::new(Policy::Lru, 200 << 20);
    (0..FILES).for_each(|file| world.put(&format!("{file:04}"), content(&file.to_string(), 1, BYTES as usize)));
    let Some(_disk) = FewInodes::at(world.dir.path().join("cache"), 550) else {
        fodder_testing::skip!("mounting a small tmpfs needs root");
    };
    let (engine, dataset) = world.start().await.unwrap();
    let snapshot = dataset.snapshot();
    for _epoch in 0..2 {
        for (path, want) in &world.origin {
            let object = snapshot.lookup(path).unwrap();
            assert!(read(&dataset, object, 0..BYTES, false).await.unwrap() == *want, "{path}");
        }
    }
    let status = engine.status();
    assert_eq!(status.tiers[0].health, "ok");
    assert!(dataset.stats().evicted_pieces > 0, "files are evicted for new ones");
    let before = dataset.stats().bytes_from_origin;
    for (path, want) in world.origin.iter().skip(FILES - 100) {
        let object = snapshot.lookup(path).unwrap();
        assert!(read(&dataset, object, 0..BYTES, false).await.unwrap() == *want, "{path}");
    }
    assert_eq!(dataset.stats().bytes_from_origin, before, "the files that were read last are cached");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_inodes_run_out_whole_files_are_evicted_and_not_a_piece_of_each() {
    const FILES: usize = 30;
    const PIECE: u64 = 1 << 20;
    const BYTES: u64 = PIECE + 5000;
    let mut world = World::new(Policy::Lru, 200 << 20);
    (0..3 * FILES).for_each(|file| world.put(&format!("{file:04}"), content(&file.to_string(), 1, BYTES as usize)));
    let Some(_disk) = FewInodes::at(world.dir.path().join("cache"), 110) else {
        fodder_testing::skip!("mounting a small tmpfs needs root");
    };
    let (engine, dataset) = world.start().await.unwrap();
    let snapshot = dataset.snapshot();
    let mut objects = world.origin.keys().map(|path| snapshot.lookup(path).unwrap());
    // The first pieces of all files were read longest ago: evicting these frees no inode.
    let first: Vec<_> = objects.by_ref().take(FILES).collect();
    for range in [0..PIECE, PIECE..BYTES] {
        for object in &first {
            read(&dataset, *object, range.clone(), false).await.unwrap();
        }
    }
    assert_eq!(dataset.stats().evicted_pieces, 0);
    for object in objects {
        read(&dataset, object, 0..BYTES, false).await.unwrap();
        if dataset.stats().evicted_pieces > 0 {
            break;
        }
    }
    let evicted = dataset.stats().evicted_pieces;
    assert!((1..FILES as u64 / 2).contains(&evicted), "{evicted} pieces made room for one file");
    engine.shutdown().await;
}
