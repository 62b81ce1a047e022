//! The scenarios.

use super::{
    node::{Start, TestNode, Way, all_see},
    server::EtcdServer,
    *,
};

/// Three nodes that serve; all but the first know only the first.
async fn three(way: &Way) -> [TestNode; 3] {
    let first = Start::new(way, 1, &[]).run().await;
    let second = Start::new(way, 2, &[first.seed]).run().await;
    let third = Start::new(way, 3, &[first.seed]).run().await;
    for node in [&first, &second, &third] {
        node.announce(State::Serving).await;
    }
    all_see(&[&first, &second, &third], &["1 serving", "2 serving", "3 serving"]).await;
    [first, second, third]
}

async fn all_come_to_see_all_and_what_they_say(way: Way) {
    let nodes = three(&way).await;
    let two = nodes[2].member(2).unwrap();
    assert_eq!((two.zone.as_str(), two.capacity_bytes, two.versions), ("zone-2", 2000, VERSIONS));
    assert_eq!(two.address, nodes[1].address.to_string());
    nodes[1].announce(State::Draining).await;
    all_see(&nodes.each_ref(), &["1 serving", "2 draining", "3 serving"]).await;
    let members = nodes[0].joined.membership.members().borrow().clone();
    assert_eq!(members.owners().map(|seen| seen.member.id.0).collect::<Vec<_>>(), [1, 3]);
}

async fn one_that_dies_is_unreachable_until_it_is_back_in_its_next_life(way: Way) {
    let [first, second, third] = three(&way).await;
    let address = third.address;
    drop(third);
    all_see(&[&first, &second], &["1 serving", "2 serving", "3 unreachable"]).await;
    let again = Start { incarnation: 2, address, ..Start::new(&way, 3, &[first.seed]) }.run().await;
    all_see(&[&first, &second, &again], &["1 serving", "2 serving", "3 joining"]).await;
    assert_eq!(first.member(3).unwrap().incarnation, Incarnation(2));
}

async fn one_whose_cache_directory_is_put_back_as_it_once_was_is_a_member_again(way: Way) {
    let [first, second, third] = three(&way).await;
    drop(third);
    let put_back = |incarnation| Start { incarnation, ..Start::new(&way, 3, &[first.seed]) }.run();
    let third = put_back(7).await;
    all_see(&[&first, &second, &third], &["1 serving", "2 serving", "3 joining"]).await;
    drop(third);
    all_see(&[&first, &second], &["1 serving", "2 serving", "3 unreachable"]).await;
    let third = put_back(4).await;
    all_see(&[&first, &second, &third], &["1 serving", "2 serving", "3 joining"]).await;
    third.joined.membership.leave().await;
    all_see(&[&first, &second], &["1 serving", "2 serving"]).await;
    let third = put_back(4).await;
    all_see(&[&first, &second, &third], &["1 serving", "2 serving", "3 joining"]).await;
}

async fn one_that_leaves_is_gone_and_stays_gone(way: Way) {
    let [first, second, third] = three(&way).await;
    first.joined.membership.leave().await;
    all_see(&[&second, &third], &["2 serving", "3 serving"]).await;
    third.announce(State::Draining).await;
    all_see(&[&second, &third], &["2 serving", "3 draining"]).await;
}

async fn a_stranger_neither_joins_nor_learns_who_is_there(way: Way) {
    let nodes = three(&way).await;
    let seeds: Vec<_> = nodes.iter().map(|node| node.seed).collect();
    let stranger = Start { token: "another", ..Start::new(&way, 9, &seeds) }.run().await;
    // Somebody who joins after the stranger has begun, to know that there was time enough.
    let fourth = Start::new(&way, 4, &[seeds[1]]).run().await;
    let all = [&nodes[0], &nodes[1], &nodes[2], &fourth];
    all_see(&all, &["1 serving", "2 serving", "3 serving", "4 joining"]).await;
    assert_eq!(stranger.sees(), ["9 joining"]);
}

/// Every scenario, over one way of knowing the members.
macro_rules! conforms {
    ($way:ident, $start:expr, [$($scenario:ident),* $(,)?]) => {
        mod $way {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    let Some((_running, way)) = $start() else { return };
                    super::$scenario(way).await;
                }
            )*
        }
    };
    ($way:ident, $start:expr) => {
        conforms!($way, $start, [
            all_come_to_see_all_and_what_they_say,
            one_that_dies_is_unreachable_until_it_is_back_in_its_next_life,
            one_whose_cache_directory_is_put_back_as_it_once_was_is_a_member_again,
            one_that_leaves_is_gone_and_stays_gone,
            a_stranger_neither_joins_nor_learns_who_is_there,
        ]);
    };
}

conforms!(fixed, (|| Some(((), Way::Fixed))));
conforms!(gossip, (|| Some(((), Way::Gossip))));
conforms!(etcd, with_etcd);
conforms!(guarded_etcd, with_guarded_etcd);

/// A real etcd, and the way that goes with it.
fn with_etcd() -> Option<(EtcdServer, Way)> {
    let server = EtcdServer::start()?;
    let way = Way::Etcd(server.address, server.access.clone());
    Some((server, way))
}

/// One that is reached over TLS with a certificate, a user and a password.
fn with_guarded_etcd() -> Option<(EtcdServer, Way)> {
    let server = EtcdServer::start_guarded()?;
    let way = Way::Etcd(server.address, server.access.clone());
    Some((server, way))
}

