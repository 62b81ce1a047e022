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

/// What the last line says of the whole run fits together.
fn the_rate_is_the_average(last: &Value) {
    let number = |name: &str| last[name].as_f64().unwrap();
    let fetched = number("bytes_per_second") * number("elapsed_s");
    assert!((fetched / number("bytes_fetched") - 1.0).abs() < 0.01, "{last}");
    assert_eq!(last["eta_ms"], Value::Null, "{last}");
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
    for (args, code, expected) in [
        (&["warm", "pest"][..], 1, "pets"),
        (&["warm", "pets/cow"], 1, "cow"),
        (&["warm", "pets", "--from-list", "/no/such/list"], 1, "/no/such/list"),
        (&["warm", "pets", "--max-size", "lots"], 2, "size"),
        (&["warm", "pets", "--bandwidth", "fast"], 2, "500MB/s"),
        (&["warm", "pets", "--workers", "0"], 2, "1..=256"),
        (&["warm", "pets", "--bandwith", "1MB/s"], 2, "--bandwidth"),
        (&["warm"], 2, "Usage: fodder warm"),
    ] {
        let ended = node.client(args);
        assert_eq!(ended.code, code, "3 would mean that something is missing: {args:?}");
        let said = ended.bad();
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn where_nothing_is_the_name_is_to_be_checked_and_the_status_is_1() {
    let (empty, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let origin = empty.path().to_str().unwrap();
    let node = Node::start(cache.path(), &[origin, "--name", "pets"]);
    for target in ["pets", origin] {
        let ended = run(fodder().args(["warm", target, "--cache-dir"]).arg(cache.path()));
        assert_eq!(ended.code, 1, "{}", ended.text());
        let said = ended.bad();
        assert!(said.contains("nothing to fetch") && said.contains(origin) && said.contains("fodder index"), "{said}");
    }
    fs::write(empty.path().join("cat.png"), b"cat").unwrap();
    node.client(&["index", "pets"]).good();
    assert!(node.client(&["warm", "pets"]).good().text().starts_with("complete: 1 file,"));
    let text = node.client(&["warm", "pets", "--from-list", "/dev/null"]).good().text();
    assert!(text.starts_with("complete: 0 files"), "nothing was listed, and nothing is missing: {text}");
}

#[test]
fn what_does_not_fit_is_told_and_the_status_is_3() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    for _ in 0..2 {
        let ended = node.client(&["warm", "pets", "--max-size", "400KB", "--json"]);
        assert_eq!(ended.code, 3, "{}", ended.stderr);
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
    assert_eq!(ended.code, 3, "{}", ended.stderr);
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
    assert_eq!(ended.code, 3);
    let text = ended.text();
    for line in ["files.txt:2: dog/cow.png", "files.txt:4: ../../etc/passwd"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("2 of 2 files"), "what is right came all the same: {text}");
    fs::write(&list, b"dog/3.png\n\xff\xfe\n").unwrap();
    let ended = node.client(&["warm", "pets", "--from-list", list_arg]);
    assert_eq!(ended.code, 3, "a name may be any bytes, and this one is nobody's");
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
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!((&stopped["event"], there(&stopped) < 8), (&"stopped".into(), true), "{stopped}");
    assert!(stopped["bytes_per_second"].as_f64().unwrap() > 0.0, "{stopped}");
    wait_for("the node to stop fetching", || node.status()["memory"]["used_bytes"] == 0);
    let again = last(&node.client(&["warm", "pets", "--json"]).good());
    assert!(again["files_skipped"].as_u64().unwrap() >= there(&stopped), "{again}");
    assert_eq!(again["files_there"], 8);
}

#[test]
fn what_is_said_at_a_stop_is_what_a_second_run_finds() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(data.path().join("large"), vec![7; 64 << 20]).unwrap();
    let slow = format!("throttled:latency=1ms,bandwidth=8MB/s:{}", data.path().display());
    let node = Node::start(cache.path(), &[&slow, "--name", "pets"]);
    let mut warm: Command = fodder();
    warm.args(["warm", "pets", "--json", "--workers", "4", "--addr", node.line("grpc")]);
    let child = warm.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("something to be cached", || node.status()["datasets"][0]["cached_bytes"].as_u64().unwrap() > 4 << 20);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let stopped: Value = serde_json::from_slice(output.stdout.split(|b| *b == b'\n').rev().nth(1).unwrap()).unwrap();
    assert_eq!((output.status.code(), &stopped["event"]), (Some(3), &"stopped".into()), "{stopped}");
    assert!(stopped["bytes_there"].as_u64().unwrap() >= 4 << 20, "{stopped}");
    let again = last(&node.client(&["warm", "pets", "--json", "--max-size", "0"]));
    assert!(again["bytes_skipped"].as_u64() >= stopped["bytes_there"].as_u64(), "{again}");
}

#[test]
fn a_path_here_that_was_taken_for_a_dataset_comes_with_how_to_write_it() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let warm = |target: &str| {
        run(fodder().current_dir(data.dir.path()).args(["warm", target, "--cache-dir"]).arg(cache.path()))
    };
    assert!(warm("cat").bad().contains("write ./cat"), "no node runs");
    let _node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let said = warm("cat/0.png").bad();
    assert!(said.contains("no dataset \"cat\"") && said.contains("write ./cat/0.png"), "{said}");
    assert!(!warm("cow/0.png").bad().contains("./cow"), "there is none");
}

#[test]
fn a_public_bucket_is_warmed_and_read_without_credentials_as_the_error_advises() {
    let (cache, server) = (tempfile::tempdir().unwrap(), tokio::runtime::Runtime::new().unwrap());
    let origin = server.block_on(fodder_s3_server::Server::start("127.0.0.1:0")).unwrap();
    origin.put("cat.png", "cat");
    let uri = format!("s3://bucket?endpoint={}", origin.endpoint());
    let with = |args: &[&str]| {
        let mut command = fodder();
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.env("HOME", cache.path()).env("AWS_EC2_METADATA_DISABLED", "true");
        run(command.args(args).arg("--cache-dir").arg(cache.path()))
    };
    let said = with(&["warm", &uri]).bad();
    assert!(said.contains("--anonymous"), "{said}");
    assert!(with(&["warm", &uri, "--anonymous"]).good().text().starts_with("complete: 1 file,"));
    assert_eq!(with(&["get", &uri, "cat.png", "--anonymous"]).good().stdout, b"cat");
}

#[test]
fn an_origin_is_warmed_without_a_running_node_and_stays_warm() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let dir = cache.path().join("cache");
    let warm = || run(fodder().args(["warm", data.path(), "--cache-size", "32MiB", "--json", "--cache-dir"]).arg(&dir));
    let told = last(&warm().good());
    assert_eq!((&told["files_there"], &told["files_skipped"]), (&8.into(), &0.into()), "{told}");
    the_rate_is_the_average(&told);
    let status = run(fodder().args(["status", "--json", "--cache-dir"]).arg(&dir)).good();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["tiers"][0]["quota_bytes"], 32 << 20, "{status}");
    let process = format!("/proc/{}", status["pid"]);
    wait_for("the node to end by itself", || !std::path::Path::new(&process).exists());
    assert_eq!(last(&warm().good())["files_skipped"], 8);
}
