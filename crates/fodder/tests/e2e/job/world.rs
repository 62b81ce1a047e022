//! A node over many small files, and jobs that speak to it over gRPC or over frames.

use crate::program::Node;
use fodder_api::{
    Address, Client, Delivery, Job, Source,
    frames::{Batch, FrameClient},
    v1,
};
use fodder_policy::{
    job::{BatchRequest, JobId},
    plan::{Order, Uneven},
    serving::Mode,
};
use std::{fs, path::Path};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The name of the dataset.
pub(super) const NAME: &str = "world";

/// How large each item is: whole blocks on disk, and large beside what a tier needs for itself.
pub(super) const ITEM_BYTES: usize = 16 << 10;

/// What an item should be: its id, again and again.
fn content(id: u64) -> Vec<u8> {
    (id as u32).to_le_bytes().into_iter().cycle().take(ITEM_BYTES).collect()
}

/// Many files of one size, in classes of ten.
pub(super) struct World {
    origin: TempDir,
    /// In memory, where there is some: on a disk an eviction waits for all that others on this machine write there.
    cache: TempDir,
}

impl World {
    pub(super) fn new(items: u32) -> Self {
        let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let (origin, cache) = (tempfile::tempdir().unwrap(), memory.unwrap());
        for id in 0..items {
            let class = origin.path().join(format!("c{:05}", id / 10));
            fs::create_dir_all(&class).unwrap();
            fs::write(class.join(format!("{id:06}.png")), content(id.into())).unwrap();
        }
        Self { origin, cache }
    }

    /// A node with a policy whose cache holds a share of the items.
    pub(super) fn start(&self, policy: &str, share: f64) -> Node {
        self.start_with(policy, share, &[])
    }

    /// The same, where nothing is fetched before it is asked for.
    pub(super) fn start_on_demand(&self, policy: &str, share: f64) -> Node {
        let cache = tempfile::tempdir_in(self.cache.path()).unwrap().keep();
        let (origin, quota) = (self.origin.path().display(), format!("{}%", share * 100.0));
        let dataset = format!("name: {NAME}, origin: {origin}, policy: {policy}, quota: {quota}");
        let file = cache.join("node.yaml");
        fs::write(&file, format!("datasets: [{{{dataset}, tuning: {{fetching: demand}}}}]\n")).unwrap();
        Node::start(&cache, &["--config", file.to_str().unwrap()])
    }

    /// The same, with more flags.
    pub(super) fn start_with(&self, policy: &str, share: f64, flags: &[&str]) -> Node {
        let (origin, size) = (self.origin.path().to_str().unwrap(), format!("{}%", share * 100.0));
        let cache = tempfile::tempdir_in(self.cache.path()).unwrap().keep();
        let usual = [origin, "--name", NAME, "--policy", policy, "--cache-size", &size];
        Node::start(&cache, &[&usual, flags].concat())
    }
}

/// An item as a job was given it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) asked: u32,
    pub(super) served: u32,
    pub(super) delivery: Delivery,
    pub(super) source: Source,
}

impl Given {
    pub(super) fn is_hit(&self) -> bool {
        matches!(self.source, Source::TierMem | Source::TierSsd | Source::TierHdd)
    }
}

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Grpc,
    Frames,
}

/// One rank of a job, with a connection of its own.
pub(super) struct Rank {
    runtime: Runtime,
    pub(super) job: Job,
    rank: u32,
    frames: Option<(FrameClient, u32, Batch)>,
}

/// Something that a client is told.
pub(super) type Told<T> = fodder_api::Result<T>;

pub(super) fn introduction(name: &str, mode: Mode, world: u32) -> v1::IntroduceRequest {
    v1::IntroduceRequest {
        dataset: NAME.into(),
        name: name.into(),
        mode: Some(mode.into()),
        world,
        uneven: v1::Uneven::from(Uneven::Exact).into(),
        ..Default::default()
    }
}

/// A client of the node behind a socket, and what drives it.
pub(super) fn client(socket: &str) -> (Runtime, Client) {
    // With a thread of its own, so that pings are answered while the test waits for something else.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = runtime.block_on(Client::connect(&address(socket))).unwrap();
    (runtime, client)
}

fn address(socket: &str) -> Address {
    Address::Unix(Path::new(socket).into())
}

impl Rank {
    /// A rank of a job that introduces itself.
    pub(super) fn introduce(node: &Node, door: Door, request: v1::IntroduceRequest, rank: u32) -> Told<Self> {
        let socket = node.line("socket");
        let (runtime, client) = client(socket);
        let job = runtime.block_on(client.introduce(request))?.job;
        Ok(Self::new(socket, door, runtime, job, rank))
    }

    /// A rank of a job that was introduced or resumed elsewhere.
    pub(super) fn join(socket: &str, door: Door, job: u64, rank: u32) -> Self {
        let (runtime, client) = client(socket);
        Self::new(socket, door, runtime, client.job(NAME, job), rank)
    }

    fn new(socket: &str, door: Door, runtime: Runtime, job: Job, rank: u32) -> Self {
        let frames = (door == Door::Frames).then(|| {
            let mut client = FrameClient::connect(&address(socket)).unwrap();
            let handle = client.open(NAME, None).unwrap().handle;
            (client, handle, Batch::new())
        });
        Self { runtime, job, rank, frames }
    }

    /// Runs a call of the job to its end.
    pub(super) fn call<T>(&self, call: impl AsyncFnOnce(&Job) -> Told<T>) -> Told<T> {
        self.runtime.block_on(call(&self.job))
    }

    pub(super) fn begin(&self, epoch: u64, order: &Order) -> Told<v1::BeginEpochReply> {
        self.call(async |job| job.begin_epoch(self.rank, epoch, order).await)
    }

    /// A batch, every byte of which is compared.
    pub(super) fn next(&mut self, epoch: u64, number: u64, count: u32, acknowledged: &[u64]) -> Told<Vec<Given>> {
        let rank = self.rank;
        let Some((client, handle, batch)) = &mut self.frames else {
            let acknowledged = acknowledged.to_vec();
            let request = v1::NextBatchRequest { epoch, rank, number, count, acknowledged, ..Default::default() };
            let job = &self.job;
            return self.runtime.block_on(async {
                let (mut stream, mut given) = (job.next_batch(request).await?, Vec::new());
                while let Some(item) = stream.next().await? {
                    assert!(*item.data? == content(item.served), "item {} has wrong bytes", item.served);
                    let (asked, served) = (item.asked as u32, item.served as u32);
                    given.push(Given { asked, served, delivery: item.delivery, source: item.source });
                }
                Ok(given)
            });
        };
        let request = BatchRequest { job: JobId(self.job.id()), epoch, rank, number, count };
        client.next_batch(*handle, request, acknowledged, batch)?;
        let given = batch.iter().map(|item| {
            assert!(item.data? == content(item.served), "item {} has wrong bytes", item.served);
            let (asked, served) = (item.asked as u32, item.served as u32);
            Ok(Given { asked, served, delivery: item.delivery, source: item.source })
        });
        given.collect()
    }

    /// Everything that is left of an epoch, in batches, each acknowledged with the request after it.
    pub(super) fn rest(&mut self, epoch: u64, from: u64, count: u32) -> Vec<Given> {
        let mut all = Vec::new();
        for number in from.. {
            let before: Vec<u64> = number.checked_sub(1).into_iter().collect();
            let given = self.next(epoch, number, count, &before).unwrap();
            if given.is_empty() {
                break;
            }
            all.extend(given);
        }
        all
    }
}