#[tokio::test]
async fn junk_at_the_gossip_port_does_no_harm() {
    let first = Start::new(&Way::Gossip, 1, &[]).run().await;
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let sealed = word::sealed(vec![member(7)], &Seal::new("not the token"));
    let sealed = prost::Message::encode_to_vec(&sealed);
    for length in 0..200 {
        let junk: Vec<u8> = (0..length).map(|at| (at * 37 + length * 11) as u8).collect();
        socket.send_to(&junk, first.seed).await.unwrap();
        socket.send_to(&sealed[..length.min(sealed.len())], first.seed).await.unwrap();
    }
    let second = Start::new(&Way::Gossip, 2, &[first.seed]).run().await;
    all_see(&[&first, &second], &["1 joining", "2 joining"]).await;
}

/// A resolver that knows addresses, and never ends with a name; and whether it was given up.
fn slow_resolver() -> (LookUp, std::sync::Weak<()>) {
    let asked = Arc::new(());
    let is_asked = Arc::downgrade(&asked);
    let asked = parking_lot::Mutex::new(Some(asked));
    let look_up = move |seed: &Seed| -> futures::future::BoxFuture<'static, _> {
        match seed.to_string().parse() {
            Ok(address) => Box::pin(std::future::ready(Ok([address].into()))),
            Err(_) => {
                let asked = asked.lock().take();
                Box::pin(async move {
                    let _asked = asked;
                    std::future::pending().await
                })
            }
        }
    };
    (Arc::new(look_up), is_asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_hear_each_other_while_a_name_is_looked_up() {
    for way in [Way::Fixed, Way::Gossip] {
        let (look_up, is_asked) = slow_resolver();
        let first = Start::new(&way, 1, &[]).run().await;
        let names = Some(("no-resolver-answers.example", look_up));
        let second = Start { names, ..Start::new(&way, 2, &[first.seed]) }.run().await;
        all_see(&[&first, &second], &["1 joining", "2 joining"]).await;
        second.announce(State::Serving).await;
        all_see(&[&first, &second], &["1 joining", "2 serving"]).await;
        assert!(is_asked.upgrade().is_some(), "{way:?}: they waited until the resolver was given up");
    }
}

/// Passes connections on to an address, until it is told to cut them.
async fn passage(to: std::net::SocketAddr) -> (std::net::SocketAddr, tokio_util::sync::CancellationToken) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, cut) = (listener.local_addr().unwrap(), tokio_util::sync::CancellationToken::new());
    let stop = cut.clone();
    tokio::spawn(cut.clone().run_until_cancelled_owned(async move {
        while let Ok((mut here, _)) = listener.accept().await {
            tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
                let mut there = tokio::net::TcpStream::connect(to).await?;
                tokio::io::copy_bidirectional(&mut here, &mut there).await
            }));
        }
    }));
    (address, cut)
}

/// How many members have a key at etcd.
async fn keys_at(server: std::net::SocketAddr) -> usize {
    use fodder_api::etcd::{RangeRequest, kv_client::KvClient};
    let mut client = KvClient::connect(format!("http://{server}")).await.unwrap();
    let (key, range_end) = ("/test/members/".into(), "/test/members0".into());
    client.range(RangeRequest { key, range_end, limit: 100 }).await.unwrap().into_inner().kvs.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_cut_off_from_etcd_alone_is_still_a_member_for_those_who_reach_it() {
    let Some((server, way)) = with_etcd() else { return };
    let (address, cut) = passage(server.address).await;
    let first = Start::new(&way, 1, &[]).run().await;
    let second = Start::new(&way, 2, &[]).run().await;
    let third = Start::new(&Way::Etcd(address, Default::default()), 3, &[]).run().await;
    for node in [&first, &second, &third] {
        node.announce(State::Serving).await;
    }
    all_see(&[&first, &second, &third], &["1 serving", "2 serving", "3 serving"]).await;
    cut.cancel();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while keys_at(server.address).await > 2 {
        assert!(std::time::Instant::now() < deadline, "its lease does not run out");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Twice as long as silence may last.
    let until = std::time::Instant::now() + Duration::from_secs(4);
    while std::time::Instant::now() < until {
        assert_eq!(first.sees()[2], "3 serving");
        assert_eq!(second.sees()[2], "3 serving");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    third.announce(State::Draining).await;
    all_see(&[&first, &second, &third], &["1 serving", "2 serving", "3 draining"]).await;
    drop(third);
    all_see(&[&first, &second], &["1 serving", "2 serving", "3 unreachable"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_going_away_stops_nothing_and_coming_back_heals() {
    let Some((server, way)) = with_etcd() else { return };
    let [first, second, third] = three(&way).await;
    let address = server.address;
    drop(server);
    // What changes now is seen by asking each other, and nobody else is lost while the silence is noticed.
    second.announce(State::Draining).await;
    drop(third);
    all_see(&[&first, &second], &["1 serving", "2 draining", "3 unreachable"]).await;
    // An etcd that has forgotten everything comes back.
    let _server = EtcdServer::start_at(address).unwrap();
    let fourth = Start::new(&way, 4, &[]).run().await;
    all_see(&[&first, &second], &["1 serving", "2 draining", "3 unreachable", "4 joining"]).await;
    all_see(&[&fourth], &["1 serving", "2 draining", "4 joining"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_has_gone_dead_is_replaced() {
    let first = Start::new(&Way::Fixed, 1, &[]).run().await;
    let (target, listener) = (first.address, tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
    let between = listener.local_addr().unwrap();
    // The first connection is taken and never answered, as when its link is cut; others are passed on.
    tokio::spawn(async move {
        let dead = listener.accept().await.unwrap();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut onward = tokio::net::TcpStream::connect(target).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut stream, &mut onward).await });
        }
        drop(dead);
    });
    let second = Start::new(&Way::Fixed, 2, &[between]).run().await;
    all_see(&[&first, &second], &["1 joining", "2 joining"]).await;
}
