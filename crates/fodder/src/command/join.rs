//! `fodder join`: a node of this host serves a dataset; where, and under which name.

use crate::{
    cli::{JoinArgs, NodeArgs},
    join::{self, Wanted},
};
use anyhow::Result;
use std::process::ExitCode;

pub(super) async fn run(args: JoinArgs) -> Result<ExitCode> {
    let JoinArgs { dataset, cache_size, node } = args;
    let node = NodeArgs { cache_size, ..node };
    let wanted = Wanted {
        name: dataset.name,
        layout: dataset.layout,
        policy: dataset.policy,
        refresh: dataset.refresh,
        anonymous: dataset.anonymous,
        listing: dataset.listing.config(),
        files_only: false,
    };
    let (client, name) = join::open(&dataset.origin, &node, &wanted).await?;
    let line = serde_json::json!({ "address": client.address().to_string(), "dataset": name });
    super::print_raw(&format!("{line}\n"))
}
