//! `fodder bench read`: it measures any directory, and notices what must not be.

use crate::program::{Data, Ended, Node, fodder, run};
use serde_json::Value;
use std::{fs, path::Path};

fn bench(dir: &Path, args: &[&str]) -> Ended {
    let mut command = fodder();
    command.args(["bench", "read", "--readers", "3", "--duration", "200ms", "--dir"]).arg(dir).args(args);
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
    }
    let text = bench(one.dir.path(), &["--against", two.path()]).good().text();
    assert!(text.contains("GB/s") && text.contains("ratio "), "{text}");
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
        assert!(said.contains("cat/1.png") && said.contains("1234"), "{flag}: {said}");
    }
    let said = bench(one.dir.path(), &["--checksum"]).bad();
    assert!(said.contains("--against") && said.contains("--origin"), "{said}");
}

#[test]
fn a_miss_at_the_node_fails_a_bench_of_what_is_cached() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let told = json(bench(data.dir.path(), &["--cached", "--json", "--addr", node.line("grpc")]));
    assert_eq!(told["missed"], 0, "nobody asked the node: {told}");
    let said = bench(data.dir.path(), &["--cached", "--addr", "127.0.0.1:1"]).bad();
    assert!(said.contains("--cached"), "{said}");
    let addr = node.line("grpc");
    let missed = std::thread::scope(|scope| {
        let measured = scope.spawn(|| {
            let mut command = fodder();
            command.args(["bench", "read", "--cached", "--json", "--readers", "1", "--duration", "1s"]);
            run(command.args(["--dir", data.path(), "--addr", addr]))
        });
        // Whenever the run began, one of these misses falls into it.
        while !measured.is_finished() {
            node.client(&["evict", "pets"]).good();
            node.client(&["get", "pets", "0"]).good();
        }
        measured.join().unwrap()
    });
    assert_eq!(missed.code, 1);
    assert!(missed.stderr.contains("not answered from the cache"), "{}", missed.stderr);
}

#[test]
fn a_directory_that_cannot_be_measured_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let said = bench(empty.path(), &[]).bad();
    assert!(said.contains(empty.path().to_str().unwrap()) && said.contains("no file"), "{said}");
    assert!(bench(Path::new("/no/such/place"), &[]).bad().contains("/no/such/place"));
    for (args, expected) in
        [(&["--chunk", "0"][..], "1 byte"), (&["--duration", "soon"], "30s"), (&["--readers", "0"], "1..")]
    {
        let said = run(fodder().args(["bench", "read", "--dir", "/tmp"]).args(args)).bad();
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}
