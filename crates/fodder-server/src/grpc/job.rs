//! The gRPC door of jobs: `fodder.v1.Jobs`. It converts, asks the dataset's jobs and replies.

use super::{Answer, Door, StreamOf, bytes, convert::refuse};
use crate::{
    items::{Items, Wanted},
    place, wire,
};
use fodder_api::{
    MAX_ACKNOWLEDGED, MAX_IDS,
    v1::{self, jobs_server},
};
use fodder_core::{
    Dataset, Error, Result,
    job::{BatchRequest, Embeddings, JobId, Order, Resume, Scores, Shown, Start},
};
use futures::future::join_all;
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};

/// The most items that any snapshot has for jobs.
const MOST_ITEMS: u64 = u32::MAX as u64;

/// Work in proportion to a list's length, which no other call should wait for.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::Internal(error.to_string()))).map_err(refuse)
}

/// Refuses a list that is longer than one request may hold.
fn at_most(count: usize, most: usize, what: &str) -> Result<(), Status> {
    if count > most {
        return Err(refuse(Error::Invalid(format!("{count} {what} in one request, and {most} are allowed"))));
    }
    Ok(())
}

/// Tells which batches a job's rank has consumed in an epoch.
fn acknowledge(dataset: &Arc<Dataset>, who: (JobId, u64, u32), numbers: &[u64]) -> Result<(), Status> {
    at_most(numbers.len(), MAX_ACKNOWLEDGED, "batches")?;
    wire::acknowledge(dataset, who, numbers.iter().copied()).map_err(refuse)
}

#[tonic::async_trait]
impl jobs_server::Jobs for Door {
    type NextBatchStream = StreamOf<v1::ItemBatch>;

    async fn introduce(&self, request: Request<v1::IntroduceRequest>) -> Answer<v1::IntroduceReply> {
        let request = request.into_inner();
        let dataset = self.dataset(&request.dataset)?;
        let introduction = wire::introduction(request).map_err(refuse)?;
        self.info.state.consult(&dataset, &introduction.name).await;
        let job = dataset.jobs().introduce(introduction).map_err(refuse)?;
        let snapshot = dataset.snapshot();
        let (id, items) = (snapshot.id().to_string(), snapshot.len());
        Ok(Response::new(v1::IntroduceReply { job: job.0, snapshot: id, items }))
    }

    async fn begin_epoch(&self, request: Request<Streaming<v1::BeginEpochRequest>>) -> Answer<v1::BeginEpochReply> {
        let mut messages = request.into_inner();
        let first = self.uploads.first(&mut messages).await?;
        let v1::BeginEpochRequest { dataset, job, rank, epoch, seed, ids, receipt, consumed } = first;
        at_most(consumed.len(), MAX_IDS, "ids")?;
        let dataset = self.dataset(&dataset)?;
        self.info.state.consult_of(&dataset, JobId(job)).await;
        let order = match seed {
            Some(seed) => Order::Seed(seed),
            None => {
                let mut list = self.uploads.list("ids", dataset.snapshot().len());
                list.extend(&ids)?;
                while let Some(message) = self.uploads.next(&mut messages).await? {
                    list.extend(&message.ids)?;
                }
                Order::Ids((*list).into())
            }
        };
        let of = Arc::clone(&dataset);
        let begun = aside(move || {
            let shown = (!receipt.is_empty()).then_some(Shown { receipt: &receipt, consumed: &consumed });
            of.jobs().begin_showing(JobId(job), rank, epoch, order, shown)
        });
        let begun = begun.await?;
        // The others hear of it before the rank goes on; and this node hears what it could not understand without the plan.
        self.info.state.consult_of(&dataset, JobId(job)).await;
        Ok(Response::new(v1::BeginEpochReply {
            items: begun.items,
            audit: begun.audit.map(Into::into),
            snapshot: begun.snapshot.to_string(),
            receipt: begun.receipt.into(),
        }))
    }

