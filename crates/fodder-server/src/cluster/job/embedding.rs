//! Embeddings that jobs report to this node, packed for the others, and those that others pass on; and those that were
//! reported before this node was there: asked of one node after the other until one has them.

use super::waiting::Waiting;
use crate::cluster::{Peering, peer::Failure};
use fodder_api::v1::{
    JobEmbeddings, JobEmbeddingsPage, JobEmbeddingsQuestion, JobScoresTaken, PeerMessage, peer_message::Message,
    peer_reply::Reply,
};
use fodder_core::{
    Dataset, Engine, Error, Result,
    job::{Embeddings, PlanSnapshot},
};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// Bytes of points in one message; one point may be longer.
const PART_BYTES: usize = 192 << 10;

/// How long one page may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most pages that are taken of one node: at a point each, more than a dataset holds.
const MAX_PAGES: usize = 1 << 20;

impl Peering {
    /// Asks one node after the other until one has what a job has reported; again later, if one did not answer.
    pub(super) async fn pull_embeddings(&self, dataset: &Arc<Dataset>, job: &str) {
        let mut is_certain = true;
        for other in self.view().peers().map(|peer| peer.id).collect::<Vec<_>>() {
            match self.embeddings_from(other, dataset, job).await {
                Ok(true) => return dataset.jobs().has_all_embeddings(job),
                // It has none, or is of a version that does not know the question.
                Ok(false) | Err(Failure::Refused(_) | Failure::Full(_)) => {}
                Err(_) => is_certain = false,
            }
        }
        if is_certain {
            dataset.jobs().has_all_embeddings(job);
        }
    }

    /// Takes all that another node has; whether it has any.
    async fn embeddings_from(&self, other: u128, dataset: &Arc<Dataset>, job: &str) -> Result<bool, Failure> {
        let mut first = 0;
        for _ in 0..MAX_PAGES {
            let question = JobEmbeddingsQuestion { dataset: dataset.config().name.clone(), job: job.into(), first };
            let message = PeerMessage { message: Some(Message::EmbeddingsFrom(question)) };
            let late = |_| Failure::Late("it did not answer in time".into());
            let reply = timeout(PATIENCE, self.tell(other, &message)).await.map_err(late)??;
            let Some(Reply::EmbeddingsPage(JobEmbeddingsPage { embeddings: Some(said), next })) = reply.reply else {
                return Ok(false);
            };
            let (at, job) = (Arc::clone(dataset), job.to_owned());
            let taken = aside(move || {
                let on = PlanSnapshot { fingerprint: said.snapshot, items: said.items };
                at.jobs().fill_embeddings(&job, on, points(&said))
            });
            if let Err(error) = taken.await {
                tracing::debug!(dataset = dataset.config().name, %error, "cannot accept the embeddings of another node");
                return Ok(false);
            }
            match next {
                Some(next) if next > first => first = next,
                _ => return Ok(true),
            }
        }
        Ok(true)
    }
}

/// Answers a node that was not there.
pub(crate) fn answer_from(engine: &Arc<Engine>, asked: &JobEmbeddingsQuestion) -> Result<JobEmbeddingsPage> {
    let dataset = engine.dataset(&asked.dataset)?;
    let Some(reported) = dataset.jobs().embeddings_of(&asked.job) else { return Ok(JobEmbeddingsPage::default()) };
    let (page, next) = reported.page(usize::try_from(asked.first).unwrap_or(usize::MAX), PART_BYTES);
    let embeddings = packed(&asked.dataset, &asked.job, reported.on, page);
    Ok(JobEmbeddingsPage { embeddings: Some(embeddings), next: next.map(|next| next as u64) })
}

fn packed(dataset: &str, job: &str, on: PlanSnapshot, embeddings: Embeddings<'_>) -> JobEmbeddings {
    JobEmbeddings {
        dataset: dataset.into(),
        job: job.into(),
        snapshot: on.fingerprint,
        items: on.items,
        dimension: embeddings.dimension,
        ids: embeddings.ids.to_vec(),
        values: embeddings.values.to_vec(),
    }
}

fn points(said: &JobEmbeddings) -> Embeddings<'_> {
    Embeddings { ids: &said.ids, dimension: said.dimension, values: &said.values }
}

async fn aside(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

impl Waiting {
    pub(in crate::cluster) fn push_embeddings(
        &self,
        dataset: &str,
        job: &str,
        on: PlanSnapshot,
        embeddings: Embeddings<'_>,
    ) {
        let Embeddings { ids, dimension, values } = embeddings;
        let rows = (PART_BYTES / (dimension as usize * size_of::<f32>()).max(1)).max(1);
        for (ids, values) in ids.chunks(rows).zip(values.chunks(rows * dimension as usize)) {
            self.add(Message::Embeddings(packed(dataset, job, on, Embeddings { ids, dimension, values })));
        }
    }
}

/// Takes embeddings that a job has reported to another node.
pub(crate) async fn answer(engine: &Arc<Engine>, said: JobEmbeddings) -> Result<JobScoresTaken> {
    let dataset = engine.dataset(&said.dataset)?;
    aside(move || {
        let on = PlanSnapshot { fingerprint: said.snapshot, items: said.items };
        dataset.jobs().heed_embeddings(&said.job, on, points(&said))
    })
    .await?;
    Ok(JobScoresTaken {})
}
