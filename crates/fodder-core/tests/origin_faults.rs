//! Every kind of fault gives the right bytes or the right error, in bounded time.
#![allow(clippy::unwrap_used)]

use fodder_core::{
    Error,
    origin::{ObjectEntry, Origin, OriginOptions, Patience},
};
use fodder_s3_server::{Fault, Object, Seen, Server, synthetic};
use futures::TryStreamExt;
use std::{
    ops::Range,
    time::{Duration, Instant},
};

const SIZE: u64 = 3 << 20;

struct Line {
    server: Server,
    origin: Origin,
    object: Object,
    entry: ObjectEntry,
}

async fn start() -> Line {
    let server = Server::start("127.0.0.1:0").await.unwrap();
    let object = synthetic(3, SIZE);
    server.put("o", object.clone());
    let patience = Patience {
        first_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(20),
        no_progress: Duration::from_millis(200),
        deadline: Duration::from_secs(5),
        ..Patience::default()
    };
    let uri = format!("s3://bucket?endpoint={}", server.endpoint());
    let options = OriginOptions { anonymous: true, ..OriginOptions::default() };
    let origin = Origin::open_with(&uri, &options, patience).await.unwrap();
    let entry = origin.head("o").await.unwrap();
    server.take_seen();
    Line { server, origin, object, entry }
}

impl Line {
    async fn read(&self, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let begun = Instant::now();
        let body = self.origin.get("o", &self.entry.version, range).await?;
        let bytes = body.try_collect::<Vec<_>>().await.map(|chunks| chunks.concat());
        assert!(begun.elapsed() < Duration::from_secs(10));
        bytes
    }

    fn gets(&self) -> Vec<Seen> {
        self.server.take_seen().into_iter().filter(|seen| seen.method == "GET").collect()
    }
}

#[tokio::test]
async fn each_passing_fault_is_survived() {
    let line = start().await;
    let faults = [
        Fault::Status(503, "SlowDown"),
        Fault::Status(500, "InternalError"),
        Fault::Status(429, "TooManyRequests"),
        Fault::Status(400, "RequestTimeout"),
        Fault::Reset,
        Fault::Cut(0),
        Fault::Cut(1),
        Fault::Cut(SIZE / 2),
        Fault::Cut(SIZE - 1),
        Fault::Short(0),
        Fault::Short(SIZE / 3),
        Fault::Narrow,
        Fault::Stall(0),
        Fault::Stall(SIZE / 2),
        Fault::Late(Duration::from_millis(400)),
        Fault::Late(Duration::from_millis(50)),
    ];
    let whole = line.object.bytes(0..SIZE).unwrap();
    for fault in faults {
        line.server.faults("o", [fault.clone()]);
        assert!(line.read(0..SIZE).await.unwrap() == whole, "{fault:?}");
    }
    line.server
        .faults("o", [Fault::Reset, Fault::Cut(5), Fault::Stall(9), Fault::Status(503, "SlowDown"), Fault::Short(1)]);
    assert!(line.read(0..SIZE).await.unwrap() == whole, "all of them in a row");
}

#[tokio::test]
async fn a_fault_that_does_not_pass_becomes_an_error() {
    for fault in [
        Fault::Status(503, "SlowDown"),
        Fault::Reset,
        Fault::Cut(10),
        Fault::Short(0),
        Fault::Stall(100),
        Fault::Narrow,
    ] {
        let line = start().await;
        line.server.faults("o", vec![fault.clone(); 20]);
        let error = line.read(0..SIZE).await.unwrap_err();
        assert!(matches!(&error, Error::Unavailable(text) if text.contains("8 attempts")), "{fault:?}: {error}");
        assert_eq!(line.gets().len(), 8, "{fault:?}");
    }
}

#[tokio::test]
async fn a_broken_body_is_resumed_where_it_broke_and_only_of_the_same_version() {
    let line = start().await;
    line.server.faults("o", [Fault::Cut(1_000_000)]);
    assert_eq!(line.read(100..2_000_100).await.unwrap(), line.object.bytes(100..2_000_100).unwrap());
    let gets = line.gets();
    assert_eq!(gets.len(), 2);
    assert_eq!(gets[0].range.as_deref(), Some("bytes=100-2000099"));
    let (start, end) = gets[1].range.as_deref().unwrap().strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    // The break may overtake the last bytes before it, which then are asked for again.
    assert!((101..=1_000_100).contains(&start.parse::<u64>().unwrap()), "{start}");
    assert_eq!(end, "2000099");
    let etag = line.server.etag("o");
    assert!(etag.is_some() && gets.iter().all(|get| get.if_match == etag), "{gets:?}");

    line.server.faults("o", [Fault::CutAndReplace(1_000_000, synthetic(4, SIZE))]);
    assert!(matches!(line.read(0..SIZE).await, Err(Error::Stale(_))));
}

#[tokio::test]
async fn a_version_that_changes_between_two_ranges_is_stale() {
    let line = start().await;
    line.read(0..1000).await.unwrap();
    line.server.faults("o", [Fault::Replace(synthetic(5, SIZE))]);
    assert!(matches!(line.read(1000..2000).await, Err(Error::Stale(_))));
    assert_eq!(line.gets().len(), 2, "a stale read is not tried again");
}

#[tokio::test]
async fn many_breaks_on_a_long_way_do_not_wear_patience_out() {
    let line = start().await;
    let object = synthetic(6, 12 << 20);
    line.server.put("long", object.clone());
    line.server.faults("long", std::iter::repeat_n(Fault::Cut(1_200_000), 10));
    let entry = line.origin.head("long").await.unwrap();
    let body = line.origin.get("long", &entry.version, 0..12 << 20).await.unwrap();
    let chunks: Vec<_> = body.try_collect().await.unwrap();
    assert!(chunks.concat() == object.bytes(0..12 << 20).unwrap());
}
