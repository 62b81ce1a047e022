//! Embeddings that jobs report to this node, packed for the others, and those that others pass on.

use super::waiting::Waiting;
use fodder_api::v1::{JobEmbeddings, JobScoresTaken, peer_message::Message};
use fodder_core::{
    Engine, Error, Result,
    job::{Embeddings, PlanSnapshot},
};
use std::sync::Arc;

/// Bytes of points in one message; one point may be longer.
const PART_BYTES: usize = 192 << 10;

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
            self.add(Message::Embeddings(JobEmbeddings {
                dataset: dataset.into(),
                job: job.into(),
                snapshot: on.fingerprint,
                items: on.items,
                dimension,
                ids: ids.to_vec(),
                values: values.to_vec(),
            }));
        }
    }
}

/// Takes embeddings that a job has reported to another node.
pub(crate) async fn answer(engine: &Arc<Engine>, said: JobEmbeddings) -> Result<JobScoresTaken> {
    let dataset = engine.dataset(&said.dataset)?;
    let take = move || {
        let on = PlanSnapshot { fingerprint: said.snapshot, items: said.items };
        let points = Embeddings { ids: &said.ids, dimension: said.dimension, values: &said.values };
        dataset.jobs().heed_embeddings(&said.job, on, points)
    };
    let taken = tokio::task::spawn_blocking(take).await;
    taken.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))?;
    Ok(JobScoresTaken {})
}
