//! Other nodes between the tiers and the origin: what they bring, and what happens when they do not.

use crate::{
    change::files_below,
    world::{World, content, read},
};
use async_trait::async_trait;
use bytes::Bytes;
use fodder_core::{
    Dataset, Error, Result,
    engine::{
        Source,
        peer::{Asked, Given, Peers, Role, Wanted},
    },
    id::FileKey,
};
use fodder_policy::Policy;
use futures::TryStreamExt;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

const MIB: usize = 1 << 20;

/// What the only other node does when it is asked.
type Answer = Box<dyn Fn(&Wanted) -> Option<Vec<Result<Bytes>>> + Send + Sync>;

/// What it sends, one after the other.
struct Sent(VecDeque<Result<Bytes>>);

#[async_trait]
impl Given for Sent {
    async fn next(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let Some(mut bytes) = self.0.pop_front().transpose()? else { return Ok(0) };
        let taken = bytes.split_to(bytes.len().min(buffer.len()));
        buffer[..taken.len()].copy_from_slice(&taken);
        if !bytes.is_empty() {
            self.0.push_front(Ok(bytes));
        }
        Ok(taken.len())
    }
}

/// One other node, which owns the objects whose keys are even.
struct Other {
    asked: AtomicUsize,
    owns: fn(FileKey) -> bool,
    answer: Answer,
}

impl std::fmt::Debug for Other {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Other")
    }
}

#[async_trait]
impl Peers for Other {
    async fn read(&self, wanted: Wanted) -> Option<Box<dyn Given>> {
        if wanted.for_peer || self.role(&wanted.dataset, wanted.key, wanted.range.start) == Role::Owner {
            return None;
        }
        self.asked.fetch_add(1, SeqCst);
        Some(Box::new(Sent((self.answer)(&wanted)?.into())))
    }

    fn role(&self, _dataset: &str, key: FileKey, _offset: u64) -> Role {
        if (self.owns)(key) { Role::Guest } else { Role::Owner }
    }
}

fn other(owns: fn(FileKey) -> bool, answer: Answer) -> Arc<Other> {
    Arc::new(Other { asked: AtomicUsize::new(0), owns, answer })
}

fn even(key: FileKey) -> bool {
    key.0[15].is_multiple_of(2)
}

/// The bytes that are wanted of an object that was put once.
fn right(wanted: &Wanted) -> Bytes {
    let all = content(&wanted.path, 1, wanted.object_bytes as usize);
    Bytes::from(all).slice(wanted.range.start as usize..wanted.range.end as usize)
}

#[tokio::test]
async fn bytes_of_another_nodes_object_come_from_it_and_the_reply_says_so() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 1, 3 * MIB));
    let (engine, dataset) = world.start().await.unwrap();
    let peer = other(|_| true, Box::new(|wanted| Some(vec![Ok(right(wanted))])));
    engine.join(Arc::clone(&peer) as _);

    let object = dataset.snapshot().lookup("a").unwrap();
    let reply = dataset.read(object, 10..2 * MIB as u64).await.unwrap();
    assert_eq!(reply.source, Source::Peer);
    assert_eq!(reply.segments.concat(), world.origin["a"][10..2 * MIB]);
    let stats = dataset.stats();
    assert_eq!((stats.peer, stats.bytes_from_peers, stats.origin_requests), (1, 2 * MIB as u64, 0), "{stats:?}");
    assert_eq!(peer.asked.load(SeqCst), 1);
}

#[tokio::test]
async fn whatever_a_peer_does_wrong_the_origin_brings_the_rest() {
    let answers: [(&str, Answer); 5] = [
        ("says no", Box::new(|_| None)),
        ("sends nothing", Box::new(|_| Some(Vec::new()))),
        ("ends early", Box::new(|wanted| Some(vec![Ok(right(wanted).slice(..MIB / 2))]))),
        (
            "fails half way",
            Box::new(|wanted| Some(vec![Ok(right(wanted).slice(..MIB + 7)), Err(Error::Corrupt("not these".into()))])),
        ),
        ("sends too much", Box::new(|wanted| Some(vec![Ok(right(wanted)), Ok(Bytes::from_static(b"more"))]))),
    ];
    for (what, answer) in answers {
        let mut world = World::new(Policy::Minio, 64 << 20);
        world.put("a", content("a", 1, 3 * MIB));
        let (engine, dataset) = world.start().await.unwrap();
        engine.join(other(|_| true, answer));
        let object = dataset.snapshot().lookup("a").unwrap();
        let bytes = read(&dataset, object, 0..3 * MIB as u64, false).await.unwrap();
        assert!(bytes == world.origin["a"], "a peer that {what}");
        assert!(dataset.stats().origin_requests <= 1, "a peer that {what}: {:?}", dataset.stats());
    }
}

