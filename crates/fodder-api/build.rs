//! Makes Rust of the protobuf files, without protoc.

use std::path::Path;

/// Messages that commands print as JSON.
const PRINTED: [&str; 22] = [
    "StatusReply",
    "Addresses",
    "TierStatus",
    "DatasetConfig",
    "DatasetConfig.quota",
    "Tuning",
    "DatasetStatus",
    "Listing",
    "DatasetStats",
    "RefreshReply",
    "StatReply",
    "ObjectEntry",
    "ItemEntry",
    "EvictReply",
    "EvictRemainder",
    "NodeEviction",
    "ReloadReply",
    "NodeReload",
    "VerifyReply",
    "WarmProgress",
    "WarmProblem",
    "WarmNode",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Asked for when it runs: a copied target directory brings along a build script that was compiled elsewhere.
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let files = protox::compile(
        [
            "fodder/v1/node.proto",
            "fodder/v1/warm.proto",
            "fodder/v1/job.proto",
            "fodder/v1/cluster.proto",
            "fodder/v1/peer.proto",
            "deepcache.proto",
            "etcd.proto",
        ],
        [&root],
    )?;
    let mut builder = tonic_prost_build::configure().bytes(".").emit_rerun_if_changed(false);
    for message in PRINTED {
        builder = builder.type_attribute(format!("fodder.v1.{message}"), "#[derive(serde::Serialize)]");
    }
    builder = builder.field_attribute("fodder.v1.DatasetConfig.quota", "#[serde(flatten)]");
    builder = builder.type_attribute("fodder.v1.DatasetConfig.quota", "#[serde(rename_all = \"snake_case\")]");
    builder.compile_fds(files)?;
    Ok(())
}
