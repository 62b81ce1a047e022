//! Warming what a mount shows.

use crate::{
    mount::{Place, can_mount},
    program::{fodder, run},
};
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};

#[test]
fn a_directory_of_a_mount_is_warmed_through_its_node() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    for path in ["train/a", "train/b", "val/c"] {
        place.put(path, &[7; 1000]);
    }
    fs::write(place.origin().join(OsStr::from_bytes(b"val/\xff\xfe")), b"odd").unwrap();
    let node = place.node(&[]);
    let cache = place.cache();
    run(fodder().args(["mount", "data"]).arg(place.mnt()).arg("--cache-dir").arg(&cache)).good();
    let text = run(fodder().arg("warm").arg(place.mnt().join("train")).arg("--cache-dir").arg(&cache)).good().text();
    assert!(text.starts_with("complete: 2 files"), "{text}");
    let (above, name) = (place.mnt().parent().unwrap().to_owned(), place.mnt().file_name().unwrap().to_owned());
    let relative = Path::new(&name).join("train");
    let text = run(fodder().current_dir(above).arg("warm").arg(relative).arg("--cache-dir").arg(&cache)).good().text();
    assert!(
        text.starts_with("complete: 2 files"),
        "a path need not begin with ./ where no dataset is called so: {text}"
    );
    let said = run(fodder().arg("warm").arg(place.mnt().join("test/x")).arg("--cache-dir").arg(&cache)).bad();
    assert!(said.contains("there is no \"test/x\" in dataset \"data\""), "{said}");
    let odd = place.mnt().join(OsStr::from_bytes(b"val/\xff\xfe"));
    let text = run(fodder().arg("warm").arg(&odd).arg("--cache-dir").arg(&cache)).good().text();
    assert!(text.starts_with("complete: 1 file,"), "{text}");
    let mut get = fodder();
    get.args(["get", "data"]).arg(OsStr::from_bytes(b"val/\xff\xfe")).arg("--cache-dir").arg(&cache);
    assert_eq!(run(&mut get).good().stdout, b"odd");
    assert_eq!(node.status()["datasets"].as_array().unwrap().len(), 1, "the mount was not taken for an origin");
    run(fodder().arg("unmount").arg(place.mnt())).good();
}
