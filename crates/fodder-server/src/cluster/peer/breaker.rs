//! Whether a peer is worth asking: a pure machine, told what came of each request and what time it is.
//!
//! ```text
//!      3 failures in a row, or a long silence, or a lie   the wait is over
//!   closed ──────────────────────────────► open ──────────────────────► half-open ── one trial
//!      ▲                                     ▲                              │
//!      │                                     └──────── it failed: twice ────┤
//!      │                                               the wait             │
//!      └──────────────────────────────────────────────── it succeeded ──────┘
//! ```

use std::time::Duration;

/// Failures in a row after which a peer is left alone.
const FAILURES: u32 = 3;
/// How long at first, and at most.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long one that sends wrong bytes is left alone.
const LIE: Duration = Duration::from_secs(60);
/// A trial of which nothing was heard for so long is over.
const TRIAL: Duration = Duration::from_secs(5);

/// What came of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It did not answer, or not to the end.
    Silence,
    /// It said nothing for as long as it may. Whoever asks it next would wait as long.
    Lateness,
    /// It sent what does not match.
    Lie,
}

/// How a breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breaker {
    /// The peer is asked. So many requests in a row have failed.
    Closed(u32),
    /// It is not asked before a time; how long that is.
    Open { until: Duration, wait: Duration },
    /// One request is under way since a time, to see.
    HalfOpen { since: Duration, wait: Duration },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed(0)
    }
}

impl Breaker {
    /// Whether the peer may be asked now; if that is a trial, it has begun.
    pub(crate) fn admits(&mut self, now: Duration) -> bool {
        match *self {
            Self::Closed(_) => true,
            _ if self.is_left_alone(now) => false,
            Self::Open { wait, .. } | Self::HalfOpen { wait, .. } => {
                *self = Self::HalfOpen { since: now, wait };
                true
            }
        }
    }

    /// Whether the peer would be refused now: others do its work. Once a trial is due it is not, or nobody would try.
    pub(crate) fn is_left_alone(&self, now: Duration) -> bool {
        match *self {
            Self::Closed(_) => false,
            Self::Open { until, .. } => now < until,
            Self::HalfOpen { since, .. } => now < since + TRIAL,
        }
    }

    /// Whether the peer does not answer, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self, Self::Closed(_))
    }

    /// A request was answered.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::Closed(0);
    }

    /// A request failed.
    pub(crate) fn failed(&mut self, fault: Fault, now: Duration) {
        let open = |wait: Duration| Self::Open { until: now + wait, wait };
        *self = match (*self, fault) {
            (_, Fault::Lie) => open(LIE),
            (Self::Closed(failures), Fault::Silence) if failures + 1 < FAILURES => Self::Closed(failures + 1),
            (Self::Closed(_), _) => open(WAITS.0),
            (Self::HalfOpen { wait, .. }, _) => open((wait * 2).min(WAITS.1)),
            // Of a request that had begun before.
            (Self::Open { .. }, _) => *self,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        (0..FAILURES).for_each(|_| breaker.failed(Fault::Silence, at(10)));
        breaker
    }

    #[test]
    fn a_peer_is_left_alone_after_failures_in_a_row_and_not_before() {
        let mut breaker = Breaker::default();
        for _ in 0..5 {
            breaker.failed(Fault::Silence, at(1));
            breaker.failed(Fault::Silence, at(1));
            assert!(breaker.admits(at(1)) && !breaker.is_open());
            breaker.succeeded();
        }
        let mut breaker = opened();
        assert!(breaker.is_open() && breaker.is_left_alone(at(10)) && !breaker.admits(at(10)));
        assert!(!breaker.is_left_alone(at(11)), "whoever looks now may try it");
        assert!(breaker.admits(at(11)));
        assert!(breaker.is_left_alone(at(11)) && !breaker.admits(at(11)), "one is trying");
    }

    #[test]
    fn one_trial_decides_and_each_that_fails_makes_the_wait_longer() {
        let mut breaker = opened();
        let (mut now, mut wait) = (at(10), at(1));
        for _ in 0..8 {
            assert!(!breaker.admits(now + wait - Duration::from_millis(1)));
            now += wait;
            assert!(breaker.admits(now), "the wait is over");
            assert!(!breaker.admits(now) && breaker.is_open(), "one trial is enough");
            breaker.failed(Fault::Silence, now);
            wait = (wait * 2).min(at(30));
        }
        assert_eq!(wait, at(30));
        assert!(breaker.admits(now + wait));
        breaker.succeeded();
        assert_eq!(breaker, Breaker::default());
    }

    #[test]
    fn a_trial_that_is_never_heard_of_again_does_not_close_the_door_for_ever() {
        let mut breaker = opened();
        assert!(breaker.admits(at(11)));
        assert!(!breaker.admits(at(12)));
        assert!(breaker.admits(at(16)));
    }

    #[test]
    fn a_long_silence_is_enough() {
        let mut breaker = Breaker::default();
        breaker.failed(Fault::Lateness, at(10));
        assert_eq!(breaker, opened());
    }

    #[test]
    fn a_lie_is_enough() {
        let mut breaker = Breaker::default();
        breaker.failed(Fault::Lie, at(0));
        assert!(!breaker.admits(at(59)));
        assert!(breaker.admits(at(60)));
    }

    #[test]
    fn late_failures_do_not_prolong_the_wait() {
        let mut breaker = opened();
        breaker.failed(Fault::Silence, at(10) + Duration::from_millis(900));
        assert!(breaker.admits(at(11)));
    }
}
