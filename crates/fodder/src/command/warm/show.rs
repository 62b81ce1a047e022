//! How a warming is shown: a bar on a terminal, JSON lines for machines, a few sentences at the end.

use super::{super::plural, list::List};
use anyhow::Result;
use fodder_api::v1::WarmProgress;
use fodder_core::size;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    fmt::Write,
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

/// How often a JSON line is printed.
const LINE_EVERY: Duration = Duration::from_millis(950);

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The node has done what it can.
    Finished,
    /// A signal came.
    Stopped,
}

/// What the user looks at.
pub(super) struct View {
    json: bool,
    bar: ProgressBar,
    began: Instant,
    printed: Option<Instant>,
    last: Option<WarmProgress>,
}

impl View {
    pub(super) fn new(json: bool) -> Self {
        let bar = ProgressBar::new(0);
        let shown = !json && io::stderr().is_terminal();
        bar.set_draw_target(if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        let style = ProgressStyle::with_template("{wide_bar} {binary_bytes}/{binary_total_bytes}  {msg}");
        bar.set_style(style.expect("the template is right"));
        Self { json, bar, began: Instant::now(), printed: None, last: None }
    }

    /// Shows how far it is.
    pub(super) fn show(&mut self, progress: WarmProgress) -> Result<()> {
        self.bar.set_length(progress.bytes);
        self.bar.set_position(progress.bytes_there);
        self.bar.set_message(message(&progress));
        let due = self.printed.is_none_or(|printed| printed.elapsed() >= LINE_EVERY);
        if self.json && due && !progress.finished {
            self.printed = Some(Instant::now());
            super::super::print(&self.line("progress", &progress, None)?)?;
        }
        self.last = Some(progress);
        Ok(())
    }

    /// Says how it ended; whether everything is there.
    pub(super) fn end(self, end: End, list: Option<&List>) -> Result<bool> {
        self.bar.finish_and_clear();
        let progress = self.last.clone().unwrap_or_default();
        if self.json {
            let event = if end == End::Finished { "finished" } else { "stopped" };
            super::super::print(&self.line(event, &progress, list)?)?;
        } else {
            super::super::print(&sentences(end, &progress, self.began.elapsed(), list))?;
        }
        Ok(end == End::Finished && progress.complete)
    }

    fn line(&self, event: &str, progress: &WarmProgress, list: Option<&List>) -> Result<String> {
        let mut line = serde_json::to_value(progress)?;
        line["event"] = event.into();
        line["elapsed_s"] = self.began.elapsed().as_secs_f64().into();
        let unknown = progress.unknown.iter().filter_map(|place| list.map(|list| list.line(*place)));
        line["unknown"] = unknown.collect();
        Ok(format!("{line}\n"))
    }
}

/// What stands beside the bar.
fn message(progress: &WarmProgress) -> String {
    let WarmProgress { files, files_there, files_skipped, files_failed, bytes_per_second, .. } = progress;
    let mut text = format!("{files_there}/{}, {files_skipped} skipped", plural(*files, "file"));
    if *files_failed > 0 {
        let _ = write!(text, ", {files_failed} failed");
    }
    let _ = write!(text, ", {}/s", size::human(*bytes_per_second as u64));
    if let Some(eta_ms) = progress.eta_ms {
        let _ = write!(text, ", {:#} left", HumanDuration(Duration::from_millis(eta_ms)));
    }
    text
}

/// On how many nodes it is, if it is on several.
fn on_nodes(progress: &WarmProgress) -> String {
    match progress.nodes.len() {
        0 => String::new(),
        count => format!(" on {count} nodes"),
    }
}

/// What is said at the end.
fn sentences(end: End, progress: &WarmProgress, took: Duration, list: Option<&List>) -> String {
    let WarmProgress { files, bytes, files_there, bytes_there, files_skipped, bytes_fetched, .. } = progress;
    let (there, all, fetched) = (size::human(*bytes_there), size::human(*bytes), size::human(*bytes_fetched));
    let files = plural(*files, "file");
    let mut text = match (end, progress.complete) {
        (End::Finished, true) => format!("complete: {files}, {all}{}", on_nodes(progress)),
        (End::Finished, false) => format!("incomplete: {files_there} of {files}, {there} of {all} are there"),
        (End::Stopped, _) => format!("stopped: {files_there} of {files}, {there} of {all} were there"),
    };
    let rate = size::human((*bytes_fetched as f64 / took.as_secs_f64().max(1e-3)) as u64);
    let _ = write!(text, " ({files_skipped} were before); fetched {fetched} in {:.1} s, {rate}/s", took.as_secs_f64());
    for node in progress.nodes.iter().filter(|node| !node.error.is_empty()) {
        let _ = write!(text, "\nnode {} did not do its part: {}", node.address, node.error);
    }
    if progress.bytes_copied_there < progress.bytes_copied {
        let (there, all) = (size::human(progress.bytes_copied_there), size::human(progress.bytes_copied));
        let _ = write!(text, "\nof the copies beside the owners', {there} of {all} are there");
    }
    if end == End::Stopped {
        text += "\nrun it again to go on";
    }
    let not_kept = format!("not kept: {}", progress.declined_because);
    for (count, [one, many], why) in [
        (progress.files_too_large, ["does", "do"], "not fit into --max-size"),
        (progress.files_declined, ["is", "are"], not_kept.as_str()),
        (progress.files_evicted, ["was", "were"], "brought in, and given up again for others by the residency policy"),
        (progress.files_failed, ["could", "could"], "not be fetched:"),
    ] {
        if count > 0 {
            let _ = write!(text, "\n{} {} {why}", plural(count, "file"), if count == 1 { one } else { many });
        }
    }
    for problem in &progress.problems {
        let _ = write!(text, "\n  {}: {}", problem.path, problem.message);
    }
    if progress.files_unknown > 0 {
        let paths = plural(progress.files_unknown, "listed path");
        let are = if progress.files_unknown == 1 { "is no file" } else { "are no files" };
        let _ = write!(text, "\n{paths} {are} of the dataset:");
        for place in &progress.unknown {
            let _ = write!(text, "\n  {}", list.map_or_else(String::new, |list| list.line(*place)));
        }
    }
    text + "\n"
}
