//! What a scenario found: lines of "ours, against what, ratio, target", printed for people and kept as JSON.
//!
//! Knows nothing of how anything was measured.

use crate::machine::Machine;
use anyhow::{Context, Result};
use serde::Serialize;
use std::{fmt, fs, path::Path};

/// Where a ratio should lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// At least this much of (or this many times) the other value.
    AtLeast(f64),
    /// At most this much of the other value.
    AtMost(f64),
    /// Nowhere in particular: printed because it explains the others.
    Context,
}

/// One comparison.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    /// What was done.
    pub(crate) what: String,
    /// The unit of both values.
    pub(crate) unit: &'static str,
    /// Fodder's value.
    pub(crate) ours: f64,
    /// What it is compared with.
    pub(crate) against: String,
    /// The value of that.
    pub(crate) theirs: f64,
    /// Where `ours / theirs` should lie.
    pub(crate) target: Target,
    /// Every value of every round, ours first: what the medians were taken from.
    pub(crate) rounds: Vec<[f64; 2]>,
}

impl Line {
    /// A comparison of one value with another, both measured or given.
    pub(crate) fn new(
        what: impl Into<String>,
        unit: &'static str,
        ours: f64,
        against: impl Into<String>,
        theirs: f64,
        target: Target,
    ) -> Self {
        Self { what: what.into(), unit, ours, against: against.into(), theirs, target, rounds: Vec::new() }
    }

    /// A comparison of the medians of interleaved rounds.
    pub(crate) fn of_rounds(
        what: impl Into<String>,
        unit: &'static str,
        ours: &[f64],
        against: impl Into<String>,
        theirs: &[f64],
        target: Target,
    ) -> Self {
        let mut line = Self::new(what, unit, median(ours), against, median(theirs), target);
        line.rounds = ours.iter().zip(theirs).map(|(&ours, &theirs)| [ours, theirs]).collect();
        line
    }

    /// Ours as a multiple of theirs.
    pub(crate) fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }

    /// Whether the target is met; None where there is none.
    pub(crate) fn passes(&self) -> Option<bool> {
        match self.target {
            Target::AtLeast(target) => Some(self.ratio() >= target),
            Target::AtMost(target) => Some(self.ratio() <= target),
            Target::Context => None,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, ratio) = (self.unit, self.ratio());
        let theirs = format!("{:.2} {unit}", self.theirs);
        write!(f, "  {:<44} {:>10.2} {unit:<9} {theirs:>16} {:<26}", self.what, self.ours, self.against)?;
        let verdict = if self.passes() == Some(true) { "pass" } else { "MISS" };
        match self.target {
            Target::AtLeast(target) => write!(f, " {ratio:>5.2}  >= {target:<4} {verdict}"),
            Target::AtMost(target) => write!(f, " {ratio:>5.2}  <= {target:<4} {verdict}"),
            Target::Context => write!(f, " {ratio:>5.2}"),
        }
    }
}

/// What one scenario found.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    /// The scenario.
    pub(crate) scenario: &'static str,
    /// On what.
    pub(crate) machine: Machine,
    /// Its comparisons.
    pub(crate) lines: Vec<Line>,
}

impl Outcome {
    /// What a scenario found on this machine, just now.
    pub(crate) fn new(scenario: &'static str, lines: Vec<Line>) -> Self {
        Self { scenario, machine: Machine::this(), lines }
    }

    /// Writes it to `dir` as JSON, with the ratio and the verdict spelt out beside the values.
    pub(crate) fn save(&self, dir: &Path) -> Result<()> {
        let mut json = serde_json::to_value(self).context("an outcome is plain data")?;
        for (line, value) in self.lines.iter().zip(json["lines"].as_array_mut().context("lines are an array")?) {
            value["ratio"] = line.ratio().into();
            value["pass"] = line.passes().into();
        }
        fs::create_dir_all(dir)?;
        let path = dir.join(self.scenario).with_extension("json");
        fs::write(&path, serde_json::to_string_pretty(&json)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  ({})", self.scenario, self.machine)?;
        writeln!(f, "  {:<44} {:>10} {:<9} {:>16} {:<26} {:>5}  target", "", "fodder", "", "against", "", "ratio")?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// The middle value.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_middles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_line_passes_on_the_right_side_of_its_target() {
        let line = |target| Line::new("a read", "GB/s", 8.0, "pread", 10.0, target);
        assert_eq!(line(Target::AtLeast(0.8)).passes(), Some(true));
        assert_eq!(line(Target::AtLeast(0.9)).passes(), Some(false));
        assert_eq!(line(Target::AtMost(0.9)).passes(), Some(true));
        assert_eq!(line(Target::Context).passes(), None);
        assert!(line(Target::AtLeast(0.9)).to_string().ends_with("0.80  >= 0.9  MISS"));
    }
}
