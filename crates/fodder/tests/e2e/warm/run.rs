//! What it brings in, what it says, and how it ends.

use crate::program::{Data, Ended, Node, fodder, run, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

/// The last line of a command that prints JSON lines.
fn last(ended: &Ended) -> Value {
    serde_json::from_str(ended.text().lines().last().unwrap()).unwrap()
}

fn total(data: &Data) -> usize {
    data.files.iter().map(|(_, bytes)| bytes.len()).sum()
}

#[test]
fn warming_brings_everything_in_and_again_finds_it_there() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let text = node.client(&["warm", "pets", "--recursive", "--resume"]).good().text();
    assert!(text.starts_with("complete: 8 files"), "{text}");
    let again = last(&node.client(&["warm", "pets", "--json"]).good());
    assert_eq!((&again["event"], &again["complete"]), (&"finished".into(), &true.into()), "{again}");
    assert_eq!((&again["files_skipped"], &again["bytes_fetched"]), (&8.into(), &0.into()), "{again}");
    for (path, bytes) in &data.files {
        assert_eq!(&node.client(&["get", "pets", path]).good().stdout, bytes);
    }
    let stats = &node.status()["datasets"][0]["stats"];
    assert_eq!(stats["bytes_from_origin"], total(&data), "each object came once: {stats}");
    assert_eq!(stats["origin_requests"], data.files.len(), "{stats}");
}

#[test]
fn a_part_of_a_dataset_is_warmed_by_its_path() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    for (target, files) in [("pets/cat", 4), ("pets/dog/", 4), ("pets/cat/0.png", 1), ("pets/", 8)] {
        let told = last(&node.client(&["warm", target, "--json"]).good());
        assert_eq!(told["files"], files, "{target}: {told}");
    }
}

#[test]
fn wrong_names_are_told_beside_right_ones() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    for (args, expected) in [
        (&["warm", "pest"][..], "pets"),
        (&["warm", "pets/cow"], "cow"),
        (&["warm", "pets", "--from-list", "/no/such/list"], "/no/such/list"),
        (&["warm", "pets", "--max-size", "lots"], "size"),
        (&["warm", "pets", "--bandwidth", "fast"], "500MB/s"),
        (&["warm", "pets", "--workers", "0"], "1..=256"),
    ] {
        let ended = node.client(args);
        assert!(ended.code == 1 || (ended.code == 2 && ended.stderr.contains("error: invalid")), "{}", ended.code);
        let said = ended.bad();
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    assert_eq!(node.client(&["warm", "pest"]).code, 1);
}

#[test]
fn what_does_not_fit_is_told_and_the_status_is_2() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    for _ in 0..2 {
        let ended = node.client(&["warm", "pets", "--max-size", "400KB", "--json"]);
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        let told = last(&ended);
        assert!(told["bytes_there"].as_u64().unwrap() <= 400_000, "{told}");
        assert_eq!(told["files_there"].as_u64().unwrap() + told["files_too_large"].as_u64().unwrap(), 8, "{told}");
    }
    let text = node.client(&["warm", "pets", "--max-size", "400KB"]).text();
    assert!(text.starts_with("incomplete: ") && text.contains("--max-size"), "{text}");
}

#[test]
fn a_full_cache_under_minio_is_said_to_be_full() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    fs::write(data.dir.path().join("big.bin"), vec![7; 40 << 20]).unwrap();
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets", "--cache-size", "20MiB"]);
    let ended = node.client(&["warm", "pets"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let text = ended.text();
    assert!(text.contains("1 file is not kept") && text.contains("minio"), "{text}");
}

#[test]
fn a_list_names_what_to_bring_in_and_its_junk_is_named_by_line() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let list = cache.path().join("files.txt");
    let list_arg = list.to_str().unwrap();
    fs::write(&list, "# two of them\ndog/3.png\n\ncat/1.png\n").unwrap();
    let told = last(&node.client(&["warm", "pets", "--from-list", list_arg, "--json"]).good());
    assert_eq!((&told["files"], &told["complete"]), (&2.into(), &true.into()), "{told}");
    fs::write(&list, "dog/3.png\ndog/cow.png\ndog/2.png\n../../etc/passwd\n").unwrap();
    let ended = node.client(&["warm", "pets", "--from-list", list_arg]);
    assert_eq!(ended.code, 2);
    let text = ended.text();
    for line in ["files.txt:2: dog/cow.png", "files.txt:4: ../../etc/passwd"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("2 of 2 files"), "what is right came all the same: {text}");
    fs::write(&list, b"dog/3.png\n\xff\xfe\n").unwrap();
    let ended = node.client(&["warm", "pets", "--from-list", list_arg]);
    assert_eq!(ended.code, 2, "a name may be any bytes, and this one is nobody's");
    assert!(ended.text().contains("files.txt:2: "));
    fs::write(&list, b"dog/3.png\na\0b\n").unwrap();
    let ended = node.client(&["warm", "pets", "--from-list", list_arg]);
    assert_eq!(ended.code, 1);
    assert!(ended.bad().contains("files.txt:2: "));
}

#[test]
fn an_interrupted_warming_ends_cleanly_and_goes_on_when_it_is_run_again() {
    for signal in [Signal::INT, Signal::TERM] {
        interrupt(signal);
    }
}

fn interrupt(signal: Signal) {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let slow = format!("throttled:latency=1ms,bandwidth=400KB/s:{}", data.path());
    let node = Node::start(cache.path(), &[&slow, "--name", "pets"]);
    let mut warm: Command = fodder();
    warm.args(["warm", "pets", "--json", "--workers", "1", "--addr", node.line("grpc")]);
    let mut child = warm.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let there = |line: &Value| line["files_there"].as_u64().unwrap();
    loop {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if there(&line) >= 1 {
            break;
        }
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
    let stopped: Value = serde_json::from_str(&lines.last().unwrap().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert_eq!((&stopped["event"], there(&stopped) < 8), (&"stopped".into(), true), "{stopped}");
    wait_for("the node to stop fetching", || node.status()["memory"]["used_bytes"] == 0);
    let again = last(&node.client(&["warm", "pets", "--json"]).good());
    assert!(again["files_skipped"].as_u64().unwrap() >= there(&stopped), "{again}");
    assert_eq!(again["files_there"], 8);
}

#[test]
fn an_origin_is_warmed_without_a_running_node_and_stays_warm() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let dir = cache.path().join("cache");
    let warm = || run(fodder().args(["warm", data.path(), "--cache-size", "32MiB", "--json", "--cache-dir"]).arg(&dir));
    let told = last(&warm().good());
    assert_eq!((&told["files_there"], &told["files_skipped"]), (&8.into(), &0.into()), "{told}");
    let status = run(fodder().args(["status", "--json", "--cache-dir"]).arg(&dir)).good();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["tiers"][0]["quota_bytes"], 32 << 20, "{status}");
    let process = format!("/proc/{}", status["pid"]);
    wait_for("the node to end by itself", || !std::path::Path::new(&process).exists());
    assert_eq!(last(&warm().good())["files_skipped"], 8);
}
