//! The client commands against a running node.

use crate::program::{Data, Node, fodder, run, wait_for};
use std::{fs, io::Read, process::Stdio};

#[test]
fn get_gives_every_file_by_id_and_by_path_and_ranges_of_it() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    for _ in 0..2 {
        for (id, (path, bytes)) in data.files.iter().enumerate() {
            assert_eq!(&node.client(&["get", "pets", &id.to_string()]).good().stdout, bytes);
            assert_eq!(&node.client(&["get", "pets", path]).good().stdout, bytes);
        }
    }
    let (path, bytes) = &data.files[3];
    let part = node.client(&["get", "pets", path, "--offset", "1KiB", "--length", "100kB"]).good();
    assert_eq!(part.stdout, bytes[1024..101_024]);
    assert_eq!(node.client(&["get", "pets", path, "--length", "0"]).good().stdout, b"");
    let all = ["get", "pets", path, "--length", "1GiB"];
    assert!(node.client(&all).good().stdout == *bytes, "at most so many bytes are written");
    assert!(node.client(&["get", "pets", "3", "--offset", "1", "--length", "1GiB"]).good().stdout == bytes[1..]);
    let tail = node.client(&["get", "pets", path, "--offset", &(bytes.len() - 5).to_string()]).good();
    assert_eq!(tail.stdout, bytes[bytes.len() - 5..]);
    let stats = &node.status()["datasets"][0]["stats"];
    assert!(stats["hits_ssd"].as_u64().unwrap() > 0, "{stats}");
    assert_eq!(stats["failed"], 0, "{stats}");
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    fs::write(data.dir.path().join("big.bin"), vec![7; 8 << 20]).unwrap();
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets", "--layout", "blocks"]);
    let mut get = fodder();
    get.args(["get", "pets", "big.bin", "--addr", node.line("grpc")]);
    let mut child = get.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    assert_eq!(said, "");
}

#[test]
fn status_json_has_the_shape_that_scripts_rely_on() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets", "--policy", "lru"]);
    let status = node.status();
    let rest = status["addresses"]["rest"].as_str().unwrap();
    assert_eq!(node.line("rest"), format!("http://{rest}"));
    assert_eq!(node.line("grpc"), status["addresses"]["grpc"].as_str().unwrap());
    assert_eq!(node.line("socket"), status["addresses"]["socket"].as_str().unwrap());
    assert_eq!(status["pid"].as_u64().unwrap(), u64::from(node.child.id()));
    assert!(status["version"].is_string() && status["uptime_s"].is_u64());
    assert_eq!(status["tiers"][0]["quota_bytes"], 64 << 20);
    assert_eq!(status["tiers"][0]["health"], "ok");
    let dataset = &status["datasets"][0];
    let total: usize = data.files.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(dataset["name"], "pets");
    assert_eq!(dataset["origin"], data.path());
    assert_eq!(dataset["layout"], "files");
    assert_eq!(dataset["policy"], "lru");
    assert_eq!(dataset["items"], data.files.len());
    assert_eq!(dataset["total_bytes"], total);
    assert_eq!(dataset["stats"]["hits_ssd"], 0);
    let text = node.client(&["status"]).good().text();
    assert!(text.contains("pets") && text.contains(node.line("socket")), "{text}");
}

#[test]
fn index_tells_what_was_added_changed_and_removed() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    node.client(&["get", "pets", "cat/1.png"]).good();
    fs::write(data.dir.path().join("cat/9.png"), b"new").unwrap();
    fs::write(data.dir.path().join("cat/1.png"), b"changed").unwrap();
    fs::remove_file(data.dir.path().join("dog/0.png")).unwrap();
    let text = node.client(&["index", "pets"]).good().text();
    assert!(text.contains("pets: 1 added, 1 changed, 1 removed, 6 unchanged; 8 items"), "{text}");
    assert_eq!(node.client(&["get", "pets", "cat/1.png"]).good().stdout, b"changed");
    assert_eq!(node.client(&["get", "pets", "cat/9.png"]).good().stdout, b"new");
    node.client(&["get", "pets", "dog/0.png"]).bad();
    let text = node.client(&["index"]).good().text();
    assert!(text.contains("0 added, 0 changed, 0 removed, 8 unchanged"), "{text}");
}

#[test]
fn evict_frees_and_the_next_read_fetches_again() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    for (path, _) in &data.files {
        node.client(&["get", "pets", path]).good();
    }
    let cached = |node: &Node| node.status()["datasets"][0]["cached_pieces"].as_u64().unwrap();
    wait_for("everything to be cached", || cached(&node) == 8);
    let text = node.client(&["evict", "pets", "--prefix", "dog/"]).good().text();
    assert!(text.starts_with("evicted 4 pieces"), "{text}");
    assert_eq!(cached(&node), 4);
    node.client(&["evict", "pets"]).good();
    assert_eq!(cached(&node), 0);
    assert_eq!(node.client(&["get", "pets", "0"]).good().stdout, data.files[0].1);
}

