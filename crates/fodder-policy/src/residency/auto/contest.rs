//! When another policy takes over: windows of requests, a margin, and patience. A policy that takes over throws out much
//! of what the last one kept before it is used, so that a change must be worth it.

use super::{
    shadow::Shadow,
    trial::{Trials, Verdict},
};
use crate::residency::{
    Policy,
    explanation::{Explanation, ShadowRatio},
};

/// What a challenger must hit more, as a share of the bytes.
const MARGIN: f64 = 0.01;
/// In how many windows in a row.
const PATIENCE: u32 = 4;
/// A window is half as many requests of watched ids as there are of these, within these bounds.
const SHORTEST: u32 = 256;
const LONGEST: u32 = 1 << 16;

/// Who decides, and who might.
#[derive(Debug)]
pub(super) struct Contest {
    chosen: Policy,
    why: String,
    /// Who was best in the last windows without being chosen, and in how many.
    challenger: Option<(Policy, u32)>,
    trials: Trials,
    window: Window,
    shortest: u32,
}

/// What was asked for since the last judgement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    /// Requests of watched ids, and their bytes.
    watched: u32,
    pub(super) watched_bytes: u64,
    /// Requests of all ids, and how many the cache itself hit.
    asked: u64,
    hits: u64,
}

impl Contest {
    pub(super) fn new(first: Policy) -> Self {
        Self {
            chosen: first,
            why: "it is right for epochs over more data than fits, and no other has shown itself better".into(),
            challenger: None,
            trials: Trials::default(),
            window: Window::default(),
            shortest: SHORTEST,
        }
    }

    /// The same with windows of another length.
    #[cfg(test)]
    pub(super) fn with_windows_of(first: Policy, shortest: u32) -> Self {
        Self { shortest, ..Self::new(first) }
    }

    pub(super) fn chosen(&self) -> Policy {
        self.chosen
    }

    /// An id was asked for, and the cache had it or not.
    #[inline]
    pub(super) fn asked(&mut self, hit: bool) {
        self.window.asked += 1;
        self.window.hits += u64::from(hit);
    }

    /// It was a watched one, of so many. Whether that ends the window.
    pub(super) fn watched_asked(&mut self, bytes: u32, watched: u32) -> bool {
        self.window.watched += 1;
        self.window.watched_bytes += u64::from(bytes);
        self.window.watched >= (watched / 2).clamp(self.shortest, LONGEST)
    }

    /// Begins the next window; what was asked for in the last.
    pub(super) fn turn(&mut self) -> Window {
        std::mem::take(&mut self.window)
    }

    /// Who takes over, if it is time.
    pub(super) fn judge(&mut self, shadows: &[Shadow], window: &Window, reach: f64) -> Option<Policy> {
        let real = window.hits as f64 / window.asked.max(1) as f64;
        if let Some(verdict) = self.trials.window(self.chosen, real, reach) {
            return self.heed(verdict);
        }
        let ratios = ratios(shadows);
        let held = ratios.iter().find(|shadow| shadow.policy == self.chosen)?.hit_ratio;
        let allowed = ratios.iter().find(|shadow| self.trials.allows(shadow.policy));
        let Some(best) = allowed.filter(|best| best.hit_ratio > held + MARGIN) else {
            self.challenger = None;
            return None;
        };
        let wins = match self.challenger {
            Some((policy, wins)) if policy == best.policy => wins + 1,
            _ => 1,
        };
        self.challenger = Some((best.policy, wins));
        if wins < PATIENCE {
            return None;
        }
        let (hit, before) = (best.hit_ratio, self.chosen);
        self.take_over(
            best.policy,
            format!("its shadow hit {hit:.3} of the bytes where that of {before}, chosen before, hit {held:.3}"),
        )
    }

    /// Does what a trial has come to.
    fn heed(&mut self, verdict: Verdict) -> Option<Policy> {
        match verdict {
            Verdict::Wait => None,
            Verdict::Try => {
                let why = "it is tried in earnest, since jobs take what is cached long before its turn";
                self.take_over(Policy::Pending, why.into())
            }
            Verdict::Keep { held, seen } => {
                self.why = format!("tried in earnest it hit {seen:.3} of the requests where plan hit {held:.3}");
                None
            }
            Verdict::Return { held, seen } => {
                let why = format!("it hit {held:.3} of the requests where pending, tried in earnest, hit {seen:.3}");
                self.take_over(Policy::Plan, why)
            }
        }
    }

    fn take_over(&mut self, policy: Policy, why: String) -> Option<Policy> {
        (self.chosen, self.why) = (policy, why);
        self.challenger = None;
        self.trials.changed();
        Some(policy)
    }

    pub(super) fn explain(&self, shadows: &[Shadow]) -> Explanation {
        Explanation { chosen: self.chosen, why: self.why.clone(), shadows: ratios(shadows) }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.why.capacity()
    }
}

/// How shadows do, the best first.
fn ratios(shadows: &[Shadow]) -> Vec<ShadowRatio> {
    let ratio = |shadow: &Shadow| Some(ShadowRatio { policy: shadow.policy, hit_ratio: shadow.ratio()? });
    let mut ratios: Vec<ShadowRatio> = shadows.iter().filter_map(ratio).collect();
    ratios.sort_by(|a, b| b.hit_ratio.total_cmp(&a.hit_ratio));
    ratios
}
