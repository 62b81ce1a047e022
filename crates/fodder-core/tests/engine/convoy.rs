//! Reads that are begun together: one question to a peer that may have what they miss, and each its own way where it has not.

use crate::world::{World, content};
use async_trait::async_trait;
use fodder_core::{
    Dataset, Error, Result,
    engine::{
        Convoy, Reply, Source,
        peer::{Given, Handed, Peers, Role, Wanted},
    },
    id::FileKey,
};
use fodder_policy::Policy;
use futures::{FutureExt, future::join_all};
use parking_lot::Mutex;
use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

const BYTES: usize = 100 << 10;

/// What the other node does about one object of a convoy.
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    Hands,
    Lacks,
    Stops,
}

/// One other node, which owns everything; what it was asked for together, and what by itself.
struct Other {
    deed: fn(&str) -> Deed,
    late: Option<Duration>,
    together: Mutex<Vec<Vec<String>>>,
    alone: Mutex<Vec<(String, Duration)>>,
}

impl fmt::Debug for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Other")
    }
}

fn bytes_of(wanted: &Wanted) -> Vec<u8> {
    content(&wanted.path, 1, wanted.object_bytes as usize)[wanted.range.start as usize..wanted.range.end as usize]
        .to_vec()
}

struct Sent(Option<Vec<u8>>);

#[async_trait]
impl Given for Sent {
    async fn next(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let bytes = self.0.take().unwrap_or_default();
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

struct Hand(VecDeque<Wanted>, fn(&str) -> Deed);

#[async_trait]
impl Handed for Hand {
    async fn next(&mut self, buffer: &mut [u8]) -> Result<bool> {
        let wanted = self.0.pop_front().unwrap();
        match (self.1)(&wanted.path) {
            Deed::Hands => buffer.copy_from_slice(&bytes_of(&wanted)),
            Deed::Lacks => return Ok(false),
            Deed::Stops => return Err(Error::Unavailable("it stopped".into())),
        }
        Ok(true)
    }
}

#[async_trait]
impl Peers for Other {
    async fn read(&self, wanted: Wanted) -> Option<Box<dyn Given>> {
        self.alone.lock().push((wanted.path.clone(), wanted.waited));
        Some(Box::new(Sent(Some(bytes_of(&wanted)))))
    }

    fn hander(&self, _dataset: &str, _key: FileKey, _offset: u64) -> Option<u128> {
        Some(7)
    }

    async fn hand(&self, hander: u128, wanted: Vec<Wanted>) -> Result<Box<dyn Handed>, Duration> {
        assert_eq!(hander, 7);
        self.together.lock().push(wanted.iter().map(|wanted| wanted.path.clone()).collect());
        self.late.map_or_else(|| Ok(Box::new(Hand(wanted.into(), self.deed)) as _), Err)
    }

    fn role(&self, _dataset: &str, _key: FileKey, _offset: u64) -> Role {
        Role::Guest
    }
}

/// Begins reads of all objects, sends them off together, and waits for them.
async fn read_together(dataset: &Arc<Dataset>) -> Vec<Result<Reply>> {
    let (convoy, snapshot) = (Arc::new(Convoy::default()), dataset.snapshot());
    let read = |object| {
        let (dataset, convoy) = (Arc::clone(dataset), Arc::clone(&convoy));
        async move { dataset.read_along(Arc::default(), convoy, object, 0..BYTES as u64).await }.boxed()
    };
    let mut reads = join_all(snapshot.objects().map(read));
    assert!((&mut reads).now_or_never().is_none(), "nothing comes before they are sent off");
    dataset.depart(&convoy);
    reads.await
}

/// A node with so many objects and another that does this; what was read, and from where.
async fn world(
    quota_bytes: u64,
    deed: fn(&str) -> Deed,
    late: Option<Duration>,
) -> (Arc<Other>, Arc<Dataset>, Vec<Source>) {
    let mut world = World::new(Policy::Minio, quota_bytes);
    for n in 0..9 {
        world.put(&format!("{n}"), content(&format!("{n}"), 1, BYTES));
    }
    let (engine, dataset) = world.start().await.unwrap();
    let other = Arc::new(Other { deed, late, together: Mutex::default(), alone: Mutex::default() });
    engine.join(Arc::clone(&other) as _);
    let mut sources = Vec::new();
    for (reply, bytes) in read_together(&dataset).await.into_iter().zip(world.origin.values()) {
        let reply = reply.unwrap();
        assert!(reply.segments.concat() == *bytes);
        sources.push(reply.source);
    }
    engine.shutdown().await;
    assert_eq!(engine.status().budget_used_bytes, 0, "all memory was given back");
    (other, dataset, sources)
}

#[tokio::test]
async fn reads_that_are_begun_together_are_one_question_and_what_is_not_at_hand_another() {
    // What is kept, and what is passed by.
    for quota_bytes in [64 << 20, 16 << 10] {
        let lacks_two = |path: &str| if path == "3" || path == "5" { Deed::Lacks } else { Deed::Hands };
        let (other, dataset, sources) = world(quota_bytes, lacks_two, None).await;
        let all: Vec<_> = (0..9).map(|n| n.to_string()).collect();
        assert_eq!(*other.together.lock(), [all]);
        let mut alone = other.alone.lock().clone();
        alone.sort();
        assert_eq!(alone, [("3".into(), Duration::ZERO), ("5".into(), Duration::ZERO)]);
        assert_eq!(sources, [Source::Peer; 9]);
        let stats = dataset.stats();
        assert_eq!((stats.bytes_from_peers, stats.origin_requests), (9 * BYTES as u64, 0), "{stats:?}");
    }
}

#[tokio::test]
async fn when_a_peer_stops_the_origin_brings_the_rest_and_it_is_not_asked_again() {
    let stops = |path: &str| if path == "4" { Deed::Stops } else { Deed::Hands };
    let (other, dataset, sources) = world(64 << 20, stops, None).await;
    assert!(other.alone.lock().is_empty());
    assert_eq!(sources[..4], [Source::Peer; 4]);
    assert_eq!(sources[4..], [Source::Origin; 5]);
    assert_eq!(dataset.stats().origin_requests, 5);
}

#[tokio::test]
async fn what_was_waited_for_in_vain_is_said_when_each_goes_its_own_way() {
    let waited = Duration::from_millis(300);
    let (other, _, sources) = world(64 << 20, |_| Deed::Hands, Some(waited)).await;
    assert_eq!(sources, [Source::Peer; 9]);
    let alone = other.alone.lock();
    assert!(alone.len() == 9 && alone.iter().all(|(_, told)| *told == waited), "{alone:?}");
}
