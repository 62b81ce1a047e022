//! One rank of a job, which goes on at another node of its cluster when its own is gone.
//!
//! It keeps what the rank was given, the last receipt, and what was consumed since. What must not be here: who the members of
//! a cluster are (addresses are given), and how batches are used.

use super::{Client, Item, Job, Timeouts};
use crate::{Address, Error, MAX_IDS, Result, v1};
use bytes::Bytes;
use fodder_policy::plan::Order;
use std::time::{Duration, Instant};

/// Batches that are acknowledged in one message.
const ACKNOWLEDGED: usize = 16;

/// Nodes that it goes to, one after the other, without being given anything.
const MOVES: usize = 8;

/// Between two rounds over nodes of which none answers.
const PAUSE: Duration = Duration::from_millis(100);

/// A rank that may be at any of several nodes. What it was given counts as consumed when it asks for more, or
/// [settles](Self::settle).
#[derive(Debug)]
pub struct Rank {
    addresses: Vec<Address>,
    timeouts: Timeouts,
    /// How long no node may answer before a call fails.
    patience: Duration,
    introduction: v1::IntroduceRequest,
    rank: u32,
    /// Where it is.
    at: usize,
    job: Option<Job>,
    epoch: Option<(u64, Order)>,
    /// The next batch, and those that were consumed and not acknowledged.
    number: u64,
    unacknowledged: Vec<u64>,
    receipt: Bytes,
    /// Items that were given, and those that were consumed since the receipt.
    given: Vec<u32>,
    since: Vec<u32>,
}

impl Rank {
    /// A rank of a job that introduces itself so, at the first of these nodes that answers. They must be of one cluster.
    pub fn new(addresses: Vec<Address>, introduction: v1::IntroduceRequest, rank: u32) -> Result<Self> {
        if addresses.is_empty() {
            return Err(Error::Invalid("give the address of at least one node".into()));
        }
        Ok(Self {
            addresses,
            timeouts: Timeouts::default(),
            patience: Duration::from_secs(30),
            introduction,
            rank,
            at: 0,
            job: None,
            epoch: None,
            number: 0,
            unacknowledged: Vec::new(),
            receipt: Bytes::new(),
            given: Vec::new(),
            since: Vec::new(),
        })
    }

    /// Waits so long for answers, and for any of the nodes. Where there are several, one that hangs is given up in a few seconds.
    #[must_use]
    pub fn with_patience(self, timeouts: Timeouts, patience: Duration) -> Self {
        Self { timeouts, patience, ..self }
    }

    /// The node that it is at, or will ask first.
    pub fn address(&self) -> &Address {
        &self.addresses[self.at]
    }

    /// The job as it is called there, once an epoch has begun.
    pub fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// Begins an epoch; how the one before went, if this was the last rank to leave it.
    pub async fn begin(&mut self, epoch: u64, order: Order) -> Result<Option<v1::Audit>> {
        self.settle().await?;
        let begun = match &self.job {
            Some(job) => job.begin_epoch(self.rank, epoch, &order).await,
            None => Err(Error::Unavailable("it is nowhere yet".into())),
        };
        let begun = match begun {
            Err(error) if is_gone(&error) => {
                // What was consumed last in the epoch before, that node may have told nobody.
                let before = self.epoch.clone().filter(|_| !self.receipt.is_empty());
                self.reach(before, Some((epoch, &order))).await?
            }
            begun => begun?,
        };
        self.epoch = Some((epoch, order));
        self.has_begun(&begun);
        Ok(begun.audit)
    }

    /// The next batch, whole; shorter than asked for only at the end of the epoch, and empty after it. What was given before
    /// is consumed.
    pub async fn next(&mut self, count: u32) -> Result<Vec<Item>> {
        self.consume();
        if self.unacknowledged.len() >= ACKNOWLEDGED || self.since.len() + count as usize > MAX_IDS {
            self.acknowledge().await?;
        }
        let mut moves = 0;
        loop {
            match self.ask(count).await {
                Err(error) if is_gone(&error) && moves < MOVES => {
                    moves += 1;
                    self.go_on().await?;
                }
                items => {
                    let items = items?;
                    self.given = items.iter().filter_map(|item| u32::try_from(item.asked).ok()).collect();
                    if !items.is_empty() {
                        self.number += 1;
                    }
                    return Ok(items);
                }
            }
        }
    }

    /// What was given so far is consumed, and some node knows it.
    pub async fn settle(&mut self) -> Result<()> {
        self.consume();
        self.acknowledge().await?;
        if self.since.is_empty() { Ok(()) } else { self.go_on().await }
    }

