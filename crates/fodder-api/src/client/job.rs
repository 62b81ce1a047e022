//! A client's side of a training job: typed calls of the service `Jobs`. Long lists are sent in chunks.

use super::{Client, ItemStream, Peer, channel};
use crate::{
    Error, Result,
    v1::{self, jobs_client::JobsClient},
};
use bytes::Bytes;
use fodder_policy::{job::Start, plan::Order};
use futures::stream;
use std::{future::Future, iter, sync::Arc};
use tonic::{Response, Status, transport::Channel};

/// Numbers in one message of a long list: half a MiB of them.
const CHUNK: usize = 128 << 10;

/// A training job at a node, for whoever speaks for it: a rank, or one process for all. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Job {
    jobs: JobsClient<Channel>,
    peer: Arc<Peer>,
    dataset: Arc<str>,
    id: u64,
}

/// A job that has introduced itself.
#[derive(Debug, Clone)]
pub struct Introduced {
    /// The job.
    pub job: Job,
    /// The newest snapshot, on which its first epoch would be.
    pub snapshot: String,
    /// How many items that has.
    pub items: u64,
}

/// Scores to report.
#[derive(Debug, Clone)]
pub enum Scores {
    /// One for every item of the snapshot, by id.
    Dense(Arc<[f32]>),
    /// For some items.
    Sparse {
        /// Which.
        ids: Arc<[u32]>,
        /// Their scores, in the same order.
        values: Arc<[f32]>,
    },
}

impl Client {
    /// Introduces a job. Every rank may: the same introduction again is the same job.
    pub async fn introduce(&self, request: v1::IntroduceRequest) -> Result<Introduced> {
        let mut job = self.job(&request.dataset, 0);
        let reply = job.peer.short(job.jobs.introduce(request)).await?;
        let v1::IntroduceReply { job: id, snapshot, items } = reply;
        Ok(Introduced { job: Job { id, ..job }, snapshot, items })
    }

    /// A job that was introduced elsewhere, by its number.
    pub fn job(&self, dataset: &str, id: u64) -> Job {
        let jobs = JobsClient::new(self.channel.clone()).max_decoding_message_size(channel::MAX_MESSAGE_BYTES);
        Job { jobs, peer: Arc::clone(&self.peer), dataset: dataset.into(), id }
    }

    /// The jobs of a dataset, or of all.
    pub async fn list_jobs(&self, dataset: Option<&str>) -> Result<Vec<v1::JobStatus>> {
        let request = v1::ListJobsRequest { dataset: dataset.unwrap_or_default().into() };
        let mut jobs = self.job("", 0).jobs;
        Ok(self.peer.short(jobs.list_jobs(request)).await?.jobs)
    }
}

impl Job {
    /// What it calls itself in requests.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The dataset it reads.
    pub fn dataset(&self) -> &str {
        &self.dataset
    }

    /// A rank begins an epoch, and thereby ends the one before.
    pub async fn begin_epoch(&self, rank: u32, epoch: u64, order: &Order) -> Result<v1::BeginEpochReply> {
        self.begin_epoch_behind(rank, epoch, order, Bytes::new(), Vec::new()).await
    }

    /// The same for a rank that was at another node, which is gone: with the last receipt that it was given there, and the
    /// items (those that were asked) that it has consumed since. It goes on exactly behind them, in batches from 0 on.
    pub async fn begin_epoch_behind(
        &self,
        rank: u32,
        epoch: u64,
        order: &Order,
        receipt: Bytes,
        consumed: Vec<u32>,
    ) -> Result<v1::BeginEpochReply> {
        let (seed, ids) = match order {
            Order::Seed(seed) => (Some(*seed), Arc::default()),
            Order::Ids(ids) => (None, Arc::clone(ids)),
        };
        let (dataset, job) = self.name();
        let head = v1::BeginEpochRequest { dataset, job, rank, epoch, seed, ids: Vec::new(), receipt, consumed };
        let messages = in_chunks(head, ids.len(), move |message, range| message.ids = ids[range].to_vec());
        self.call(|mut jobs| async move { jobs.begin_epoch(stream::iter(messages)).await }).await
    }

