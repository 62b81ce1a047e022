//! Reading an epoch, straight from the origin or through a node, with the same readers; every byte is compared.

use super::{node::ChildNode, table::Epoch};
use anyhow::{Context, Result, bail, ensure};
use fodder_api::{
    Address, Client,
    frames::{Batch, FrameClient},
    v1::DatasetStats,
};
use fodder_core::{
    id::Version,
    origin::{Origin, OriginOptions},
};
use futures::TryStreamExt;
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};
use tokio::runtime::Runtime;

/// Set when the demonstration is interrupted: readers stop at the next sample.
pub(super) static STOP: AtomicBool = AtomicBool::new(false);

/// The true content of the dataset: paths in item order, and their bytes.
#[derive(Debug)]
pub(super) struct Truth(Vec<(String, Vec<u8>)>);

impl Truth {
    /// Reads all files two levels below `dir`, in torchvision's order: classes by name, then files by name.
    pub(super) fn read(dir: &Path) -> Result<Arc<Self>> {
        let mut files = Vec::new();
        for class in fs::read_dir(dir)? {
            let class = class?;
            for file in fs::read_dir(class.path())? {
                let file = file?;
                let path = format!("{}/{}", class.file_name().to_string_lossy(), file.file_name().to_string_lossy());
                files.push((path, fs::read(file.path())?));
            }
        }
        files.sort();
        Ok(Arc::new(Self(files)))
    }

    /// The bytes of all files together.
    pub(super) fn total_bytes(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    fn check(&self, id: u64, bytes: &[u8]) -> Result<()> {
        let (path, expected) = &self.0[id as usize];
        ensure!(bytes == expected, "{path} came back with other bytes than the source has");
        Ok(())
    }
}

/// Something that samples are read from, by any number of readers.
pub(super) trait Source: Sync {
    /// What one reader needs for itself.
    type Reader;
    fn reader(&self) -> Result<Self::Reader>;
    /// Reads and compares one sample.
    fn read(&self, reader: &mut Self::Reader, id: u64) -> Result<()>;
    /// What was counted since the beginning; time and samples are the caller's.
    fn counts(&self) -> Result<Epoch>;
}

/// Reads the samples of `order` with so many readers at a time.
pub(super) fn epoch<S: Source>(source: &S, order: &[u64], readers: usize, tick: impl Fn() + Sync) -> Result<Epoch> {
    let before = source.counts()?;
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        let mut reader = source.reader()?;
        while let Some(id) = order.get(next.fetch_add(1, Relaxed)) {
            if STOP.load(Relaxed) {
                bail!("interrupted");
            }
            source.read(&mut reader, *id)?;
            tick();
        }
        Ok(())
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..readers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a reader does not panic"))
    })?;
    let time = started.elapsed();
    let after = source.counts()?;
    Ok(Epoch {
        samples: order.len() as u64,
        time,
        hits: after.hits - before.hits,
        joined: after.joined - before.joined,
        origin: after.origin - before.origin,
        bypass: after.bypass - before.bypass,
        bytes_from_origin: after.bytes_from_origin - before.bytes_from_origin,
    })
}

/// The slow origin itself.
pub(super) struct ThroughOrigin {
    runtime: Runtime,
    origin: Origin,
    versions: Vec<Version>,
    truth: Arc<Truth>,
    bytes: AtomicU64,
}

impl ThroughOrigin {
    pub(super) fn open(uri: &str, truth: Arc<Truth>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (origin, mut objects) = runtime.block_on(async {
            let origin = Origin::open(uri, &OriginOptions::default()).await?;
            let objects: Vec<_> = origin.list().try_collect().await?;
            anyhow::Ok((origin, objects))
        })?;
        objects.sort_by(|a, b| a.path.cmp(&b.path));
        ensure!(objects.len() == truth.0.len(), "the origin lists {} of {} files", objects.len(), truth.0.len());
        let versions = objects.into_iter().map(|object| object.version).collect();
        Ok(Self { runtime, origin, versions, truth, bytes: AtomicU64::new(0) })
    }
}

impl Source for ThroughOrigin {
    type Reader = Vec<u8>;

    fn reader(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn read(&self, buffer: &mut Vec<u8>, id: u64) -> Result<()> {
        let (path, expected) = &self.truth.0[id as usize];
        buffer.clear();
        self.runtime.block_on(async {
            let range = 0..expected.len() as u64;
            let mut chunks = self.origin.get(path, &self.versions[id as usize], range).await?;
            while let Some(chunk) = chunks.try_next().await? {
                buffer.extend_from_slice(&chunk);
            }
            anyhow::Ok(())
        })?;
        self.bytes.fetch_add(buffer.len() as u64, Relaxed);
        self.truth.check(id, buffer)
    }

    fn counts(&self) -> Result<Epoch> {
        Ok(Epoch { bytes_from_origin: self.bytes.load(Relaxed), ..Epoch::default() })
    }
}

/// A node in front of it, asked over frames.
pub(super) struct ThroughNode {
    runtime: Runtime,
    client: Client,
    address: Address,
    dataset: &'static str,
    truth: Arc<Truth>,
}

impl ThroughNode {
    pub(super) fn open(node: &ChildNode, dataset: &'static str, truth: Arc<Truth>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let address = Address::unix(&node.socket)?;
        let client = runtime.block_on(Client::connect(&address))?;
        Ok(Self { runtime, client, address, dataset, truth })
    }
}

impl Source for ThroughNode {
    type Reader = (FrameClient, u32, Batch);

    fn reader(&self) -> Result<Self::Reader> {
        let mut client = FrameClient::connect(&self.address)?;
        let opened = client.open(self.dataset, None)?;
        let items = self.truth.0.len() as u64;
        ensure!(opened.items == items, "the node has {} items and the source {items}", opened.items);
        Ok((client, opened.handle, Batch::default()))
    }

    fn read(&self, (client, handle, batch): &mut Self::Reader, id: u64) -> Result<()> {
        client.get_items(*handle, &[id], batch)?;
        let item = batch.iter().next().context("the node answered with no item")?;
        ensure!(item.served == id, "sample {id} was asked for and {} came", item.served);
        self.truth.check(id, item.data?)
    }

    fn counts(&self) -> Result<Epoch> {
        let datasets = self.runtime.block_on(self.client.list_datasets())?;
        let ours = datasets.into_iter().find(|dataset| dataset.config.as_ref().is_some_and(|c| c.name == self.dataset));
        let stats: DatasetStats = ours.and_then(|dataset| dataset.stats).context("the node forgot its dataset")?;
        Ok(Epoch {
            hits: stats.hits(),
            joined: stats.joined,
            origin: stats.origin,
            bypass: stats.bypass,
            bytes_from_origin: stats.bytes_from_origin,
            ..Epoch::default()
        })
    }
}
