//! What users write is understood, and what is wrong with it said in a sentence.

#![allow(clippy::unwrap_used)]
use super::*;
use fodder_testing::skip;

fn seeds(text: &str) -> Vec<Seed> {
    Seed::parse(text, None).unwrap()
}

fn etcd(join: &[&str], etcd: EtcdConfig) -> ClusterConfig {
    let join = join.iter().map(ToString::to_string).collect();
    ClusterConfig { join, membership: Way::Etcd, etcd, ..ClusterConfig::default() }
}

#[test]
fn etcds_addresses_may_be_urls() {
    let shown = |config: ClusterConfig| config.seeds().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    let plain = etcd(&["http://etcd-1:2379/,etcd-2"], EtcdConfig::default());
    assert_eq!(shown(plain), ["etcd-1:2379", "etcd-2:2379"]);
    let tls = EtcdConfig { ca: Some("ca".into()), ..EtcdConfig::default() };
    assert_eq!(shown(etcd(&["https://[::1]:4001", "10.0.0.1"], tls)), ["[::1]:4001", "10.0.0.1:2379"]);
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let config = ClusterConfig::default;
    for (config, why) in [
        (ClusterConfig { join: vec!["gpu[1-".into()], ..config() }, "unmatched ["),
        (ClusterConfig { zone: "a b".into(), ..config() }, "is not the name of a zone"),
        (ClusterConfig { advertise: Some("node-3".into()), ..config() }, "write HOST:PORT, such as node-3:18284"),
        (ClusterConfig { advertise: Some("0.0.0.0:18284".into()), ..config() }, "they would connect to themselves"),
        (ClusterConfig { advertise: Some("[::]:18284".into()), ..config() }, "they would connect to themselves"),
        (ClusterConfig { replicas: 0, ..config() }, "from 1 to 16"),
        (ClusterConfig { unreachable_after: Duration::from_secs(2), ..config() }, "3 times as long"),
        (ClusterConfig { heartbeat: Duration::ZERO, ..config() }, "at least 20ms"),
        (
            ClusterConfig {
                membership: Way::Gossip,
                tls: Some(TlsConfig { cert: "a".into(), key: "b".into(), ca: "c".into() }),
                ..config()
            },
            "gossip uses UDP",
        ),
        (
            ClusterConfig {
                membership: Way::Etcd,
                tls: Some(TlsConfig { cert: "a".into(), key: "b".into(), ca: "c".into() }),
                ..config()
            },
            "add false members",
        ),
        (etcd(&["https://etcd-1:2379"], EtcdConfig::default()), "in cluster.etcd.ca"),
        (etcd(&["http://etcd-1:2379"], EtcdConfig { ca: Some("a".into()), ..EtcdConfig::default() }), "write https://"),
        (etcd(&["ftp://etcd-1"], EtcdConfig::default()), "is not the address of etcd"),
        (etcd(&["etcd-1"], EtcdConfig { user: Some("me".into()), ..EtcdConfig::default() }), "password_file"),
        (
            etcd(&["etcd-1"], EtcdConfig { password_file: Some("p".into()), ..EtcdConfig::default() }),
            "needs cluster.etcd.user",
        ),
        (etcd(&["etcd-1"], EtcdConfig { cert: Some("c".into()), ..EtcdConfig::default() }), "in cluster.etcd.key"),
        (etcd(&["etcd-1"], EtcdConfig { key: Some("c".into()), ..EtcdConfig::default() }), "in cluster.etcd.cert"),
        (
            etcd(&["etcd-1"], EtcdConfig { cert: Some("c".into()), key: Some("k".into()), ..EtcdConfig::default() }),
            "in cluster.etcd.ca",
        ),
    ] {
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    config().check().unwrap();
    assert!(!config().is_in_use() && !config().is_in_vain());
    assert!(ClusterConfig { membership: Way::Gossip, ..config() }.is_in_vain());
    let gossip = || Some(SocketAddr::from(([127, 0, 0, 1], 18282)));
    assert!(ClusterConfig { gossip: gossip(), ..config() }.gossips_in_vain());
    assert!(!ClusterConfig { gossip: gossip(), membership: Way::Gossip, ..config() }.gossips_in_vain());
    let found = ClusterConfig { membership: Way::Gossip, join: vec!["gpu01".into()], ..config() };
    assert!(found.is_in_use() && !found.is_in_vain());
}

#[tokio::test]
async fn a_node_says_where_it_is_reached_or_why_it_is_not() {
    let here: SocketAddr = "127.0.0.2:9".parse().unwrap();
    assert_eq!(advertised(here, &seeds("127.0.0.1:1,localhost"), Way::Fixed).await.unwrap(), "127.0.0.2:9");
    let error = advertised(here, &seeds("127.0.0.1,gpu01"), Way::Fixed).await.unwrap_err().to_string();
    assert!(error.contains("--grpc 0.0.0.0:9"), "{error}");
    let all: SocketAddr = "0.0.0.0:9".parse().unwrap();
    assert_eq!(advertised(all, &seeds("127.0.0.1:1"), Way::Fixed).await.unwrap(), "127.0.0.1:9");
    let error = advertised(all, &seeds("no-such-host.invalid"), Way::Fixed).await.unwrap_err().to_string();
    assert!(error.contains("--advertise"), "{error}");
}

#[tokio::test]
async fn what_leads_to_this_machine_itself_is_not_where_others_reach_it() {
    let all: SocketAddr = "0.0.0.0:9".parse().unwrap();
    // An etcd on this machine may be one of several, and says nothing about where the nodes are.
    let error = advertised(all, &seeds("127.0.0.1:2379"), Way::Etcd).await.unwrap_err().to_string();
    assert!(error.contains("--advertise"), "{error}");
    // Nothing is sent there.
    let Some(ip) = routes_to(&seeds("198.51.100.1")[0]).await.pop() else {
        skip!("this machine has no route to other machines");
    };
    // The first of a list is this machine, which Debian calls 127.0.1.1.
    for way in [Way::Fixed, Way::Gossip, Way::Etcd] {
        let found = advertised(all, &seeds("127.0.1.1,198.51.100.1"), way).await.unwrap();
        assert_eq!(found, format!("{ip}:9"));
    }
}

#[test]
fn a_token_is_read_from_its_file_and_an_empty_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let config = ClusterConfig { token_file: Some(path.clone()), ..ClusterConfig::default() };
    config.token().unwrap_err();
    std::fs::write(&path, " \n").unwrap();
    assert!(config.token().unwrap_err().to_string().contains("is empty"));
    std::fs::write(&path, "secret\n").unwrap();
    assert_eq!(config.token().unwrap().as_deref(), Some("secret\n"));
}
