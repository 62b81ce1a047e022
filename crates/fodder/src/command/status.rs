//! `fodder status`: how a node stands, for a person or as JSON.

use crate::{
    cli::NodeArgs,
    command::{jobs, plural, target::Target},
    join,
    output::escaped_name,
};
use anyhow::{Result, bail};
use fodder_api::v1;
use fodder_core::size::human;
use serde_json::{Value, json};
use std::{
    fmt::Write,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub(super) async fn run(named: Option<&str>, as_json: bool, node: &NodeArgs) -> Result<ExitCode> {
    let Some(named) = named else {
        let client = join::connect(node).await?;
        let (status, jobs) = (client.status().await?, client.list_jobs(None).await?);
        return print(&shown(&status, &jobs, None, as_json)?, as_json);
    };
    let target = Target::find(named, node).await?;
    let mut status = target.client.status().await?;
    status.datasets.retain(|dataset| dataset.config.as_ref().is_some_and(|config| config.name == target.dataset));
    if status.datasets.is_empty() {
        // The node says it as it does to every command, with what it has.
        target.client.list_jobs(Some(&target.dataset)).await?;
        bail!("there is no dataset {:?}", target.dataset);
    }
    let jobs = target.client.list_jobs(Some(&target.dataset)).await?;
    let below = if target.path.is_empty() { None } else { Some(Below::measure(&target).await?) };
    print(&shown(&status, &jobs, below.as_ref(), as_json)?, as_json)
}

fn print(text: &str, as_json: bool) -> Result<ExitCode> {
    if as_json { super::print_raw(text) } else { super::print(text) }
}

fn shown(status: &v1::StatusReply, jobs: &[v1::JobStatus], below: Option<&Below>, as_json: bool) -> Result<String> {
    if as_json {
        let mut json = to_json(status, jobs);
        if let Some(below) = below {
            json["path"] = below.json();
        }
        return Ok(format!("{json:#}\n"));
    }
    let mut text = to_text(status, jobs)?;
    if let Some(below) = below {
        below.text(&mut text)?;
    }
    Ok(text)
}

/// How much of a path in a mount is cached.
struct Below {
    path: String,
    progress: v1::WarmProgress,
}

impl Below {
    /// Counts what is cached: a warm-up that may bring in nothing.
    async fn measure(target: &Target) -> Result<Self> {
        let (dataset, path) = (target.dataset.clone(), target.path.clone());
        let request = v1::WarmRequest { dataset, path, max_bytes: Some(0), shown: true, ..Default::default() };
        let (mut stream, mut progress) = (target.client.warm(request).await?, v1::WarmProgress::default());
        while let Some(next) = stream.next().await? {
            progress = next;
        }
        Ok(Self { path: target.path.clone(), progress })
    }

    fn json(&self) -> Value {
        let v1::WarmProgress { files, bytes, files_there, bytes_there, .. } = self.progress;
        json!({ "path": self.path, "files": files, "bytes": bytes, "cached_files": files_there, "cached_bytes": bytes_there })
    }

    fn text(&self, text: &mut String) -> Result<()> {
        let v1::WarmProgress { files, bytes, files_there, bytes_there, .. } = self.progress;
        let (cached, all) = (human(bytes_there), human(bytes));
        writeln!(text, "  path    {}: {files_there} of {files} files cached, {cached} of {all}", self.path)?;
        Ok(())
    }
}

fn uptime(status: &v1::StatusReply) -> Duration {
    let started = UNIX_EPOCH + Duration::from_millis(status.started_at_ms);
    Duration::from_secs(SystemTime::now().duration_since(started).unwrap_or_default().as_secs())
}

fn to_json(status: &v1::StatusReply, jobs: &[v1::JobStatus]) -> Value {
    let addresses = status.addresses.clone().unwrap_or_default();
    let some = |text: String| (!text.is_empty()).then_some(text);
    let tiers: Vec<Value> = status
        .tiers
        .iter()
        .map(|tier| {
            json!({
                "path": tier.path,
                "medium": tier.medium,
                "quota_bytes": tier.quota_bytes,
                "used_bytes": tier.used_bytes,
                "health": tier.health,
            })
        })
        .collect();
    json!({
        "version": status.version,
        "pid": status.pid,
        "started_at_ms": status.started_at_ms,
        "uptime_s": uptime(status).as_secs(),
        "addresses": {
            "rest": some(addresses.rest),
            "grpc": some(addresses.grpc),
            "socket": some(addresses.socket),
        },
        "memory": { "budget_bytes": status.budget_bytes, "used_bytes": status.budget_used_bytes },
        "tiers": tiers,
        "datasets": status.datasets.iter().map(dataset_json).collect::<Vec<_>>(),
        "jobs": jobs.iter().map(jobs::job_json).collect::<Vec<_>>(),
    })
}

/// One dataset as JSON.
pub(super) fn dataset_json(dataset: &v1::DatasetStatus) -> Value {
    let config = dataset.config.clone().unwrap_or_default();
    let stats = dataset.stats.unwrap_or_default();
    let quota = config.quota.map(|quota| match quota {
        v1::dataset_config::Quota::QuotaBytes(bytes) => json!({ "bytes": bytes }),
        v1::dataset_config::Quota::QuotaShare(share) => json!({ "share": share }),
    });
    json!({
        "name": config.name,
        "origin": config.origin,
        "layout": config.layout,
        "policy": config.policy,
        "quota": quota,
        "refresh_interval_ms": (config.refresh_interval_ms > 0).then_some(config.refresh_interval_ms),
        "anonymous": config.anonymous,
        "snapshot": dataset.snapshot,
        "items": dataset.items,
        "objects": dataset.objects,
        "total_bytes": dataset.total_bytes,
        "cached_bytes": dataset.cached_bytes,
        "cached_pieces": dataset.cached_pieces,
        "pieces": dataset.pieces,
        "warning": (!dataset.warning.is_empty()).then_some(&dataset.warning),
        "explanation": (!dataset.explanation.is_empty()).then_some(&dataset.explanation),
        "problems": dataset.problems,
        "stats": stats_json(&stats),
    })
}

fn stats_json(stats: &v1::DatasetStats) -> Value {
    json!({
        "hits_mem": stats.hits_mem,
        "hits_ssd": stats.hits_ssd,
        "hits_hdd": stats.hits_hdd,
        "prefetched": stats.prefetched,
        "substituted": stats.substituted,
        "joined": stats.joined,
        "peer": stats.peer,
        "origin": stats.origin,
        "bypass": stats.bypass,
        "failed": stats.failed,
        "bytes_served": stats.bytes_served,
        "bytes_from_origin": stats.bytes_from_origin,
        "bytes_from_peers": stats.bytes_from_peers,
        "bytes_to_peers": stats.bytes_to_peers,
        "origin_requests": stats.origin_requests,
        "evicted_pieces": stats.evicted_pieces,
        "unkept_pieces": stats.unkept_pieces,
        "corrupt_pieces": stats.corrupt_pieces,
        "given_planned": stats.given_planned,
        "given_reordered": stats.given_reordered,
        "given_substituted": stats.given_substituted,
        "given_pads": stats.given_pads,
        "fetched_ahead": stats.fetched_ahead,
        "readahead_bytes": stats.readahead_bytes,
        "readahead_used_bytes": stats.readahead_used_bytes,
        "readahead_wasted_bytes": stats.readahead_wasted_bytes,
    })
}

fn to_text(status: &v1::StatusReply, jobs: &[v1::JobStatus]) -> Result<String> {
    let mut text = String::new();
    let addresses = status.addresses.clone().unwrap_or_default();
    let up = humantime::format_duration(uptime(status));
    writeln!(text, "fodder {}, process {}, up {up}", status.version, status.pid)?;
    writeln!(text, "  rest    http://{}", addresses.rest)?;
    writeln!(text, "  grpc    {}", addresses.grpc)?;
    if !addresses.socket.is_empty() {
        writeln!(text, "  socket  {}", addresses.socket)?;
    }
    writeln!(text, "  memory  {} of {} in use", human(status.budget_used_bytes), human(status.budget_bytes))?;
    for tier in &status.tiers {
        let (used, quota) = (human(tier.used_bytes), human(tier.quota_bytes));
        let health = if tier.health == "ok" { String::new() } else { format!("  ({})", tier.health) };
        writeln!(text, "  tier    {} {}  {used} of {quota}{health}", tier.medium, tier.path)?;
    }
    for dataset in &status.datasets {
        writeln!(text)?;
        dataset_text(&mut text, dataset)?;
        let name = dataset.config.as_ref().map_or("", |config| &config.name);
        for job in jobs.iter().filter(|job| job.dataset == name) {
            writeln!(text, "  job     {}", jobs::line(job))?;
        }
    }
    if status.datasets.is_empty() {
        writeln!(text, "\nno datasets; add one with: fodder datasets add ORIGIN")?;
    }
    Ok(text)
}

fn dataset_text(text: &mut String, dataset: &v1::DatasetStatus) -> Result<()> {
    let config = dataset.config.clone().unwrap_or_default();
    let stats = dataset.stats.unwrap_or_default();
    let percent = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    let reads = stats.reads();
    writeln!(text, "{}  {}", config.name, config.origin)?;
    writeln!(
        text,
        "  {} in {}, {}; layout {}, policy {}",
        plural(dataset.items, "item"),
        plural(dataset.objects.into(), "object"),
        human(dataset.total_bytes),
        config.layout,
        config.policy
    )?;
    if !dataset.warning.is_empty() {
        writeln!(text, "  warning {}", dataset.warning)?;
    }
    for problem in &dataset.problems {
        writeln!(text, "  problem {}", escaped_name(problem))?;
    }
    if !dataset.explanation.is_empty() {
        writeln!(text, "  auto    {}", dataset.explanation)?;
    }
    writeln!(
        text,
        "  cached  {:.1} % of the pieces, {} on disk",
        percent(dataset.cached_pieces, dataset.pieces),
        human(dataset.cached_bytes)
    )?;
    writeln!(
        text,
        "  reads   {reads}: {:.1} % hits ({} mem, {} ssd, {} hdd, {} fetched ahead), {} joined, {} origin, {} bypass, {} failed",
        percent(stats.hits(), reads),
        stats.hits_mem,
        stats.hits_ssd,
        stats.hits_hdd,
        stats.prefetched,
        stats.joined,
        stats.origin,
        stats.bypass,
        stats.failed
    )?;
    if stats.prefetched + stats.substituted + stats.fetched_ahead > 0 {
        let (fetched, prefetched, substituted) = (stats.fetched_ahead, stats.prefetched, stats.substituted);
        let (fetched, reads) = (plural(fetched, "item"), plural(prefetched, "read"));
        writeln!(text, "  ahead   {fetched} fetched for jobs, {reads} of them; {substituted} substituted")?;
    }
    if stats.readahead_bytes > 0 {
        let [fetched, used, wasted] = [stats.readahead_bytes, stats.readahead_used_bytes, stats.readahead_wasted_bytes];
        writeln!(
            text,
            "  ahead   {} fetched for readers without a job: {} used ({:.1} %), {} unused",
            human(fetched),
            human(used),
            percent(used, fetched),
            human(wasted)
        )?;
    }
    writeln!(
        text,
        "  bytes   {} served, {} from the origin in {}",
        human(stats.bytes_served),
        human(stats.bytes_from_origin),
        plural(stats.origin_requests, "request")
    )?;
    if stats.bytes_from_peers + stats.bytes_to_peers > 0 {
        let (from, to) = (human(stats.bytes_from_peers), human(stats.bytes_to_peers));
        writeln!(text, "  peers   {}, {from} from other nodes, {to} to them", plural(stats.peer, "read"))?;
    }
    if stats.corrupt_pieces > 0 {
        writeln!(
            text,
            "  corrupt {} did not match the checksum and were fetched again",
            plural(stats.corrupt_pieces, "piece")
        )?;
    }
    Ok(())
}
