//! `fodder config` and `--config`.

use crate::program::{Data, Node, fodder, run};
use std::fs;

#[test]
fn what_config_shows_config_check_accepts() {
    let dir = tempfile::tempdir().unwrap();
    let shown = run(fodder()
        .args(["config", "show", "s3://bucket/x", "--cache-size", "20GiB", "--log-level", "debug", "--cache-dir"])
        .arg(dir.path())
        .env("FODDER_REST", "127.0.0.1:7777"))
    .good()
    .text();
    for expected in ["origin: s3://bucket/x", "quota: 20GiB", "level: debug", "rest: 127.0.0.1:7777"] {
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }
    let file = dir.path().join("shown.yaml");
    fs::write(&file, &shown).unwrap();
    assert!(run(fodder().args(["config", "check"]).arg(&file)).good().text().contains("is valid: 1 dataset"));
    assert_eq!(run(fodder().args(["config", "show", "--config"]).arg(&file)).good().text(), shown);
}

#[test]
fn secrets_are_not_shown() {
    let shown = run(fodder().args(["config", "show", "https://me:hunter2@host/x?token=hunter3"])).good().text();
    assert!(!shown.contains("hunter"), "{shown}");
    assert!(shown.contains("host/x"), "{shown}");
}

#[test]
fn a_misspelt_key_gives_line_and_suggestion() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("fodder.yaml");
    fs::write(&file, "engine:\n  orign_concurrency: 3\n").unwrap();
    for command in [&["config", "check"][..], &["serve", "--config"]] {
        let said = run(fodder().args(command).arg(&file)).bad();
        assert!(said.contains("fodder.yaml:2: ") && said.contains("did you mean `origin_concurrency`?"), "{said}");
    }
    let said = run(fodder().args(["config", "check", "/no/such/file"])).bad();
    assert!(said.contains("cannot read /no/such/file"), "{said}");
}

#[test]
fn a_node_serves_what_its_file_names() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let file = cache.path().join("fodder.yaml");
    let text = format!("datasets:\n  - name: pets\n    origin: {}\n    policy: lru\n    quota: 50%\n", data.path());
    fs::write(&file, text).unwrap();
    let node = Node::start(&cache.path().join("cache"), &["--config", file.to_str().unwrap()]);
    assert_eq!(node.client(&["get", "pets", "5"]).good().stdout, data.files[5].1);
    assert_eq!(node.status()["datasets"][0]["quota"]["share"], 0.5);
}

#[test]
fn a_node_reads_icaches_file_and_says_what_means_nothing_here() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let file = cache.path().join("dcserver.yaml");
    let text = format!(
        "node: 127.0.0.1\nrestport: 0\nrpcport: 0\ngossipport: 18282\ncache_ratio: 0.5\ncache_type: isa\n\
         dcserver_data_path: {}\netcd_nodes: 10.0.16.20\n",
        data.path()
    );
    fs::write(&file, text).unwrap();
    let node = Node::start(&cache.path().join("cache"), &["--config", file.to_str().unwrap()]);
    let name = node.status()["datasets"][0]["name"].as_str().unwrap().to_owned();
    assert_eq!(node.client(&["get", &name, "7"]).good().stdout, data.files[7].1);
    let log = node.log();
    assert!(log.contains("gossipport has no effect"), "{log}");
    assert_eq!(node.status()["datasets"][0]["policy"], "importance");
}

#[test]
fn completions_and_help_are_there() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(fodder().args(["completions", shell])).good().text().contains("datasets"));
    }
    let help = run(fodder().arg("--help")).good().text();
    assert!(help.contains("Examples:") && help.contains("fodder serve ./data"), "{help}");
    assert!(run(fodder().arg("--version")).good().text().starts_with("fodder "));
}
