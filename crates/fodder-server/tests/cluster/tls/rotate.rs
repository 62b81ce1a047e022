//! Certificates are replaced while readers read: step by step from one authority to another.

use super::{BYTES, config};
use crate::world::{One, PATIENT, World, introduce};
use fodder_authority::Authority;
use fodder_server::cluster::{Tls, Trust};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A node that keeps next to nothing, so that what others own is asked for again and again.
async fn node(world: &World, id: u128, dir: PathBuf, authority: &Authority) -> (One, Arc<Tls>) {
    let files = authority.issue(&format!("node-{id}"), &["127.0.0.1"]).write(&dir, authority.pem());
    let tls = Tls::read(&config(files)).unwrap();
    tokio::spawn(Arc::clone(&tls).follow());
    let trust = Trust { token: None, tls: Some(Arc::clone(&tls)) };
    (world.node_trusting(id, 2 << 20, trust, PATIENT).await, tls)
}

/// Waits until nodes have got more from each other, over connections that may be new.
async fn go_on(nodes: &[One], reads: &AtomicU64) {
    let taken = || nodes.iter().map(|one| one.dataset.stats().bytes_from_peers).collect::<Vec<_>>();
    let (before, goal, deadline) = (taken(), reads.load(SeqCst) + 200, Instant::now() + Duration::from_secs(60));
    while reads.load(SeqCst) < goal || taken().iter().zip(&before).any(|(now, before)| now <= before) {
        assert!(Instant::now() < deadline, "{before:?} bytes were taken, now {:?}", taken());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_authorities_are_replaced_under_load_and_no_read_fails() {
    let world = Arc::new(World::new(120, BYTES).await);
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let dir = TempDir::new().unwrap();
    let place = |id: u128| dir.path().join(id.to_string());
    let (a, tls_a) = node(&world, 1, place(1), &old).await;
    let (b, tls_b) = node(&world, 2, place(2), &old).await;
    let nodes = [a, b];
    introduce(&nodes.iter().collect::<Vec<_>>()).await;
    for one in &nodes {
        world.read_all(one).await;
    }
    world.fetched();
    let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut readers = Vec::new();
    for one in &nodes {
        let (world, stop, reads, dataset) =
            (Arc::clone(&world), Arc::clone(&stop), Arc::clone(&reads), Arc::clone(&one.dataset));
        readers.push(tokio::spawn(async move {
            while !stop.load(SeqCst) {
                for (path, bytes) in &world.objects {
                    let object = dataset.snapshot().lookup(path).unwrap();
                    let reply = dataset.read(object, 0..bytes.len() as u64).await.unwrap();
                    assert!(reply.segments.concat() == *bytes, "{path} has the wrong bytes");
                    reads.fetch_add(1, SeqCst);
                }
            }
        }));
    }
    go_on(&nodes, &reads).await;
    let both = format!("{}{}", old.pem(), new.pem());
    let [first, second] =
        [1, 2].map(|id| (old.issue(&format!("node-{id}"), &[]), new.issue(&format!("node-{id}"), &[]), id));
    // Whom to believe grows, then what is shown changes, then whom to believe shrinks; each node at another time.
    type Step<'a> = (bool, &'a str);
    let steps: [Step<'_>; 3] = [(false, &both), (true, &both), (true, new.pem())];
    for (is_new, ca) in steps {
        for ((was, is, id), tls) in [(&first, &tls_a), (&second, &tls_b)] {
            let before = tls.generation();
            let issued = if is_new { is } else { was };
            issued.write(&place(*id), ca);
            let deadline = Instant::now() + Duration::from_secs(60);
            while tls.generation() == before {
                assert!(Instant::now() < deadline, "new files were not taken up");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            go_on(&nodes, &reads).await;
        }
    }
    // What is of no use is not used.
    std::fs::write(place(1).join("node.key"), "half a key").unwrap();
    assert!(tls_a.reload().unwrap_err().to_string().contains("no private key"));
    go_on(&nodes, &reads).await;
    stop.store(true, SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    for one in nodes {
        assert!(one.peering.status().iter().all(|peer| peer.failed == 0), "{:?}", one.peering.status());
        one.end().await;
    }
}