    /// A rank asks for a batch; who asks is filled in here. Asking again with the same number gives the same items.
    pub async fn next_batch(&self, request: v1::NextBatchRequest) -> Result<ItemStream> {
        let (dataset, job) = self.name();
        let request = v1::NextBatchRequest { dataset, job, ..request };
        let batches = self.call(|mut jobs| async move { jobs.next_batch(request).await }).await?;
        Ok(ItemStream::new(batches, Arc::clone(&self.peer)))
    }

    /// A rank has consumed batches, at most [`crate::MAX_ACKNOWLEDGED`] at a time.
    pub async fn acknowledge(&self, epoch: u64, rank: u32, numbers: Vec<u64>) -> Result<()> {
        let (dataset, job) = self.name();
        let request = v1::AcknowledgeRequest { dataset, job, epoch, rank, numbers, receipt: false };
        self.call(|mut jobs| async move { jobs.acknowledge(request).await }).await.map(drop)
    }

    /// The same, answered with a receipt of all that the rank has acknowledged: what it can show to another node when this
    /// one is gone.
    pub async fn acknowledge_for_receipt(&self, epoch: u64, rank: u32, numbers: Vec<u64>) -> Result<Bytes> {
        let (dataset, job) = self.name();
        let request = v1::AcknowledgeRequest { dataset, job, epoch, rank, numbers, receipt: true };
        Ok(self.call(|mut jobs| async move { jobs.acknowledge(request).await }).await?.receipt)
    }

    /// Items were consumed that were read by id and not in batches, at most [`crate::MAX_IDS`] at a time.
    pub async fn consumed(&self, epoch: u64, ids: Vec<u32>) -> Result<()> {
        let (dataset, job) = self.name();
        let request = v1::ConsumedRequest { dataset, job, epoch, ids };
        self.call(|mut jobs| async move { jobs.consumed(request).await }).await.map(drop)
    }

    /// Says how important items are. How many scores were taken: all, or none and an error.
    pub async fn report_scores(&self, scores: Scores) -> Result<u64> {
        let (ids, values) = match scores {
            Scores::Dense(values) => (Arc::default(), values),
            Scores::Sparse { ids, values } if ids.len() == values.len() => (ids, values),
            Scores::Sparse { ids, values } => {
                let (ids, values) = (ids.len(), values.len());
                return Err(Error::Invalid(format!("{values} scores for {ids} items: give one for each")));
            }
        };
        let (dataset, job) = self.name();
        let head = v1::ReportScoresRequest { dataset, job, ids: Vec::new(), scores: Vec::new() };
        let messages = in_chunks(head, values.len(), move |message, range| {
            message.ids = ids.get(range.clone()).unwrap_or_default().to_vec();
            message.scores = values[range].to_vec();
        });
        let reply = self.call(|mut jobs| async move { jobs.report_scores(stream::iter(messages)).await }).await?;
        Ok(reply.taken)
    }

    /// Says which items are alike: an embedding of `dimension` numbers for each, one behind the other. How many were
    /// taken.
    pub async fn report_embeddings(&self, dimension: u32, ids: Arc<[u32]>, values: Arc<[f32]>) -> Result<u64> {
        let width = dimension as usize;
        if ids.is_empty() {
            return Err(Error::Invalid("no embeddings were given: report at least one item".into()));
        }
        if width == 0 || ids.len().checked_mul(width) != Some(values.len()) {
            let (ids, values) = (ids.len(), values.len());
            return Err(Error::Invalid(format!(
                "{values} numbers were given for {ids} embeddings of {dimension} numbers each: give as many for each item"
            )));
        }
        let (dataset, job) = self.name();
        let head = v1::ReportEmbeddingsRequest { dataset, job, dimension, ids: Vec::new(), values: Vec::new() };
        let step = (CHUNK / width).max(1);
        let messages = (0..ids.len()).step_by(step).map(move |start| {
            let end = ids.len().min(start + step);
            let values = values[start * width..end * width].to_vec();
            v1::ReportEmbeddingsRequest { ids: ids[start..end].to_vec(), values, ..head.clone() }
        });
        let reply = self.call(|mut jobs| async move { jobs.report_embeddings(stream::iter(messages)).await }).await?;
        Ok(reply.taken)
    }

