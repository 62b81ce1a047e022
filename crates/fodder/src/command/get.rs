//! `fodder get`: the bytes of an item or a file, to stdout.

use crate::{
    cli::NodeArgs,
    join::{self, Wanted},
};
use anyhow::{Context, Result};
use fodder_api::{Target, v1};
use std::{
    io::{self, Write},
    ops::Range,
    process::ExitCode,
};

pub(super) async fn run(
    dataset: &str,
    item: &str,
    range: Range<u64>,
    anonymous: bool,
    node: &NodeArgs,
) -> Result<ExitCode> {
    let (client, dataset) = join::open(dataset, node, &Wanted { anonymous, ..Wanted::default() }).await?;
    // On the wire a length of 0 means "to the end", and any other is exact.
    let length = match range.end {
        u64::MAX => 0,
        end => {
            let bytes = bytes(&client.stat(&dataset, None, target(item)).await?);
            if range.is_empty() {
                return Ok(ExitCode::SUCCESS);
            }
            // Who begins behind the end is told so by the node.
            if range.start < bytes { end.min(bytes) - range.start } else { end - range.start }
        }
    };
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

/// The bytes of an item, or of an object.
fn bytes(found: &v1::StatReply) -> u64 {
    let object = || found.object.as_ref().map_or(0, |object| object.size_bytes);
    found.item.as_ref().map_or_else(object, |item| item.size_bytes)
}

/// Digits are an id; anything else, and `./` before digits, is a path.
fn target(item: &str) -> Target {
    match item.parse() {
        Ok(id) if item.bytes().all(|byte| byte.is_ascii_digit()) => Target::Item(id),
        _ => Target::Path(item.strip_prefix("./").unwrap_or(item).to_owned()),
    }
}