    async fn next_batch(&self, request: Request<v1::NextBatchRequest>) -> Answer<Self::NextBatchStream> {
        let v1::NextBatchRequest { dataset, job, epoch, rank, number, count, acknowledged } = request.into_inner();
        at_most(count as usize, MAX_IDS, "items")?;
        let dataset = self.dataset(&dataset)?;
        let job = JobId(job);
        acknowledge(&dataset, (job, epoch, rank), &acknowledged)?;
        let request = BatchRequest { job, epoch, rank, number, count };
        let batch = dataset.jobs().next_batch(request).await.map_err(refuse)?;
        let snapshot = place::snapshot(&dataset, Some(batch.snapshot)).map_err(refuse)?;
        let list = batch.items.iter().copied().map(Wanted::from).collect();
        let items = Items::new(dataset, snapshot, list, bytes::PART_BYTES);
        let id = batch.snapshot.to_string();
        Ok(Response::new(self.stream(Box::pin(bytes::batches(items, id))).await))
    }

    async fn acknowledge(&self, request: Request<v1::AcknowledgeRequest>) -> Answer<v1::AcknowledgeReply> {
        let v1::AcknowledgeRequest { dataset, job, epoch, rank, numbers, receipt } = request.into_inner();
        let dataset = self.dataset(&dataset)?;
        acknowledge(&dataset, (JobId(job), epoch, rank), &numbers)?;
        let receipt = match receipt {
            true => dataset.jobs().receipt(JobId(job), epoch, rank).map_err(refuse)?.into(),
            false => Default::default(),
        };
        Ok(Response::new(v1::AcknowledgeReply { receipt }))
    }

    async fn consumed(&self, request: Request<v1::ConsumedRequest>) -> Answer<v1::ConsumedReply> {
        let v1::ConsumedRequest { dataset, job, epoch, ids } = request.into_inner();
        at_most(ids.len(), MAX_IDS, "ids")?;
        self.dataset(&dataset)?.jobs().consumed(JobId(job), epoch, &ids).map_err(refuse)?;
        Ok(Response::new(v1::ConsumedReply {}))
    }

    async fn report_scores(
        &self,
        request: Request<Streaming<v1::ReportScoresRequest>>,
    ) -> Answer<v1::ReportScoresReply> {
        let mut messages = request.into_inner();
        let mut message = self.uploads.first(&mut messages).await?;
        let (dataset, job) = (self.dataset(&message.dataset)?, JobId(message.job));
        // The job may be on a snapshot that has more items than the newest; it will be asked.
        let (mut ids, mut scores) = (self.uploads.list("ids", MOST_ITEMS), self.uploads.list("scores", MOST_ITEMS));
        loop {
            ids.extend(&message.ids)?;
            scores.extend(&message.scores)?;
            match self.uploads.next(&mut messages).await? {
                Some(next) => message = next,
                None => break,
            }
        }
        let taken = scores.len() as u64;
        aside(move || {
            let report = match ids.is_empty() {
                true => Scores::Dense(&scores),
                false => Scores::Sparse { ids: &ids, values: &scores },
            };
            dataset.jobs().report_scores(job, report)
        })
        .await?;
        Ok(Response::new(v1::ReportScoresReply { taken }))
    }

    async fn report_embeddings(
        &self,
        request: Request<Streaming<v1::ReportEmbeddingsRequest>>,
    ) -> Answer<v1::ReportEmbeddingsReply> {
        let mut messages = request.into_inner();
        let first = self.uploads.first(&mut messages).await?;
        let (dataset, job) = (self.dataset(&first.dataset)?, JobId(first.job));
        let dimension = first.dimension;
        let (mut taken, mut next) = (0, Some(first));
        while let Some(v1::ReportEmbeddingsRequest { ids, values, .. }) = next {
            let (dataset, count) = (Arc::clone(&dataset), ids.len() as u64);
            aside(move || dataset.jobs().report_embeddings(job, Embeddings { ids: &ids, dimension, values: &values }))
                .await?;
            taken += count;
            next = self.uploads.next(&mut messages).await?;
        }
        Ok(Response::new(v1::ReportEmbeddingsReply { taken }))
    }

