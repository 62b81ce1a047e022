//! The start and the end of a node.

use crate::setup::{Bench, NAME, blocking, dataset, until};
use fodder_api::{
    Address, Client, Error, Target,
    frames::{Batch, FrameClient},
};
use fodder_server::{Node, NodeConfig};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_ends_before_the_node_does() {
    read_while_the_node_ends().await.unwrap();
}

/// Reads on while a node is told to end; an error if the read does not come to its end.
async fn read_while_the_node_ends() -> Result<(), Error> {
    let mut bench = Bench::start().await;
    let (address, socket) = (bench.unix(), bench.socket());
    let client = Client::connect(&address).await.unwrap();
    let path = "cat/007.jpg";
    let mut read = client.read(NAME, Target::Path(path.into()), 0, 0).await.unwrap();
    let (mut got, _) = read.next().await.unwrap().map(|(bytes, source)| (bytes.to_vec(), source)).unwrap();
    // An idle framed connection does not hold the node up.
    let idle = address.clone();
    let mut idle = blocking(move || FrameClient::connect(&idle).unwrap()).await;

    let node = bench.node.take().unwrap();
    let shutdown = tokio::spawn(node.shutdown());
    until("the node to take no more", || idle.ping().is_err()).await;
    assert!(!shutdown.is_finished());
    while let Some((bytes, _)) = read.next().await? {
        got.extend_from_slice(&bytes);
    }
    assert!(got == bench.files[path]);
    drop((read, client));
    tokio::time::timeout(Duration::from_secs(20), shutdown).await.unwrap().unwrap();
    assert!(!socket.exists());
    assert!(Client::connect(&address).await.is_err());
    bench.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_has_an_end() {
    let mut bench = Bench::start_with(|config| config.drain = Duration::from_millis(50)).await;
    let client = Client::connect(&bench.tcp()).await.unwrap();
    let ids: Vec<u64> = (0..60 * bench.items()).map(|id| id % bench.items()).collect();
    let mut items = client.get_items(NAME, None, ids).await.unwrap();
    items.next().await.unwrap().unwrap();
    let node = bench.node.take().unwrap();
    tokio::time::timeout(Duration::from_secs(20), node.shutdown()).await.unwrap();
    let failed = loop {
        match items.next().await {
            Ok(Some(_)) => {}
            Ok(None) => break false,
            Err(error) => break matches!(error, Error::Unavailable(_) | Error::Internal(_)),
        }
    };
    assert!(failed);
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_finds_the_node_again_after_a_restart() {
    let mut bench = Bench::start().await;
    let address = bench.unix();
    let client = Client::connect(&address).await.unwrap();
    let socket = bench.socket();
    bench.node.take().unwrap().shutdown().await;
    let Err(Error::Unavailable(text)) = client.status().await else { panic!("a node that is gone answers") };
    assert!(text.contains(&socket.display().to_string()), "{text}");
    let any = "127.0.0.1:0".parse().unwrap();
    let config = NodeConfig { rest: any, grpc: any, socket: Some(socket), ..Default::default() };
    bench.node = Some(Node::start(config, Arc::clone(&bench.engine)).await.unwrap());
    client.status().await.unwrap();
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded() {
    let mut bench = Bench::start_with(|config| config.max_connections = 2).await;
    let address = bench.unix();
    blocking(move || {
        let mut first = FrameClient::connect(&address).unwrap();
        let second = FrameClient::connect(&address).unwrap();
        assert!(FrameClient::connect(&address).is_err());
        first.ping().unwrap();
        drop(second);
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while FrameClient::connect(&address).is_err() {
            assert!(std::time::Instant::now() < deadline, "a place that was given back stays taken");
            std::thread::sleep(Duration::from_millis(5));
        }
    })
    .await;
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_at_an_address_is_said_plainly() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: Address = taken.local_addr().unwrap().to_string().parse().unwrap();
    drop(taken);
    let Err(Error::Unavailable(text)) = Client::connect(&address).await else { panic!("somebody there") };
    assert!(text.contains(&address.to_string()), "{text}");
    let Err(Error::Unavailable(text)) = blocking(move || FrameClient::connect(&address)).await else {
        panic!("somebody there")
    };
    assert!(text.contains("check that it is running"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_named_at_the_start() {
    let mut bench = Bench::start().await;
    let taken = bench.node.as_ref().unwrap().addresses().grpc;
    let config = NodeConfig { rest: "127.0.0.1:0".parse().unwrap(), grpc: taken, ..Default::default() };
    let error = Node::start(config, Arc::clone(&bench.engine)).await.unwrap_err().to_string();
    assert!(error.contains(&taken.to_string()) && error.contains("--grpc"), "{error}");
    let mut batch = Batch::new();
    let address = bench.tcp();
    blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let handle = client.open(NAME, None).unwrap().handle;
        client.get_items(handle, &[1], &mut batch).unwrap();
    })
    .await;
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_that_is_not_there_yet_while_the_node_starts_is_asked_for_again() {
    let mut bench = Bench::start().await;
    bench.engine.expect(["late".to_owned()]);
    let rest = bench.node.as_ref().unwrap().addresses().rest;
    let get = move |path: &'static str| blocking(move || http_status(rest, path));
    for address in bench.addresses() {
        let client = Client::connect(&address).await.unwrap();
        let Err(Error::Unavailable(text)) = client.list_jobs(Some("late")).await.map(drop) else {
            panic!("it is not unavailable")
        };
        assert!(text.contains("the node is starting"), "{text}");
        let read = client.read("late", Target::Item(0), 0, 0).await.map(drop);
        assert!(matches!(read, Err(Error::Unavailable(_))), "{read:?}");
        let never = client.list_jobs(Some("never")).await.map(drop);
        assert!(matches!(never, Err(Error::NotFound(_))), "nobody will add that one: {never:?}");
        let open = blocking(move || FrameClient::connect(&address).unwrap().open("late", None).map(drop)).await;
        assert!(matches!(open, Err(Error::Unavailable(_))), "{open:?}");
    }
    assert_eq!(get("/api/v1/datasets/late").await, 503);
    assert_eq!(get("/api/v1/datasets/never").await, 404);

    let origin = bench.dir.path().join("origin");
    bench.engine.add_dataset(dataset("late", &origin)).await.unwrap();
    bench.engine.expect([]);
    assert_eq!(get("/api/v1/datasets/late").await, 200);
    assert_eq!(Client::connect(&bench.tcp()).await.unwrap().list_jobs(Some("late")).await.unwrap().len(), 0);
    bench.stop().await;
}

/// The status of the answer to a GET.
fn http_status(address: SocketAddr, path: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}
