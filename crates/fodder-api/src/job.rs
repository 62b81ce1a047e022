//! The words of jobs on the wire and in `fodder-policy`, each way. Bounds are checked by whoever acts on them.

use crate::v1;
use fodder_policy::{
    ledger,
    plan::Uneven,
    serving::{Approximation, Kind, Mode},
};

impl From<Mode> for v1::Mode {
    fn from(mode: Mode) -> Self {
        use v1::mode::Mode as M;
        let mode = match mode {
            Mode::Strict => M::Strict(v1::Strict {}),
            Mode::Reorder { window } => M::Reorder(v1::Reorder { window }),
            Mode::Approx(Approximation { max_fraction, same_class, max_repeats }) => {
                M::Approx(v1::Approx { max_fraction, same_class, max_repeats })
            }
        };
        Self { mode: Some(mode) }
    }
}

impl From<v1::Mode> for Mode {
    fn from(message: v1::Mode) -> Self {
        use v1::mode::Mode as M;
        match message.mode {
            None | Some(M::Strict(_)) => Self::Strict,
            Some(M::Reorder(v1::Reorder { window })) => Self::Reorder { window },
            Some(M::Approx(v1::Approx { max_fraction, same_class, max_repeats })) => {
                Self::Approx(Approximation { max_fraction, same_class, max_repeats })
            }
        }
    }
}

impl From<Uneven> for v1::Uneven {
    fn from(uneven: Uneven) -> Self {
        match uneven {
            Uneven::Pad => Self::Pad,
            Uneven::Drop => Self::Drop,
            Uneven::Exact => Self::Exact,
        }
    }
}

impl From<v1::Uneven> for Uneven {
    fn from(message: v1::Uneven) -> Self {
        match message {
            v1::Uneven::Unspecified | v1::Uneven::Pad => Self::Pad,
            v1::Uneven::Drop => Self::Drop,
            v1::Uneven::Exact => Self::Exact,
        }
    }
}

impl From<Kind> for v1::Delivery {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Planned => Self::Planned,
            Kind::Reordered => Self::Reordered,
            Kind::Substituted => Self::Substituted,
            Kind::Pad => Self::Pad,
        }
    }
}

impl From<ledger::Audit> for v1::Audit {
    fn from(audit: ledger::Audit) -> Self {
        Self {
            planned: audit.planned,
            consumed: audit.consumed,
            duplicates: audit.duplicates,
            omissions: audit.omissions,
            pads: audit.pads,
            dropped: audit.dropped,
            substitutions: audit.substitutions,
            displacement_max: audit.displacement_max,
            displacement_mean: audit.displacement_mean,
        }
    }
}

impl v1::Audit {
    /// Whether every planned item was consumed exactly once.
    pub fn is_exact(&self) -> bool {
        self.duplicates == 0 && self.omissions == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_and_an_unevenness_are_the_same_after_the_way() {
        let approx = Approximation { max_fraction: 0.25, same_class: false, max_repeats: 7 };
        for mode in [Mode::Strict, Mode::Reorder { window: 9 }, Mode::Approx(approx)] {
            assert_eq!(Mode::from(v1::Mode::from(mode)), mode);
        }
        assert_eq!(Mode::from(v1::Mode::default()), Mode::Strict);
        for uneven in [Uneven::Pad, Uneven::Drop, Uneven::Exact] {
            assert_eq!(Uneven::from(v1::Uneven::from(uneven)), uneven);
        }
    }
}
