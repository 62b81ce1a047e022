//! Nodes with certificates, as real processes: they find each other, share, change their certificates while they run, and
//! let nobody in who has none.

use crate::{
    links::network::{Host, Network, can_cut_links},
    program::{Data, Node, ask_rest, fodder, run, wait_for},
};
use fodder_api::{
    Address, Client, Timeouts,
    frames::{Batch, FrameClient},
};
use fodder_authority::{Authority, Issued};
use fodder_testing::skip;
use rustix::process::Signal;
use std::{path::Path, process::Command, time::Duration};
use tempfile::TempDir;

/// The flags of a node with this certificate, which believes these authorities.
fn flags(dir: &Path, issued: &Issued, ca: &str) -> Vec<String> {
    let files = issued.write(dir, ca);
    let flag = |name: &str, path: &Path| [name.to_owned(), path.to_str().unwrap().to_owned()];
    [flag("--cluster-cert", &files.cert), flag("--cluster-key", &files.key), flag("--cluster-ca", &files.ca)].concat()
}

/// A node of the cluster whose certificates are in a directory of its own beside its cache.
fn start(dir: &Path, name: &str, data: &Data, certificates: &[String], join: &str) -> Node {
    let mut args = vec![data.path(), "--name", "pets", "--zone", name, "--join", join];
    args.extend(certificates.iter().map(String::as_str));
    Node::start(&dir.join(name), &args)
}

/// The zones of the members that serve.
fn serving(node: &Node) -> Vec<String> {
    let status = node.client(&["cluster", "status", "--json"]).good();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let members = status["members"].as_array().unwrap().iter().filter(|member| member["state"] == "serving");
    let mut zones: Vec<_> = members.map(|member| member["zone"].as_str().unwrap().to_owned()).collect();
    zones.sort();
    zones
}

#[track_caller]
fn all_see(nodes: &[&Node], expected: &[&str]) {
    for node in nodes {
        wait_for(&format!("{expected:?}, last seen {:?}", serving(node)), || serving(node) == expected);
    }
}

/// Reads everything over the plain port, as programs on this machine do, and says how much came from other nodes.
fn read_all(node: &Node, data: &Data) -> u64 {
    let mut client = FrameClient::connect(&node.line("grpc").parse().unwrap()).unwrap();
    let (handle, mut batch) = (client.open("pets", None).unwrap().handle, Batch::new());
    for (id, (path, bytes)) in data.files.iter().enumerate() {
        client.get_items(handle, &[id as u64], &mut batch).unwrap();
        assert!(batch.iter().next().unwrap().data.unwrap() == bytes, "{path} has the wrong bytes");
    }
    node.status()["datasets"][0]["stats"]["bytes_from_peers"].as_u64().unwrap()
}

