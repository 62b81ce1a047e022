//! A reader beside each node that reads at random as long as the test lasts. Every read must come, and be right.

use super::fleet::Fleet;
use crate::program::wait_for;
use fodder_api::{
    Address, Error, Timeouts,
    frames::{Batch, FrameClient},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The readers; they end when this is dropped.
pub(crate) struct Load {
    readers: Vec<(Arc<Reader>, Option<JoinHandle<()>>)>,
}

struct Reader {
    socket: Address,
    contents: Arc<Vec<Vec<u8>>>,
    reads: AtomicU64,
    longest_us: AtomicU64,
    /// Its node may be away, so that its connection may be lost.
    away: AtomicBool,
    stop: AtomicBool,
}

impl Load {
    pub(crate) fn start(fleet: &Fleet) -> Self {
        let readers = (0..fleet.nodes.len()).map(|n| {
            let reader = Arc::new(Reader {
                socket: fleet.socket(n),
                contents: Arc::clone(&fleet.contents),
                reads: AtomicU64::new(0),
                longest_us: AtomicU64::new(0),
                away: AtomicBool::new(false),
                stop: AtomicBool::new(false),
            });
            let handle = thread::spawn({
                let reader = Arc::clone(&reader);
                move || reader.run(n as u64)
            });
            (reader, Some(handle))
        });
        Self { readers: readers.collect() }
    }

    /// Waits until each of these readers has read so many objects more.
    #[track_caller]
    pub(crate) fn read_on(&mut self, who: &[usize], count: u64) {
        let goals: Vec<_> = who.iter().map(|n| self.readers[*n].0.reads.load(SeqCst) + count).collect();
        wait_for("readers to go on", || {
            self.look();
            who.iter().zip(&goals).all(|(n, goal)| self.readers[*n].0.reads.load(SeqCst) >= *goal)
        });
    }

    /// Says that a node may be away, or may not be any more.
    pub(crate) fn away(&self, n: usize, away: bool) {
        self.readers[n].0.away.store(away, SeqCst);
    }

    /// The longest that a read took since this was last asked.
    pub(crate) fn longest(&self) -> Duration {
        let longest = self.readers.iter().map(|(reader, _)| reader.longest_us.swap(0, SeqCst)).max();
        Duration::from_micros(longest.unwrap_or(0))
    }

    /// Ends the readers, and says how much they have read.
    pub(crate) fn end(mut self) -> u64 {
        self.look();
        for (reader, handle) in &mut self.readers {
            reader.stop.store(true, SeqCst);
            handle.take().unwrap().join().unwrap();
        }
        self.readers.iter().map(|(reader, _)| reader.reads.load(SeqCst)).sum()
    }

    /// Fails if a reader has.
    fn look(&mut self) {
        for (_, handle) in &mut self.readers {
            if handle.as_ref().is_some_and(JoinHandle::is_finished) {
                handle.take().unwrap().join().expect("a reader failed");
            }
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.readers.iter().for_each(|(reader, _)| reader.stop.store(true, SeqCst));
    }
}

impl Reader {
    fn run(&self, seed: u64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        while !self.stop.load(SeqCst) {
            let away = self.away.load(SeqCst);
            let Err(error) = self.read_until_lost(&mut rng) else { return };
            let excused = away || self.away.load(SeqCst) || self.stop.load(SeqCst);
            assert!(excused, "a read at {} failed: {error}", self.socket);
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn read_until_lost(&self, rng: &mut SmallRng) -> Result<(), Error> {
        // A node that is stopped keeps its readers waiting.
        let timeouts = Timeouts { connect: Duration::from_secs(60), progress: Duration::from_secs(120), doubt: None };
        let mut client = FrameClient::connect_with(&self.socket, timeouts)?;
        let handle = client.open("world", None)?.handle;
        let mut batch = Batch::new();
        while !self.stop.load(SeqCst) {
            let ids = [(); 2].map(|()| rng.random_range(0..self.contents.len() as u64));
            let began = Instant::now();
            client.get_items(handle, &ids, &mut batch)?;
            self.longest_us.fetch_max(began.elapsed().as_micros().try_into().unwrap(), SeqCst);
            for (id, item) in ids.into_iter().zip(batch.iter()) {
                assert!(item.data? == self.contents[id as usize], "item {id} has the wrong bytes at {}", self.socket);
            }
            self.reads.fetch_add(1, SeqCst);
        }
        Ok(())
    }
}
