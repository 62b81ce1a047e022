//! `fodder bench read`: it measures any directory, and notices what must not be.

use crate::{
    mount::{Place, bytes, can_mount},
    program::{Data, Ended, Node, fodder, run},
};
use serde_json::Value;
use std::{fs, path::Path};

fn bench(dir: &Path, args: &[&str]) -> Ended {
    let mut command = fodder();
    command.args(["bench", "read", "--readers", "3", "--dir"]).arg(dir).args(args);
    if !args.contains(&"--duration") {
        command.args(["--duration", "200ms"]);
    }
    run(&mut command)
}

fn json(ended: Ended) -> Value {
    serde_json::from_slice(&ended.good().stdout).unwrap()
}

#[test]
fn each_way_of_reading_is_measured_beside_another_directory() {
    let (one, two) = (Data::new(), Data::new());
    for (args, mode) in [
        (&[][..], "sequential"),
        (&["--random", "--chunk", "64KiB"], "random"),
        (&["--small"], "small"),
        (&["--small", "--random"], "small random"),
    ] {
        let args: Vec<_> = args.iter().copied().chain(["--json", "--checksum", "--against", two.path()]).collect();
        let told = json(bench(one.dir.path(), &args));
        assert_eq!(told["mode"], mode);
        for side in ["dir", "against"] {
            let of = |name: &str| told[side][name].as_f64().unwrap_or_else(|| panic!("{side} has no {name}: {told}"));
            assert!(of("gbps") > 0.0 && of("ops_per_s") > 0.0, "{told}");
            let quantiles = ["p50_us", "p95_us", "p99_us", "max_us"].map(of);
            assert!(quantiles.is_sorted(), "{quantiles:?}");
        }
        assert!(told["ratio"].as_f64().unwrap() > 0.0, "{told}");
        assert!(told["checked_files"].as_u64().unwrap() >= 1, "{told}");
        assert_eq!(told["checked_reads"], told["dir"]["ops"], "every read is compared: {told}");
    }
    let ended = bench(one.dir.path(), &["--against", two.path()]).good();
    let text = ended.text();
    assert!(text.contains("sequential reads of 4.0 MiB") && text.contains("GB/s") && text.contains("ratio "), "{text}");
    assert_eq!(ended.stderr, "", "the files are the same");
    let text = bench(one.dir.path(), &["--small"]).good().text();
    assert!(text.starts_with("whole files, opened, read and closed, 3 readers\n"), "{text}");
}

#[test]
fn directories_with_different_files_are_compared_and_that_is_said() {
    let (one, two) = (Data::new(), Data::new());
    fs::remove_file(two.dir.path().join("cat/2.png")).unwrap();
    let ended = bench(one.dir.path(), &["--against", two.path()]).good();
    assert!(ended.text().contains("ratio "), "{}", ended.text());
    assert!(ended.stderr.contains("different files") && ended.stderr.contains("cat/2.png"), "{}", ended.stderr);
}

#[test]
fn bytes_that_differ_are_named() {
    let (one, two) = (Data::new(), Data::new());
    let victim = two.dir.path().join("cat/1.png");
    let mut bytes = fs::read(&victim).unwrap();
    bytes[1234] ^= 1;
    fs::write(&victim, bytes).unwrap();
    for flag in ["--against", "--origin"] {
        let said = bench(one.dir.path(), &["--small", "--checksum", flag, two.path()]).bad();
        assert!(said.contains("cat/1.png") && said.contains("between 0 and 127000"), "{flag}: {said}");
        // Of a file that is read in parts, the part.
        let parts = ["--chunk", "1KiB", "--checksum", flag, two.path()];
        let said = bench(one.dir.path(), &parts).bad();
        assert!(said.contains("cat/1.png") && said.contains("between 1024 and 2048"), "{flag}: {said}");
    }
    fs::write(&victim, "short").unwrap();
    let said = bench(one.dir.path(), &["--small", "--checksum", "--origin", two.path()]).bad();
    assert!(said.contains("127000 bytes") && said.contains("has 5"), "{said}");
    let said = bench(one.dir.path(), &["--checksum"]).bad();
    assert!(
        said.contains("--against") && said.contains("--origin") && said.contains("is not in a mount of Fodder"),
        "{said}"
    );
}

