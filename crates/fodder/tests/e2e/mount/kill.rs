//! Mounts whose node, dataset or process goes away.

use super::{Mounted, Place, Way, bytes, over_each_transport, wait_until_cached};
use crate::program::{fodder, run, wait_for};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

over_each_transport! {
    a_mount_that_was_killed_is_cleaned_up_by_the_next,
    readers_go_on_when_the_node_is_killed_and_comes_back,
    a_node_that_the_mount_started_comes_back_and_ends_with_the_mount,
    a_mount_goes_on_with_a_dataset_that_was_removed_and_added_again,
    a_reader_that_is_killed_ends_when_its_request_does,
}

fn a_mount_that_was_killed_is_cleaned_up_by_the_next(way: Way) {
    let place = Place::over(way);
    place.put("a", &bytes(1, 100_000));
    let _node = place.node(&[]);
    let mut first = place.mount(&[]);
    let open = File::open(place.mnt().join("a")).unwrap();
    first.kill();
    assert!(fs::read(place.mnt().join("a")).is_err());
    let second = place.mount(&[]);
    assert!(fs::read(place.mnt().join("a")).unwrap() == bytes(1, 100_000));
    let mut found = vec![0; 100_000];
    open.read_exact_at(&mut found, 0).unwrap();
    assert!(found == bytes(1, 100_000), "an open file outlives the process that mounted");
    drop(open);
    second.unmount();
}

fn readers_go_on_when_the_node_is_killed_and_comes_back(way: Way) {
    let place = Place::over(way);
    let contents: Vec<Vec<u8>> = (0..200).map(|number| bytes(number + 1, 150_000)).collect();
    contents.iter().enumerate().for_each(|(number, bytes)| place.put(&number.to_string(), bytes));
    place.put("large", &bytes(77, 20 << 20));
    let mut node = place.node(&["--policy", "lru", "--cache-size", "16MiB"]);
    let mounted = place.mount(&[]);
    let (done, reads, mnt) = (AtomicBool::new(false), AtomicUsize::new(0), place.mnt());
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (contents, done, reads, mnt) = (&contents, &done, &reads, &mnt);
            scope.spawn(move || {
                let large = File::open(mnt.join("large")).unwrap();
                for number in (0..contents.len()).cycle().skip(reader * 50) {
                    if done.load(Relaxed) {
                        return;
                    }
                    assert!(fs::read(mnt.join(number.to_string())).unwrap() == contents[number], "file {number}");
                    let (at, mut found) = (number * 100_000, vec![0; 1000]);
                    large.read_exact_at(&mut found, at as u64).unwrap();
                    assert!(found == bytes(77, 20 << 20)[at..at + 1000], "large at {at}");
                    reads.fetch_add(1, Relaxed);
                }
            });
        }
        for _ in 0..3 {
            let before = reads.load(Relaxed);
            wait_for("some reads", || reads.load(Relaxed) > before + 20);
            node.child.kill().unwrap();
            node.child.wait().unwrap();
            node = place.node(&["--policy", "lru", "--cache-size", "16MiB"]);
        }
        done.store(true, Relaxed);
    });
    mounted.unmount();
}

fn a_node_that_the_mount_started_comes_back_and_ends_with_the_mount(way: Way) {
    let place = Place::over(way);
    (0..10).for_each(|number| place.put(&number.to_string(), &bytes(number + 1, 10_000)));
    let origin = place.origin();
    let mounted = Mounted::new(&place.cache(), &[origin.to_str().unwrap()], &place.mnt(), &[way.flag()]);
    assert!(fs::read(place.mnt().join("0")).unwrap() == bytes(1, 10_000));
    let node = || {
        let status = run(fodder().args(["status", "--json", "--cache-dir"]).arg(place.cache())).good();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        rustix::process::Pid::from_raw(status["pid"].as_i64().unwrap() as i32).unwrap()
    };
    let first = node();
    rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
    for number in 0..10 {
        assert!(fs::read(place.mnt().join(number.to_string())).unwrap() == bytes(number + 1, 10_000));
    }
    let second = node();
    assert_ne!(first, second);
    mounted.unmount();
    wait_for("the node to end by itself", || rustix::process::test_kill_process(second).is_err());
}

fn a_mount_goes_on_with_a_dataset_that_was_removed_and_added_again(way: Way) {
    let place = Place::over(way);
    for (seed, name) in [(2, "b"), (3, "c")] {
        place.put(name, &bytes(seed, 100_000));
    }
    let node = place.node(&[]);
    let mounted = place.mount(&[]);
    assert!(fs::read(place.mnt().join("b")).unwrap() == bytes(2, 100_000));
    // What comes later is behind the others in the catalog, and before them in one that is built anew.
    place.put("a", &bytes(1, 100_000));
    node.client(&["index", "data"]).good();
    wait_for("the new file", || place.mnt().join("a").exists());
    node.client(&["datasets", "remove", "data"]).good();
    node.client(&["datasets", "add", place.origin().to_str().unwrap(), "--name", "data"]).good();
    for (seed, name) in [(1, "a"), (2, "b"), (3, "c")] {
        assert!(fs::read(place.mnt().join(name)).unwrap() == bytes(seed, 100_000), "{name}");
        wait_until_cached(&place.mnt().join(name));
    }
    place.put("d", &bytes(4, 100_000));
    node.client(&["index", "data"]).good();
    wait_for("the next file", || place.mnt().join("d").exists());
    mounted.unmount();
}

fn a_reader_that_is_killed_ends_when_its_request_does(way: Way) {
    let place = Place::over(way);
    place.put("a", &bytes(1, 100_000));
    let mut node = place.node(&[]);
    let mounted = place.mount(&["--patience", "3s"]);
    assert!(place.mnt().join("a").exists());
    node.child.kill().unwrap();
    node.child.wait().unwrap();
    let began = Instant::now();
    let mut reader = Command::new("cat").arg(place.mnt().join("a")).stderr(Stdio::null()).spawn().unwrap();
    let waits_in = format!("/proc/{}/wchan", reader.id());
    wait_for("the reader to wait", || fs::read_to_string(&waits_in).unwrap().contains("request_wait"));
    reader.kill().unwrap();
    reader.wait().unwrap();
    let took = began.elapsed();
    assert!(took > Duration::from_secs(2) && took < Duration::from_secs(20), "{took:?}");
    mounted.unmount();
}
