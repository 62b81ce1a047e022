//! Whether the bytes were right: what readers kept of what they read is compared with the bytes at the origin.

use super::{super::block_on, files::Files, shown::Shown, sums::Sum, turns::Side};
use crate::{cli::BenchReadArgs, config};
use anyhow::{Context, Result, bail};
use fodder_api::{frames::RunningChecksum, spelling};
use fodder_core::origin::{Origin, OriginOptions, REDACTED};
use futures::{TryStreamExt, stream};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// Files that are compared at a time.
const FILES_AT_A_TIME: usize = 16;

/// Where the right bytes are.
pub(super) enum Right {
    /// Below an origin, by the same names.
    Below(String),
    /// At the origins of the datasets that are mounted, by dataset; and how to open them.
    Mounted(Shown, BTreeMap<String, (String, OriginOptions)>),
}

impl Right {
    /// Finds out, before anything is measured.
    pub(super) fn find(files: &Files, args: &BenchReadArgs) -> Result<Self> {
        match (&args.origin, &args.against) {
            (Some(uri), _) => return Ok(Self::Below(config::resolve_origin(uri)?)),
            (None, Some(dir)) => {
                let path = std::path::absolute(dir)?;
                let path = path.to_str().with_context(|| format!("{} is not UTF-8", dir.display()))?;
                return Ok(Self::Below(path.into()));
            }
            (None, None) => {}
        }
        let shown = Shown::by(files).context(
            "--checksum needs the original files: name a directory in a mount of Fodder, or give --origin URI or --against DIR2",
        )?;
        let mut origins = BTreeMap::new();
        for (name, status) in block_on(shown.datasets(&args.node))? {
            let config = status.config.unwrap_or_default();
            if config.origin.contains(REDACTED) {
                bail!(
                    "the node does not pass on the credentials of {}: give --origin URI, with its credentials",
                    config.origin
                );
            }
            let options = OriginOptions { anonymous: config.anonymous, ..OriginOptions::default() };
            origins.insert(name, (config.origin, options));
        }
        Ok(Self::Mounted(shown, origins))
    }

    async fn open(&self) -> Result<Opened<'_>> {
        let mut origins = BTreeMap::new();
        match self {
            Self::Below(uri) => drop(origins.insert("", Origin::open(uri, &OriginOptions::default()).await?)),
            Self::Mounted(_, named) => {
                for (name, (uri, options)) in named {
                    origins.insert(name.as_str(), Origin::open(uri, options).await?);
                }
            }
        }
        Ok(Opened { right: self, origins })
    }
}

/// The origins with the right bytes.
struct Opened<'a> {
    right: &'a Right,
    origins: BTreeMap<&'a str, Origin>,
}

impl Opened<'_> {
    /// The origin of a file of the directory, and the file's name there.
    fn object(&self, file: &Path) -> Option<(&Origin, String)> {
        let (dataset, name) = match self.right {
            Right::Below(_) => ("", spelling::text(file.as_os_str().as_bytes()).into_owned()),
            Right::Mounted(shown, _) => shown.object(file)?,
        };
        Some((self.origins.get(dataset)?, name))
    }

    /// Compares what was read of a file: sums of pieces of it that do not overlap, in order.
    async fn compare(&self, files: &Files, file: usize, read: &[(u64, Sum)]) -> Result<()> {
        let (path, (below, size)) = (files.path(file), &files.files[file]);
        let (origin, name) = self
            .object(below)
            .with_context(|| format!("there is no original of {} to compare with", path.display()))?;
        let object = origin.head(&name).await?;
        if object.size != *size {
            bail!("{} has {size} bytes, but {name:?} of {} has {}", path.display(), origin.uri(), object.size);
        }
        let mut body = origin.get(&name, &object.version, 0..object.size).await?;
        let (mut rest, mut sum, mut at) = (read, RunningChecksum::of(&[]), 0);
        while let Some(bytes) = body.try_next().await? {
            let end = at + bytes.len() as u64;
            while let Some((&(offset, was), later)) = rest.split_first().filter(|((offset, _), _)| *offset < end) {
                let until = offset + was.bytes;
                sum.add(&bytes[(offset.max(at) - at) as usize..(until.min(end) - at) as usize]);
                if until > end {
                    break;
                }
                if sum.value() != was.crc {
                    let (path, uri) = (path.display(), origin.uri());
                    bail!("{path} has other bytes between {offset} and {until} than {name:?} of {uri}");
                }
                (rest, sum) = (later, RunningChecksum::of(&[]));
            }
            at = end;
        }
        Ok(())
    }
}

/// What was compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checked {
    pub(super) files: u64,
    pub(super) reads: u64,
}

/// Compares all that readers have kept. An error names the first file that differs.
pub(super) fn compare(side: &Side, right: &Right, args: &BenchReadArgs) -> Result<Checked> {
    let read = by_file(side, args)?;
    block_on(async {
        let opened = right.open().await?;
        let all = stream::iter(read.iter().map(Ok));
        all.try_for_each_concurrent(FILES_AT_A_TIME, |(file, read)| opened.compare(&side.files, *file, read)).await?;
        Ok(Checked { files: read.len() as u64, reads: side.sums().map(|sums| sums.reads).sum() })
    })
}

/// What was read of each file, in order. An error if readers disagree, or were given less than there is.
fn by_file(side: &Side, args: &BenchReadArgs) -> Result<BTreeMap<usize, Vec<(u64, Sum)>>> {
    let mut places = BTreeMap::new();
    for (&(file, offset), &sum) in side.sums().flat_map(|sums| &sums.places) {
        let (path, size) = (side.files.path(file), side.files.files[file].1);
        let wanted = if args.small { size } else { args.chunk.min(size.saturating_sub(offset)) };
        if sum.bytes != wanted {
            bail!("a read of {} at {offset} returned {} bytes instead of {wanted}", path.display(), sum.bytes);
        }
        match places.entry((file, offset)) {
            Entry::Occupied(other) if *other.get() != sum => bail!(other_bytes(&path, offset)),
            Entry::Occupied(_) => {}
            Entry::Vacant(place) => drop(place.insert(sum)),
        }
    }
    let mut by_file = BTreeMap::<_, Vec<_>>::new();
    for ((file, offset), sum) in places {
        by_file.entry(file).or_default().push((offset, sum));
    }
    Ok(by_file)
}

/// What is said of a place that gives now this, now that.
pub(super) fn other_bytes(path: &Path, offset: u64) -> String {
    format!("{} returned other bytes at {offset} when it was read again", path.display())
}