#[tokio::test]
async fn a_node_gives_what_it_owns_and_nothing_that_it_would_have_to_ask_for() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    for n in 0..32 {
        world.put(&format!("{n}"), content(&format!("{n}"), 1, 2 * MIB + 5));
    }
    let (engine, dataset) = world.start().await.unwrap();
    let peer = other(even, Box::new(|wanted| Some(vec![Ok(right(wanted))])));
    engine.join(Arc::clone(&peer) as _);
    let mut owned = 0;
    for (path, bytes) in &world.origin {
        let object = dataset.snapshot().lookup(path).unwrap();
        let key = dataset.objects().key(object);
        assert_eq!(dataset.known_to_peers(path, key).unwrap(), object);
        assert!(matches!(dataset.known_to_peers(path, FileKey([7; 16])), Err(Error::Stale(_))));
        assert!(matches!(given(&dataset, path, Asked::AsHolder).await, Err(Error::NotFound(_))), "nothing is held yet");
        match given(&dataset, path, Asked::AsOwner).await {
            Ok(given) => {
                assert!(!even(key) && given == *bytes);
                owned += 1;
            }
            Err(error) => assert!(even(key) && matches!(error, Error::NotFound(_)), "{error:?}"),
        }
    }
    assert!(owned > 0 && owned < 32, "{owned} of 32");
    assert_eq!(peer.asked.load(SeqCst), 0, "what is asked for a peer is never asked of a peer");
    assert_eq!(dataset.stats().origin_requests, owned);
    assert_eq!(dataset.stats().bytes_to_peers, owned * (2 * MIB as u64 + 5));
}

async fn given(dataset: &Arc<Dataset>, path: &str, asked: Asked) -> Result<Vec<u8>> {
    let object = dataset.snapshot().lookup(path).unwrap();
    let replies = dataset.give(object, 0..dataset.objects().size(object), asked);
    let replies: Vec<_> = replies.try_collect().await?;
    assert!(replies.len() >= 2, "it comes piece by piece");
    Ok(replies.iter().flat_map(|reply| reply.segments.concat()).collect())
}

#[tokio::test]
async fn what_a_node_owns_takes_the_place_of_copies_and_copies_take_only_free_room() {
    let mut world = World::new(Policy::Minio, 12 << 20);
    for n in 0..32 {
        world.put(&format!("{n}"), content(&format!("{n}"), 1, MIB - 8192));
    }
    let (engine, dataset) = world.start().await.unwrap();
    engine.join(other(even, Box::new(|wanted| Some(vec![Ok(right(wanted))]))));
    let (snapshot, objects) = (dataset.snapshot(), dataset.objects());
    let (guests, owned): (Vec<_>, Vec<_>) = snapshot.objects().partition(|object| even(objects.key(*object)));
    let held = |list: &[_]| list.iter().filter(|object| dataset.residence(**object).whole.is_some()).count();
    let bring = async |list: &[_]| {
        for object in list {
            read(&dataset, *object, 0..objects.size(*object), false).await.unwrap();
        }
        // What was read is on its shelf once nothing waits to be written any more.
        dataset.verify().await.unwrap();
    };
    bring(&guests).await;
    eventually(|| held(&guests) >= 8).await;
    let room = held(&guests).min(owned.len());
    bring(&owned[..room]).await;
    eventually(|| held(&owned[..room]) == room).await;
    bring(&guests).await;
    assert_eq!(held(&owned[..room]), room, "copies never push out what is owned");
}

async fn eventually(is_so: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "it did not come to be so");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_doubted_is_compared_and_what_is_damaged_is_given_no_more() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 1, 3 * MIB));
    let (engine, dataset) = world.start().await.unwrap();
    engine.join(other(|_| false, Box::new(|_| None)));
    let (object, end) = (dataset.snapshot().lookup("a").unwrap(), 3 * MIB as u64);
    read(&dataset, object, 0..end, false).await.unwrap();
    eventually(|| dataset.residence(object).whole.is_some()).await;
    let file = files_below(&world.tier_dirs()[0].join("data")).remove(0);
    let mut damaged = std::fs::read(&file).unwrap();
    damaged[MIB + 17] ^= 4;
    std::fs::write(&file, damaged).unwrap();

    dataset.doubt(object, 0..MIB as u64).await.unwrap();
    dataset.doubt(object, 2 * MIB as u64..end).await.unwrap();
    assert!(dataset.residence(object).whole.is_some(), "what is right stays");
    dataset.doubt(object, MIB as u64 + 100..end).await.unwrap();
    assert_eq!((dataset.residence(object).whole, dataset.stats().corrupt_pieces), (None, 3));
    assert!(given(&dataset, "a", Asked::AsOwner).await.unwrap() == world.origin["a"]);
    assert_eq!(dataset.stats().origin_requests, 2, "once at first, and once again");
}

