//! `fodder mount` and `fodder unmount` as people use them.

use super::{Place, Way, bytes, can_mount, over_each_transport};
use crate::program::{Node, fodder, run, wait_for};
use fodder_testing::skip;
use rustix::mount::{UnmountFlags, unmount};
use std::{
    fs,
    os::unix::{
        fs::{chown, symlink},
        process::CommandExt,
    },
    path::Path,
    process::Command,
};

over_each_transport! {
    a_mount_goes_into_the_background_and_unmount_says_who_is_in_the_way,
    a_mount_that_cannot_be_made_says_what_to_do,
    several_datasets_are_mounted_side_by_side,
    a_node_that_serves_can_mount_too_and_unmounts_at_its_end,
    without_the_privilege_a_mount_is_slower_says_why_and_is_right,
    mount_8_mounts_by_a_line_of_fstab,
    a_mount_in_the_background_logs_as_it_is_told,
}

fn a_mount_goes_into_the_background_and_unmount_says_who_is_in_the_way(way: Way) {
    let place = Place::over(way);
    place.put("a", b"content");
    let mount = || {
        run(fodder().arg("mount").arg(place.origin()).arg(place.mnt()).arg("--cache-dir").arg(place.cache()).args([
            "--cache-size",
            "48MiB",
            "--anonymous",
            way.flag(),
        ]))
    };
    let said = mount().good().text();
    let over = if way == Way::Uring { "over io_uring" } else { "over /dev/fuse" };
    assert!(said.contains("mounted") && said.contains("mnt") && said.contains(over), "{said}");
    assert_eq!(fs::read(place.mnt().join("a")).unwrap(), b"content");
    let status = run(fodder().args(["status", "--json", "--cache-dir"]).arg(place.cache())).good();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["tiers"][0]["quota_bytes"], 48 << 20, "{status}");
    assert_eq!(status["datasets"][0]["anonymous"], true, "{status}");
    let said = mount().bad();
    assert!(said.contains("already mounted") && said.contains("fodder unmount"), "{said}");
    let two = [place.origin(), place.cache(), place.mnt()];
    let said = run(fodder().arg("mount").args(two).arg("--cache-dir").arg(place.cache())).bad();
    assert!(said.contains("already mounted") && said.contains("fodder unmount"), "{said}");
    let mut user = Command::new("sleep").arg("60").current_dir(place.mnt()).spawn().unwrap();
    let said = run(fodder().arg("unmount").arg(place.mnt())).bad();
    user.kill().unwrap();
    user.wait().unwrap();
    assert!(said.contains(&format!("process {}", user.id())) && said.contains("--lazy"), "{said}");
    let said = run(fodder().args(["unmount", "."]).current_dir(place.mnt())).good().text();
    assert!(said.contains("unmounted"), "the command itself is not in the way: {said}");
    let said = run(fodder().arg("unmount").arg(place.mnt())).bad();
    assert!(said.contains("nothing is mounted"), "{said}");
    let nothing = place.mnt().with_file_name("nothing");
    fs::create_dir(&nothing).unwrap();
    let said = run(fodder().arg("mount").args([&nothing, &place.mnt()]).arg("--cache-dir").arg(place.cache())).good();
    assert!(said.text().contains("has no files"), "a name that is wrong may look like this: {}", said.text());
    run(fodder().arg("unmount").arg(place.mnt())).good();
}

fn a_mount_that_cannot_be_made_says_what_to_do(way: Way) {
    let place = Place::over(way);
    place.put("a", b"content");
    let _node = place.node(&[]);
    let mount = |source: &str, dir: &std::path::Path| {
        run(fodder().arg("mount").arg(source).arg(dir).arg(way.flag()).arg("--cache-dir").arg(place.cache())).bad()
    };
    let origin = place.origin();
    let origin = origin.to_str().unwrap();
    let said = mount(origin, &place.mnt().join("missing"));
    assert!(said.contains("mkdir -p"), "{said}");
    let said = mount(origin, &place.origin());
    assert!(said.contains("not empty"), "{said}");
    let said = mount("/no/such/origin", &place.mnt());
    assert!(said.contains("/no/such/origin"), "{said}");
    let said = mount("imagenet", &place.mnt());
    assert!(said.contains("imagenet") && said.contains("data"), "{said}");
    let mut command = fodder();
    command.args(["mount", "imagenet"]).arg(place.mnt()).arg("--cache-dir").arg(place.origin());
    let said = run(&mut command).bad();
    assert!(said.contains("no node answers"), "{said}");
}

fn several_datasets_are_mounted_side_by_side(way: Way) {
    let (place, other) = (Place::over(way), Place::over(way));
    place.put("a", &bytes(1, 1000));
    other.put("b", &bytes(2, 1000));
    let node = place.node(&[]);
    node.client(&["datasets", "add", other.origin().to_str().unwrap(), "--name", "other"]).good();
    let mount = run(fodder()
        .args(["mount", way.flag(), "data", "other"])
        .arg(place.mnt())
        .arg("--cache-dir")
        .arg(place.cache()));
    assert_eq!(mount.good().text().lines().filter(|line| line.starts_with("mounted ")).count(), 2);
    assert!(fs::read(place.mnt().join("data/a")).unwrap() == bytes(1, 1000));
    assert!(fs::read(place.mnt().join("other/b")).unwrap() == bytes(2, 1000));
    let gone = run(fodder().arg("unmount").arg(place.mnt())).good();
    assert_eq!(gone.text().lines().count(), 2);
    // They are gone when it says so, unless the machine is too busy.
    wait_for("the directories to be gone", || fs::read_dir(place.mnt()).unwrap().next().is_none());
}

