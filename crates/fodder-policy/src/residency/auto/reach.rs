//! How far jobs reach ahead of their plans. Told when the watched will be needed, it compares the moments that were told
//! of one request and the next: where jobs keep to their plans these follow each other closely, and where they take
//! what is cached first they jump.

use crate::residency::{dense::Dense, signal::NEVER};

/// A running measurement.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// When each of the watched is needed, as last told; 0 if never.
    told: Dense<u64>,
    /// The moment that was told of the last request.
    last: u64,
    /// Since the window began: how far moments were from the one before, and how far the next uses lay.
    jumps: f64,
    horizons: f64,
    /// The mean of the first in terms of the second, over the last windows.
    reach: f64,
}

impl Reach {
    /// A watched id is asked for, and will be again at `at`.
    pub(super) fn asked(&mut self, id: u32, at: u64) {
        let told = self.told.entry(id, 0);
        let now = std::mem::replace(told, at);
        if now == 0 || now == NEVER {
            return;
        }
        if self.last != 0 && at != NEVER {
            self.jumps += now.abs_diff(self.last) as f64;
            self.horizons += at.saturating_sub(now) as f64;
        }
        self.last = now;
    }

    /// A window is over.
    pub(super) fn turn(&mut self) {
        if self.horizons > 0.0 {
            self.reach += (self.jumps / self.horizons - self.reach) / 4.0;
        }
        (self.jumps, self.horizons) = (0.0, 0.0);
    }

    /// How far jobs reach, in terms of how far next uses lie.
    pub(super) fn get(&self) -> f64 {
        self.reach
    }

    /// Bytes it holds on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.told.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four epochs over a hundred ids, told in `order` of when they are planned.
    fn reach(order: impl Fn(u32) -> u32) -> f64 {
        let mut reach = Reach::default();
        for epoch in 0..4u64 {
            for position in 0..100 {
                let id = order(position);
                reach.asked(id, (epoch + 1) * 100 + u64::from(id) + 1);
            }
            reach.turn();
        }
        reach.get()
    }

    #[test]
    fn jobs_that_keep_to_their_plans_do_not_reach_ahead() {
        assert!(reach(|position| position) < 0.02);
    }

    #[test]
    fn jobs_that_take_what_is_cached_wherever_it_is_reach_far() {
        assert!(reach(|position| position * 37 % 100) > 0.2);
    }
}
