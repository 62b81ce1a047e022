//! Clients that mean harm, or are broken: each gets an error, and nobody else notices.

use crate::setup::{Bench, NAME, blocking, until};
use fodder_api::{
    Client, Error,
    frames::{Batch, FrameClient, Hello, HelloReply, Kind, ReplyHead, RequestHead},
    v1::ErrorCode,
};
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn greeted(socket: &Path) -> UnixStream {
    let mut stream = connect(socket);
    stream.write_all(&Hello::OURS.encode()).unwrap();
    let mut hello = [0; Hello::BYTES];
    stream.read_exact(&mut hello).unwrap();
    assert_ne!(HelloReply::decode(&hello).unwrap().version, 0);
    stream
}

/// The error frame with which the node ends a connection.
fn last_words(mut stream: UnixStream) -> (ErrorCode, String) {
    let mut words = Vec::new();
    stream.read_to_end(&mut words).unwrap();
    let head = ReplyHead::decode(words[..ReplyHead::BYTES].try_into().unwrap()).unwrap();
    assert_eq!((head.kind, head.request), (Kind::Error, 0));
    (head.status, String::from_utf8(words[ReplyHead::BYTES..].to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_frame_ends_its_connection_with_an_error() {
    let mut bench = Bench::start().await;
    let socket = bench.socket();
    blocking(move || {
        let head = RequestHead { body_bytes: 0, request: 1, op: 8, handle: 0 };
        let bad = [
            RequestHead { body_bytes: u32::MAX, ..head }.encode().to_vec(),
            RequestHead { op: 0, ..head }.encode().to_vec(),
            RequestHead { op: 200, ..head }.encode().to_vec(),
            RequestHead { request: 0, ..head }.encode().to_vec(),
            [RequestHead { op: 3, body_bytes: 7, ..head }.encode().to_vec(), vec![0; 7]].concat(),
            [RequestHead { op: 1, body_bytes: 18, ..head }.encode().to_vec(), vec![0xFF; 18]].concat(),
            vec![0xA5; 64],
        ];
        for frame in bad {
            let mut stream = greeted(&socket);
            stream.write_all(&frame).unwrap();
            let (code, text) = last_words(stream);
            assert_eq!(code, ErrorCode::Invalid, "{text}");
            assert!(!text.is_empty());
        }
        // A connection that ends in the middle of a frame is simply gone.
        let mut stream = greeted(&socket);
        stream.write_all(&RequestHead { body_bytes: 100, op: 3, ..head }.encode()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
    })
    .await;
    assert!(Client::connect(&bench.unix()).await.is_ok());
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_never_harms_the_node() {
    let mut bench = Bench::start().await;
    let socket = bench.socket();
    blocking(move || {
        for seed in 0..60 {
            let mut stream = if seed % 2 == 0 { greeted(&socket) } else { connect(&socket) };
            let mut bytes = crate::setup::bytes(seed + 1, 300);
            if seed % 3 == 0 {
                // Plausible heads with wild fields.
                bytes[2..4].fill(0);
                bytes[8] = (seed % 9) as u8;
                bytes[9..12].fill(0);
            }
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    })
    .await;
    let info = bench.node.as_ref().unwrap().info().clone();
    until("their connections' end", || info.state.connections.frames.load(std::sync::atomic::Ordering::Relaxed) == 0)
        .await;
    assert!(Client::connect(&bench.unix()).await.is_ok());
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_without_overlap_are_a_clear_error() {
    let mut bench = Bench::start().await;
    let socket = bench.socket();
    blocking(move || {
        let mut stream = connect(&socket);
        stream.write_all(&Hello { oldest: 900, newest: 901 }.encode()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = HelloReply::decode(answer.as_slice().try_into().unwrap()).unwrap();
        assert_eq!(answer, HelloReply { version: 0, newest: fodder_api::frames::VERSIONS.1 });
    })
    .await;
    // The other way round: a node of another time.
    let path = bench.dir.path().join("future.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let future = blocking(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 8]).unwrap();
        stream.write_all(&HelloReply { version: 0, newest: 9 }.encode()).unwrap();
    });
    let error = blocking(move || FrameClient::connect(&fodder_api::Address::unix(path).unwrap()).unwrap_err());
    let (_, error) = tokio::join!(future, error);
    assert!(matches!(&error, Error::Invalid(text) if text.contains("version 9")), "{error}");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_is_told_where_rest_is() {
    let mut bench = Bench::start().await;
    let socket = bench.socket();
    let answer = blocking(move || {
        let mut stream = connect(&socket);
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    })
    .await;
    let rest = bench.node.as_ref().unwrap().addresses().rest.to_string();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains(&rest), "{answer}");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_holds_up_nobody_else() {
    let mut bench = Bench::start().await;
    let (address, socket, count) = (bench.unix(), bench.socket(), bench.items());
    // Over frames: a large answer is asked for and left where it is. Over gRPC: a stream is opened and not polled.
    let stalled = blocking(move || {
        let mut stream = greeted(&socket);
        let mut open = [0u8; 17].to_vec();
        open.extend_from_slice(NAME.as_bytes());
        let mut head = RequestHead { body_bytes: open.len() as u32, request: 1, op: 1, handle: 0 };
        stream.write_all(&head.encode()).unwrap();
        stream.write_all(&open).unwrap();
        stream.read_exact(&mut [0; 48]).unwrap();
        let ids: Vec<u8> = (0..4 * count).flat_map(|id| (id % count).to_le_bytes()).collect();
        head = RequestHead { body_bytes: ids.len() as u32, request: 2, op: 3, handle: 1 };
        stream.write_all(&head.encode()).unwrap();
        stream.write_all(&ids).unwrap();
        stream
    })
    .await;
    let grpc = Client::connect(&address).await.unwrap();
    let ids: Vec<u64> = (0..4 * count).map(|id| id % count).collect();
    let unread = grpc.get_items(NAME, None, ids).await.unwrap();

    let expected: Vec<Vec<u8>> = (0..count).map(|id| bench.expected(id).to_vec()).collect();
    let other = address.clone();
    blocking(move || {
        let mut client = FrameClient::connect(&other).unwrap();
        let handle = client.open(NAME, None).unwrap().handle;
        let (ids, mut batch): (Vec<u64>, _) = ((0..count).collect(), Batch::new());
        client.get_items(handle, &ids, &mut batch).unwrap();
        assert!(batch.iter().zip(&expected).all(|(item, bytes)| item.data.unwrap() == bytes));
    })
    .await;
    let mut items = grpc.get_items(NAME, None, vec![7]).await.unwrap();
    assert!(items.next().await.unwrap().unwrap().data.unwrap() == bench.expected(7));
    drop((stalled, unread, grpc));
    bench.stop().await;
}
