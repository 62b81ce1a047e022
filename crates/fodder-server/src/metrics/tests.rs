//! Metrics of a made-up node, held against the page that lists them.

use super::{job::OfDataset, *};
use fodder_core::{
    config::{DatasetConfig, Medium},
    job::{Audit, Introduction, JobId, Mode, Status, Uneven},
};
use std::{collections::BTreeMap, time::Duration};

/// A node with one dataset and one tier, every count another number.
pub(crate) fn status() -> EngineStatus {
    let config: DatasetConfig =
        serde_json::from_value(serde_json::json!({ "name": "d", "origin": "/data/train" })).expect("a valid dataset");
    EngineStatus {
        tiers: vec![TierStatus {
            path: "/var/\"cache\"".into(),
            medium: Medium::Ssd,
            quota_bytes: 1000,
            used_bytes: 10,
            health: "unstable",
        }],
        datasets: vec![DatasetStatus {
            config,
            snapshot: "00".into(),
            items: 21,
            objects: 22,
            total_bytes: 23,
            cached_bytes: 24,
            cached_pieces: 25,
            pieces: 26,
            explanation: None,
            warning: None,
            problems: Vec::new(),
            stats: DatasetStats {
                hits_mem: 1,
                hits_ssd: 2,
                hits_hdd: 3,
                joined: 4,
                origin: 5,
                bypass: 6,
                failed: 7,
                bytes_served: 8,
                bytes_from_origin: 9,
                origin_requests: 10,
                evicted_pieces: 11,
                unkept_pieces: 13,
                corrupt_pieces: 12,
                given_planned: 61,
                given_reordered: 62,
                given_substituted: 63,
                given_pads: 64,
                fetched_ahead: 65,
                peer: 71,
                bytes_from_peers: 72,
                bytes_to_peers: 73,
                readahead_bytes: 66,
                readahead_used_bytes: 67,
                readahead_wasted_bytes: 68,
                prefetched: 14,
                substituted: 15,
            },
        }],
        budget_bytes: 30,
        budget_used_bytes: 31,
    }
}

fn scrape() -> Scrape {
    let last = Audit { duplicates: 55, omissions: 56, substitutions: 57, displacement_max: 58, ..Audit::default() };
    let introduction = Introduction {
        name: "resnet".into(),
        mode: Mode::Strict,
        world: 1,
        uneven: Uneven::Exact,
        weight: 1.0,
        lease: None,
        in_step: None,
    };
    let job = Status {
        job: JobId(1),
        introduction,
        epoch: Some(50),
        planned: 51,
        delivered: 52,
        consumed: 53,
        rate: 54.4,
        silent: Duration::ZERO,
        last: Some(last),
    };
    Scrape {
        engine: status(),
        jobs: vec![OfDataset { dataset: "d".into(), jobs: vec![job] }],
        members: vec![("serving".into(), 3)],
        peers: vec![PeerStatus {
            id: "07".into(),
            address: "gpu07:18284".into(),
            breaker: "open",
            answered: 81,
            refused: 82,
            failed: 83,
            bytes: 84,
            latency_us: 85,
        }],
        untaken: [("words", 2), ("scores", 0), ("embeddings", 0)],
        connections: [("rest", 41), ("grpc", 42), ("frames", 43)],
        losses: 44,
        epochs: 45,
        version: "1.2.3",
        started_seconds: 46.5,
        memory: Memory { resident_bytes: 47, anonymous_bytes: 48 },
    }
}

