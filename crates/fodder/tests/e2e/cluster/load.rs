//! Under load: nodes are killed and restarted, and no read of the others fails.

use super::{BYTES, Client, Fleet, Shape};
use crate::{lateness::Lateness, program::wait_for};
use fodder_api::frames::{Batch, FrameClient};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use rustix::process::Signal;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

/// Five nodes with so little cache that most of what one reads is another's, and enough that four hold all of it.
fn five() -> Fleet {
    let shape = Shape { nodes: 5, objects: 500, bytes: 128 << 10, cache_bytes: 20 << 20, ..Shape::default() };
    let fleet = Fleet::with(shape);
    fleet.epoch(0);
    fleet
}

/// Readers end when it is dropped, also when whoever waits for them gives up.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Reads at random at the first four nodes, every object right, while something is done to the fleet, which is given a way to
/// wait until all four have read on. The longest that a read took.
fn longest_read(fleet: &mut Fleet, disturb: impl FnOnce(&mut Fleet, &dyn Fn())) -> Duration {
    let lateness = Lateness::watch();
    let (stop, reads, longest) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 4], Mutex::new(Duration::ZERO));
    let (clients, contents) = (fleet.addresses[..4].to_vec(), fleet.contents.clone());
    thread::scope(|scope| {
        let _stopped = Stop(&stop);
        for (n, address) in clients.iter().enumerate() {
            let (stop, reads, longest, contents) = (&stop, &reads, &longest, &contents);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(n as u64);
                let mut client = FrameClient::connect(&address.parse().unwrap()).unwrap();
                let handle = client.open("world", None).unwrap().handle;
                let mut client = Client { client, handle, batch: Batch::new(), contents };
                while !stop.load(SeqCst) {
                    let began = Instant::now();
                    client.read(rng.random_range(0..contents.len() as u64));
                    let mut longest = longest.lock().unwrap();
                    *longest = longest.max(began.elapsed());
                    reads[n].fetch_add(1, SeqCst);
                }
            });
        }
        disturb(fleet, &|| {
            let goals: Vec<_> = reads.iter().map(|reads| reads.load(SeqCst) + 200).collect();
            wait_for("the others to go on reading", || {
                reads.iter().zip(&goals).all(|(reads, goal)| reads.load(SeqCst) >= *goal)
            });
        });
    });
    let longest = *longest.lock().unwrap();
    lateness.check(longest, Duration::from_secs(2));
    longest
}

#[test]
fn a_node_that_is_killed_under_load_again_and_again_fails_no_read_of_the_others() {
    const KILLS: u64 = 3;
    let mut fleet = five();
    let before = fleet.server.bytes_sent();
    longest_read(&mut fleet, |fleet, read_on| {
        for _ in 0..KILLS {
            read_on();
            // Killed when dropped.
            fleet.nodes[4] = None;
            read_on();
            fleet.start(4);
            fleet.agree();
        }
        read_on();
    });
    let fetched = fleet.server.bytes_sent() - before;
    println!("{fetched} of {} bytes left the origin over {KILLS} deaths", fleet.bytes());
    // What the dead owned, each time. Mostly less: what the others fetched the first time they still have the next.
    let most = KILLS * fleet.bytes() / 5;
    assert!(fetched <= most, "{fetched} of {} bytes left the origin again", fleet.bytes());
}

#[test]
fn a_node_that_hangs_under_load_fails_no_read_of_the_others_and_is_back_afterwards() {
    let mut fleet = five();
    let mut given = 0;
    longest_read(&mut fleet, |fleet, read_on| {
        let node = fleet.nodes[4].as_ref().unwrap();
        let given_by = || node.status()["datasets"][0]["stats"]["bytes_to_peers"].as_u64().unwrap();
        for _ in 0..2 {
            read_on();
            node.signal(Signal::STOP);
            read_on();
            node.signal(Signal::CONT);
            fleet.agree();
            given = given_by();
            wait_for("it to be asked again", || given_by() > given);
        }
    });
    assert!(given > 0);
}

#[test]
fn all_nodes_are_restarted_one_after_the_other_under_load_and_no_read_fails() {
    let objects = 120;
    let mut fleet = Fleet::new(3, objects, objects * BYTES * 2 / 3);
    fleet.epoch(0);
    let before = fleet.server.bytes_sent();
    let (addresses, contents) = (fleet.addresses.clone(), fleet.contents.clone());
    let (stop, reads) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 3]);
    // Which node may be away: only its own readers may lose their connection, and connect again.
    let away = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        let _stopped = Stop(&stop);
        for (n, address) in addresses.iter().enumerate() {
            let (stop, reads, away, contents) = (&stop, &reads, &away, &contents);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(n as u64);
                while !stop.load(SeqCst) {
                    let lost = read_until_lost(address, contents, &mut rng, stop, &reads[n]);
                    let Err(error) = lost else { return };
                    assert_eq!(away.load(SeqCst), n as u64, "node {n} was not away: {error}");
                    thread::sleep(Duration::from_millis(10));
                }
            });
        }
        let read_on = |who: &[usize]| {
            let goals: Vec<_> = who.iter().map(|n| reads[*n].load(SeqCst) + 100).collect();
            wait_for("readers to go on", || who.iter().zip(&goals).all(|(n, goal)| reads[*n].load(SeqCst) >= *goal));
        };
        for n in 0..3 {
            read_on(&[0, 1, 2]);
            away.store(n as u64, SeqCst);
            let before = fleet.server.bytes_sent();
            assert_eq!(fleet.nodes[n].take().unwrap().stop(), 0);
            read_on(&[(n + 1) % 3, (n + 2) % 3]);
            fleet.start(n);
            fleet.agree();
            let back = fleet.server.bytes_sent();
            read_on(&[0, 1, 2]);
            let later = fleet.server.bytes_sent() - back;
            println!("{} bytes left the origin while node {n} was away, and {later} later", back - before);
            // Mostly half of it: others have copies of some, and do not read all of it meanwhile.
            let share = fleet.bytes() * 36 / 100;
            assert!(back - before <= share, "more than its share left the origin: {} bytes", back - before);
            assert!(later <= 2 * BYTES as u64, "whoever is back has what it had, and is asked first");
            away.store(u64::MAX, SeqCst);
        }
    });
    let fetched = fleet.server.bytes_sent() - before;
    println!("{fetched} of {} bytes left the origin again over three restarts", fleet.bytes());
}

/// Reads at random; what comes must be right. An error is one of the connection.
fn read_until_lost(
    address: &str,
    contents: &[Vec<u8>],
    rng: &mut SmallRng,
    stop: &AtomicBool,
    reads: &AtomicU64,
) -> Result<(), fodder_api::Error> {
    let mut client = FrameClient::connect(&address.parse().unwrap())?;
    let handle = client.open("world", None)?.handle;
    let mut batch = Batch::new();
    while !stop.load(SeqCst) {
        let id = rng.random_range(0..contents.len() as u64);
        client.get_items(handle, &[id], &mut batch)?;
        let data = batch.iter().next().unwrap().data;
        match data {
            Ok(bytes) => assert!(bytes == contents[id as usize], "item {id} has the wrong bytes"),
            // A node that ends says so of what it could not answer any more.
            Err(error @ fodder_api::Error::Closed(_)) => return Err(error),
            Err(error) => panic!("item {id}: {error}"),
        }
        reads.fetch_add(1, SeqCst);
    }
    Ok(())
}
