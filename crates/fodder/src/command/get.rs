//! `fodder get`: the bytes of an item or a file, to stdout.

use crate::{
    cli::NodeArgs,
    join::{self, Wanted},
    output,
};
use anyhow::{Context, Result, bail};
use fodder_api::{Target, v1};
use std::{
    io::{self, IsTerminal, Write},
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
    let to_terminal = out.is_terminal();
    while let Some((bytes, _)) = chunks.next().await? {
        if to_terminal && !is_text(&bytes) {
            bail!("{item} is binary data, which a terminal cannot show: redirect it to a file (> FILE) or a pipe");
        }
        match out.write_all(&bytes) {
            Ok(()) => {}
            // The reader has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(error).context("cannot write to stdout"),
        }
    }
    output::written(out.flush())?;
    Ok(ExitCode::SUCCESS)
}

/// The bytes of an item, or of an object.
fn bytes(found: &v1::StatReply) -> u64 {
    let object = || found.object.as_ref().map_or(0, |object| object.size_bytes);
    found.item.as_ref().map_or_else(object, |item| item.size_bytes)
}

/// Whether bytes can be shown on a terminal: UTF-8 without control characters other than white space. The end may be cut.
fn is_text(bytes: &[u8]) -> bool {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        Err(_) => return false,
    };
    text.chars().all(|char| !char.is_control() || matches!(char, '\t' | '\n' | '\r'))
}

/// Digits are an id; anything else, and `./` before digits, is a path.
fn target(item: &str) -> Target {
    match item.parse() {
        Ok(id) if item.bytes().all(|byte| byte.is_ascii_digit()) => Target::Item(id),
        _ => Target::Path(item.strip_prefix("./").unwrap_or(item).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_binary_data() {
        assert!(is_text("{\"label\": 3}\r\n\tdéjà vu".as_bytes()) && is_text(b""));
        assert!(is_text(&"é".as_bytes()[..1]), "a character may be cut at the end of a chunk");
        for binary in [&b"\xff\xd8\xff\xe0\0\x10JFIF"[..], b"\x89PNG\r\n\x1a\n", b"a\0b", b"\x1b[2J"] {
            assert!(!is_text(binary), "{binary:?}");
        }
    }
}
