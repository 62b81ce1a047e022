//! The slow round over everything that is cached: disks forget, and what nobody reads nobody checks.

use super::{Dataset, Engine};
use crate::config::EngineConfig;
use std::{
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// How soon it notices that the node stops.
const STEP: Duration = Duration::from_millis(100);

/// Starts the thread that goes round and round until the node stops.
pub(super) fn start(engine: &Arc<Engine>) -> std::io::Result<JoinHandle<()>> {
    let EngineConfig { scrub_interval: interval, scrub_bytes_per_second: bytes_per_second, .. } = engine.config;
    let (engine, closing) = (Arc::downgrade(engine), engine.shared.closing.clone());
    let rounds = move || {
        while rest(interval, &closing) {
            let Some(datasets) = engine.upgrade().map(|engine| engine.datasets()) else { return };
            datasets.iter().for_each(|dataset| scrub(dataset, bytes_per_second, &closing));
        }
    };
    std::thread::Builder::new().name("scrub".into()).spawn(rounds)
}

/// Checks one dataset at a pace.
fn scrub(dataset: &Arc<Dataset>, bytes_per_second: u64, closing: &CancellationToken) {
    let began = Instant::now();
    let report = dataset.check_stocks(&mut |checked| {
        let due = Duration::from_secs_f64(checked.bytes as f64 / bytes_per_second.max(1) as f64);
        rest(due.saturating_sub(began.elapsed()), closing)
    });
    if report.corrupt > 0 {
        let name = &dataset.config().name;
        tracing::warn!(dataset = name, pieces = report.corrupt, "a check found damaged bytes; they are fetched again");
    }
}

/// Rests unless the node stops meanwhile; whether it goes on.
fn rest(duration: Duration, closing: &CancellationToken) -> bool {
    let until = Instant::now() + duration;
    while !closing.is_cancelled() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STEP));
    }
    false
}
