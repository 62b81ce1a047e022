//! The slow round over everything that is cached: disks forget, and what nobody reads nobody checks.

use super::{Dataset, Engine};
use crate::config::EngineConfig;
use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Starts the thread that goes round and round until the node stops.
pub(super) fn start(engine: &Arc<Engine>) -> std::io::Result<JoinHandle<()>> {
    let EngineConfig { scrub_interval: interval, scrub_bytes_per_second: bytes_per_second, .. } = engine.config;
    let (open, end) = channel();
    let closing = engine.shared.closing.clone();
    engine.shared.tasks.spawn(async move {
        closing.cancelled().await;
        drop(open);
    });
    let engine = Arc::downgrade(engine);
    let rounds = move || {
        while rest(interval, &end) {
            let Some(datasets) = engine.upgrade().map(|engine| engine.datasets()) else { return };
            datasets.iter().for_each(|dataset| scrub(dataset, bytes_per_second, &end));
        }
    };
    std::thread::Builder::new().name("scrub".into()).spawn(rounds)
}

/// Checks one dataset at a pace.
fn scrub(dataset: &Arc<Dataset>, bytes_per_second: u64, end: &Receiver<()>) {
    let began = Instant::now();
    let report = dataset.check_stocks(&mut |checked| {
        let due = Duration::from_secs_f64(checked.bytes as f64 / bytes_per_second.max(1) as f64);
        rest(due.saturating_sub(began.elapsed()), end)
    });
    if report.corrupt > 0 {
        let name = &dataset.config().name;
        tracing::warn!(dataset = name, pieces = report.corrupt, "a check found damaged bytes; fetching them again");
    }
}

/// Rests unless the node stops meanwhile; whether it goes on.
fn rest(duration: Duration, end: &Receiver<()>) -> bool {
    end.recv_timeout(duration) == Err(RecvTimeoutError::Timeout)
}
