//! The end of a node whose disk does not answer any more.

use crate::program::{Data, Node, fodder, wait_for};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::Signal,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

/// The cache files of a tier.
fn cache_files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { cache_files(&path) } else { vec![path] }).collect()
}

/// Whether a thread of a process waits for the other end of a pipe.
fn hangs(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut places = threads.map(|thread| fs::read_to_string(thread.path().join("wchan")).unwrap_or_default());
    places.any(|place| place.contains("wait_for_partner") || place.contains("fifo_open"))
}

#[test]
fn a_node_ends_within_its_drain_time_though_a_disk_thread_hangs() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let config = cache.path().join("config.yaml");
    fs::write(&config, "node:\n  drain: 4s\n").unwrap();
    let args = [data.path(), "--name", "pets", "--config", config.to_str().unwrap()];
    let node = Node::start(cache.path(), &args);
    node.client(&["warm", "pets"]).good();
    assert_eq!(node.stop(), 0);
    // Opening a pipe blocks until its other end is opened, as a read of a disk that hangs does.
    let files = cache_files(&cache.path().join("tier/data"));
    assert!(!files.is_empty());
    for file in files {
        fs::remove_file(&file).unwrap();
        mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }
    let mut node = Node::start(cache.path(), &args);
    let mut get = fodder();
    get.args(["get", "pets", "3", "--addr", node.line("socket")]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut get = get.spawn().unwrap();
    wait_for("a thread to hang", || hangs(node.child.id()));
    let began = Instant::now();
    node.signal(Signal::TERM);
    assert_eq!(node.ended(), 1, "{}", node.log());
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(node.log().contains("ended without waiting for"), "{}", node.log());
    get.wait().unwrap();
}
