//! `fodder status`: how a node stands, for a person or as JSON.

use crate::{cli::NodeArgs, command::jobs, join};
use anyhow::Result;
use fodder_api::v1;
use fodder_core::size::human;
use serde_json::{Value, json};
use std::{
    fmt::Write,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub(super) async fn run(as_json: bool, node: &NodeArgs) -> Result<ExitCode> {
    let client = join::connect(node).await?;
    let (status, jobs) = (client.status().await?, client.list_jobs(None).await?);
    if as_json {
        return super::print(&format!("{:#}\n", to_json(&status, &jobs)));
    }
    super::print(&to_text(&status, &jobs)?)
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
        "explanation": (!dataset.explanation.is_empty()).then_some(&dataset.explanation),
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
        "  {} items in {} objects, {}; layout {}, policy {}",
        dataset.items,
        dataset.objects,
        human(dataset.total_bytes),
        config.layout,
        config.policy
    )?;
    if !dataset.explanation.is_empty() {
        writeln!(text, "  auto    {}", dataset.explanation)?;
    }
    writeln!(
        text,
        "  cached  {} ({:.1} % of the pieces)",
        human(dataset.cached_bytes),
        percent(dataset.cached_pieces, dataset.pieces)
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
        writeln!(text, "  ahead   {fetched} items fetched, {prefetched} reads of them; {substituted} substituted")?;
    }
    if stats.readahead_bytes > 0 {
        let [fetched, used, wasted] = [stats.readahead_bytes, stats.readahead_used_bytes, stats.readahead_wasted_bytes];
        writeln!(
            text,
            "  guessed {} fetched ahead: {} used ({:.1} %), {} wasted",
            human(fetched),
            human(used),
            percent(used, fetched),
            human(wasted)
        )?;
    }
    writeln!(
        text,
        "  bytes   {} served, {} from the origin in {} requests",
        human(stats.bytes_served),
        human(stats.bytes_from_origin),
        stats.origin_requests
    )?;
    if stats.bytes_from_peers + stats.bytes_to_peers > 0 {
        let (from, to) = (human(stats.bytes_from_peers), human(stats.bytes_to_peers));
        writeln!(text, "  peers   {} reads, {from} from other nodes, {to} to them", stats.peer)?;
    }
    if stats.corrupt_pieces > 0 {
        writeln!(
            text,
            "  corrupt {} pieces did not match their checksum and were fetched again",
            stats.corrupt_pieces
        )?;
    }
    Ok(())
}
