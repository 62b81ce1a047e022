//! A trial in earnest of `pending` against `plan`.
//!
//! A shadow sees the requests that the chosen policy brought about. Where jobs take what is cached first, these depend on
//! what it keeps, and its own shadow is flattered: how a rival would do can only be known by letting it decide for a
//! while. So where jobs reach far ahead of their plans, `pending` is tried once `plan` has decided for long enough; if
//! it does worse, that is not done again soon.

use crate::residency::Policy;

/// How far jobs must reach for a trial.
const FAR: f64 = 0.2;
/// What `pending` must hit more to stay, and how much less ends its trial at once.
const GAIN: f64 = 0.005;
const LOSS: f64 = 0.03;
/// Windows that it is given to make the cache its own, and those in which it is then measured.
const SETTLE: u32 = 3;
const MEASURE: usize = 3;
/// Windows before the first trial; twice as many before each one after it.
const FIRST_WAIT: u32 = 12;

/// Past and present trials.
#[derive(Debug)]
pub(super) struct Trials {
    /// What the cache hit in the last windows, the newest last.
    recent: [f64; MEASURE],
    /// Windows since the policy changed.
    steady: u32,
    /// How many of these it takes until the next trial.
    wait: u32,
    /// What `plan` hit before the trial that is running.
    held: Option<f64>,
    /// For how many windows `plan` may not come back: it has lost a trial.
    banned: u32,
}

/// What a trial has come to: what was hit before it and in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// It goes on, and nothing else is to be decided.
    Wait,
    /// It begins.
    Try,
    /// `pending` stays.
    Keep { held: f64, seen: f64 },
    /// `plan` comes back.
    Return { held: f64, seen: f64 },
}

impl Default for Trials {
    fn default() -> Self {
        Self { recent: [0.0; MEASURE], steady: 0, wait: FIRST_WAIT, held: None, banned: 0 }
    }
}

impl Trials {
    /// The policy was changed.
    pub(super) fn changed(&mut self) {
        self.steady = 0;
    }

    /// Whether shadows may make this policy the chosen one.
    pub(super) fn allows(&self, policy: Policy) -> bool {
        policy != Policy::Plan || self.banned == 0
    }

    /// A window is over, in which the cache hit `hit_ratio` of the requests and jobs reached so far. What follows, if
    /// trials have a say.
    pub(super) fn window(&mut self, chosen: Policy, hit_ratio: f64, reach: f64) -> Option<Verdict> {
        self.steady = self.steady.saturating_add(1);
        self.banned = self.banned.saturating_sub(1);
        self.recent.rotate_left(1);
        self.recent[MEASURE - 1] = hit_ratio;
        let seen = self.recent.iter().sum::<f64>() / MEASURE as f64;
        if let Some(held) = self.held {
            return Some(self.judge(held, seen, hit_ratio));
        }
        if chosen != Policy::Plan || reach < FAR || self.steady < self.wait {
            return None;
        }
        self.held = Some(seen);
        Some(Verdict::Try)
    }

    fn judge(&mut self, held: f64, seen: f64, last: f64) -> Verdict {
        let is_hopeless = self.steady > SETTLE && last < held - LOSS;
        if !is_hopeless && self.steady < SETTLE + MEASURE as u32 {
            return Verdict::Wait;
        }
        self.held = None;
        self.wait = self.wait.saturating_mul(2);
        if is_hopeless || seen <= held + GAIN {
            return Verdict::Return { held, seen };
        }
        self.banned = self.wait;
        Verdict::Keep { held, seen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows like each other, until something is to be done.
    fn until(trials: &mut Trials, chosen: Policy, hit_ratio: f64, reach: f64) -> (u32, Verdict) {
        for windows in 1..1_000 {
            match trials.window(chosen, hit_ratio, reach) {
                None | Some(Verdict::Wait) => {}
                Some(verdict) => return (windows, verdict),
            }
        }
        (1_000, Verdict::Wait)
    }

    #[test]
    fn pending_is_tried_where_jobs_reach_far_ahead_of_their_plans() {
        let mut trials = Trials::default();
        assert_eq!(until(&mut trials, Policy::Plan, 0.7, 0.1), (1_000, Verdict::Wait));
        assert_eq!(until(&mut trials, Policy::Lru, 0.7, 0.5), (1_000, Verdict::Wait));
        assert_eq!(until(&mut trials, Policy::Plan, 0.7, 0.5), (1, Verdict::Try));
    }

    #[test]
    fn a_trial_that_fails_ends_soon_and_is_repeated_ever_more_rarely() {
        let mut trials = Trials::default();
        let mut waited = 0;
        for _ in 0..5 {
            let (wait, verdict) = until(&mut trials, Policy::Plan, 0.7, 0.5);
            assert_eq!(verdict, Verdict::Try);
            assert!(wait > waited, "after {waited} windows came {wait}");
            waited = wait;
            trials.changed();
            let (windows, verdict) = until(&mut trials, Policy::Pending, 0.5, 0.5);
            assert!(matches!(verdict, Verdict::Return { .. }) && windows == SETTLE + 1, "{verdict:?} after {windows}");
            trials.changed();
        }
    }

    #[test]
    fn pending_stays_if_it_hits_more_and_plan_may_not_come_back_at_once() {
        let mut trials = Trials::default();
        until(&mut trials, Policy::Plan, 0.7, 0.5);
        trials.changed();
        let (_, verdict) = until(&mut trials, Policy::Pending, 0.73, 0.5);
        assert!(matches!(verdict, Verdict::Keep { .. }), "{verdict:?}");
        assert!(!trials.allows(Policy::Plan) && trials.allows(Policy::Lru));
        until(&mut trials, Policy::Pending, 0.73, 0.5);
        assert!(trials.allows(Policy::Plan));
    }
}
