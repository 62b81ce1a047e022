//! Whether the bytes are right: every file that was read is compared with the same file elsewhere, whole.

use super::{super::block_on, turns::Side};
use crate::{cli::BenchReadArgs, config};
use anyhow::{Context, Result, bail};
use fodder_core::origin::{Origin, OriginOptions};
use futures::TryStreamExt;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Bytes compared at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// Compares the files that were read. How many they were; an error names the first that differs.
pub(super) fn compare(side: &Side, args: &BenchReadArgs) -> Result<u64> {
    let read = (0..side.files.files.len()).filter(|file| side.touched(*file));
    let mut compared = 0;
    if let Some(uri) = &args.origin {
        let uri = config::resolve_origin(uri)?;
        return block_on(async {
            let origin = Origin::open(&uri, &OriginOptions::default()).await?;
            for file in read {
                with_origin(&side.files.path(file), &side.files.files[file].0, &origin).await?;
                compared += 1;
            }
            Ok(compared)
        });
    }
    let against = args.against.as_ref().context("there is nothing to compare with")?;
    for file in read {
        with_file(&side.files.path(file), &against.join(&side.files.files[file].0))?;
        compared += 1;
    }
    Ok(compared)
}

fn with_file(path: &Path, other: &Path) -> Result<()> {
    let (mut mine, mut theirs) = (open(path)?, open(other)?);
    let (mut here, mut there) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
    let mut offset = 0;
    loop {
        let n = fill(&mut theirs, &mut there).with_context(|| format!("cannot read {}", other.display()))?;
        let m = fill(&mut mine, &mut here).with_context(|| format!("cannot read {}", path.display()))?;
        same(path, offset, &here[..m], &there[..n])?;
        if n == 0 {
            return Ok(());
        }
        offset += n;
    }
}

async fn with_origin(path: &Path, name: &Path, origin: &Origin) -> Result<()> {
    let name = name.to_str().with_context(|| format!("{} is not UTF-8: no origin has it", path.display()))?;
    let mut mine = open(path)?;
    let object = origin.head(name).await?;
    let mut body = origin.get(name, &object.version, 0..object.size).await?;
    let (mut here, mut offset) = (Vec::new(), 0);
    while let Some(there) = body.try_next().await? {
        here.resize(there.len(), 0);
        let m = fill(&mut mine, &mut here).with_context(|| format!("cannot read {}", path.display()))?;
        same(path, offset, &here[..m], &there)?;
        offset += there.len();
    }
    let rest = fill(&mut mine, &mut [0])?;
    same(path, offset, &[0][..rest], &[])
}

fn same(path: &Path, offset: usize, here: &[u8], there: &[u8]) -> Result<()> {
    if here == there {
        return Ok(());
    }
    let first = here.iter().zip(there).take_while(|(mine, theirs)| mine == theirs).count();
    bail!("{} differs from byte {} on", path.display(), offset + first)
}

fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("cannot open {}", path.display()))
}

/// Fills a buffer, or as much of it as there is.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}