    /// What the job needs to go on from here.
    pub async fn checkpoint(&self) -> Result<Bytes> {
        let (dataset, job) = self.name();
        let request = v1::CheckpointRequest { dataset, job };
        Ok(self.call(|mut jobs| async move { jobs.checkpoint(request).await }).await?.checkpoint)
    }

    /// Goes on from a checkpoint on `world` ranks: one rank of them (the others join the first), or `None` for all. `ids`
    /// is needed where the plan was a list. `start` tells this start of the job from others. Requests from now on are made with the job that is returned.
    pub async fn resume(
        &self,
        checkpoint: Bytes,
        world: u32,
        rank: Option<u32>,
        ids: Option<Arc<[u32]>>,
        start: Start,
    ) -> Result<(Self, v1::ResumeReply)> {
        let (dataset, job) = self.name();
        let Start { attempt, nonce } = start;
        let head = v1::ResumeRequest { dataset, job, rank, world, checkpoint, ids: Vec::new(), attempt, nonce };
        let ids = ids.unwrap_or_default();
        let messages = in_chunks(head, ids.len(), move |message, range| message.ids = ids[range].to_vec());
        let reply = self.call(|mut jobs| async move { jobs.resume(stream::iter(messages)).await }).await?;
        Ok((Self { id: reply.job, ..self.clone() }, reply))
    }

    /// Says that the job is alive though it asks for nothing.
    pub async fn renew(&self) -> Result<()> {
        let (dataset, job) = self.name();
        let request = v1::RenewRequest { dataset, job };
        self.call(|mut jobs| async move { jobs.renew(request).await }).await.map(drop)
    }

    /// Says that the job is done. What its last epoch had come to.
    pub async fn leave(&self) -> Result<Option<v1::Audit>> {
        let (dataset, job) = self.name();
        let request = v1::LeaveRequest { dataset, job, rank: None };
        Ok(self.call(|mut jobs| async move { jobs.leave(request).await }).await?.audit)
    }

    /// Says that a rank is done; what the job's last epoch had come to, if all ranks are.
    pub async fn leave_rank(&self, rank: u32) -> Result<Option<v1::Audit>> {
        let (dataset, job) = self.name();
        let request = v1::LeaveRequest { dataset, job, rank: Some(rank) };
        Ok(self.call(|mut jobs| async move { jobs.leave(request).await }).await?.audit)
    }

    fn name(&self) -> (String, u64) {
        (self.dataset.to_string(), self.id)
    }

    async fn call<T, F>(&self, call: impl FnOnce(JobsClient<Channel>) -> F) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.peer.short(call(self.jobs.clone())).await
    }
}

/// Messages that carry a list of `len` numbers: what it is about in the first only, and at least that one.
fn in_chunks<M: Default>(
    head: M,
    len: usize,
    mut fill: impl FnMut(&mut M, std::ops::Range<usize>),
) -> impl Iterator<Item = M> {
    let mut head = Some(head);
    let starts = iter::once(0).chain((CHUNK..len).step_by(CHUNK));
    starts.map(move |start| {
        let mut message = head.take().unwrap_or_default();
        fill(&mut message, start..len.min(start + CHUNK));
        message
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_and_only_its_first_part_says_what_it_is() {
        for len in [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let ids: Vec<u32> = (0..len as u32).collect();
            let head = v1::BeginEpochRequest { dataset: "d".into(), epoch: 7, ..Default::default() };
            let list = ids.clone();
            let messages: Vec<_> = in_chunks(head, len, move |message: &mut v1::BeginEpochRequest, range| {
                message.ids = list[range].to_vec()
            })
            .collect();
            assert_eq!(messages.len(), len.div_ceil(CHUNK).max(1));
            assert_eq!((messages[0].dataset.as_str(), messages[0].epoch), ("d", 7));
            assert!(messages[1..].iter().all(|message| message.dataset.is_empty() && message.ids.len() <= CHUNK));
            assert_eq!(messages.into_iter().flat_map(|message| message.ids).collect::<Vec<_>>(), ids);
        }
    }
}
