//! The engine's types to messages and back, and its errors to gRPC statuses.

use super::{listing, tuning};
use crate::{Addresses, place::Place, wire};
use fodder_api::{
    error::{ERROR_TRAILER, code_name},
    v1::{self, ErrorCode, dataset_config::Quota as QuotaMessage},
};
use fodder_core::{
    Dataset, Error,
    catalog::Snapshot,
    config::{DatasetConfig, ListingConfig, Medium, Quota, Tuning},
    engine::{DatasetStats, DatasetStatus, TierStatus, VerifyReport},
    id::SnapshotId,
    layout::Layout,
};
use std::time::Duration;
use tonic::{Code, Status, metadata::MetadataValue};

/// Bytes of a block where a request does not say.
const BLOCK_BYTES: u32 = 4 << 20;

/// The status that tells a client of an error; its trailer names the error exactly.
pub(crate) fn refuse(error: Error) -> Status {
    let code = wire::code(&error);
    let grpc = match code {
        ErrorCode::NotFound => Code::NotFound,
        ErrorCode::Invalid => Code::InvalidArgument,
        ErrorCode::Conflict => Code::AlreadyExists,
        ErrorCode::Stale => Code::FailedPrecondition,
        ErrorCode::Denied => Code::PermissionDenied,
        ErrorCode::Unavailable | ErrorCode::Closed => Code::Unavailable,
        ErrorCode::Full => Code::ResourceExhausted,
        ErrorCode::Corrupt => Code::DataLoss,
        ErrorCode::Internal | ErrorCode::Unspecified => Code::Internal,
    };
    if code == ErrorCode::Internal {
        tracing::error!(%error, "a call failed");
    }
    let mut status = Status::new(grpc, error.to_string());
    status.metadata_mut().insert(ERROR_TRAILER, MetadataValue::from_static(code_name(code)));
    status
}

pub(super) fn no_target() -> Error {
    Error::Invalid("the request names neither a path nor an item".into())
}

pub(super) fn snapshot_id(text: &str) -> Result<Option<SnapshotId>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(refuse)
}

/// What a read is about.
pub(super) fn place_of(
    dataset: &Dataset,
    snapshot: &Snapshot,
    target: Option<v1::read_request::Target>,
) -> Result<Place, Status> {
    match target {
        Some(v1::read_request::Target::Path(path)) => {
            super::check_path(&path)?;
            Place::of_path(dataset, snapshot, &path)
        }
        Some(v1::read_request::Target::Item(item)) => Place::of_item(snapshot, item),
        None => Err(no_target()),
    }
    .map_err(refuse)
}

pub(super) fn addresses(addresses: &Addresses) -> v1::Addresses {
    let socket = addresses.socket.as_ref().map(|path| path.display().to_string());
    v1::Addresses {
        rest: addresses.rest.to_string(),
        grpc: addresses.grpc.to_string(),
        socket: socket.unwrap_or_default(),
    }
}

pub(super) fn tier_status(tier: TierStatus) -> v1::TierStatus {
    let medium = match tier.medium {
        Medium::Mem => "MEM",
        Medium::Ssd => "SSD",
        Medium::Hdd => "HDD",
    };
    let TierStatus { path, quota_bytes, used_bytes, health, .. } = tier;
    v1::TierStatus { path, medium: medium.into(), quota_bytes, used_bytes, health: health.to_string() }
}

pub(super) fn dataset_status(status: DatasetStatus) -> v1::DatasetStatus {
    let DatasetStatus { config, snapshot, items, objects, total_bytes, cached_bytes, cached_pieces, .. } = status;
    let DatasetStatus { pieces, explanation, warning, stats, problems, .. } = status;
    v1::DatasetStatus {
        config: Some(config_message(config)),
        snapshot,
        items,
        objects,
        total_bytes,
        cached_bytes,
        cached_pieces,
        pieces,
        stats: Some(stats_message(stats)),
        warning: warning.unwrap_or_default(),
        explanation: explanation.map(|said| format!("{}: {}", said.chosen, said.why)).unwrap_or_default(),
        problems,
    }
}

/// Counts as they are sent.
pub(crate) fn stats_message(stats: DatasetStats) -> v1::DatasetStats {
    let DatasetStats { hits_mem, hits_ssd, hits_hdd, joined, origin, bypass, failed, .. } = stats;
    let DatasetStats { bytes_served, bytes_from_origin, origin_requests, evicted_pieces, .. } = stats;
    let DatasetStats { unkept_pieces, corrupt_pieces, prefetched, substituted, .. } = stats;
    let DatasetStats { given_planned, given_reordered, given_substituted, given_pads, fetched_ahead, .. } = stats;
    let DatasetStats { peer, bytes_from_peers, bytes_to_peers, .. } = stats;
    let DatasetStats { readahead_bytes, readahead_used_bytes, readahead_wasted_bytes, .. } = stats;
    v1::DatasetStats {
        hits_mem,
        hits_ssd,
        hits_hdd,
        joined,
        origin,
        bypass,
        failed,
        bytes_served,
        bytes_from_origin,
        origin_requests,
        evicted_pieces,
        unkept_pieces,
        corrupt_pieces,
        prefetched,
        substituted,
        given_planned,
        given_reordered,
        given_substituted,
        given_pads,
        fetched_ahead,
        readahead_bytes,
        readahead_used_bytes,
        readahead_wasted_bytes,
        peer,
        bytes_from_peers,
        bytes_to_peers,
    }
}

