//! A node's start and end: what it prints, who may hold the directory, signals.

use crate::program::{Data, Node, fodder, run};
use fodder_testing::skip;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

#[test]
fn the_start_prints_settings_and_addresses_one_a_line() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let dir = cache.path().join("new/dir");
    let node = Node::start(&dir, &[data.path(), "--policy", "lru"]);
    let words: Vec<_> = node.lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(words, ["cache-dir", "cache-size", "policy", "dataset", "rest", "grpc", "socket"]);
    assert_eq!(node.line("cache-dir"), dir.to_str().unwrap());
    assert_eq!(node.line("cache-size"), "64.0 MiB");
    assert_eq!(node.line("policy"), "lru");
    assert!(!node.line("rest").ends_with(":0") && !node.line("grpc").ends_with(":0"));
    assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::metadata(node.line("socket")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn sigterm_and_sigint_drain_and_end_with_0() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    assert_eq!(node.stop(), 0);
    let mut node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    node.signal(Signal::INT);
    assert_eq!(node.ended(), 0);
    assert_eq!(node.rest_of_stdout(), "");
}

#[test]
fn a_signal_ends_a_node_that_still_lists_its_origin() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let origin = format!("throttled:latency=600s:{}", data.path());
    let mut serve = fodder();
    serve
        .args(["serve", &origin, "--name", "late", "--rest", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cache-dir"])
        .arg(cache.path());
    let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let socket = lines.map(Result::unwrap).find(|line| line.starts_with("socket ")).unwrap();
    // The doors are open before the listing has come.
    let status = run(fodder().args(["status", "--addr", socket.trim_start_matches("socket ")])).good().text();
    assert!(status.contains("no datasets"), "{status}");
    let early = run(fodder().args(["get", "late", "0", "--addr", socket.trim_start_matches("socket ")])).bad();
    assert!(early.contains("the node is starting"), "{early}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_restart_serves_what_was_cached_without_the_origin() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    assert_eq!(node.client(&["get", "pets", "3"]).good().stdout, data.files[3].1);
    assert_eq!(node.stop(), 0);
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    assert_eq!(node.client(&["get", "pets", "3"]).good().stdout, data.files[3].1);
    assert_eq!(node.status()["datasets"][0]["stats"]["bytes_from_origin"], 0);
}

#[test]
fn a_directory_that_is_held_names_the_holder_and_what_to_do() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let Err(second) = Node::try_start(cache.path(), &[data.path(), "--name", "again"]) else { panic!("two nodes") };
    assert_eq!(second.code, 3);
    let said = second.bad();
    assert!(said.contains(&format!("pid {}", node.child.id())), "{said}");
    assert!(said.contains(node.line("socket")), "{said}");
    assert!(said.contains(&format!("fodder datasets add {} --name again", data.path())), "{said}");
    // The line it shows works.
    let line = said.lines().find(|line| line.trim().starts_with("fodder datasets add")).unwrap();
    run(fodder().args(line.split_whitespace().skip(1))).good();
    assert_eq!(node.client(&["get", "again", "0"]).good().stdout, data.files[0].1);
}

#[test]
fn a_port_in_use_says_which_and_what_to_do() {
    let cache = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--rest", "--grpc"] {
        let Err(ended) = Node::try_start(cache.path(), &[flag, &address]) else { panic!("{flag}: the port was taken") };
        let said = ended.bad();
        assert!(said.contains(&address) && said.contains("in use"), "{said}");
        assert!(said.contains(flag), "{said}");
    }
}

#[test]
fn client_commands_find_the_node_of_the_cache_directory() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let elsewhere = tempfile::tempdir().unwrap();
    let socket = elsewhere.path().join("s");
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets", "--socket", socket.to_str().unwrap()]);
    assert_eq!(node.line("socket"), socket.to_str().unwrap());
    let by_flag = run(fodder().args(["get", "pets", "0", "--cache-dir"]).arg(cache.path())).good();
    assert_eq!(by_flag.stdout, data.files[0].1);
    let by_environment = run(fodder().args(["get", "pets", "0"]).env("FODDER_CACHE_DIR", cache.path())).good();
    assert_eq!(by_environment.stdout, data.files[0].1);
    let by_address = run(fodder().args(["get", "pets", "0"]).env("FODDER_ADDR", &socket)).good();
    assert_eq!(by_address.stdout, data.files[0].1);
}

#[test]
fn a_directory_that_is_not_writable_is_named() {
    if rustix::process::geteuid().is_root() {
        skip!("root may write everywhere");
    }
    let cache = tempfile::tempdir().unwrap();
    std::fs::set_permissions(cache.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let Err(ended) = Node::try_start(&cache.path().join("below"), &[]) else { panic!("it is not writable") };
    let said = ended.bad();
    assert!(said.contains("below") && said.contains("denied"), "{said}");
}

#[test]
fn a_cache_directory_that_is_a_file_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let Err(ended) = Node::try_start(file.path(), &[]) else { panic!("it is a file") };
    let said = ended.bad();
    assert!(said.contains(file.path().to_str().unwrap()), "{said}");
}

#[test]
fn a_share_of_the_dataset_bounds_what_is_cached_of_it() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets", "--cache-size", "50%"]);
    assert_eq!(node.line("quota"), "50% for pets");
    for _ in 0..2 {
        for (path, bytes) in &data.files {
            assert_eq!(&node.client(&["get", "pets", path]).good().stdout, bytes);
        }
    }
    let dataset = &node.status()["datasets"][0];
    let (cached, total) = (dataset["cached_bytes"].as_u64().unwrap(), dataset["total_bytes"].as_u64().unwrap());
    assert!(cached > 0 && cached <= total.div_ceil(2), "{cached} of {total} bytes are cached");
    let fetched = dataset["stats"]["bytes_from_origin"].as_u64().unwrap();
    assert!(fetched > total, "what is not kept is fetched again: {dataset}");
}

#[test]
fn a_variable_that_is_empty_is_one_that_is_not_set() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let shown = |command: &mut Command| {
        let text = run(command.args(["config", "show", data.path()])).good().text();
        // The size goes by the free disk, which others use meanwhile.
        text.lines().filter(|line| !line.contains("quota:")).map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = shown(&mut fodder());
    for name in ["CACHE_DIR", "CACHE_SIZE", "TIERS", "REST", "CONFIG", "JOIN", "REPLICAS", "CLUSTER_CERT", "LOG_FORMAT"]
    {
        assert_eq!(shown(fodder().env(format!("FODDER_{name}"), "")), plain, "{name}");
    }
    let _node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let mut status = fodder();
    status.env("FODDER_ADDR", "").env("FODDER_LOG_LEVEL", "").arg("status").arg("--cache-dir").arg(cache.path());
    assert!(run(&mut status).good().text().contains("pets"));
}
