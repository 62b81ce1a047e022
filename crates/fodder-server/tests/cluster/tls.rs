//! Nodes with certificates: they share, nobody overhears it, a stranger gets nothing in or out, and certificates are
//! replaced while everything goes on.

mod proxy;
mod rotate;
mod stranger;

use crate::world::{One, PATIENT, World, introduce};
use fodder_authority::{Authority, Files, Issued};
use fodder_server::cluster::{Tls, TlsConfig, Token, Trust};
use proxy::Proxy;
use std::sync::Arc;
use tempfile::TempDir;

const BYTES: usize = 64 << 10;

/// What a node with this certificate and these authorities shows and asks for.
fn tls(issued: &Issued, ca: &str, dir: &TempDir) -> Arc<Tls> {
    Tls::read(&config(issued.write(dir.path(), ca))).unwrap()
}

fn config(Files { cert, key, ca }: Files) -> TlsConfig {
    TlsConfig { cert, key, ca }
}

/// A node with a certificate, in whose directory the certificate is.
async fn node(world: &World, id: u128, issued: &Issued, ca: &str) -> (One, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let trust = Trust { token: None, tls: Some(tls(issued, ca, &dir)) };
    (world.node_trusting(id, 1 << 30, trust, PATIENT).await, dir)
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_certificates_share_and_nobody_overhears_it() {
    let world = World::new(20, BYTES).await;
    let authority = Authority::new("cluster");
    for with_tls in [false, true] {
        let trust = |name: &str| {
            let (dir, issued) = (tempfile::tempdir().unwrap(), authority.issue(name, &["127.0.0.1"]));
            let token = Some(Token::new("the word that all of them know").unwrap());
            let tls = with_tls.then(|| tls(&issued, authority.pem(), &dir));
            Trust { token, tls }
        };
        let mut nodes = Vec::new();
        for id in [1, 2] {
            nodes.push(world.node_trusting(id, 1 << 30, trust(&format!("node-{id}")), PATIENT).await);
        }
        let proxies: Vec<_> = nodes.iter().map(|one| Proxy::start(&one.me.address)).collect();
        for (one, proxy) in nodes.iter_mut().zip(&proxies) {
            one.me.address = proxy.address.clone();
        }
        introduce(&nodes.iter().collect::<Vec<_>>()).await;
        world.fetched();
        for one in &nodes {
            world.read_all(one).await;
        }
        assert!(world.fetched().values().all(|count| *count == 1), "each object left the origin once");
        assert!(nodes.iter().all(|one| one.dataset.stats().bytes_from_peers > 0));
        let overheard = |text: &[u8]| proxies.iter().any(|proxy| proxy.overheard(text));
        let is_open = world.objects.values().any(|bytes| overheard(&bytes[BYTES / 2..BYTES / 2 + 32]));
        assert_eq!((is_open, overheard(b"0000.jpg")), (!with_tls, !with_tls), "bytes, and what was asked for");
        for one in nodes {
            one.end().await;
        }
    }
}