#[test]
fn nodes_with_certificates_find_each_other_change_them_and_keep_strangers_out() {
    let (dir, data) = (TempDir::new().unwrap(), Data::new());
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let files = |name: &str| dir.path().join(format!("{name}-tls"));
    let with = |name: &str, authority: &Authority, ca: &str| flags(&files(name), &authority.issue(name, &[]), ca);
    let a = start(dir.path(), "a", &data, &with("a", &old, old.pem()), "127.0.0.1:1");
    let first = a.line("grpc").to_owned();
    let b = start(dir.path(), "b", &data, &with("b", &old, old.pem()), &first);
    let plain = start(dir.path(), "plain", &data, &[], &first);
    let other = start(dir.path(), "other", &data, &with("other", &new, new.pem()), &first);
    all_see(&[&a, &b], &["a", "b"]);
    let shared: u64 = [&a, &b].map(|node| read_all(node, &data)).iter().sum();
    assert!(shared > 0, "they share");
    assert_eq!((serving(&plain), serving(&other)), (vec!["plain".to_owned()], vec!["other".to_owned()]));
    assert_eq!((read_all(&plain, &data), read_all(&other, &data)), (0, 0));
    for (stranger, why) in [
        (&plain, "answers other nodes over TLS only"),
        (&other, "either all nodes have certificates of one authority or none has any"),
    ] {
        wait_for(&format!("the reason, in {}", stranger.log()), || stranger.log().contains(why));
    }
    // One line a minute for both, who are on one machine.
    assert!(a.log().contains("somebody who is not of this cluster was turned away"), "{}", a.log());

    // To another authority, step by step: one node is told, the others see it by themselves.
    let both = format!("{}{}", old.pem(), new.pem());
    for name in ["a", "b"] {
        with(name, &old, &both);
    }
    a.signal(Signal::HUP);
    for node in [&a, &b] {
        wait_for("new authorities to be taken up", || node.log().matches("new certificates are in use").count() == 1);
    }
    for name in ["a", "b"] {
        with(name, &new, new.pem());
    }
    for node in [&a, &b] {
        wait_for("new certificates to be taken up", || node.log().matches("new certificates are in use").count() == 2);
    }
    // Who was a stranger is none any more, and the other way round.
    all_see(&[&a, &b, &other], &["a", "b", "other"]);
    let late = start(dir.path(), "late", &data, &with("late", &old, old.pem()), &first);
    let c = start(dir.path(), "c", &data, &with("c", &new, new.pem()), &first);
    all_see(&[&a, &b, &c, &other], &["a", "b", "c", "other"]);
    assert_eq!((serving(&late), serving(&plain)), (vec!["late".to_owned()], vec!["plain".to_owned()]));
    for node in [a, b, c, other, late, plain] {
        assert_eq!(node.stop(), 0);
    }
}

