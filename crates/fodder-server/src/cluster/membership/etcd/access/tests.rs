//! Against a real etcd that asks for a certificate and a user, and forgets logins within seconds.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::cluster::membership::tests::server::EtcdServer;
use fodder_api::etcd::{PutRequest, RangeRequest, kv_client::KvClient};
use fodder_authority::Authority;
use std::{path::Path, time::Instant};

const LONG: Duration = Duration::from_secs(60);

fn range() -> RangeRequest {
    RangeRequest { key: "/test/members/".into(), range_end: "/test/members0".into(), limit: 10 }
}

fn put(key: &'static str) -> PutRequest {
    PutRequest { key: key.into(), value: "a word".into(), lease: 0 }
}

async fn write(access: &Access, key: &'static str) -> Result<(), String> {
    let call = |channel, request| async { KvClient::new(channel).put(request).await };
    access.call(put(key), call).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_runs_out_is_renewed() {
    let Some(etcd) = EtcdServer::start_guarded() else { return };
    let access = Access::open(&etcd.access, &etcd.address.to_string()).await.unwrap();
    write(&access, "/test/members/1").await.unwrap();
    // Each use makes a login last longer, so it is left alone for longer than it lasts.
    let deadline = Instant::now() + LONG;
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let answer = KvClient::new(access.channel()).range(access.request(range())).await;
        match answer {
            Err(status) if is_forgotten(&status) => break,
            other => assert!(Instant::now() < deadline, "the login lasts: {other:?}"),
        }
    }
    write(&access, "/test/members/2").await.unwrap();
    let refused = write(&access, "/other/1").await.unwrap_err();
    assert!(refused.contains("permission denied"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_known_to_etcd_is_told_why_without_a_password() {
    let Some(etcd) = EtcdServer::start_guarded() else { return };
    let (good, address) = (etcd.access.clone(), etcd.address.to_string());
    let secret = |text: &str| {
        let path = etcd.dir().join("wrong");
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let other =
        Authority::new("another").issue("a node", &[]).write(&etcd.dir().join("other"), Authority::new("x").pem());
    for (config, why) in [
        (EtcdConfig { password_file: secret("a wrong password"), ..good.clone() }, "refuses this node"),
        (EtcdConfig { user: Some("nobody".into()), ..good.clone() }, "refuses this node"),
        (EtcdConfig { ca: Some(other.ca.clone()), ..good.clone() }, "invalid peer certificate"),
        (EtcdConfig { cert: None, key: None, ..good.clone() }, ""),
        (EtcdConfig { cert: Some(other.cert.clone()), key: Some(other.key.clone()), ..good.clone() }, ""),
        (EtcdConfig { password_file: Some(Path::new("/no/password").into()), ..good.clone() }, "/no/password"),
        (EtcdConfig::default(), ""),
    ] {
        let error = Access::open(&config, &address).await.err();
        // Without TLS, and without a user, a connection is there before etcd says no.
        let error = match error {
            Some(error) => error,
            None => {
                let access = Access::open(&config, &address).await.unwrap();
                write(&access, "/test/members/3").await.unwrap_err()
            }
        };
        assert!(error.contains(why) && !error.contains("password\n") && !error.contains("wrong password"), "{error}");
    }
    let shown = format!("{:?}", Access::open(&good, &address).await.unwrap());
    assert!(!shown.contains("fodder's password"), "{shown}");
}
