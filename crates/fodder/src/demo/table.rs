//! The demonstration's table: plain columns, with colour where a terminal shows it.

use std::{io::IsTerminal, time::Duration};

/// What one epoch cost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Epoch {
    pub(super) samples: u64,
    pub(super) time: Duration,
    pub(super) hits: u64,
    pub(super) joined: u64,
    pub(super) origin: u64,
    pub(super) bypass: u64,
    pub(super) bytes_from_origin: u64,
}

impl Epoch {
    fn rate(&self) -> f64 {
        self.samples as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// Bold, dim, green: or nothing, where nobody would see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint(bool);

impl Paint {
    /// Colour if stdout is a terminal and nobody asked for none.
    pub(super) fn new() -> Self {
        Self(std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none())
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }
    pub(super) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }
    pub(super) fn green(self, text: &str) -> String {
        self.with("1;32", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }
}

/// Columns of the two halves; the whole table fits a hundred.
const LEFT: usize = 27;
const RIGHT: usize = 55;

/// The two header lines and the rule below them.
pub(super) fn header(paint: Paint) -> String {
    let bar = paint.dim("│");
    let left = paint.bold(&format!("{:<LEFT$}", " straight from the origin"));
    let right = paint.bold(&format!("{:<RIGHT$}", " through Fodder"));
    let left_columns = paint.dim(&format!("{:>7} {:>9} {:>9}", "seconds", "samples/s", "origin MB"));
    let right_columns = paint.dim(&format!(
        "{:>7} {:>9} {:>6} {:>6} {:>6} {:>6} {:>9}",
        "seconds", "samples/s", "hits", "joined", "origin", "bypass", "origin MB"
    ));
    let rule = paint.dim(&format!("{}┼{}┼{}", "─".repeat(7), "─".repeat(LEFT + 2), "─".repeat(RIGHT + 2)));
    let epoch = paint.dim(" epoch");
    format!("       {bar} {left} {bar} {right}\n{epoch} {bar} {left_columns} {bar} {right_columns}\n{rule}")
}

/// One epoch, both ways.
pub(super) fn row(paint: Paint, number: u32, without: &Epoch, with: &Epoch) -> String {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let faster = without.time.as_secs_f64() / with.time.as_secs_f64().max(1e-9);
    let faster = if faster >= 1.5 { paint.green(&format!("  {faster:.1}×")) } else { String::new() };
    format!(
        "{number:>6} {bar} {:>7.2} {:>9.0} {:>9.1} {bar} {:>7.2} {:>9.0} {:>6} {:>6} {:>6} {:>6} {:>9.1}{faster}",
        without.time.as_secs_f64(),
        without.rate(),
        megabytes(without.bytes_from_origin),
        with.time.as_secs_f64(),
        with.rate(),
        with.hits,
        with.joined,
        with.origin,
        with.bypass,
        megabytes(with.bytes_from_origin),
        bar = paint.dim("│"),
    )
}