#[test]
fn certificates_that_cannot_be_used_are_refused_at_the_start_with_a_sentence() {
    let dir = TempDir::new().unwrap();
    let (authority, other) = (Authority::new("cluster"), Authority::new("other"));
    let good = flags(&dir.path().join("good"), &authority.issue("a", &[]), authority.pem());
    let foreign = flags(&dir.path().join("foreign"), &authority.issue("a", &[]), other.pem());
    let gone = ["--cluster-cert", "/no/cert", "--cluster-key", "/no/key", "--cluster-ca", "/no/ca"];
    let gone: Vec<_> = gone.map(str::to_owned).into();
    let gossip = [&good[..], &["--membership".into(), "gossip".into()]].concat();
    for (flags, why) in [
        (foreign, "is not vouched for by"),
        (gone, "/no/cert"),
        (gossip, "give all nodes a token_file"),
        (good[..2].to_vec(), "--cluster-key"),
    ] {
        let mut args = vec!["--join".to_owned(), "127.0.0.1:1".to_owned()];
        args.extend(flags);
        let cache = dir.path().join("cache");
        let text = run(fodder().arg("serve").args(&args).arg("--cache-dir").arg(cache).args([
            "--cache-size",
            "64MiB",
            "--rest",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
        ]))
        .bad();
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn config_reload_takes_up_new_certificates_and_says_when_they_cannot_be_used() {
    let (dir, data) = (TempDir::new().unwrap(), Data::new());
    let (authority, other) = (Authority::new("cluster"), Authority::new("other"));
    let files = dir.path().join("tls");
    let node =
        start(dir.path(), "a", &data, &flags(&files, &authority.issue("a", &[]), authority.pem()), "127.0.0.1:1");
    let text = node.client(&["config", "reload"]).good().text();
    assert!(text.contains("nothing has changed"), "{text}");
    // One that its own authority does not vouch for, which whoever only follows the files would not be told.
    flags(&files, &other.issue("a", &[]), authority.pem());
    let text = node.client(&["config", "reload"]).bad();
    assert!(text.contains("is not vouched for by"), "{text}");
    flags(&files, &other.issue("a", &[]), other.pem());
    node.client(&["config", "reload"]).good();
    wait_for("it to be written down", || node.log().matches("new certificates are in use").count() == 1);
    let b = start(
        dir.path(),
        "b",
        &data,
        &flags(&dir.path().join("b-tls"), &other.issue("b", &[]), other.pem()),
        node.line("grpc"),
    );
    all_see(&[&node, &b], &["a", "b"]);
    for node in [node, b] {
        assert_eq!(node.stop(), 0);
    }
}

#[test]
fn the_recipe_for_an_authority_works_as_it_is_written() {
    if Command::new("openssl").arg("version").output().is_err() {
        skip!("openssl is not installed");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIGURATION.md");
    let page = std::fs::read_to_string(page).unwrap();
    let recipe = page.split_once("A small authority with `openssl`").unwrap().1;
    let recipe = recipe.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
    // Where the node is, everybody must say for himself.
    assert!(recipe.contains("IP:10.0.0.1"), "{recipe}");
    let recipe = recipe.replace("IP:10.0.0.1", "IP:127.0.0.1");
    let (dir, data) = (TempDir::new().unwrap(), Data::new());
    let made = Command::new("bash").args(["-euo", "pipefail", "-c", &recipe]).current_dir(&dir).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let files = [("--cluster-cert", "node.pem"), ("--cluster-key", "node.key"), ("--cluster-ca", "ca.pem")];
    let flags = files.map(|(flag, file)| [flag.to_owned(), dir.path().join(file).to_str().unwrap().to_owned()]);
    let a = start(dir.path(), "a", &data, &flags.concat(), "127.0.0.1:1");
    let b = start(dir.path(), "b", &data, &flags.concat(), a.line("grpc"));
    all_see(&[&a, &b], &["a", "b"]);
    assert!([&a, &b].map(|node| read_all(node, &data)).iter().sum::<u64>() > 0, "they share");
    for node in [a, b] {
        assert_eq!(node.stop(), 0);
    }
}

#[test]
fn with_certificates_another_machine_is_not_answered_in_plain_text() {
    if !can_cut_links() {
        return;
    }
    let (network, dir, data) = (Network::new(2), TempDir::new().unwrap(), Data::new());
    let (authority, ip) = (Authority::new("cluster"), Host::Node(0).ip().to_string());
    let certificates = flags(&dir.path().join("tls"), &authority.issue("a", &[&ip]), authority.pem());
    let (grpc, rest) = (format!("{ip}:18284"), format!("{ip}:18283"));
    let node = network.on(Host::Node(0), || {
        let mut args = vec![data.path(), "--name", "pets", "--grpc", &grpc, "--rest", &rest, "--join", &grpc];
        args.extend(certificates.iter().map(String::as_str));
        Node::start(&dir.path().join("a"), &args)
    });
    let address: Address = grpc.parse().unwrap();
    let timeouts = Timeouts { connect: Duration::from_secs(30), progress: Duration::from_secs(30), doubt: None };
    let frames =
        || FrameClient::connect_with(&address, timeouts).and_then(|mut client| client.open("pets", None).map(drop));
    let grpc = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Client::lazy(&address, timeouts).unwrap().members().await.map(drop) })
    };
    // On its own machine it is, also by the address that others use.
    network.on(Host::Node(0), || {
        frames().unwrap();
        grpc().unwrap();
        assert_eq!(ask_rest(&rest, "GET", "/api/v1/status").0, 200);
    });
    network.on(Host::Node(1), || {
        for error in [frames().unwrap_err(), grpc().unwrap_err()] {
            assert!(error.to_string().contains("such a node answers other machines over TLS only"), "{error}");
        }
        // REST has no TLS.
        assert_eq!(ask_rest(&rest, "GET", "/api/v1/status").0, 403);
        assert_eq!(ask_rest(&rest, "GET", "/metrics").0, 200);
    });
    assert_eq!(node.stop(), 0);
}