#[test]
fn every_count_is_printed_under_its_name_and_labels() {
    let text = Metrics::of(scrape).text();
    for line in [
        r#"fodder_reads_total{dataset="d",source="tier_mem"} 1"#,
        r#"fodder_reads_total{dataset="d",source="tier_ssd"} 2"#,
        r#"fodder_reads_total{dataset="d",source="tier_hdd"} 3"#,
        r#"fodder_reads_total{dataset="d",source="joined"} 4"#,
        r#"fodder_reads_total{dataset="d",source="peer"} 71"#,
        r#"fodder_reads_total{dataset="d",source="origin"} 5"#,
        r#"fodder_reads_total{dataset="d",source="bypass"} 6"#,
        r#"fodder_reads_total{dataset="d",source="prefetched"} 14"#,
        r#"fodder_reads_total{dataset="d",source="substituted"} 15"#,
        r#"fodder_hits_total{dataset="d",tier="SSD"} 2"#,
        r#"fodder_deliveries_total{dataset="d",kind="planned"} 61"#,
        r#"fodder_deliveries_total{dataset="d",kind="reordered"} 62"#,
        r#"fodder_deliveries_total{dataset="d",kind="substituted"} 63"#,
        r#"fodder_deliveries_total{dataset="d",kind="pad"} 64"#,
        r#"fodder_fetched_ahead_items_total{dataset="d"} 65"#,
        r#"fodder_readahead_bytes_total{dataset="d"} 66"#,
        r#"fodder_readahead_used_bytes_total{dataset="d"} 67"#,
        r#"fodder_readahead_wasted_bytes_total{dataset="d"} 68"#,
        r#"fodder_failed_reads_total{dataset="d"} 7"#,
        r#"fodder_served_bytes_total{dataset="d"} 8"#,
        r#"fodder_origin_bytes_total{dataset="d"} 9"#,
        r#"fodder_peer_bytes_total{dataset="d"} 72"#,
        r#"fodder_given_bytes_total{dataset="d"} 73"#,
        r#"fodder_origin_requests_total{dataset="d"} 10"#,
        r#"fodder_evicted_pieces_total{dataset="d"} 11"#,
        r#"fodder_unkept_pieces_total{dataset="d"} 13"#,
        r#"fodder_corrupt_pieces_total{dataset="d"} 12"#,
        r#"fodder_dataset_items{dataset="d"} 21"#,
        r#"fodder_dataset_objects{dataset="d"} 22"#,
        r#"fodder_dataset_bytes{dataset="d"} 23"#,
        r#"fodder_cached_bytes{dataset="d"} 24"#,
        r#"fodder_cached_pieces{dataset="d"} 25"#,
        r#"fodder_dataset_pieces{dataset="d"} 26"#,
        r#"fodder_jobs{dataset="d"} 1"#,
        r#"fodder_job_epoch{dataset="d",job="resnet"} 50"#,
        r#"fodder_job_planned_items{dataset="d",job="resnet"} 51"#,
        r#"fodder_job_delivered_items{dataset="d",job="resnet"} 52"#,
        r#"fodder_job_consumed_items{dataset="d",job="resnet"} 53"#,
        r#"fodder_job_rate{dataset="d",job="resnet"} 54"#,
        r#"fodder_job_last_duplicates{dataset="d",job="resnet"} 55"#,
        r#"fodder_job_last_omissions{dataset="d",job="resnet"} 56"#,
        r#"fodder_job_last_substitutions{dataset="d",job="resnet"} 57"#,
        r#"fodder_job_last_displacement{dataset="d",job="resnet"} 58"#,
        r#"fodder_tier_used_bytes{tier="SSD",path="/var/\"cache\""} 10"#,
        r#"fodder_tier_quota_bytes{tier="SSD",path="/var/\"cache\""} 1000"#,
        r#"fodder_tier_health{tier="SSD",path="/var/\"cache\"",health="ok"} 0"#,
        r#"fodder_tier_health{tier="SSD",path="/var/\"cache\"",health="unstable"} 1"#,
        "fodder_budget_limit_bytes 30",
        "fodder_budget_used_bytes 31",
        r#"fodder_cluster_members{state="serving"} 3"#,
        r#"fodder_peer_requests_total{peer="gpu07:18284",outcome="answered"} 81"#,
        r#"fodder_peer_requests_total{peer="gpu07:18284",outcome="refused"} 82"#,
        r#"fodder_peer_requests_total{peer="gpu07:18284",outcome="failed"} 83"#,
        r#"fodder_peer_given_bytes_total{peer="gpu07:18284"} 84"#,
        r#"fodder_peer_latency_us{peer="gpu07:18284"} 85"#,
        r#"fodder_peer_left_alone{peer="gpu07:18284"} 1"#,
        r#"fodder_untaken_job_news_total{what="words"} 2"#,
        r#"fodder_connections{door="grpc"} 42"#,
        "fodder_icache_losses_total 44",
        "fodder_icache_epochs_total 45",
        "fodder_process_start_time_seconds 46.5",
        "fodder_process_resident_bytes 47",
        "fodder_process_anonymous_bytes 48",
        r#"fodder_build_info{version="1.2.3"} 1"#,
    ] {
        assert!(text.lines().any(|printed| printed == line), "{line} is missing in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn the_page_on_metrics_lists_exactly_what_is_printed() {
    let page = include_str!("../../../../docs/METRICS.md");
    let listed: BTreeMap<_, _> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
            Some((cells.next()?.trim_end_matches('`').to_owned(), cells.next()?.to_owned()))
        })
        .collect();
    let text = Metrics::of(scrape).text();
    let printed: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, kind)| (format!("{name}{}", if kind == "counter" { "_total" } else { "" }), kind.to_owned()))
        .collect();
    assert_eq!(listed, printed);
    for (name, _) in text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(['{', ' '])) {
        assert!(printed.contains_key(name), "{name} has no type");
    }
}

#[test]
fn resident_memory_is_read_from_the_kernel() {
    let parsed = Memory::parse("Name:\tx\nVmRSS:\t    2048 kB\nRssAnon:\t 1024 kB\n");
    assert_eq!((parsed.resident_bytes, parsed.anonymous_bytes), (2 << 20, 1 << 20));
    assert_eq!(Memory::parse("junk").resident_bytes, 0);
    assert!(Memory::now().resident_bytes > 0);
}
