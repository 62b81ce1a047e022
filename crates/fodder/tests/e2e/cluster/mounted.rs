//! A mount beside a node of a cluster: what the node has copied from others is read by the kernel itself.

use super::{Fleet, PATIENT, Shape};
use crate::{
    mount::{Mounted, Way, can_mount, wait_until_cached},
    program::{DEADLINE, Node},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    iter,
    os::unix::fs::FileExt,
    sync::mpsc,
    thread,
};

/// Processes that are stopped, and go on whatever happens.
struct Stopped(Vec<Pid>);

impl Stopped {
    fn new(pids: Vec<Pid>) -> Self {
        pids.iter().for_each(|pid| kill_process(*pid, Signal::STOP).unwrap());
        Self(pids)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.iter().for_each(|pid| kill_process(*pid, Signal::CONT).unwrap());
    }
}

fn count(node: &Node, what: &str) -> u64 {
    node.status()["datasets"][0]["stats"][what].as_u64().unwrap()
}

#[test]
fn what_a_node_has_copied_from_others_is_read_by_the_kernel_itself() {
    if !can_mount() {
        return;
    }
    // All of it fits into each cache.
    let shape = Shape { objects: 60, cache_bytes: 64 << 20, patience: PATIENT, ..Shape::default() };
    let fleet = Fleet::with(shape);
    let (cache, mnt) = (fleet.dir.path().join("cache-0"), fleet.dir.path().join("mnt"));
    fs::create_dir(&mnt).unwrap();
    let mount = || Mounted::new(&cache, &["world"], &mnt, &[Way::Device.flag()]);
    let path = |id: usize| mnt.join(format!("{id:04}"));
    let mounted = mount();
    for (id, bytes) in fleet.contents.iter().enumerate() {
        assert!(fs::read(path(id)).unwrap() == *bytes, "object {id} through the mount");
    }
    (0..fleet.contents.len()).for_each(|id| wait_until_cached(&path(id)));
    assert!(fleet.fetched().iter().all(|times| *times == 1), "each left the origin once, for all nodes");
    let node = fleet.nodes[0].as_ref().unwrap();
    let from_peers = count(node, "bytes_from_peers");
    assert!(from_peers > fleet.bytes() / 2, "{from_peers} of {} bytes are copies of what others own", fleet.bytes());

    // The kernel tells of a closed file some time later, so a fresh mount shows what the next open is.
    mounted.unmount();
    let mounted = mount();
    let open: Vec<File> = (0..fleet.contents.len()).map(|id| File::open(path(id)).unwrap()).collect();
    let (done, read) = mpsc::channel();
    let stopped = Stopped::new([&node.child, &mounted.child].map(Pid::from_child).into());
    let reader = thread::spawn(move || {
        for file in open {
            let mut bytes = vec![0; super::BYTES];
            let _ = done.send(file.read_exact_at(&mut bytes, 0).map(|()| bytes));
        }
    });
    // To the end, or to the first that waits for somebody.
    let found: Vec<_> = iter::from_fn(|| read.recv_timeout(DEADLINE / 4).ok()).collect();
    drop(stopped);
    reader.join().unwrap();
    assert_eq!(found.len(), fleet.contents.len(), "files that were read while node and mount were stopped");
    for (id, (found, bytes)) in found.into_iter().zip(&fleet.contents).enumerate() {
        assert!(found.unwrap() == *bytes, "object {id} as the kernel reads it");
    }
    assert_eq!(count(node, "bytes_from_peers"), from_peers, "nothing was asked of others again");
    assert!(fleet.fetched().iter().all(|times| *times == 0));
    mounted.unmount();
}
