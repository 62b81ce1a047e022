//! `fodder evict`: drop what is cached.

use super::target::Target;
use crate::{cli::NodeArgs, command::plural, output};
use anyhow::{Result, anyhow, ensure};
use fodder_api::v1::{EvictRemainder, EvictRequest};
use fodder_core::size;
use std::process::ExitCode;

pub(super) async fn run(dataset: &str, prefix: &str, this_node: bool, node: &NodeArgs) -> Result<ExitCode> {
    let target = Target::find(dataset, node).await?;
    ensure!(
        prefix.is_empty() || !target.mounted,
        "--prefix needs the name of a dataset: give the path in the mount instead"
    );
    let prefix = if target.mounted { target.path } else { prefix.into() };
    let request = EvictRequest { dataset: target.dataset, prefix, this_node, exact: target.mounted };
    let report = target.client.evict_with(request).await.map_err(|error| hinted(error, dataset))?;
    let mut text = format!("evicted {}, {} freed\n", plural(report.pieces, "piece"), size::human(report.bytes));
    for node in report.nodes.iter().filter(|node| node.error.is_empty()) {
        text += &format!("  {}: {}, {}\n", node.address, plural(node.pieces, "piece"), size::human(node.bytes));
    }
    text += &explain(&report.remainder.unwrap_or_default());
    super::print(&text)?;
    let failed: Vec<_> = report.nodes.iter().filter(|node| !node.error.is_empty()).collect();
    for node in &failed {
        output::error(format_args!("node {} evicted nothing: {}", node.address, node.error));
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// An error, with a hint for those who name a part of a dataset as `fodder warm` takes it.
fn hinted(error: fodder_api::Error, named: &str) -> anyhow::Error {
    match (&error, named.split_once('/')) {
        (fodder_api::Error::NotFound(_), Some((dataset, path))) => {
            anyhow!("{error}\nfor a part of a dataset, run `fodder evict {dataset} --prefix {path}`")
        }
        _ => error.into(),
    }
}

/// What was not freed, why, and what to do about it: one line for each reason.
fn explain(left: &EvictRemainder) -> String {
    let mut text = String::new();
    if left.leased_files > 0 {
        text += &format!(
            "not freed: {} in {} that a mount or a client has open; freed when they are closed\n",
            size::human(left.leased_bytes),
            plural(left.leased_files, "evicted file")
        );
    }
    if left.staged_pieces > 0 {
        text += &format!(
            "not freed: {} of memory, {} staged for jobs; freed when the jobs have read them or end\n",
            size::human(left.staged_bytes),
            plural(left.staged_pieces, "piece")
        );
    }
    if left.fetching_pieces > 0 {
        text += &format!(
            "not freed: {}, {} being fetched now; evict again to drop them\n",
            size::human(left.fetching_bytes),
            plural(left.fetching_pieces, "piece")
        );
    }
    if !left.jobs.is_empty() {
        let (word, names) = (if left.jobs.len() == 1 { "job" } else { "jobs" }, left.jobs.join(", "));
        text += &format!(
            "open {word}: {names}; a job fetches its planned items again when it takes its next batch: close its loader to keep the space free\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_explained_once_and_only_where_it_applies() {
        assert_eq!(explain(&EvictRemainder::default()), "");
        let jobs = vec!["resnet".to_owned(), "vit".to_owned()];
        let left = EvictRemainder { leased_files: 2, leased_bytes: 3 << 20, jobs, ..Default::default() };
        let text = explain(&left);
        assert!(text.starts_with("not freed: 3.0 MiB in 2 evicted files that a mount or a client has open"), "{text}");
        assert!(text.contains("open jobs: resnet, vit;"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
        let left =
            EvictRemainder { staged_pieces: 4, staged_bytes: 8192, fetching_pieces: 1, ..EvictRemainder::default() };
        let text = explain(&left);
        assert!(text.contains("8.0 KiB of memory, 4 pieces staged"), "{text}");
        assert!(text.contains("1 piece being fetched"), "{text}");
    }
}
