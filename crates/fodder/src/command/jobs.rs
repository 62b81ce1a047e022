//! `fodder jobs`: the training jobs of a node and how their epochs went.

use crate::{cli::NodeArgs, join};
use anyhow::Result;
use fodder_api::v1;
use fodder_policy::{job::JobId, serving::Mode};
use serde_json::{Value, json};
use std::{fmt::Write, process::ExitCode, time::Duration};

pub(super) async fn run(dataset: Option<&str>, as_json: bool, node: &NodeArgs) -> Result<ExitCode> {
    let jobs = join::connect(node).await?.list_jobs(dataset).await?;
    if as_json {
        let jobs: Vec<_> = jobs.iter().map(job_json).collect();
        return super::print_raw(&format!("{:#}\n", Value::from(jobs)));
    }
    super::print(&table(&jobs))
}

/// A job in one line of `fodder status`.
pub(super) fn line(job: &v1::JobStatus) -> String {
    let (name, mode) = (&job.name, mode_text(job));
    let Some(epoch) = job.epoch else { return format!("{name}  {mode}, no epoch begun") };
    let (consumed, planned, rate) = (job.consumed, job.planned, job.rate);
    let last = job.last.as_ref().map_or(String::new(), |last| format!("; last epoch {}", audit_text(Some(last))));
    format!("{name}  {mode}, epoch {epoch}: {consumed} of {planned} items, {rate:.0} a second{last}")
}

/// How a job is answered, in a few letters.
fn mode_text(job: &v1::JobStatus) -> String {
    match job.mode.unwrap_or_default().into() {
        Mode::Strict => "strict".into(),
        Mode::Reorder { window } => format!("reorder {window}"),
        Mode::Approx(bounds) => format!("approx {}%", bounds.max_fraction * 100.0),
    }
}

/// What the audit of a job's last whole epoch says.
fn audit_text(audit: Option<&v1::Audit>) -> String {
    match audit {
        None => "-".into(),
        Some(audit) if audit.is_exact() && audit.substitutions == 0 => "exactly once".into(),
        Some(audit) if audit.is_exact() => format!("{} substituted", audit.substitutions),
        Some(audit) => format!("{} twice, {} left out", audit.duplicates, audit.omissions),
    }
}

fn table(jobs: &[v1::JobStatus]) -> String {
    if jobs.is_empty() {
        return "no jobs; a job introduces itself through its client, over gRPC or REST, or with `fodder job introduce`\n".into();
    }
    let head = ["DATASET", "JOB", "NAME", "MODE", "RANKS", "EPOCH", "CONSUMED", "ITEMS/S", "SILENT", "LAST EPOCH"];
    let rows = jobs.iter().map(|job| {
        [
            job.dataset.clone(),
            JobId(job.job).to_string(),
            job.name.clone(),
            mode_text(job),
            job.world.to_string(),
            job.epoch.map_or("-".into(), |epoch| epoch.to_string()),
            format!("{}/{}", job.consumed, job.planned),
            format!("{:.0}", job.rate),
            humantime::format_duration(Duration::from_secs(job.silent_ms / 1000)).to_string(),
            audit_text(job.last.as_ref()),
        ]
    });
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

/// One job as JSON.
pub(super) fn job_json(job: &v1::JobStatus) -> Value {
    let mode: Mode = job.mode.unwrap_or_default().into();
    json!({
        "dataset": job.dataset,
        "job": JobId(job.job).to_string(),
        "name": job.name,
        "mode": mode,
        "world": job.world,
        "uneven": fodder_policy::plan::Uneven::from(job.uneven()),
        "weight": job.weight,
        "in_step": (!job.in_step.is_empty()).then_some(&job.in_step),
        "epoch": job.epoch,
        "planned": job.planned,
        "delivered": job.delivered,
        "consumed": job.consumed,
        "rate": job.rate,
        "silent_ms": job.silent_ms,
        "last": job.last.as_ref().map(audit_json),
    })
}

/// An audit as JSON.
pub(super) fn audit_json(audit: &v1::Audit) -> Value {
    json!({
        "exact": audit.is_exact(),
        "planned": audit.planned,
        "consumed": audit.consumed,
        "duplicates": audit.duplicates,
        "omissions": audit.omissions,
        "pads": audit.pads,
        "dropped": audit.dropped,
        "substitutions": audit.substitutions,
        "displacement_max": audit.displacement_max,
        "displacement_mean": audit.displacement_mean,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> v1::JobStatus {
        v1::JobStatus {
            dataset: "pets".into(),
            job: 0xabc,
            name: "resnet".into(),
            mode: Some(Mode::Reorder { window: 100 }.into()),
            world: 8,
            epoch: Some(3),
            planned: 1000,
            consumed: 250,
            rate: 812.4,
            silent_ms: 2_500,
            last: Some(v1::Audit { planned: 1000, consumed: 1000, ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn a_job_is_one_line_that_a_person_can_read() {
        let text = table(&[job()]);
        let line = text.lines().nth(1).expect("a line below the head");
        let expected =
            "pets     0000000000000abc  resnet  reorder 100  8      3      250/1000  812      2s      exactly once";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_job_is_one_line_of_the_status() {
        let expected = "resnet  reorder 100, epoch 3: 250 of 1000 items, 812 a second; last epoch exactly once";
        assert_eq!(line(&job()), expected);
        let fresh = v1::JobStatus { epoch: None, ..job() };
        assert_eq!(line(&fresh), "resnet  reorder 100, no epoch begun");
    }

    #[test]
    fn an_audit_says_what_went_wrong() {
        let audit = v1::Audit { duplicates: 2, omissions: 3, ..Default::default() };
        assert_eq!(audit_text(Some(&audit)), "2 twice, 3 left out");
        assert_eq!(audit_text(Some(&v1::Audit { substitutions: 4, ..Default::default() })), "4 substituted");
        assert_eq!(audit_text(None), "-");
    }

    #[test]
    fn json_has_every_field_by_the_name_that_rest_uses() {
        let value = job_json(&job());
        assert_eq!(value["mode"], json!({ "reorder": { "window": 100 } }));
        assert_eq!((&value["uneven"], &value["in_step"]), (&json!("pad"), &Value::Null));
        assert_eq!(value["last"]["exact"], true);
    }
}
