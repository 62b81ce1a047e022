//! `fodder advise` over a slow origin, and over a cache that has it all.

use crate::program::{Data, Node, wait_for};
use fodder_api::Client;
use serde_json::Value;

/// Reads every item, one after the other.
fn read_all(node: &Node, items: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&node.line("grpc").parse().unwrap()).await.unwrap();
        for id in 0..items as u64 {
            let mut answer = client.get_items("pets", None, vec![id]).await.unwrap();
            answer.next().await.unwrap().unwrap().data.unwrap();
        }
    });
}

fn advice(node: &Node) -> Value {
    serde_json::from_slice(&node.client(&["advise", "pets", "--json"]).good().stdout).unwrap()
}

#[test]
fn advise_tells_waiting_for_storage_from_a_job_that_has_all_it_needs() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let slow = format!("throttled:latency=300ms:{}", data.path());
    let node = Node::start(cache.path(), &[&slow, "--name", "pets"]);
    let text = node.client(&["advise", "pets"]).good().text();
    assert!(
        text.starts_with("Nothing of dataset \"pets\" has been read") && text.contains("`fodder advise` again"),
        "{text}"
    );
    let said = node.client(&["advise", "dogs"]).bad();
    assert!(said.contains("there is no dataset") && said.contains("pets"), "{said}");

    read_all(&node, 1);
    let text = node.client(&["advise", "pets"]).good().text();
    assert!(text.starts_with("Only ") && text.contains("too little") && text.lines().count() == 2, "{text}");

    read_all(&node, data.files.len());
    let told = advice(&node);
    assert_eq!(told["limit"], "storage", "{told}");
    let text = node.client(&["advise", "pets"]).good().text();
    assert!(text.starts_with("The job waits for storage") && text.contains("with everything cached"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("twice the bandwidth")), "{text}");
    wait_for("everything to be cached", || node.status()["datasets"][0]["cached_pieces"] == 8);
    assert_eq!(node.stop(), 0);

    let node = Node::start(cache.path(), &[&slow, "--name", "pets"]);
    read_all(&node, data.files.len());
    let told = advice(&node);
    assert_eq!((&told["limit"], &told["storage_share"]), (&Value::from("own"), &Value::from(0.0)), "{told}");
    assert_eq!(told["rows"][0]["hit_ratio"], 1.0, "{told}");
}
