//! An axis: from values to places, with ticks at round values.

/// An axis from 0 to a round value.
#[derive(Debug)]
pub(super) struct Scale {
    end: f64,
    step: f64,
    first: f64,
    last: f64,
}

impl Scale {
    /// An axis that holds values up to `greatest`, between two places.
    pub(super) fn new(greatest: f64, first: f64, last: f64) -> Self {
        let greatest = if greatest > 0.0 { greatest } else { 1.0 };
        let step = round_step(greatest / 5.0);
        // What is a hair above a tick, as sums of decimals are, still ends there.
        let end = (greatest / step - 1e-9).ceil() * step;
        Self { end, step, first, last }
    }

    /// Where a value is.
    pub(super) fn at(&self, value: f64) -> f64 {
        self.first + (self.last - self.first) * value / self.end
    }

    /// The values with a tick, and where.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, f64)> {
        let count = (self.end / self.step).round() as u32;
        (0..=count).map(|tick| f64::from(tick) * self.step).map(|value| (value, self.at(value)))
    }

    /// A tick's value with the digits that tell it from its neighbours.
    pub(super) fn write(&self, value: f64) -> String {
        let digits = (-self.step.log10()).ceil().max(0.0) as usize;
        format!("{value:.digits$}")
    }
}

/// The next of 1, 2, 5, 10 … times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * power >= least * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_the_greatest_value() {
        let ticks = |greatest| {
            let scale = Scale::new(greatest, 0.0, 100.0);
            scale.ticks().map(|(value, _)| scale.write(value)).collect::<Vec<_>>()
        };
        assert_eq!(ticks(0.4), ["0.0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(ticks(0.73), ["0.0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(ticks(1.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(ticks(0.03), ["0.00", "0.01", "0.02", "0.03"]);
        assert_eq!(ticks(0.0).len(), 6);
        assert_eq!(Scale::new(0.4, 10.0, 50.0).at(0.2), 30.0);
    }
}
