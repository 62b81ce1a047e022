//! What is to be warmed, as people name it: a dataset and a path in it, a path of a mount, or an origin.

use super::super::target::Target;
use crate::{
    cli::WarmArgs,
    config,
    join::{self, Wanted},
};
use anyhow::Result;

/// Finds it; for an origin, a node is joined or started.
pub(super) async fn find(args: &WarmArgs) -> Result<Target> {
    let mut node = args.node.clone();
    node.cache_size = args.cache_size;
    let named = args.target.as_str();
    let (dataset, path) = named.split_once('/').unwrap_or((named, ""));
    if let Some(target) = Target::in_mount(named, dataset, &node).await? {
        return Ok(target);
    }
    if !config::is_origin(named) {
        let client = join::connect(&node).await?;
        return Ok(Target { client, dataset: dataset.into(), path: path.into(), mounted: false });
    }
    let wanted = Wanted { anonymous: args.anonymous, ..Wanted::default() };
    let (client, dataset) = join::open(named, &node, &wanted).await?;
    Ok(Target { client, dataset, path: String::new(), mounted: false })
}
