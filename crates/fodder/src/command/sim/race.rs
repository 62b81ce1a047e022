//! Every contender at every cache size, in parallel over the cores.

use fodder_policy::sim::{Sizes, Study, Tally, study::Contender};
use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// How one contender did at one cache size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) contender: Contender,
    /// The cache's size as a share of all items.
    pub(super) cached: f64,
    pub(super) tally: Tally,
    /// What no contender can exceed at this size.
    pub(super) bound: f64,
    /// Whether items are of different sizes, so that a hit ratio by bytes differs from one by requests.
    pub(super) sized: bool,
    /// Requests run, those not counted too, and the time that took on one core.
    pub(super) requests: usize,
    pub(super) time: Duration,
}

/// Runs everyone. The outcomes come by contender, and by size within each.
pub(super) fn race(study: &Study, contenders: &[Contender], sizes: &[f64]) -> Vec<Outcome> {
    let bounds = in_parallel(sizes, |&cached| study.bound(cached));
    let cells: Vec<(Contender, f64, f64)> = contenders
        .iter()
        .flat_map(|&contender| sizes.iter().zip(&bounds).map(move |(&cached, &bound)| (contender, cached, bound)))
        .collect();
    in_parallel(&cells, |&(contender, cached, bound)| {
        let started = Instant::now();
        let tally = study.run(contender, cached);
        Outcome {
            contender,
            cached,
            tally,
            bound,
            sized: matches!(study.trace().sizes, Sizes::Each(_)),
            requests: study.trace().requests.len(),
            time: started.elapsed(),
        }
    })
}

/// Maps a slice with as many threads as there are cores. Each takes the next that nobody has taken.
fn in_parallel<T: Sync, U: Send>(inputs: &[T], work: impl Fn(&T) -> U + Sync) -> Vec<U> {
    let cores = thread::available_parallelism().map_or(1, Into::into).min(inputs.len());
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Relaxed);
            let Some(input) = inputs.get(index) else { return done };
            done.push((index, work(input)));
        }
    };
    let mut results: Vec<(usize, U)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a simulation does not panic")).collect()
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_their_inputs() {
        let inputs: Vec<u64> = (0..1_000).collect();
        let squares = in_parallel(&inputs, |&number| number * number);
        assert!(squares.iter().enumerate().all(|(number, &square)| square == (number * number) as u64));
        assert!(in_parallel(&[] as &[u64], |&number| number).is_empty());
    }
}
