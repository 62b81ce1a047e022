//! A node that starts where nothing can be written.

use crate::world::{World, content, read};
use fodder_policy::Policy;
use fodder_testing::skip;
use std::{fs, path::PathBuf, process::Command};

/// A tmpfs that is unmounted when the test ends, however it ends.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(dir: PathBuf) -> Option<Self> {
        fs::create_dir_all(&dir).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&dir).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_on_a_full_disk_starts_and_serves_what_it_has() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 1, 100_000));
    let Some(disk) = SmallDisk::at(world.dir.path().join("cache")) else {
        skip!("mounting a small tmpfs needs root");
    };
    let (engine, dataset) = world.start().await.unwrap();
    let object = dataset.snapshot().lookup("a").unwrap();
    read(&dataset, object, 0..100_000, false).await.unwrap();
    engine.shutdown().await;
    drop((engine, dataset));
    // A note in them would have a place on the disk that it could be given again.
    for lock in ["LOCK", "tier/LOCK"] {
        fs::remove_file(disk.0.join(lock)).unwrap();
    }
    let _ = fs::write(disk.0.join("ballast"), vec![1; 8 << 20]);

    let (engine, dataset) = world.start().await.unwrap();
    assert!(read(&dataset, object, 0..100_000, false).await.unwrap() == world.origin["a"]);
    assert_eq!(dataset.stats().bytes_from_origin, 0);
    engine.shutdown().await;
}
