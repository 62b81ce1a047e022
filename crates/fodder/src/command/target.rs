//! What a command is about, as people name it: a dataset, or a path in a mount.

use super::mounted::Inside;
use crate::{cli::NodeArgs, config, join};
use anyhow::{Result, bail};
use fodder_api::{Client, v1::DatasetStatus};
use fodder_fuse::point;
use std::fmt::Write;

/// The node that has the data, the dataset, and the path in it.
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) dataset: String,
    /// Empty: everything.
    pub(super) path: String,
    /// It was named by a path in a mount.
    pub(super) mounted: bool,
}

impl Target {
    /// A dataset of the node, or a path in a mount, which says which node and which dataset.
    pub(super) async fn find(named: &str, node: &NodeArgs) -> Result<Self> {
        if let Some(target) = Self::in_mount(named, named, node).await? {
            return Ok(target);
        }
        if config::is_origin(named) {
            bail!("{named} is not in a mount of Fodder: name a dataset, or a path in a mount{}", mounts()?);
        }
        Ok(Self { client: join::connect(node).await?, dataset: named.into(), path: String::new(), mounted: false })
    }

    /// What is meant by a path in a mount; None if it is in no mount, or if the node has a dataset called so. A path that
    /// begins with `/`, `./` or `../` is never a dataset.
    pub(super) async fn in_mount(named: &str, dataset: &str, node: &NodeArgs) -> Result<Option<Self>> {
        let Some(inside) = Inside::find(named)? else { return Ok(None) };
        let is_named = |known: &DatasetStatus| known.config.as_ref().is_some_and(|config| config.name == dataset);
        if !config::is_origin(named)
            && let Ok(client) = join::connect(node).await
            && client.list_datasets().await?.iter().any(is_named)
        {
            return Ok(None);
        }
        inside.check()?;
        let client = inside.connect(node).await?;
        Ok(Some(Self { client, dataset: inside.dataset, path: inside.path, mounted: true }))
    }
}

/// The mounts of this machine, for a message.
fn mounts() -> Result<String> {
    let ours: Vec<_> = point::mounts()?.into_iter().filter(point::Entry::is_ours).collect();
    let mut text = String::from(if ours.is_empty() {
        "; no dataset is mounted on this machine"
    } else {
        ". Mounted on this machine:"
    });
    for mount in ours {
        write!(text, "\n  {} ({})", mount.point.display(), mount.dataset().unwrap_or_default())?;
    }
    Ok(text)
}
