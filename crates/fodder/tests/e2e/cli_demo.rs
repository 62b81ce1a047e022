//! The demonstration, in small.

use crate::program::{fodder, run};

#[test]
fn the_demo_reads_right_bytes_prints_its_table_and_leaves_nothing_behind() {
    let temp = tempfile::tempdir().unwrap();
    let demo = run(fodder()
        .args(["demo", "--images", "24", "--epochs", "2", "--throttle", "latency=2ms"])
        .env("TMPDIR", temp.path()))
    .good();
    let text = demo.text();
    for expected in ["samples/s", "through Fodder", "curl http://127.0.0.1:", "fodder_", "All 96 reads"] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "{text}");
}