    /// The rank is done; what the job's last epoch had come to, if all ranks are.
    pub async fn leave(mut self) -> Result<Option<v1::Audit>> {
        self.settle().await?;
        match &self.job {
            Some(job) => job.leave_rank(self.rank).await,
            None => Ok(None),
        }
    }

    fn consume(&mut self) {
        if !self.given.is_empty() {
            self.unacknowledged.push(self.number - 1);
            self.since.append(&mut self.given);
        }
    }

    async fn ask(&self, count: u32) -> Result<Vec<Item>> {
        let (Some(job), Some((epoch, _))) = (&self.job, &self.epoch) else {
            return Err(Error::Invalid("no epoch has begun: begin one with its plan".into()));
        };
        let (epoch, rank, number) = (*epoch, self.rank, self.number);
        let request = v1::NextBatchRequest { epoch, rank, number, count, ..Default::default() };
        let mut stream = job.next_batch(request).await?;
        let mut items = Vec::new();
        while let Some(item) = stream.next().await? {
            items.push(item);
        }
        Ok(items)
    }

    /// Tells what was consumed. A node that is gone is no error: what it does not know is shown to another.
    async fn acknowledge(&mut self) -> Result<()> {
        let (Some(job), Some((epoch, _))) = (&self.job, &self.epoch) else { return Ok(()) };
        if self.unacknowledged.is_empty() {
            return Ok(());
        }
        match job.acknowledge_for_receipt(*epoch, self.rank, self.unacknowledged.clone()).await {
            Ok(receipt) => {
                self.receipt = receipt;
                self.unacknowledged.clear();
                self.since.clear();
                Ok(())
            }
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Goes on in its epoch behind what it has consumed, at another node or, if it is back, at its own.
    async fn go_on(&mut self) -> Result<()> {
        let epoch = self.epoch.clone();
        let begun = self.reach(epoch, None).await?;
        self.has_begun(&begun);
        Ok(())
    }

    fn has_begun(&mut self, begun: &v1::BeginEpochReply) {
        self.receipt = begun.receipt.clone();
        self.number = 0;
        self.unacknowledged.clear();
        self.since.clear();
    }

    /// Is at the first node that answers, the next one first: shows what it has consumed in the epoch it is `behind`, and
    /// begins the `next` one, where that is said.
    async fn reach(
        &mut self,
        behind: Option<(u64, Order)>,
        next: Option<(u64, &Order)>,
    ) -> Result<v1::BeginEpochReply> {
        let deadline = Instant::now() + self.patience;
        let first = self.at + usize::from(self.job.is_some());
        loop {
            let mut last = None;
            for at in (first..first + self.addresses.len()).map(|at| at % self.addresses.len()) {
                match self.begin_at(at, behind.as_ref(), next).await {
                    Err(error @ (Error::Unavailable(_) | Error::Closed(_))) => last = Some(error),
                    Err(error) if error.is_for_nodes_only() && self.addresses.len() > 1 => last = Some(error),
                    begun => {
                        let (job, begun) = begun?;
                        (self.at, self.job) = (at, Some(job));
                        return Ok(begun);
                    }
                }
            }
            if let Some(error) = last.filter(|_| Instant::now() > deadline) {
                return Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn begin_at(
        &self,
        at: usize,
        behind: Option<&(u64, Order)>,
        next: Option<(u64, &Order)>,
    ) -> Result<(Job, v1::BeginEpochReply)> {
        let is_alone = self.addresses.len() == 1;
        let timeouts = if is_alone { self.timeouts } else { self.timeouts.among_others() };
        let client = Client::lazy(&self.addresses[at], timeouts)?;
        let job = client.introduce(self.introduction.clone()).await?.job;
        let mut begun = v1::BeginEpochReply::default();
        if let Some((epoch, order)) = behind {
            let (receipt, since) = (self.receipt.clone(), self.since.clone());
            match job.begin_epoch_behind(self.rank, *epoch, order, receipt, since).await {
                // Nobody is in that epoch any more.
                Err(Error::NotFound(_) | Error::Conflict(_)) if next.is_some() => {}
                shown => begun = shown?,
            }
        }
        if let Some((epoch, order)) = next {
            begun = job.begin_epoch(self.rank, epoch, order).await?;
        }
        Ok((job, begun))
    }
}

/// Whether another node may have an answer: this one is gone, or was, and knows the job no more.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Unavailable(_) | Error::Closed(_) | Error::NotFound(_))
}
