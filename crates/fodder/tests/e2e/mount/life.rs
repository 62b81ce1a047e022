//! Mounts that are told to end, or whose starter ends, at any moment of their lives.

use super::{Place, Way, bytes, over_each_transport};
use crate::program::{DEADLINE, Node, fodder, run, wait_for};
use fodder_testing::skip;
use rustix::{
    mount::{MountFlags, UnmountFlags, mount, unmount},
    pipe::PipeFlags,
    process::{Pid, Signal, kill_process, kill_process_group},
};
use std::{
    ffi::CString,
    fs,
    io::Write,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

over_each_transport! {
    a_signal_while_the_second_is_listed_unmounts_the_first,
    a_terminal_that_is_closed_unmounts,
    an_automounter_is_given_its_mount,
    a_mount_that_nobody_waits_for_any_more_is_not_made,
    a_node_that_mounts_and_is_killed_can_be_started_again,
    a_node_mounts_again_what_was_killed_and_not_what_was_unmounted,
}

/// An origin whose listing does not come.
fn never_listed(place: &Place) -> String {
    format!("throttled:latency=600s:{}", place.origin().display())
}

/// Has it end, and waits for that; its exit status.
fn end(child: &mut Child, signal: Signal) -> Option<i32> {
    kill_process(Pid::from_child(child), signal).unwrap();
    let mut status = None;
    wait_for("the mount to end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

fn is_mounted(dir: &Path) -> bool {
    fs::read_to_string("/proc/self/mounts").unwrap().contains(dir.to_str().unwrap())
}

fn a_signal_while_the_second_is_listed_unmounts_the_first(way: Way) {
    let place = Place::over(way);
    place.put("a", b"content");
    let _node = place.node(&[]);
    let mut command = fodder();
    command.args(["mount", "--foreground", way.flag(), "data", &never_listed(&place)]).arg(place.mnt());
    let mut child = command.arg("--cache-dir").arg(place.cache()).spawn().unwrap();
    wait_for("the first to be mounted", || place.mnt().join("data/a").exists());
    assert_eq!(end(&mut child, Signal::TERM), Some(0));
    assert!(!is_mounted(&place.mnt()));
    assert!(fs::read_dir(place.mnt()).unwrap().next().is_none(), "nothing is left");
}

fn a_terminal_that_is_closed_unmounts(way: Way) {
    let place = Place::over(way);
    place.put("a", &bytes(1, 1000));
    let _node = place.node(&[]);
    // These tests may themselves be run so that they outlive their terminal, and what they start would, too.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_fodder"), "mount", "--foreground", way.flag(), "data"]);
    let mut child = command.arg(place.mnt()).arg("--cache-dir").arg(place.cache()).spawn().unwrap();
    wait_for("the mount", || place.mnt().join("a").exists());
    assert_eq!(end(&mut child, Signal::HUP), Some(0));
    assert!(!is_mounted(&place.mnt()));
}

/// systemd's `x-systemd.automount`, and autofs: whoever looks at the directory waits for the kernel, which waits for the mount,
/// and lets only the group of processes through that the automounter has named.
fn an_automounter_is_given_its_mount(way: Way) {
    let place = Place::over(way);
    place.put("a", &bytes(1, 1000));
    let _node = place.node(&[]);
    // A group of its own, which mounts once the kernel knows it.
    let mut command = Command::new("sh");
    command.args(["-c", "read go && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_fodder"), "mount", way.flag(), "data"]);
    command.arg(place.mnt()).arg("--cache-dir").arg(place.cache());
    let mut helper = command.process_group(0).stdin(Stdio::piped()).spawn().unwrap();
    let (asked, to_us) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let options = format!("fd={},pgrp={},minproto=5,maxproto=5,direct", to_us.as_raw_fd(), helper.id());
    let options = CString::new(options).unwrap();
    if let Err(error) = mount("automounter", place.mnt(), "autofs", MountFlags::empty(), Some(&*options)) {
        helper.kill().unwrap();
        helper.wait().unwrap();
        skip!("the kernel mounts no autofs: {error}");
    }
    drop(to_us);
    drop(helper.stdin.take().unwrap().write_all(b"go\n"));
    let mut status = None;
    let began = Instant::now();
    while status.is_none() && began.elapsed() < DEADLINE / 4 {
        status = helper.try_wait().unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    let found = status.map(|_| fs::read(place.mnt().join("a")).ok());
    // Whoever looked at the directory between the two would wait for an automounter.
    while unmount(place.mnt(), UnmountFlags::DETACH).is_ok() {}
    if status.is_none() {
        kill_process_group(Pid::from_child(&helper), Signal::KILL).unwrap();
    }
    drop(asked);
    helper.wait().unwrap();
    assert!(status.is_some_and(|status| status.success()), "the mount waits for itself: {status:?}");
    assert!(found.flatten().is_some_and(|found| found == bytes(1, 1000)));
}

fn a_mount_that_nobody_waits_for_any_more_is_not_made(way: Way) {
    let place = Place::over(way);
    let _node = place.node(&[]);
    let mut command = fodder();
    command.args(["mount", way.flag(), &never_listed(&place)]).arg(place.mnt());
    let mut child = command.arg("--cache-dir").arg(place.cache()).spawn().unwrap();
    let mut mounting = None;
    wait_for("the process that mounts", || {
        mounting = children(child.id()).into_iter().find(|pid| is_fodder(*pid, &place.mnt()));
        mounting.is_some()
    });
    let mounting = mounting.unwrap();
    end(&mut child, Signal::KILL);
    wait_for("it to end too", || !is_fodder(mounting, &place.mnt()));
    assert!(!is_mounted(&place.mnt()));
}

fn children(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Whether a process has become the program, for a mount on a directory, and has not ended.
fn is_fodder(pid: u32, dir: &Path) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = words.split(|byte| *byte == 0).collect();
    words.contains(&b"--foreground".as_slice()) && words.contains(&dir.as_os_str().as_bytes())
}

/// A node that mounts its dataset, and the process that does.
fn mounting_node(place: &Place) -> (Node, u32) {
    let (origin, mnt) = (place.origin(), place.mnt());
    let node = Node::start(&place.cache(), &[origin.to_str().unwrap(), "--mount", mnt.to_str().unwrap()]);
    let mounting = mounting(&node, place);
    (node, mounting.unwrap())
}

fn mounting(node: &Node, place: &Place) -> Option<u32> {
    children(node.child.id()).into_iter().find(|pid| is_fodder(*pid, &place.mnt()))
}

fn a_node_that_mounts_and_is_killed_can_be_started_again(way: Way) {
    let place = Place::over(way);
    place.put("a", &bytes(1, 1000));
    for _ in 0..3 {
        let (mut node, mounting) = mounting_node(&place);
        assert!(fs::read(place.mnt().join("a")).unwrap() == bytes(1, 1000));
        node.child.kill().unwrap();
        node.child.wait().unwrap();
        wait_for("the mount to end with its node", || !is_fodder(mounting, &place.mnt()));
        assert!(!is_mounted(&place.mnt()));
        // And once more, without waiting for that.
        let (mut node, _) = mounting_node(&place);
        node.child.kill().unwrap();
        node.child.wait().unwrap();
    }
}

fn a_node_mounts_again_what_was_killed_and_not_what_was_unmounted(way: Way) {
    let place = Place::over(way);
    place.put("a", &bytes(1, 1000));
    let (node, first) = mounting_node(&place);
    kill_process(Pid::from_raw(first.cast_signed()).unwrap(), Signal::KILL).unwrap();
    wait_for("it to be mounted again", || fs::read(place.mnt().join("a")).is_ok_and(|found| found == bytes(1, 1000)));
    let second = mounting(&node, &place).unwrap();
    assert!(first != second && node.log().contains("mounting again"), "{}", node.log());
    run(fodder().arg("unmount").arg(place.mnt())).good();
    wait_for("the node to notice", || node.log().contains("continues without the mount"));
    assert!(!is_mounted(&place.mnt()));
    assert_eq!(node.stop(), 0);
}
