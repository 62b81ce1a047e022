//! How late this machine itself is, beside a test that holds a time against a number: on an idle one not at all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

/// How often it looks.
const STEP: Duration = Duration::from_millis(5);

/// So many times one after the other somebody who reads may be woken late.
const TIMES: u32 = 4;

/// Watches how late a thread that sleeps is woken. Ends when dropped.
pub(crate) struct Lateness {
    stop: Arc<AtomicBool>,
    longest_us: Arc<AtomicU64>,
}

impl Lateness {
    pub(crate) fn watch() -> Self {
        let watch = Self { stop: Arc::default(), longest_us: Arc::default() };
        let (stop, longest_us) = (Arc::clone(&watch.stop), Arc::clone(&watch.longest_us));
        thread::spawn(move || {
            while !stop.load(SeqCst) {
                let began = Instant::now();
                thread::sleep(STEP);
                let late = began.elapsed().saturating_sub(STEP);
                longest_us.fetch_max(late.as_micros().try_into().unwrap(), SeqCst);
            }
        });
        watch
    }

    /// Fails if something took longer than it may, and than this machine alone accounts for.
    #[track_caller]
    pub(crate) fn check(&self, took: Duration, most: Duration) {
        let late = Duration::from_micros(self.longest_us.load(SeqCst));
        println!("the longest read took {took:?}; this machine was late by up to {late:?}");
        assert!(took < most + late * TIMES, "a read took {took:?}; this machine was late by up to {late:?}");
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
    }
}
