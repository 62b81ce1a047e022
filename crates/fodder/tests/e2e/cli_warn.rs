//! Warnings of commands that open an origin: a layout that does not fit its files, and settings without effect.

use crate::{
    mount::{Place, can_mount},
    program::{Data, Ended, Node, fodder, run},
};
use std::{fs, path::Path};
use tempfile::TempDir;

/// A directory with files of one ending.
fn files(ending: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..3 {
        fs::write(dir.path().join(format!("{number}.{ending}")), [number; 1000]).unwrap();
    }
    dir
}

/// A command that opens an origin, at the node of a cache directory.
fn at(cache: &Path, args: &[&str]) -> Ended {
    run(fodder().args(args).arg("--cache-dir").arg(cache)).good()
}

fn warnings(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|line| line.starts_with("warning: ")).collect()
}

/// That each of these is printed, and in one warning.
#[track_caller]
fn assert_warns(said: &str, parts: &[&str]) {
    let warns = |line: &str| parts.iter().all(|part| line.contains(part));
    assert!(said.lines().any(warns), "no line with {parts:?} in: {said}");
}

const NO_ITEMS: [&str; 3] =
    ["has no items: none of its 3 objects is a file of layout \"tar\"", "layout \"files\"", "shards"];
const ONLY_SHARDS: [&str; 2] = ["has only *.tar files, and each of them is one item", "use the layout \"tar\""];

#[test]
fn the_tar_layout_over_images_is_a_warning_wherever_it_is_chosen() {
    let (images, cache, own) = (files("jpg"), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = images.path().to_str().unwrap();
    let node = Node::start(cache.path(), &[path, "--name", "served", "--layout", "tar"]);
    assert_warns(&node.log(), &["WARN", "\"served\"", NO_ITEMS[0], NO_ITEMS[1], NO_ITEMS[2]]);
    let added = node.client(&["datasets", "add", path, "--name", "added", "--layout", "tar"]).good();
    assert_warns(&added.stderr, &["warning: dataset \"added\"", NO_ITEMS[0], NO_ITEMS[1], NO_ITEMS[2]]);
    let joined = at(own.path(), &["join", path, "--layout", "tar"]);
    assert_warns(&joined.stderr, &["warning: ", NO_ITEMS[0], NO_ITEMS[1], NO_ITEMS[2]]);
    // Also for whoever looks later.
    assert_warns(&node.client(&["status"]).good().text(), &["  warning ", "\"served\"", NO_ITEMS[0]]);
    let reported = node.status()["datasets"][0]["warning"].as_str().unwrap().to_owned();
    assert!(reported.contains(NO_ITEMS[0]), "{reported}");
}

#[test]
fn a_directory_of_shards_without_a_layout_is_a_warning_of_each_command_that_opens_it() {
    let (shards, cache) = (files("tar"), tempfile::tempdir().unwrap());
    let path = shards.path().to_str().unwrap();
    let node = Node::start(cache.path(), &[path, "--name", "shards"]);
    assert_warns(&node.log(), &["WARN", "\"shards\"", ONLY_SHARDS[0], ONLY_SHARDS[1]]);
    for args in [["join", path].as_slice(), &["warm", path], &["get", path, "0.tar"]] {
        let ended = at(cache.path(), args);
        assert_warns(&ended.stderr, &["warning: dataset \"shards\"", ONLY_SHARDS[0], ONLY_SHARDS[1]]);
        assert_eq!(warnings(&ended).len(), 1, "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn a_layout_that_fits_is_no_warning() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    assert!(!node.log().contains("layout"), "{}", node.log());
    let joined = at(cache.path(), &["join", data.path()]);
    assert!(warnings(&joined).is_empty(), "{}", joined.stderr);
    assert!(!node.client(&["status"]).good().text().contains("warning"));
    assert!(node.status()["datasets"][0]["warning"].is_null());
}

#[test]
fn settings_without_effect_on_a_dataset_that_the_node_has_are_warnings_that_say_what_to_do() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let _node = Node::start(cache.path(), &[data.path(), "--name", "pets", "--policy", "lru"]);
    let join = |flags: &[&str]| at(cache.path(), &[&["join", data.path()], flags].concat());

    let said = join(&["--policy", "sieve", "--cache-size", "50%", "--refresh", "5s", "--max-depth", "3"]);
    let whatever = ["policy sieve (it has lru)", "cache size 50%", "refresh", "how the origin is listed"];
    assert_warns(&said.stderr, &whatever);
    assert_warns(&said.stderr, &["already has dataset \"pets\"", "fodder datasets remove pets", "another name"]);
    assert_eq!(warnings(&said).len(), 1, "{}", said.stderr);

    let said = join(&["--cache-size", "1GiB"]);
    assert_warns(&said.stderr, &["the cache size 1.0 GiB has no effect", "64.0 MiB", "stop it first"]);
    assert_eq!(warnings(&said).len(), 1, "{}", said.stderr);

    // What it has already is no news.
    let said = join(&["--policy", "lru", "--cache-size", "64MiB"]);
    assert!(warnings(&said).is_empty(), "{}", said.stderr);
}

#[test]
fn a_mount_in_the_background_prints_which_of_its_settings_have_no_effect() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.put("0.tar", b"0");
    let (origin, point) = (place.origin(), place.mnt());
    let (origin, point) = (origin.to_str().unwrap(), point.to_str().unwrap());
    let _node = Node::start(&place.cache(), &[origin, "--name", "shards"]);
    let said = at(&place.cache(), &["mount", origin, point, "--refresh", "5s", "--cache-size", "1GiB"]);
    assert_warns(&said.stderr, &["warning: ", "refresh", "fodder datasets remove shards"]);
    assert_warns(&said.stderr, &["warning: the cache size 1.0 GiB has no effect"]);
    // A mount shows files, not items.
    assert_eq!(warnings(&said).len(), 2, "{}", said.stderr);
    // Before the node ends, for which its users would wait.
    run(fodder().args(["unmount", "--lazy", point])).good();
}
