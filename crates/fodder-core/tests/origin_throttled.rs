//! `throttled:` around a local origin.
#![allow(clippy::unwrap_used)]

use fodder_core::origin::{ObjectEntry, Origin, OriginOptions, Patience};
use futures::TryStreamExt;
use std::{
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};

async fn open(spelling: &str, dir: &Path) -> Origin {
    let patience = Patience {
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(5),
        attempts: 30,
        ..Patience::default()
    };
    let uri = format!("throttled:{spelling}:{}", dir.display());
    Origin::open_with(&uri, &OriginOptions::default(), patience).await.unwrap()
}

async fn read(origin: &Origin, entry: &ObjectEntry, range: Range<u64>) -> Vec<u8> {
    let body = origin.get(&entry.path, &entry.version, range).await.unwrap();
    body.try_collect::<Vec<_>>().await.unwrap().concat()
}

fn data() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|n| (n * 31 % 253) as u8).collect();
    std::fs::write(dir.path().join("o"), &bytes).unwrap();
    (dir, bytes)
}

#[tokio::test]
async fn the_wrapper_is_shown_and_is_no_part_of_the_identity() {
    let (dir, _) = data();
    let plain = Origin::open(dir.path().to_str().unwrap(), &OriginOptions::default()).await.unwrap();
    let throttled = open("latency=1ms,seed=3", dir.path()).await;
    assert_eq!(throttled.identity(), plain.identity());
    assert_eq!(throttled.uri(), format!("throttled:latency=1ms,seed=3:{}", plain.uri()));
    let entries: Vec<_> = throttled.list().try_collect().await.unwrap();
    assert_eq!(entries, plain.list().try_collect::<Vec<_>>().await.unwrap());
}

#[tokio::test]
async fn every_request_takes_the_latency_and_all_of_them_together_the_bandwidth() {
    let (dir, bytes) = data();
    let origin = open("latency=30ms,bandwidth=10MB/s", dir.path()).await;
    let begun = Instant::now();
    let entry = origin.head("o").await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(30));
    let begun = Instant::now();
    let parts = (0..8_u64).map(|n| read(&origin, &entry, n * 250_000..(n + 1) * 250_000));
    let parts = futures::future::join_all(parts).await;
    // 2 MB at 10 MB/s behind 30 ms.
    assert!(begun.elapsed() >= Duration::from_millis(230), "{:?}", begun.elapsed());
    assert!(parts.concat() == bytes);
}

#[tokio::test]
async fn faults_are_survived_and_strike_alike_with_the_same_seed() {
    let (dir, bytes) = data();
    let origin = open("faults=0.5,seed=11", dir.path()).await;
    let entry = origin.head("o").await.unwrap();
    for n in 0..20_usize {
        let range = n * 100_000..(n + 1) * 100_000;
        assert!(read(&origin, &entry, range.start as u64..range.end as u64).await == bytes[range]);
    }

    let uri = format!("throttled:faults=0.5,seed=5:{}", dir.path().display());
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        let once = Patience { attempts: 1, ..Patience::default() };
        let origin = Origin::open_with(&uri, &OriginOptions::default(), once).await.unwrap();
        let mut outcome = Vec::new();
        for _ in 0..30 {
            outcome.push(origin.head("o").await.is_ok());
        }
        outcomes.push(outcome);
    }
    assert_eq!(outcomes[0], outcomes[1]);
    assert!(outcomes[0].contains(&true) && outcomes[0].contains(&false));
}