fn a_node_that_serves_can_mount_too_and_unmounts_at_its_end(way: Way) {
    let place = Place::over(way);
    place.put("a", &bytes(1, 1000));
    let (origin, mnt) = (place.origin(), place.mnt());
    let node = Node::start(&place.cache(), &[origin.to_str().unwrap(), "--mount", mnt.to_str().unwrap()]);
    assert!(fs::read(mnt.join("a")).unwrap() == bytes(1, 1000));
    assert_eq!(node.stop(), 0);
    assert!(fs::read_dir(&mnt).unwrap().next().is_none());
}

fn without_the_privilege_a_mount_is_slower_says_why_and_is_right(way: Way) {
    const NOBODY: u32 = 65534;
    /// In a namespace of its own, where everybody may open the device.
    const SCRIPT: &str = r#"set -e
        mknod -m 666 "$CACHE/fuse" c 10 229
        mount --bind "$CACHE/fuse" /dev/fuse
        nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
        nobody "$CACHE/fodder" mount "$WAY" "$ORIGIN" "$MNT" --cache-dir "$CACHE"
        nobody cmp "$ORIGIN/a" "$MNT/a"
        nobody "$CACHE/fodder" unmount "$MNT""#;
    if Command::new("fusermount3").arg("--version").output().is_err() {
        skip!("fusermount3 (package fuse3) is not installed");
    }
    let place = Place::over(way);
    place.put("a", &bytes(1, 300_000));
    for dir in [place.mnt().parent().unwrap(), &place.mnt(), &place.cache(), &place.origin()] {
        chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    copy_program(&place.cache().join("fodder"));
    let mut script = Command::new("unshare");
    script.args(["--mount", "sh", "-c", SCRIPT]).env("WAY", way.flag());
    let script = script.env("ORIGIN", place.origin()).env("MNT", place.mnt()).env("CACHE", place.cache());
    let said = run(script).good().text();
    assert!(said.contains("slower") && said.contains("CAP_SYS_ADMIN") && said.contains("unmounted"), "{said}");
}

fn mount_8_mounts_by_a_line_of_fstab(way: Way) {
    let place = Place::over(way);
    place.put("a", &bytes(1, 1000));
    let helper = place.cache().join("mount.fodder");
    symlink(env!("CARGO_BIN_EXE_fodder"), &helper).unwrap();
    let options = format!("rw,allow_other,_netdev,{},cache_dir={}", &way.flag()[2..], place.cache().display());
    let mut command = Command::new(&helper);
    let output = command.arg(place.origin()).arg(place.mnt()).args(["-o", &options]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(place.mnt().join("a")).unwrap() == bytes(1, 1000));
    unmount(place.mnt(), UnmountFlags::empty()).unwrap();
}

fn a_mount_in_the_background_logs_as_it_is_told(way: Way) {
    let place = Place::over(way);
    place.put("a", b"content");
    let _node = place.node(&[]);
    let log = place.mnt().with_file_name("my.log");
    let mut command = fodder();
    command.args(["mount", way.flag(), "--log-level", "trace", "--log-format", "json", "--log-file"]).arg(&log);
    run(command.arg("--cache-dir").arg(place.cache()).arg("data").arg(place.mnt())).good();
    run(fodder().arg("unmount").arg(place.mnt())).good();
    let said = fs::read_to_string(&log).unwrap();
    let lines = said.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert!(lines.filter(|line| line["level"] == "TRACE").count() > 0, "{said}");
    assert!(!place.cache().join("mount.log").exists());
}

/// Puts the program where other users can start it. By another process: a file that this one has open for writing while
/// another test forks cannot be started.
fn copy_program(to: &Path) {
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_fodder")).arg(to).status().unwrap().success());
}

/// `fodder mount` as somebody without privileges; what it says when it fails.
fn refused(place: &Place, change: impl FnOnce(&mut Command)) -> String {
    let mut command = fodder();
    command.arg("mount").arg(place.origin()).arg(place.mnt()).arg("--cache-dir").arg(place.cache());
    change(&mut command);
    run(&mut command).bad()
}

#[test]
fn a_machine_without_fuse_or_fusermount_says_what_to_do() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.put("a", b"content");
    let nobody = 65534;
    for dir in [place.mnt().parent().unwrap(), &place.mnt(), &place.cache(), &place.origin()] {
        chown(dir, Some(nobody), Some(nobody)).unwrap();
    }
    let program = place.cache().join("fodder");
    copy_program(&program);
    let said = refused(&place, |command| {
        let given: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        *command = Command::new(&program);
        command.args(given).uid(nobody).gid(nobody).env("PATH", "/nowhere");
    });
    assert!(said.contains("fusermount3") && said.contains("fuse3"), "{said}");
    // A mount namespace of its own, in which there are no devices.
    let hidden = ["--mount", "sh", "-c", "mount -t tmpfs none /dev && exec \"$0\" \"$@\""];
    let said = refused(&place, |command| {
        let given: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        *command = Command::new("unshare");
        command.args(hidden).arg(&program).args(given);
    });
    assert!(said.contains("/dev/fuse") && said.contains("modprobe fuse"), "{said}");
}
