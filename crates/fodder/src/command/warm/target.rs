//! What is to be warmed, as people name it: a dataset and a path in it, a path of a mount, or an origin.

use super::super::mounted::{in_mount, resolve};
use crate::{
    cli::WarmArgs,
    config,
    join::{self, Wanted},
};
use anyhow::{Context, Result};
use fodder_api::{Client, spelling, v1::DatasetStatus};
use fodder_fuse::point;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// The node that has the data, the dataset, and the path in it.
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) dataset: String,
    /// Empty: everything.
    pub(super) path: String,
    /// It was named by a path of a mount.
    pub(super) mounted: bool,
}

impl Target {
    /// Finds it; for an origin, a node is joined or started.
    pub(super) async fn find(args: &WarmArgs) -> Result<Self> {
        let mut node = args.node.clone();
        node.cache_size = args.cache_size;
        let named = args.target.as_str();
        let mounted = match resolve(Path::new(OsStr::from_bytes(&spelling::name(named)))) {
            Some(path) => in_mount(&point::mounts()?, &path),
            None => None,
        };
        if !config::is_origin(named) {
            let (dataset, path) = named.split_once('/').unwrap_or((named, ""));
            let client = join::connect(&node).await?;
            // A path of a mount need not begin with ./ unless a dataset is called so, too.
            let is_named = |known: &DatasetStatus| known.config.as_ref().is_some_and(|config| config.name == dataset);
            if let Some((shown, below)) = mounted
                && !client.list_datasets().await?.iter().any(is_named)
            {
                return Ok(Self { client, dataset: shown, path: below, mounted: true });
            }
            return Ok(Self { client, dataset: dataset.into(), path: path.into(), mounted: false });
        }
        if let Some((dataset, path)) = mounted {
            let client = join::connect(&node).await.with_context(|| {
                format!("{named} is a mount of dataset {dataset}; say which node serves it as for `fodder mount`")
            })?;
            return Ok(Self { client, dataset, path, mounted: true });
        }
        let wanted = Wanted { anonymous: args.anonymous, ..Wanted::default() };
        let (client, dataset) = join::open(named, &node, &wanted).await?;
        Ok(Self { client, dataset, path: String::new(), mounted: false })
    }
}