    async fn checkpoint(&self, request: Request<v1::CheckpointRequest>) -> Answer<v1::CheckpointReply> {
        let v1::CheckpointRequest { dataset, job } = request.into_inner();
        let dataset = self.dataset(&dataset)?;
        self.info.state.consult_of(&dataset, JobId(job)).await;
        let checkpoint = aside(move || dataset.jobs().checkpoint(JobId(job))).await?.into();
        Ok(Response::new(v1::CheckpointReply { checkpoint }))
    }

    async fn resume(&self, request: Request<Streaming<v1::ResumeRequest>>) -> Answer<v1::ResumeReply> {
        let mut messages = request.into_inner();
        let first = self.uploads.first(&mut messages).await?;
        let v1::ResumeRequest { dataset, job, rank, world, checkpoint, ids, attempt, nonce } = first;
        let dataset = self.dataset(&dataset)?;
        self.info.state.consult_of(&dataset, JobId(job)).await;
        let mut list = self.uploads.list("ids", MOST_ITEMS);
        list.extend(&ids)?;
        while let Some(message) = self.uploads.next(&mut messages).await? {
            list.extend(&message.ids)?;
        }
        self.info.state.prepare_resume(&dataset, &checkpoint).await;
        let resumed = aside(move || {
            let ids = (!list.is_empty()).then(|| (*list).into());
            let (job, world) = (JobId(job), world.max(1));
            let start = Start { attempt, nonce };
            dataset.jobs().resume(Resume { job, rank, world, start, checkpoint: &checkpoint, ids })
        })
        .await?;
        Ok(Response::new(v1::ResumeReply {
            job: resumed.job.0,
            epoch: resumed.epoch,
            left: resumed.left,
            snapshot: resumed.snapshot.to_string(),
        }))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Answer<v1::RenewReply> {
        let v1::RenewRequest { dataset, job } = request.into_inner();
        self.dataset(&dataset)?.jobs().renew(JobId(job)).map_err(refuse)?;
        Ok(Response::new(v1::RenewReply {}))
    }

    async fn leave(&self, request: Request<v1::LeaveRequest>) -> Answer<v1::LeaveReply> {
        let v1::LeaveRequest { dataset, job, rank } = request.into_inner();
        let dataset = self.dataset(&dataset)?;
        self.info.state.consult_of(&dataset, JobId(job)).await;
        let (of, name) = (Arc::clone(&dataset), dataset.jobs().name_of(JobId(job)));
        let gone = aside(move || match rank {
            Some(rank) => of.jobs().leave_rank(JobId(job), rank),
            None => of.jobs().leave(JobId(job)).map(Some),
        });
        let audit = gone.await?.and_then(|gone| gone.audit);
        // The node may end with its last job: the others hear of it now.
        if let Some(name) = name {
            self.info.state.consult(&dataset, &name).await;
        }
        Ok(Response::new(v1::LeaveReply { audit: audit.map(Into::into) }))
    }

    async fn list_jobs(&self, request: Request<v1::ListJobsRequest>) -> Answer<v1::ListJobsReply> {
        let name = request.into_inner().dataset;
        let datasets = if name.is_empty() { self.engine.datasets() } else { vec![self.dataset(&name)?] };
        join_all(datasets.iter().map(|dataset| self.info.state.hear_all(dataset))).await;
        let jobs = datasets.iter().flat_map(|dataset| {
            let name = &dataset.config().name;
            dataset.jobs().status().into_iter().map(move |status| wire::job_status(name, status))
        });
        Ok(Response::new(v1::ListJobsReply { jobs: jobs.collect() }))
    }
}