/// A peer that owns everything and never answers.
#[derive(Debug)]
struct Stuck(AtomicUsize);

#[async_trait]
impl Peers for Stuck {
    async fn read(&self, wanted: Wanted) -> Option<Box<dyn Given>> {
        if wanted.for_peer {
            return None;
        }
        self.0.fetch_add(1, SeqCst);
        std::future::pending().await
    }

    fn role(&self, _dataset: &str, _key: FileKey, _offset: u64) -> Role {
        Role::Guest
    }
}

#[tokio::test]
async fn what_is_asked_for_a_peer_does_not_wait_for_a_fetch_that_asks_one() {
    // One that is kept, and one that is passed by.
    for quota_bytes in [64 << 20, 16 << 10] {
        let mut world = World::new(Policy::Minio, quota_bytes);
        world.put("a", content("a", 1, 2 * MIB));
        let (engine, dataset) = world.start().await.unwrap();
        let stuck = Arc::new(Stuck(AtomicUsize::new(0)));
        engine.join(Arc::clone(&stuck) as _);
        let object = dataset.snapshot().lookup("a").unwrap();
        let reader = tokio::spawn({
            let dataset = Arc::clone(&dataset);
            async move { dataset.read(object, 0..2 * MIB as u64).await.map(drop) }
        });
        eventually(|| stuck.0.load(SeqCst) > 0).await;
        let given = given(&dataset, "a", Asked::InOwnersPlace);
        let given = tokio::time::timeout(std::time::Duration::from_secs(60), given).await;
        assert!(given.expect("the two would wait for each other").unwrap() == world.origin["a"]);
        reader.abort();
    }
}

#[tokio::test]
async fn what_the_origin_is_sending_is_given_to_one_who_asks_for_what_is_held() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.origin_prefix = "throttled:latency=300ms:".into();
    world.put("a", content("a", 1, 2 * MIB));
    let (engine, dataset) = world.start().await.unwrap();
    engine.join(other(|_| false, Box::new(|_| None)));
    let object = dataset.snapshot().lookup("a").unwrap();
    assert!(matches!(given(&dataset, "a", Asked::AsHolder).await, Err(Error::NotFound(_))), "nobody has asked for it");
    let reader = tokio::spawn({
        let dataset = Arc::clone(&dataset);
        async move { dataset.read(object, 0..2 * MIB as u64).await.map(drop) }
    });
    eventually(|| dataset.stats().origin_requests == 1).await;
    assert!(given(&dataset, "a", Asked::AsHolder).await.unwrap() == world.origin["a"]);
    reader.await.unwrap().unwrap();
    assert_eq!(dataset.stats().origin_requests, 1);
}

#[tokio::test]
async fn one_that_still_takes_itself_for_the_owner_fetches_for_the_new_one_and_asks_nobody() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    for n in 0..32 {
        world.put(&format!("{n}"), content(&format!("{n}"), 1, 2 * MIB));
    }
    let (engine, dataset) = world.start().await.unwrap();
    let peer = other(even, Box::new(|wanted| Some(vec![Ok(right(wanted))])));
    engine.join(Arc::clone(&peer) as _);
    for (path, bytes) in &world.origin {
        let is_even = even(dataset.objects().key(dataset.snapshot().lookup(path).unwrap()));
        match given(&dataset, path, Asked::AsFormerOwner).await {
            Ok(given) => assert!(!is_even && given == *bytes),
            Err(error) => assert!(is_even && matches!(error, Error::NotFound(_)), "{error:?}"),
        }
    }
    assert_eq!(peer.asked.load(SeqCst), 0);
}

#[tokio::test]
async fn whoever_asks_for_what_is_held_does_not_wait_for_what_is_looked_for_among_peers() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 1, 2 * MIB));
    let (engine, dataset) = world.start().await.unwrap();
    let stuck = Arc::new(Stuck(AtomicUsize::new(0)));
    engine.join(Arc::clone(&stuck) as _);
    let object = dataset.snapshot().lookup("a").unwrap();
    let reader = tokio::spawn({
        let dataset = Arc::clone(&dataset);
        async move { dataset.read(object, 0..2 * MIB as u64).await.map(drop) }
    });
    eventually(|| stuck.0.load(SeqCst) > 0).await;
    for asked in [Asked::AsHolder, Asked::AsFormerOwner] {
        let given = tokio::time::timeout(std::time::Duration::from_secs(60), given(&dataset, "a", asked)).await;
        let given = given.expect("the two would wait for each other");
        assert!(matches!(given, Err(Error::NotFound(_))), "{given:?}");
    }
    reader.abort();
}
