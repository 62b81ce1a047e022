//! `fodder get`: the bytes of an item or a file, to stdout.

use crate::{cli::NodeArgs, command::datasets::to_wire, config, join};
use anyhow::{Context, Result, bail};
use fodder_api::{Client, Target};
use fodder_core::config::DatasetConfig;
use std::{
    io::{self, Write},
    ops::Range,
    process::ExitCode,
};

pub(super) async fn run(dataset: &str, item: &str, range: Range<u64>, node: &NodeArgs) -> Result<ExitCode> {
    let (client, dataset) = if config::is_origin(dataset) {
        open_origin(dataset, node).await?
    } else {
        (join::connect(node).await?, dataset.to_owned())
    };
    // On the wire a length of 0 means "to the end"; here it means that nothing was asked for.
    if range.is_empty() {
        client.stat(&dataset, None, target(item)).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let length = if range.end == u64::MAX { 0 } else { range.end - range.start };
    let mut chunks = client.read(&dataset, target(item), range.start, length).await?;
    let mut out = io::stdout().lock();
    while let Some((bytes, _)) = chunks.next().await? {
        match out.write_all(&bytes) {
            Ok(()) => {}
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(error).context("cannot write to stdout"),
        }
    }
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Digits are an id; anything else, and `./` before digits, is a path.
fn target(item: &str) -> Target {
    match item.parse() {
        Ok(id) if item.bytes().all(|byte| byte.is_ascii_digit()) => Target::Item(id),
        _ => Target::Path(item.strip_prefix("./").unwrap_or(item).to_owned()),
    }
}

/// The node of the cache directory, joined or started, with the dataset of an origin.
async fn open_origin(origin: &str, node: &NodeArgs) -> Result<(Client, String)> {
    let origin = config::resolve_origin(origin)?;
    let client = join::join_or_start(node).await?;
    let shown = fodder_core::origin::redacted(&origin);
    let known = client.list_datasets().await?.into_iter().filter_map(|dataset| dataset.config);
    if let Some(dataset) = known.into_iter().find(|config| config.origin == shown) {
        return Ok((client, dataset.name));
    }
    // A name that is taken by another origin is made different by a hash of this one.
    let name = config::dataset_name(&origin);
    let hash = blake3::hash(origin.as_bytes()).to_hex();
    let short: String = name.chars().take(50).collect();
    for name in [name, format!("{short}-{}", &hash[..8])] {
        let dataset = DatasetConfig::new(name, origin.clone());
        match client.add_dataset(to_wire(&dataset)).await {
            Ok(_) => return Ok((client, dataset.name)),
            Err(fodder_api::Error::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("the node has other datasets under every name for {shown}: add it yourself with `fodder datasets add --name`")
}
