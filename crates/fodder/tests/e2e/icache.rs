//! iCache's interface as a client in another language speaks it: Python's grpcio against a real node.

use crate::program::{Data, Node};
use fodder_testing::skip;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Python with grpcio, in the virtual environment that the tests are given or the repository's own.
pub(crate) fn python() -> Option<PathBuf> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.venv");
    let venv = std::env::var_os("FODDER_TEST_VENV").map_or_else(|| PathBuf::from(own), PathBuf::from);
    let python = venv.join("bin/python");
    let has_grpc = || Command::new(&python).args(["-c", "import grpc, grpc_tools"]).output();
    let is_there = python.exists() && has_grpc().is_ok_and(|output| output.status.success());
    is_there.then_some(python)
}

#[test]
fn icaches_client_in_python_trains_by_importance_and_takes_any_sample() {
    let Some(python) = python() else {
        skip!("no grpcio in .venv (tools/setup --venv), or in $FODDER_TEST_VENV");
    };
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let file = cache.path().join("dcserver.yaml");
    let text = format!(
        "node: 127.0.0.1\nrestport: 0\nrpcport: 0\ncache_ratio: 0.5\ncache_type: isa\ndcserver_data_path: {}\n",
        data.path()
    );
    std::fs::write(&file, text).unwrap();
    let node = Node::start(&cache.path().join("cache"), &["--config", file.to_str().unwrap()]);
    let e2e = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e");
    let output = Command::new(python)
        .arg(e2e.join("icache_client.py"))
        .arg(e2e.join("../../../../proto"))
        .args([node.line("grpc"), node.line("rest")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", node.log());
    let saw: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();

    let samples = data.files.len();
    let count = |key: &str| saw[key].as_u64().unwrap() as usize;
    assert_eq!(count("strict") + count("substituted"), 2 * samples, "{saw}");
    assert!(count("strict") >= samples, "every important sample is answered with itself: {saw}");
    // Any sample is each sample once an epoch.
    let any: Vec<_> = saw["any"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as usize).collect();
    for epoch in any.chunks(samples) {
        let mut ids = epoch.to_vec();
        ids.sort_unstable();
        assert_eq!(ids, (0..samples).collect::<Vec<_>>(), "{saw}");
    }
    // The job that introduced itself has left; those that stand for the client's requests are there.
    let jobs: serde_json::Value = serde_json::from_slice(&node.client(&["jobs", "--json"]).good().stdout).unwrap();
    let names: Vec<_> = jobs.as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"icache") && names.contains(&"icache-any"), "{names:?}");
    assert!(!names.contains(&saw["job"].as_str().unwrap()), "{names:?}");
}
