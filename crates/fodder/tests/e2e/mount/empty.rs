//! Empty directories of an origin through a mount.

use super::{Place, Way, bytes, over_each_transport};
use crate::program::{Node, fodder, run, wait_for};
use fodder_s3_server::Server;
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    io::ErrorKind,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirEntryExt, MetadataExt, symlink},
    },
    path::Path,
    process::Command,
};

over_each_transport! {
    empty_directories_of_the_origin_are_in_the_mount,
    empty_directories_come_and_go_with_a_refresh_and_stay_over_a_restart,
    an_origin_of_nothing_but_empty_directories_can_be_mounted,
    directory_markers_of_an_object_store_are_empty_directories,
}

/// Every path below a directory and what it is, as `find` tells it.
fn found(dir: &Path) -> BTreeSet<String> {
    let output = Command::new("find").arg(dir).args(["-mindepth", "1", "-printf", "%y %P\\0"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = output.stdout.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

fn same(place: &Place) {
    let (origin, mnt) = (place.origin(), place.mnt());
    assert_eq!(found(&mnt), found(&origin));
    let diff = Command::new("diff").arg("-r").args([&origin, &mnt]).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

fn make(place: &Place, directories: &[&str]) {
    for directory in directories {
        fs::create_dir_all(place.origin().join(directory)).unwrap();
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn empty_directories_of_the_origin_are_in_the_mount(way: Way) {
    let place = Place::over(way);
    place.put("train/a/1", &bytes(1, 1000));
    place.put("train/b-", &bytes(2, 1000));
    make(&place, &["valid", "train/a/none", "train/b", "deep/deeper/deepest", "deep/other", "ünï\ncödé"]);
    fs::create_dir(place.origin().join(OsStr::from_bytes(b"not \xff utf-8"))).unwrap();
    symlink("valid", place.origin().join("link")).unwrap();
    // More than a page of a listing has.
    (0..3000).for_each(|number| make(&place, &[&format!("many/{number:04}")]));
    let node = place.node(&[]);
    for flags in [&[][..], &["--no-passthrough"], &["--immutable"]] {
        let mounted = place.mount(flags);
        let mnt = place.mnt();
        assert_eq!(names(&mnt.join("valid")), [""; 0]);
        assert_eq!(names(&mnt.join("deep")), ["deeper", "other"]);
        same(&place);
        let metadata = fs::metadata(mnt.join("valid")).unwrap();
        assert!(metadata.is_dir() && metadata.mode() & 0o7777 == 0o555 && metadata.nlink() == 2);
        for entry in fs::read_dir(mnt.join("many")).unwrap().map(Result::unwrap) {
            assert_eq!(entry.ino(), entry.metadata().unwrap().ino());
        }
        assert_eq!(fs::metadata(mnt.join("valid/x")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::create_dir(mnt.join("valid/x")).unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
        assert_eq!(fs::remove_dir(mnt.join("valid")).unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
        assert_eq!(fs::read_link(mnt.join("link")).unwrap(), Path::new("valid"));
        mounted.unmount();
    }
    let mounted = place.mount(&[]);
    for command in [&["warm"][..], &["evict"]] {
        run(fodder().args(command).arg("--cache-dir").arg(place.cache()).arg(place.mnt().join("valid"))).good();
    }
    let items = node.status()["datasets"][0]["items"].as_u64().unwrap();
    assert_eq!(items, 2, "directories are no items");
    mounted.unmount();
}

fn empty_directories_come_and_go_with_a_refresh_and_stay_over_a_restart(way: Way) {
    let place = Place::over(way);
    place.put("train/1", &bytes(1, 1000));
    make(&place, &["valid", "file", "filled", "gone/inside", "train/none"]);
    let node = place.node(&[]);
    let mounted = place.mount(&[]);
    same(&place);
    let ino = |path: &str| fs::metadata(place.mnt().join(path)).unwrap().ino();
    let before = (ino("valid"), ino("filled"));
    let origin = place.origin();
    // Nothing but empty directories changes at first.
    fs::remove_dir_all(origin.join("gone")).unwrap();
    make(&place, &["new/inside"]);
    node.client(&["index", "data"]).good();
    wait_for("the new directory to be there", || found(&place.mnt()) == found(&origin));
    assert!(!place.mnt().join("gone").exists());
    fs::remove_dir(origin.join("file")).unwrap();
    place.put("file", b"a file now");
    place.put("filled/1", b"not empty any more");
    node.client(&["index", "data"]).good();
    wait_for("the file to be there", || fs::read(place.mnt().join("file")).is_ok_and(|bytes| bytes == b"a file now"));
    wait_for("the tree to be the origin's", || found(&place.mnt()) == found(&origin));
    same(&place);
    fs::remove_file(origin.join("filled/1")).unwrap();
    node.client(&["index", "data"]).good();
    wait_for("the directory to be empty again", || names(&place.mnt().join("filled")).is_empty());
    assert_eq!((ino("valid"), ino("filled")), before, "a directory keeps its number");
    assert_eq!(node.stop(), 0);
    // What is at the origin now is not looked at by a restart.
    fs::remove_dir(origin.join("valid")).unwrap();
    let _node = place.node(&[]);
    assert_eq!(names(&place.mnt().join("valid")), [""; 0]);
    assert_eq!((ino("valid"), ino("filled")), before);
    mounted.unmount();
    let mounted = place.mount(&[]);
    make(&place, &["valid"]);
    same(&place);
    assert_eq!((ino("valid"), ino("filled")), before);
    mounted.unmount();
}

fn an_origin_of_nothing_but_empty_directories_can_be_mounted(way: Way) {
    let place = Place::over(way);
    make(&place, &["valid", "a/b/c"]);
    let _node = place.node(&[]);
    let mounted = place.mount(&[]);
    same(&place);
    mounted.unmount();
}

fn directory_markers_of_an_object_store_are_empty_directories(way: Way) {
    let place = Place::over(way);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start("127.0.0.1:0")).unwrap();
    for key in ["set/", "set/valid/", "set/train/", "set/a/b/", "set/file/", "other/"] {
        server.put(key, "");
    }
    for key in ["set/train/1", "set/file"] {
        server.put(key, "bytes");
    }
    let origin = format!("s3://bucket/set?endpoint={}&region=us-east-1", server.endpoint());
    let _node = Node::start(&place.cache(), &[&origin, "--name", "data", "--anonymous"]);
    let mounted = place.mount(&[]);
    let expected = ["d valid", "d train", "f train/1", "d a", "d a/b", "f file"].map(String::from);
    assert_eq!(found(&place.mnt()), expected.into());
    assert_eq!(fs::read(place.mnt().join("file")).unwrap(), b"bytes", "a marker hides no object");
    mounted.unmount();
}
