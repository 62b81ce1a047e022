//! The slow round over everything that is cached: disks forget, and what nobody reads nobody checks.

use super::{Dataset, Engine};
use std::{
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// How fast it reads: slow enough that no reader notices, a terabyte in a day and a half.
const BYTES_PER_SECOND: u64 = 8 << 20;
/// The rest before each round.
const REST: Duration = Duration::from_secs(3600);
/// How soon it notices that the node stops.
const STEP: Duration = Duration::from_millis(100);

/// Starts the thread that goes round and round until the node stops.
pub(super) fn start(engine: Weak<Engine>, closing: CancellationToken) -> std::io::Result<JoinHandle<()>> {
    let rounds = move || {
        while rest(REST, &closing) {
            let Some(datasets) = engine.upgrade().map(|engine| engine.datasets()) else { return };
            datasets.iter().for_each(|dataset| scrub(dataset, BYTES_PER_SECOND, &closing));
        }
    };
    std::thread::Builder::new().name("scrub".into()).spawn(rounds)
}

/// Checks one dataset at a pace.
fn scrub(dataset: &Arc<Dataset>, bytes_per_second: u64, closing: &CancellationToken) {
    let began = Instant::now();
    let report = dataset.check_stocks(&mut |checked| {
        let due = Duration::from_secs_f64(checked.bytes as f64 / bytes_per_second as f64);
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
