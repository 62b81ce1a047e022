//! Commands that are given a path in a mount: it says which node, which dataset and which part of it.

use super::{Place, attribute, can_mount};
use crate::program::{Ended, fodder, run, wait_for};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

/// An origin that is mounted with a cache directory that no later command is told of.
struct World {
    place: Place,
    said: String,
}

impl World {
    fn new() -> Self {
        let place = Place::new();
        fs::remove_dir(place.cache()).unwrap();
        for path in ["train/a", "train/b", "train/b.txt", "val/c"] {
            place.put(path, &[7; 10_000]);
        }
        let mut mount = fodder();
        mount.arg("mount").arg(place.origin()).arg(place.mnt()).args(["--cache-size", "48MiB", "--cache-dir"]);
        let said = run(mount.arg(place.cache())).good().text();
        Self { place, said }
    }

    /// A command, run in a directory where no node is found without the mount.
    fn ask(&self, args: &[&str], path: &Path) -> Ended {
        let nowhere = self.place.origin().join("..").join("nowhere");
        let mut command = fodder();
        command.env("XDG_CACHE_HOME", nowhere).current_dir(self.place.mnt().parent().unwrap());
        run(command.args(args).arg(path))
    }

    fn cached(&self, path: &str) -> String {
        attribute(&self.place.mnt().join(path), "user.fodder.cached")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = run(fodder().args(["unmount", "--lazy"]).arg(self.place.mnt()));
    }
}

#[test]
fn a_mount_says_where_its_cache_and_its_log_are_and_how_to_unmount() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let (cache, mnt) = (world.place.cache(), world.place.mnt());
    let lines: Vec<&str> = world.said.lines().collect();
    assert!(lines[0].starts_with("mounted "), "{lines:?}");
    let expected = [
        format!("cache-dir {}", cache.display()),
        "cache-size 48.0 MiB".to_owned(),
        format!("log {}", cache.join("mount.log").display()),
        format!("unmount with: fodder unmount {}", mnt.display()),
    ];
    assert_eq!(lines[lines.len() - 4..], expected);
}

#[test]
fn the_cache_directory_that_a_mount_makes_is_its_users_alone() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mode = |name: &str| fs::metadata(world.place.cache().join(name)).unwrap().mode() & 0o777;
    assert_eq!((mode(""), mode("mount.log"), mode("node.log"), mode("fodder.sock")), (0o700, 0o600, 0o600, 0o600));
    // One that is there already stays as it is.
    let other = Place::new();
    other.put("a", b"content");
    fs::set_permissions(other.cache(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut mount = fodder();
    mount.arg("mount").arg(other.origin()).arg(other.mnt()).arg("--cache-dir").arg(other.cache());
    let said = run(&mut mount).good();
    assert!(said.stderr.contains("other users") && said.stderr.contains("chmod 700"), "{}", said.stderr);
    assert_eq!(fs::metadata(other.cache()).unwrap().mode() & 0o777, 0o755);
    run(fodder().arg("unmount").arg(other.mnt())).good();
}

#[test]
fn the_root_of_a_mount_names_its_node_and_its_dataset() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mnt = world.place.mnt();
    let socket = format!("unix:{}", world.place.cache().join("fodder.sock").display());
    assert_eq!(attribute(&mnt, "user.fodder.node"), socket);
    assert_eq!(attribute(&mnt, "user.fodder.dataset"), "origin");
    let mut names = [0; 256];
    let length = rustix::fs::listxattr(&mnt, &mut names[..]).unwrap();
    assert_eq!(&names[..length], b"user.fodder.node\0user.fodder.dataset\0");
    let length = rustix::fs::listxattr(mnt.join("train"), &mut names[..]).unwrap();
    assert_eq!(length, 0, "other directories do not list them");
}

#[test]
fn a_path_in_a_mount_says_which_node_dataset_and_files_a_command_is_about() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mnt = world.place.mnt();
    // The root, a directory, a file, and a relative path.
    let text = world.ask(&["warm"], &mnt).good().text();
    assert!(text.starts_with("complete: 4 files"), "{text}");
    let text = world.ask(&["status"], &mnt).good().text();
    assert!(text.contains("origin  ") && !text.contains("  path"), "{text}");
    let text = world.ask(&["status"], Path::new("mnt/train")).good().text();
    assert!(text.contains("train: 3 of 3 files cached, 29.3 KiB of 29.3 KiB"), "{text}");
    world.ask(&["evict"], Path::new("mnt/train/b")).good();
    wait_for("the file to be evicted", || world.cached("train/b") == "0");
    assert_eq!(world.cached("train/b.txt"), "10000", "a file whose name begins alike stays");
    let json = world.ask(&["status", "--json"], &mnt.join("train")).good().text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["path"]["files"], &json["path"]["cached_files"]), (&3.into(), &2.into()), "{json}");
    world.ask(&["evict"], &mnt.join("train")).good();
    wait_for("the directory to be evicted", || world.cached("train/b.txt") == "0");
    assert_eq!(world.cached("val/c"), "10000");
    let text = world.ask(&["warm"], &mnt.join("train/a")).good().text();
    assert!(text.starts_with("complete: 1 file,"), "{text}");
    assert!(world.ask(&["advise"], &mnt.join("train")).code == 0);
    world.place.put("val/d", &[8; 10]);
    let text = world.ask(&["index"], &mnt.join("val")).good().text();
    assert!(text.starts_with("origin: 1 added"), "{text}");
    let said = world.ask(&["evict", "--prefix", "a"], &mnt).bad();
    assert!(said.contains("--prefix"), "{said}");
}

#[test]
fn a_path_that_is_not_in_a_mount_is_refused_with_what_there_is() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mnt = world.place.mnt();
    for command in ["warm", "status", "evict", "advise", "index"] {
        let said = world.ask(&[command], &mnt.join("train/none")).bad();
        assert!(said.contains("there is no \"train/none\" in dataset \"origin\""), "{command}: {said}");
    }
    for command in ["status", "evict", "advise", "index"] {
        let said = world.ask(&[command], &world.place.origin()).bad();
        assert!(
            said.contains("is not in a mount of Fodder") && said.contains(mnt.to_str().unwrap()),
            "{command}: {said}"
        );
    }
}

#[test]
fn a_bind_mount_of_a_directory_of_a_mount_is_that_directory() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let bound = tempfile::tempdir().unwrap();
    mount_bind(world.place.mnt().join("train"), bound.path()).unwrap();
    let one = world.ask(&["warm"], &bound.path().join("a"));
    let all = world.ask(&["warm"], bound.path());
    unmount(bound.path(), UnmountFlags::DETACH).unwrap();
    let (one, all) = (one.good().text(), all.good().text());
    assert!(one.starts_with("complete: 1 file,"), "{one}");
    assert!(all.starts_with("complete: 3 files"), "{all}");
}
