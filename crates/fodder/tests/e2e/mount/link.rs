//! Symbolic links of an origin through a mount, and the tools that look at them.

use super::{Place, Way, bytes, over_each_transport};
use crate::program::{fodder, run, wait_for};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::Path,
    process::Command,
};

over_each_transport! {
    links_of_the_origin_are_links_of_the_mount,
    links_that_lead_out_of_the_origin_are_what_they_lead_to_where_they_are_followed,
    a_link_that_is_changed_leads_elsewhere_after_a_refresh,
}

/// Everything below a directory, as `find` and `readlink` tell it.
fn found(dir: &Path) -> BTreeSet<String> {
    let format = ["-mindepth", "1", "-printf", "%y %P -> %l %T@\\0"];
    let output = Command::new("find").arg(dir).args(format).output().unwrap();
    assert!(output.status.success());
    let lines = output.stdout.split(|byte| *byte == 0).map(|line| String::from_utf8_lossy(line).into_owned());
    // Directories have no times in a mount.
    lines.filter(|line| !line.is_empty() && !line.starts_with("d ")).collect()
}

fn tar(dir: &Path) -> Vec<u8> {
    let options = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--mode=0", "-cf", "-", "."];
    Command::new("tar").current_dir(dir).args(options).output().unwrap().stdout
}

fn links_of_the_origin_are_links_of_the_mount(way: Way) {
    let place = Place::over(way);
    (0..20).for_each(|number| place.put(&format!("v2/c{}/{number}", number % 2), &bytes(number + 1, 30_000)));
    let (origin, mnt) = (place.origin(), place.mnt());
    for (target, name) in
        [("v2", "latest"), ("c0/0", "v2/short"), ("../latest/c1", "v2/through"), ("short", "v2/again")]
    {
        symlink(target, origin.join(name)).unwrap();
    }
    symlink(OsStr::from_bytes(b"\xff"), origin.join(OsStr::from_bytes(b"v2/\xfe"))).unwrap();
    fs::write(origin.join(OsStr::from_bytes(b"v2/\xff")), "no text").unwrap();
    let node = place.node(&[]);
    for flags in [&[][..], &["--no-passthrough"], &["--immutable"]] {
        let mounted = place.mount(flags);
        assert_eq!(found(&mnt), found(&origin));
        assert_eq!(fs::read_link(mnt.join("latest")).unwrap(), Path::new("v2"));
        assert!(fs::symlink_metadata(mnt.join("latest")).unwrap().is_symlink());
        assert_eq!(fs::read(mnt.join(OsStr::from_bytes(b"latest/\xfe"))).unwrap(), b"no text");
        assert!(fs::read(mnt.join("latest/again")).unwrap() == bytes(1, 30_000));
        assert!(tar(&mnt) == tar(&origin));
        let diff = Command::new("diff").arg("-r").args([&origin, &mnt]).output().unwrap();
        assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
        mounted.unmount();
    }
    // Warming by the mount's path brings in what the mount shows.
    let mounted = place.mount(&[]);
    let said = run(fodder().arg("warm").arg(&mnt).arg("--cache-dir").arg(place.cache())).good().text();
    assert!(said.starts_with("complete: 21 files"), "{said}");
    // Who reads through links reads one copy: what a link leads to was fetched, and nothing else.
    let fetched = node.status()["datasets"][0]["stats"]["bytes_from_origin"].as_u64().unwrap();
    assert_eq!(fetched, 20 * 30_000 + 7);
    if Command::new("rsync").arg("--version").output().is_ok() {
        let mut rsync = Command::new("rsync");
        rsync.args(["--recursive", "--links", "--times", "--omit-dir-times", "--checksum", "--delete"]);
        rsync.args(["--dry-run", "--itemize-changes"]).arg(format!("{}/", mnt.display())).arg(&origin);
        let output = rsync.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    }
    mounted.unmount();
}

fn links_that_lead_out_of_the_origin_are_what_they_lead_to_where_they_are_followed(way: Way) {
    let (place, other) = (Place::over(way), Place::over(way));
    place.put("near", b"near");
    other.put("far", &bytes(1, 5000));
    let (origin, mnt) = (place.origin(), place.mnt());
    symlink(other.origin(), origin.join("directory")).unwrap();
    symlink(other.origin().join("far"), origin.join("file")).unwrap();
    symlink(origin.join("near"), origin.join("absolute")).unwrap();
    symlink("../origin/near", origin.join("out and in")).unwrap();
    symlink("directory/far", origin.join("through")).unwrap();
    symlink("nothing", origin.join("broken")).unwrap();
    symlink(".", origin.join("loop")).unwrap();
    let _node = place.node(&["--follow-links", "all"]);
    let mounted = place.mount(&[]);
    for (name, content) in [("file", bytes(1, 5000)), ("absolute", b"near".into()), ("out and in", b"near".into())] {
        assert!(fs::symlink_metadata(mnt.join(name)).unwrap().is_file(), "{name}");
        assert!(fs::read(mnt.join(name)).unwrap() == content, "{name}");
    }
    assert!(fs::symlink_metadata(mnt.join("directory")).unwrap().is_dir());
    for name in ["directory/far", "through"] {
        assert!(fs::read(mnt.join(name)).unwrap() == bytes(1, 5000), "{name}");
    }
    let names: BTreeSet<_> = fs::read_dir(&mnt).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.len() == 6 && !names.contains(OsStr::new("loop")), "{names:?}");
    mounted.unmount();
}

fn a_link_that_is_changed_leads_elsewhere_after_a_refresh(way: Way) {
    let place = Place::over(way);
    for version in ["v1", "v2"] {
        place.put(&format!("{version}/file"), version.as_bytes());
    }
    let latest = place.origin().join("latest");
    symlink("v1", &latest).unwrap();
    let node = place.node(&[]);
    let mounted = place.mount(&[]);
    let file = place.mnt().join("latest/file");
    assert_eq!(fs::read(&file).unwrap(), b"v1");
    fs::remove_file(&latest).unwrap();
    symlink("v2", &latest).unwrap();
    node.client(&["index", "data"]).good();
    wait_for("the link to lead elsewhere", || fs::read(&file).unwrap() == b"v2");
    assert_eq!(fs::read_link(place.mnt().join("latest")).unwrap(), Path::new("v2"));
    fs::remove_file(&latest).unwrap();
    place.put("latest", b"a file now");
    node.client(&["index", "data"]).good();
    wait_for("the link to be a file", || {
        fs::read(place.mnt().join("latest")).is_ok_and(|bytes| bytes == b"a file now")
    });
    mounted.unmount();
}
