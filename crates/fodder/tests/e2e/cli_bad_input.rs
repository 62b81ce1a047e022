//! Wrong things typed at the program: each gets a sentence that says what to do.

use crate::program::{Data, Node, fodder, run};
use fodder_testing::skip;
use std::process::Command;

#[test]
fn an_origin_that_is_missing_is_named() {
    let cache = tempfile::tempdir().unwrap();
    let Err(ended) = Node::try_start(cache.path(), &["/no/such/place"]) else { panic!("there is no such place") };
    assert_eq!(ended.code, 1);
    let said = ended.bad();
    assert!(said.contains("/no/such/place"), "{said}");
}

#[test]
fn no_node_says_what_was_tried() {
    let home = tempfile::tempdir().unwrap();
    let said = run(fodder().arg("status").env("FODDER_CACHE_DIR", home.path())).bad();
    assert!(said.contains("fodder.sock: the socket does not exist"), "{said}");
    assert!(said.contains("fodder serve ORIGIN"), "{said}");
    let said = run(fodder().args(["status", "--addr", "127.0.0.1:1"])).bad();
    assert!(said.contains("127.0.0.1:1") && said.contains("refused"), "{said}");
    let said = run(fodder().args(["status", "--addr", "nonsense"])).bad();
    assert!(said.contains("HOST:PORT"), "{said}");
}

#[test]
fn what_does_not_exist_is_named_beside_what_does() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    for (args, expected) in [
        (&["get", "pest", "0"][..], "pets"),
        (&["get", "pets", "8"], "8"),
        (&["get", "pets", "99999999999999999999"], "99999999999999999999"),
        (&["get", "pets", "cat/none.png"], "cat/none.png"),
        (&["get", "pets", "../../etc/passwd"], "../../etc/passwd"),
        (&["get", "pets", "/etc/passwd"], "/etc/passwd"),
        (&["get", "pets", "0", "--offset", "1GiB"], "50000"),
        (&["evict", "pest"], "pets"),
        (&["evict", "pets/cat"], "--prefix cat"),
        (&["verify", "pest"], "pets"),
        (&["index", "pest"], "pets"),
        (&["datasets", "remove", "pest"], "pets"),
        (&["datasets", "add", "/no/such/place"], "/no/such/place"),
        (&["datasets", "add", "s4://bucket/x"], "s4"),
        (&["datasets", "add", "/tmp", "--name", "a/b"], "letters, digits"),
    ] {
        let said = node.client(args).bad();
        assert!(said.starts_with("error: ") && said.contains(expected), "{args:?}: {said}");
        assert!(!said.contains("internal error"), "{args:?}: {said}");
    }
}

#[test]
fn a_wrong_flag_says_how_to_write_it() {
    for (args, expected) in [
        (&["serve", "--cache-size", "lots"][..], "20GiB"),
        (&["serve", "--cache-size", "0%"], "at most 100%"),
        (&["serve", "--tier", "/x"], "PATH:MEDIUM:SIZE"),
        (&["serve", "--rest", "18283"], "127.0.0.1:18283"),
        (&["serve", "/x", "--layout", "folders"], "files"),
        (&["serve", "/x", "--policy", "lur"], "lru"),
        (&["serve", "--name", "x"], "<ORIGIN>"),
        (&["serve", "--until-idle=soon"], "until-idle"),
        (&["get", "pets"], "ID|PATH"),
        (&["get", "pets", "0", "--offset", "far"], "size"),
        (&["sevre"], "serve"),
        (&["completions", "basic"], "bash"),
    ] {
        let ended = run(fodder().args(args));
        assert_eq!(ended.code, 2, "{args:?}");
        let said = ended.bad();
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn an_empty_dataset_and_an_empty_file_are_served_as_such() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path().to_str().unwrap(), "--name", "empty"]);
    let said = node.client(&["get", "empty", "0"]).bad();
    assert!(said.contains('0'), "{said}");
    std::fs::write(data.path().join("nothing"), b"").unwrap();
    node.client(&["index", "empty"]).good();
    assert_eq!(node.client(&["get", "empty", "nothing"]).good().stdout, b"");
    assert_eq!(node.client(&["get", "empty", "0"]).good().stdout, b"");
}

#[test]
fn a_socket_of_another_user_is_not_called_missing() {
    if !rustix::process::geteuid().is_root() {
        skip!("running a command as another user needs root");
    }
    let (data, home) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(&home.path().join("cache"), &[data.path()]);
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_fodder"), "status"]);
    let said = run(other.args(["--addr", node.line("socket")])).bad();
    assert!(said.contains("denied") && !said.contains("does not exist"), "{said}");
}

#[test]
fn binary_data_is_not_written_to_a_terminal() {
    if Command::new("script").arg("--version").output().is_err() {
        skip!("script (package bsdutils) is not installed");
    }
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let on_terminal = |command: &str| {
        let line = format!("{} get pets 0 --addr {}{command}", env!("CARGO_BIN_EXE_fodder"), node.line("grpc"));
        run(Command::new("script").args(["--quiet", "--return", "--command", &line, "/dev/null"]))
    };
    let said = on_terminal("").text();
    assert!(said.contains("binary data") && said.contains("> FILE"), "{said}");
    let count = on_terminal(" | wc -c").text();
    assert_eq!(count.trim(), data.files[0].1.len().to_string());
}
