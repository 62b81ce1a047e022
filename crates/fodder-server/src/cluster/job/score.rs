//! Scores that jobs report to this node, packed for the others, and those that others pass on.

use super::waiting::Waiting;
use fodder_api::v1::{JobScores, JobScoresTaken, peer_message::Message};
use fodder_core::{Engine, Result, job::Scores};
use std::sync::Arc;

/// Scores in one message.
const PART: usize = 32 << 10;

impl Waiting {
    pub(in crate::cluster) fn push(&self, dataset: &str, job: &str, items: u32, scores: Scores<'_>) {
        let head = || JobScores { dataset: dataset.into(), job: job.into(), items, ..JobScores::default() };
        match scores {
            Scores::Dense(values) => {
                for (first, part) in (0u32..).step_by(PART).zip(values.chunks(PART)) {
                    self.add(Message::Scores(JobScores { first, scores: part.to_vec(), ..head() }));
                }
            }
            Scores::Sparse { ids, values } => {
                for (ids, part) in ids.chunks(PART).zip(values.chunks(PART)) {
                    self.add(Message::Scores(JobScores { ids: ids.to_vec(), scores: part.to_vec(), ..head() }));
                }
            }
        }
    }

    pub(in crate::cluster) fn push_apply(&self, dataset: &str, job: &str) {
        let (dataset, job) = (dataset.into(), job.into());
        self.add(Message::Scores(JobScores { dataset, job, apply: true, ..JobScores::default() }));
    }
}

/// Takes scores that a job has reported to another node.
pub(crate) async fn answer(engine: &Arc<Engine>, said: JobScores) -> Result<JobScoresTaken> {
    let dataset = engine.dataset(&said.dataset)?;
    let take = move || {
        if !said.scores.is_empty() {
            let listed = !said.ids.is_empty();
            let ids = if listed { said.ids } else { (said.first..).take(said.scores.len()).collect() };
            dataset.jobs().heed_scores(&said.job, said.items, Scores::Sparse { ids: &ids, values: &said.scores })?;
        }
        if said.apply { dataset.jobs().heed_apply(&said.job) } else { Ok(()) }
    };
    let taken = tokio::task::spawn_blocking(take).await;
    taken.unwrap_or_else(|error| Err(fodder_core::Error::Internal(error.to_string())))?;
    Ok(JobScoresTaken {})
}
