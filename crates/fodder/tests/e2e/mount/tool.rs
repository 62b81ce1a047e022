//! Programs that others wrote, over a mount: fio checks what it wrote, rsync compares.

use super::{Place, Way, bytes, over_each_transport};
use fodder_testing::skip;
use std::process::Command;

/// Whether a program is installed; if not, the test is reported as skipped.
fn has(program: &str) -> bool {
    if Command::new(program).arg("--version").output().is_err() {
        skip!("{program} is not installed");
    }
    true
}

over_each_transport! {
    fio_finds_every_block_as_it_wrote_it,
    rsync_finds_nothing_to_copy,
}

fn fio_finds_every_block_as_it_wrote_it(way: Way) {
    if !has("fio") {
        return;
    }
    let place = Place::over(way);
    let written = place.origin().join("blocks");
    let fio = |file: &std::path::Path, options: &[&str]| {
        let mut command = Command::new("fio");
        command.args(["--name=blocks", "--bs=64k", "--size=24m", "--verify=crc32c", "--verify_fatal=1"]);
        // Its state files would land in the directory of the tests.
        let output =
            command.args(["--verify_state_save=0"]).args(options).arg("--filename").arg(file).output().unwrap();
        assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    fio(&written, &["--rw=write", "--do_verify=0"]);
    let _node = place.node(&[]);
    for mode in [&[][..], &["--no-passthrough"], &["--immutable"]] {
        let mounted = place.mount(mode);
        for way in ["--rw=randread", "--rw=read"] {
            for engine in ["--ioengine=psync", "--ioengine=mmap", "--ioengine=libaio"] {
                fio(&place.mnt().join("blocks"), &["--readonly", way, engine, "--iodepth=8"]);
            }
        }
        mounted.unmount();
    }
    // What it checks, it would also find.
    let mut broken = std::fs::read(&written).unwrap();
    broken[3 << 20] ^= 1;
    std::fs::write(place.origin().join("broken"), broken).unwrap();
    let mut command = Command::new("fio");
    command.args(["--name=blocks", "--bs=64k", "--size=24m", "--verify=crc32c", "--verify_fatal=1", "--readonly"]);
    command.args(["--verify_state_save=0", "--rw=read", "--filename"]).arg(place.origin().join("broken"));
    assert!(!command.output().unwrap().status.success());
}

fn rsync_finds_nothing_to_copy(way: Way) {
    if !has("rsync") {
        return;
    }
    let place = Place::over(way);
    (0..50).for_each(|number| place.put(&format!("d{}/{number}", number % 3), &bytes(number + 1, 50_000)));
    let _node = place.node(&[]);
    let mounted = place.mount(&[]);
    let compare = || {
        let mut rsync = Command::new("rsync");
        rsync.args(["--recursive", "--checksum", "--delete", "--dry-run", "--itemize-changes"]);
        let output = rsync.arg(format!("{}/", place.mnt().display())).arg(place.origin()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(compare(), "");
    std::fs::write(place.origin().join("d0/0"), bytes(77, 50_000)).unwrap();
    assert!(compare().contains("d0/0"), "it would find a difference");
    mounted.unmount();
}