/// A dataset's configuration as it is sent.
pub fn config_message(config: DatasetConfig) -> v1::DatasetConfig {
    let (layout, block_bytes) = match config.layout {
        Layout::Files => ("files", 0),
        Layout::Blocks { block_bytes } => ("blocks", block_bytes),
        Layout::Tar => ("tar", 0),
        Layout::Tfrecord => ("tfrecord", 0),
    };
    let policy = serde_json::to_value(config.policy).ok();
    let interval = config.refresh_interval.unwrap_or_default();
    v1::DatasetConfig {
        name: config.name,
        origin: config.origin,
        layout: layout.into(),
        block_bytes,
        policy: policy.and_then(|policy| policy.as_str().map(str::to_owned)).unwrap_or_default(),
        quota: config.quota.map(|quota| match quota {
            Quota::Bytes(bytes) => QuotaMessage::QuotaBytes(bytes),
            Quota::Share(share) => QuotaMessage::QuotaShare(share),
        }),
        refresh_interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
        anonymous: config.anonymous,
        tuning: (config.tuning != Tuning::default()).then(|| tuning::message(&config.tuning)),
        listing: (config.listing != ListingConfig::default()).then(|| listing::message(&config.listing)),
    }
}

pub(super) fn dataset_config(message: v1::DatasetConfig) -> Result<DatasetConfig, Status> {
    let invalid = |text: String| refuse(Error::Invalid(text));
    let layout = match (message.layout.as_str(), message.block_bytes) {
        ("" | "files", _) => Layout::Files,
        ("blocks", 0) => Layout::Blocks { block_bytes: BLOCK_BYTES },
        ("blocks", block_bytes) => Layout::Blocks { block_bytes },
        ("tar", _) => Layout::Tar,
        ("tfrecord", _) => Layout::Tfrecord,
        (other, _) => return Err(invalid(format!("unknown layout {other:?}: use files, blocks, tar or tfrecord"))),
    };
    let policy = match message.policy.as_str() {
        "" => Default::default(),
        name => serde_json::from_value(name.into()).map_err(|error| invalid(format!("{error}")))?,
    };
    let quota = match message.quota {
        None => None,
        Some(QuotaMessage::QuotaBytes(bytes)) => Some(Quota::Bytes(bytes)),
        Some(QuotaMessage::QuotaShare(share)) if share > 0.0 && share <= 1.0 => Some(Quota::Share(share)),
        Some(QuotaMessage::QuotaShare(share)) => {
            return Err(invalid(format!("the quota must be a share of the dataset between 0 and 1, not {share}")));
        }
    };
    let interval = Some(message.refresh_interval_ms).filter(|ms| *ms > 0).map(Duration::from_millis);
    let v1::DatasetConfig { name, origin, anonymous, tuning, listing, .. } = message;
    let tuning = tuning::config(tuning.unwrap_or_default()).map_err(refuse)?;
    let listing = listing::config(&listing.unwrap_or_default()).map_err(refuse)?;
    let plain = DatasetConfig::new(name, origin);
    Ok(DatasetConfig { layout, policy, tuning, quota, refresh_interval: interval, anonymous, listing, ..plain })
}

pub(super) fn add(total: &mut v1::VerifyReply, report: VerifyReport) {
    total.good += report.good;
    total.corrupt += report.corrupt;
    total.bytes += report.bytes;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_error_arrives_as_what_it_was() {
        for (error, code) in [
            (Error::NotFound("x".into()), Code::NotFound),
            (Error::Stale("x".into()), Code::FailedPrecondition),
            (Error::Full("x".into()), Code::ResourceExhausted),
            (Error::Closed, Code::Unavailable),
            (Error::Unavailable("x".into()), Code::Unavailable),
        ] {
            let expected = wire::code(&error);
            let status = refuse(error);
            assert_eq!(status.code(), code);
            assert_eq!(fodder_api::Error::from(status).code(), expected);
        }
    }

    #[test]
    fn a_dataset_keeps_its_configuration_on_the_way() {
        let config = DatasetConfig {
            layout: Layout::Blocks { block_bytes: 1 << 20 },
            quota: Some(Quota::Share(0.2)),
            refresh_interval: Some(Duration::from_secs(90)),
            anonymous: true,
            listing: ListingConfig { max_removed: 0.9, ..ListingConfig::default() },
            ..DatasetConfig::new("imagenet", "s3://bucket/train")
        };
        assert_eq!(dataset_config(config_message(config.clone())).unwrap(), config);
    }

    #[test]
    fn what_a_dataset_cannot_be_is_refused() {
        let wrong = [
            v1::DatasetConfig { layout: "zip".into(), ..Default::default() },
            v1::DatasetConfig { policy: "fifo".into(), ..Default::default() },
            v1::DatasetConfig { quota: Some(QuotaMessage::QuotaShare(1.5)), ..Default::default() },
            v1::DatasetConfig { quota: Some(QuotaMessage::QuotaShare(f64::NAN)), ..Default::default() },
        ];
        for config in wrong {
            assert_eq!(dataset_config(config).unwrap_err().code(), Code::InvalidArgument);
        }
    }
}
