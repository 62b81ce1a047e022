//! Who has no certificate that the cluster's authority vouches for.

use super::{BYTES, node};
use crate::world::{NAME, One, World, introduce};
use fodder_api::{
    Address,
    frames::{Batch, FrameClient, Give, Hello, Kind, MAGIC, ReplyHead, Request},
    v1::{self, ErrorCode, cluster_client::ClusterClient},
};
use fodder_authority::{Authority, Issued};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

/// Everything that only nodes may ask; the last is for an object that is there.
fn questions(give: Give<'_>) -> Vec<Request<'_>> {
    vec![
        Request::Meet { nonce: [7; 16] },
        Request::Prove { proof: [0; 32] },
        Request::Tell { message: &[] },
        Request::Take(give),
        Request::Give(give),
    ]
}

/// The first object, as a node asks for it.
fn first_of(one: &One) -> Give<'static> {
    let object = one.dataset.snapshot().lookup("0000.jpg").unwrap();
    let key = one.dataset.objects().key(object).0;
    let (only_held, stand_in, at_hand, again) = (false, true, false, false);
    Give { dataset: NAME, path: "0000.jpg", key, offset: 0, length: 100, only_held, stand_in, at_hand, again }
}

/// Says hello and asks; how it was answered.
fn ask(mut stream: impl Read + Write, question: Request<'_>) -> io::Result<(Kind, ErrorCode)> {
    stream.write_all(&Hello::OURS.encode())?;
    stream.flush()?;
    stream.read_exact(&mut [0; Hello::BYTES])?;
    let mut frame = Vec::new();
    question.encode(1, 0, &mut frame);
    stream.write_all(&frame)?;
    stream.flush()?;
    loop {
        let mut head = [0; ReplyHead::BYTES];
        stream.read_exact(&mut head)?;
        let head = ReplyHead::decode(&head).unwrap();
        stream.read_exact(&mut vec![0; head.body_bytes as usize])?;
        if head.kind != Kind::Coming {
            return Ok((head.kind, head.status));
        }
    }
}

/// A connection over TLS, with a certificate or without; it believes whoever answers at this authority's word.
fn over_tls(address: &str, authority: &Authority, shown: Option<&Issued>) -> impl Read + Write + use<> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let config = match shown {
        None => builder.with_no_client_auth(),
        Some(issued) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(issued.cert.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_certificate_that_the_authority_vouches_for_opens_the_door_for_nodes() {
    let world = World::new(2, BYTES).await;
    let (authority, other) = (Authority::new("cluster"), Authority::new("somebody else"));
    let (one, _dir) = node(&world, 1, &authority.issue("one", &["127.0.0.1"]), authority.pem()).await;
    let (give, address) = (first_of(&one), one.me.address.clone());
    tokio::task::spawn_blocking(move || {
        let member = authority.issue("two", &[]);
        let answer = ask(over_tls(&address, &authority, Some(&member)), Request::Give(give));
        assert_eq!(answer.unwrap().0, Kind::Part, "a node is given");
        for (who, shown) in [
            ("without a certificate", None),
            ("with one of its own", Some(Issued::self_signed("two", &[]))),
            ("with another authority's", Some(other.issue("two", &[]))),
            ("with one whose time is over", Some(authority.issue_expired("two", &[]))),
        ] {
            for question in questions(give) {
                let answer = ask(over_tls(&address, &authority, shown.as_ref()), question);
                assert!(answer.is_err(), "somebody {who} was answered: {answer:?}");
            }
        }
        for question in questions(give) {
            let answer = ask(TcpStream::connect(&address).unwrap(), question).unwrap();
            assert_eq!(answer, (Kind::Error, ErrorCode::Denied), "{question:?} without TLS");
        }
        // Readers on this machine go on as before.
        let mut client = FrameClient::connect(&address.parse::<Address>().unwrap()).unwrap();
        let (handle, mut batch) = (client.open(NAME, None).unwrap().handle, Batch::new());
        client.get_items(handle, &[0], &mut batch).unwrap();
        assert_eq!(batch.iter().next().unwrap().data.unwrap().len(), BYTES);
    })
    .await
    .unwrap();
    assert_eq!(one.dataset.stats().bytes_to_peers, 100);
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_the_authority_does_not_vouch_for_gets_nothing_and_has_nothing_taken() {
    let world = World::new(30, BYTES).await;
    let (authority, other) = (Authority::new("cluster"), Authority::new("somebody else"));
    let (a, _a) = node(&world, 1, &authority.issue("a", &["127.0.0.1"]), authority.pem()).await;
    let (b, _b) = node(&world, 2, &authority.issue("b", &[]), authority.pem()).await;
    // It believes everybody, and nobody believes it.
    let both = format!("{}{}", authority.pem(), other.pem());
    let (stranger, _c) = node(&world, 3, &other.issue("c", &["127.0.0.1"]), &both).await;
    let (elsewhere, _d) = node(&world, 4, &authority.issue("d", &["127.0.0.9"]), authority.pem()).await;
    introduce(&[&a, &b, &stranger, &elsewhere]).await;
    world.fetched();
    for one in [&a, &b, &stranger, &elsewhere] {
        world.read_all(one).await;
    }
    assert!(a.dataset.stats().bytes_from_peers > 0 && b.dataset.stats().bytes_from_peers > 0);
    for one in [&stranger, &elsewhere] {
        assert_eq!(one.dataset.stats().bytes_to_peers, 0, "nothing was taken from node {}", one.me.id);
    }
    assert_eq!(stranger.dataset.stats().bytes_from_peers, 0, "it got nothing");
    for one in [a, b, stranger, elsewhere] {
        one.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_cannot_say_hello() {
    let world = World::new(2, BYTES).await;
    let authority = Authority::new("cluster");
    let (one, _dir) = node(&world, 1, &authority.issue("one", &[]), authority.pem()).await;
    let mut client = ClusterClient::connect(format!("http://{}", one.me.address)).await.unwrap();
    // This node has no membership, which only somebody who is let in is told.
    let refused = client.hello(v1::HelloMessage::default()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused}");
    // People on this machine may ask who is there.
    client.members(v1::MembersRequest {}).await.unwrap();
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_never_ends_a_greeting_is_let_go() {
    let world = World::new(2, BYTES).await;
    let authority = Authority::new("cluster");
    let (one, _dir) = node(&world, 1, &authority.issue("one", &[]), authority.pem()).await;
    let address = one.me.address.clone();
    tokio::task::spawn_blocking(move || {
        let began: Vec<_> =
            [&b"\x16\x03\x01"[..], b"\x16\x03\x01\x02\x00\x01\x00", &[&MAGIC[..], &[0xff; 64]].concat()]
                .iter()
                .map(|words| {
                    let mut stream = TcpStream::connect(&address).unwrap();
                    stream.write_all(words).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                    stream
                })
                .collect();
        let started = Instant::now();
        for mut stream in began {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        }
        assert!(started.elapsed() < Duration::from_secs(55), "after {:?}", started.elapsed());
    })
    .await
    .unwrap();
    one.end().await;
}