#[test]
fn evict_explains_what_leases_and_jobs_keep() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let address: fodder_api::Address = format!("unix:{}", cache.path().join("fodder.sock").display()).parse().unwrap();
    let mut client = fodder_api::frames::FrameClient::connect(&address).unwrap();
    let handle = client.open("pets", None).unwrap().handle;
    let leased = client.lease_path(handle, &data.files[0].0).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = fodder_api::Client::connect(&address).await.unwrap();
        let request = fodder_api::v1::IntroduceRequest {
            dataset: "pets".into(),
            name: "resnet".into(),
            world: 1,
            ..Default::default()
        };
        client.introduce(request).await.unwrap();
    });
    let text = node.client(&["evict", "pets"]).good().text();
    assert!(text.contains("in 1 evicted file that a mount or a client has open; freed when"), "{text}");
    assert!(text.contains("open job: resnet; "), "{text}");
    assert_eq!(leased.read().unwrap(), data.files[0].1);
    drop((leased, client));
    wait_for("the lease to be returned", || {
        !node.client(&["evict", "pets"]).good().text().contains("evicted files that")
    });
}

#[test]
fn verify_finds_a_flipped_bit_and_says_so_with_its_status() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    for (path, _) in &data.files {
        node.client(&["get", "pets", path]).good();
    }
    wait_for("everything to be cached", || node.status()["datasets"][0]["cached_pieces"] == 8);
    let text = node.client(&["verify"]).good().text();
    assert!(text.starts_with("8 pieces good, 0 corrupt"), "{text}");
    let victim = cache_file(cache.path(), data.files[2].1.len());
    let mut bytes = fs::read(&victim).unwrap();
    bytes[1000] ^= 1;
    fs::write(&victim, bytes).unwrap();
    let ended = node.client(&["verify", "pets"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.text().starts_with("7 pieces good, 1 corrupt"), "{}", ended.text());
    assert_eq!(node.client(&["get", "pets", "2"]).good().stdout, data.files[2].1);
}

/// The cache file of an object, found by its size.
fn cache_file(dir: &std::path::Path, size: usize) -> std::path::PathBuf {
    let mut pending = vec![dir.join("tier/data")];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            } else if entry.metadata().unwrap().len() == size as u64 {
                return entry.path();
            }
        }
    }
    panic!("no cache file of {size} bytes");
}

#[test]
fn datasets_are_added_listed_removed_and_remembered() {
    let (data, more, cache) = (Data::new(), Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let added = node.client(&["datasets", "add", more.path(), "--name", "more", "--layout", "blocks"]).good().text();
    assert!(added.starts_with("added more: 8 items"), "{added}");
    let list = node.client(&["datasets", "list"]).good().text();
    assert!(list.contains("more") && list.contains("pets") && list.contains("blocks"), "{list}");
    assert_eq!(node.client(&["get", "more", "cat/0.png"]).good().stdout, data.files[0].1);
    // The same again is no mistake; the same name for something else is.
    node.client(&["datasets", "add", more.path(), "--name", "more", "--layout", "blocks"]).good();
    let error = node.client(&["datasets", "add", data.path(), "--name", "more"]).bad();
    assert!(error.contains("more"), "{error}");
    assert_eq!(node.stop(), 0);

    let node = Node::start(cache.path(), &[]);
    let list: serde_json::Value =
        serde_json::from_slice(&node.client(&["datasets", "list", "--json"]).good().stdout).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1, "what flags named is not remembered: {list}");
    assert_eq!(list[0]["name"], "more");
    assert_eq!(node.client(&["get", "more", "cat/0.png"]).good().stdout, data.files[0].1);
    node.client(&["datasets", "remove", "more"]).good();
    let error = node.client(&["get", "more", "cat/0.png"]).bad();
    assert!(error.contains("more"), "{error}");
    assert_eq!(node.stop(), 0);
    let node = Node::start(cache.path(), &[]);
    assert!(node.client(&["datasets", "list"]).good().text().contains("no datasets"));
}

#[test]
fn what_was_added_or_removed_is_remembered_once_the_command_says_so() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    for round in 0..3 {
        let node = Node::start(cache.path(), &[]);
        node.client(&["datasets", "add", data.path(), "--name", "pets"]).good();
        // Dropped is killed.
        drop(node);
        let node = Node::start(cache.path(), &[]);
        let list = node.client(&["datasets", "list"]).good().text();
        assert!(list.contains("pets"), "round {round}: {list}");
        node.client(&["datasets", "remove", "pets"]).good();
        drop(node);
        let node = Node::start(cache.path(), &[]);
        let list = node.client(&["datasets", "list"]).good().text();
        assert!(list.contains("no datasets"), "round {round}: {list}");
    }
}

#[test]
fn relative_origins_mean_the_clients_directory() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[]);
    let mut add = fodder();
    add.current_dir(data.dir.path()).args(["datasets", "add", "cat", "--addr", node.line("socket")]);
    run(&mut add).good();
    assert_eq!(node.client(&["get", "cat", "0.png"]).good().stdout, data.files[0].1);
}