#[test]
fn what_a_mount_gives_is_compared_with_its_origin() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.put("a/one", &bytes(1, 3_000_000));
    place.put("a/two", &bytes(2, 50_000));
    place.put("b", &bytes(3, 70_000));
    let cache = place.cache();
    let of_node = ["--cache-dir", cache.to_str().unwrap()];
    let check = |dir: &Path, more: &[&str]| bench(dir, &[&["--checksum", "--chunk", "64KiB"], more, &of_node].concat());
    let node = place.node(&[]);
    node.client(&["warm", "data"]).good();
    let mounted = place.mount(&[]);
    for (dir, files) in [(place.mnt(), 3), (place.mnt().join("a"), 2)] {
        let told = json(check(&dir, &["--json"]));
        assert_eq!(told["checked_files"], files, "{told}");
        assert_eq!(told["checked_reads"], told["dir"]["ops"], "{told}");
    }
    // The mount goes on giving what was cached: the node has not looked at the origin again.
    let other = [bytes(1, 1_000_000), bytes(7, 1), bytes(1, 3_000_000).split_off(1_000_001)].concat();
    place.put("a/one", &other);
    let said = check(&place.mnt(), &[]).bad();
    assert!(said.contains("a/one") && said.contains("between 983040 and 1048576"), "{said}");
    mounted.unmount();
}

#[test]
fn a_miss_at_the_node_fails_a_bench_of_what_is_cached() {
    let data = Data::new();
    let said = bench(data.dir.path(), &["--cached"]).bad();
    assert!(said.contains("--cached") && said.contains("is not in a mount of Fodder"), "{said}");
    if !can_mount() {
        return;
    }
    let place = Place::new();
    (0..20).for_each(|file| place.put(&format!("{file}"), &bytes(file, 50_000)));
    let node = place.node(&[]);
    let mounted = place.mount(&[]);
    let measure = |addr: &str| bench(&place.mnt(), &["--small", "--cached", "--json", "--addr", addr]);
    let cold = measure(node.line("grpc"));
    assert_eq!(cold.code, 1);
    assert!(cold.stderr.contains("not answered from this node"), "{}", cold.stderr);
    let told: Value = serde_json::from_slice(&cold.stdout).unwrap();
    assert!(told["missed"].as_u64().unwrap() >= 1, "{told}");
    node.client(&["warm", "data"]).good();
    let told = json(measure(node.line("grpc")));
    assert_eq!(told["missed"], 0, "{told}");
    // Another node's counts say nothing of this mount.
    let cache = tempfile::tempdir().unwrap();
    let other = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let said = measure(other.line("grpc")).bad();
    assert!(said.contains("data") && said.contains("does not have dataset"), "{said}");
    assert!(measure("127.0.0.1:1").bad().contains("--cached"));
    mounted.unmount();
}

#[test]
fn a_directory_that_cannot_be_measured_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let said = bench(empty.path(), &[]).bad();
    assert!(said.contains(empty.path().to_str().unwrap()) && said.contains("no file"), "{said}");
    assert!(bench(Path::new("/no/such/place"), &[]).bad().contains("/no/such/place"));
    let data = Data::new();
    let said = bench(data.dir.path(), &["--duration", "0s"]).bad();
    assert!(said.contains("nothing") && said.contains("longer --duration"), "{said}");
    for (args, expected) in
        [(&["--chunk", "0"][..], "1 byte"), (&["--duration", "soon"], "30s"), (&["--readers", "0"], "1..")]
    {
        let said = run(fodder().args(["bench", "read", "--dir", "/tmp"]).args(args)).bad();
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}
