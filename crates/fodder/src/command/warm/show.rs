//! How a warming is shown: a bar on a terminal, JSON lines for machines, a few sentences at the end.

use super::{super::plural, list::List};
use crate::output::escaped_name;
use anyhow::Result;
use fodder_api::v1::WarmProgress;
use fodder_core::{engine::warm::average, size};
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
            super::super::print_raw(&line("progress", &progress, self.began.elapsed(), None)?)?;
        }
        self.last = Some(progress);
        Ok(())
    }

    /// Says how it ended; whether everything is there.
    pub(super) fn end(self, end: End, list: Option<&List>) -> Result<bool> {
        self.bar.finish_and_clear();
        let (mut progress, took) = (self.last.unwrap_or_default(), self.began.elapsed());
        let came = match end {
            End::Finished => progress.bytes_fetched,
            // Of requests that have not ended, only what is there is known.
            End::Stopped => progress.bytes_there.saturating_sub(progress.bytes_skipped),
        };
        // The node knows nothing of the time before it was asked.
        progress.bytes_per_second = average(came, took);
        progress.eta_ms = None;
        if self.json {
            let event = if end == End::Finished { "finished" } else { "stopped" };
            super::super::print_raw(&line(event, &progress, took, list)?)?;
        } else {
            super::super::print(&sentences(end, &progress, took, list))?;
        }
        Ok(end == End::Finished && progress.complete)
    }
}

/// A line for machines.
fn line(event: &str, progress: &WarmProgress, elapsed: Duration, list: Option<&List>) -> Result<String> {
    let mut line = serde_json::to_value(progress)?;
    line["event"] = event.into();
    line["elapsed_s"] = elapsed.as_secs_f64().into();
    let unknown = progress.unknown.iter().filter_map(|place| list.map(|list| list.line(*place)));
    line["unknown"] = unknown.collect();
    Ok(format!("{line}\n"))
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
        (End::Finished, false) => format!("incomplete: {files_there} of {files}, {there} of {all} cached"),
        (End::Stopped, _) if progress.files == 0 => "stopped before anything was fetched".into(),
        (End::Stopped, _) => format!("stopped: {files_there} of {files}, {there} of {all} cached"),
    };
    if end == End::Finished {
        let (took_s, rate) = (took.as_secs_f64(), size::human(progress.bytes_per_second as u64));
        let _ = write!(text, " ({files_skipped} already cached); fetched {fetched} in {took_s:.1} s, {rate}/s");
    }
    let said = text.len();
    for node in progress.nodes.iter().filter(|node| !node.error.is_empty()) {
        let _ = write!(text, "\nnode {} did not finish its part: {}", node.address, node.error);
    }
    if progress.bytes_copied_there < progress.bytes_copied {
        let (there, all) = (size::human(progress.bytes_copied_there), size::human(progress.bytes_copied));
        let _ = write!(text, "\nof the additional replicas, {there} of {all} are cached");
    }
    if end == End::Stopped {
        text += "\nrun it again to continue";
    }
    let not_kept = format!("not kept: {}", progress.declined_because);
    for (count, [one, many], why) in [
        (progress.files_too_large, ["does", "do"], "not fit into --max-size"),
        (progress.files_declined, ["is", "are"], not_kept.as_str()),
        (progress.files_evicted, ["was", "were"], "fetched, and evicted again for others by the residency policy"),
        (progress.files_failed, ["could", "could"], "not be fetched:"),
    ] {
        if count > 0 {
            let _ = write!(text, "\n{} {} {why}", plural(count, "file"), if count == 1 { one } else { many });
        }
    }
    for problem in &progress.problems {
        let _ = write!(text, "\n  {}: {}", escaped_name(&problem.path), problem.message);
    }
    if progress.files_outdated > 0 {
        let files = plural(progress.files_outdated, "file");
        let _ = write!(
            text,
            "\n{files} of these changed or disappeared since the dataset was listed: `fodder index` lists it again"
        );
    }
    if progress.files_unknown > 0 {
        let paths = plural(progress.files_unknown, "listed path");
        let are = if progress.files_unknown == 1 { "is not a file" } else { "are not files" };
        let _ = write!(text, "\n{paths} {are} of the dataset:");
        for place in &progress.unknown {
            let _ = write!(
                text,
                "\n  {}",
                list.map_or_else(String::new, |list| escaped_name(&list.line(*place)).into_owned())
            );
        }
    }
    if end == End::Finished && !progress.complete && text.len() == said {
        text += match progress.files_there == progress.files && bytes_there < bytes {
            true => {
                "\nparts of large files are missing: the nodes that own them have no room, or --max-size is reached; \
                 `fodder cluster status` shows what each holds"
            }
            false => "\nnodes joined or left meanwhile; run it again",
        };
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_incomplete_is_never_without_a_reason() {
        let told = |progress| sentences(End::Finished, &progress, Duration::from_secs(1), None);
        let whole = WarmProgress { files: 4, files_there: 4, bytes: 400, bytes_there: 400, ..Default::default() };
        assert!(told(whole.clone()).contains("joined or left"));
        assert!(told(WarmProgress { files_there: 3, bytes_there: 300, ..whole.clone() }).contains("joined or left"));
        assert!(told(WarmProgress { bytes_there: 300, ..whole.clone() }).contains("large files are missing"));
        let outdated = WarmProgress { files_there: 3, files_failed: 1, files_outdated: 1, ..whole.clone() };
        assert!(told(outdated).contains("`fodder index`"), "what was listed long ago is listed again");
        let evicted = WarmProgress { files_there: 3, bytes_there: 300, files_evicted: 1, ..whole.clone() };
        assert!(told(evicted).ends_with("residency policy\n"), "one reason is enough");
        assert_eq!(told(WarmProgress { complete: true, ..whole }).lines().count(), 1);
    }
}
