//! Scores that were reported before this node was there: asked of one node after the other until one has them.
//!
//! A page at a time, one job after the other, beside everything else. What is asked for is decided by the engine.

use crate::cluster::{Peering, peer::Failure};
use fodder_api::v1::{JobScoresPage, JobScoresQuestion, PeerMessage, peer_message, peer_reply};
use fodder_core::{
    Dataset, Engine, Result,
    job::{Page, PlanSnapshot},
};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// How often it is looked for what is lacking.
const PERIOD: Duration = Duration::from_secs(1);

/// How long one page may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of asking one node.
enum Outcome {
    /// All there are.
    All,
    /// It was not there either, or does not know the question.
    None,
    /// It did not answer, or what it said cannot be taken now.
    Later,
}

impl Peering {
    /// Asks for snapshots, scores, embeddings and lists that are lacking here until nobody listens.
    pub async fn pull_what_lacks(self: Arc<Self>, engine: std::sync::Weak<Engine>) {
        loop {
            tokio::time::sleep(PERIOD).await;
            let Some(engine) = engine.upgrade() else { return };
            if self.is_alone() {
                continue;
            }
            for dataset in engine.datasets() {
                for (job, lack) in dataset.jobs().without_snapshots() {
                    if self.pull_snapshot(&dataset, &lack.fingerprint.to_le_bytes()).await.is_some() {
                        self.consult(&dataset, &job).await;
                    }
                }
                for job in dataset.jobs().without_scores() {
                    self.pull(&dataset, &job).await;
                }
                for job in dataset.jobs().without_embeddings() {
                    self.pull_embeddings(&dataset, &job).await;
                }
                for lack in dataset.jobs().without_lists() {
                    self.pull_list(&dataset, lack).await;
                }
            }
        }
    }

    async fn pull(&self, dataset: &Arc<Dataset>, job: &str) {
        let mut is_certain = true;
        for other in self.view().peers().map(|peer| peer.id).collect::<Vec<_>>() {
            match self.pull_from(other, dataset, job).await {
                Outcome::All => return,
                Outcome::None => {}
                Outcome::Later => is_certain = false,
            }
        }
        if is_certain {
            dataset.jobs().has_all_scores(job);
        }
    }

    async fn pull_from(&self, other: u128, dataset: &Arc<Dataset>, job: &str) -> Outcome {
        let name = &dataset.config().name;
        let mut first = 0;
        loop {
            let question = JobScoresQuestion { dataset: name.clone(), job: job.into(), first };
            let message = PeerMessage { message: Some(peer_message::Message::ScoresFrom(question)) };
            let page = match timeout(PATIENCE, self.tell(other, &message)).await {
                Ok(Ok(reply)) => match reply.reply {
                    Some(peer_reply::Reply::ScoresPage(page)) if page.known => read(page),
                    _ => return Outcome::None,
                },
                Ok(Err(Failure::Refused(_) | Failure::Full(_))) => return Outcome::None,
                _ => return Outcome::Later,
            };
            if let Err(error) = dataset.jobs().fill_scores(job, &page) {
                tracing::debug!(dataset = name, job, %error, "cannot accept the scores of another node now");
                return Outcome::Later;
            }
            match page.next {
                // It must come to an end, whatever the other says.
                Some(next) if next > first => first = next,
                _ => {
                    dataset.jobs().has_all_scores(job);
                    return Outcome::All;
                }
            }
        }
    }
}

fn read(page: JobScoresPage) -> Page {
    let JobScoresPage { snapshot, items, first, scores, effective, next, .. } = page;
    let snapshot = (items > 0).then_some(PlanSnapshot { fingerprint: snapshot, items });
    Page { snapshot, first, collected: scores, effective, next }
}

/// Answers a node that was not there.
pub(crate) fn answer(engine: &Arc<Engine>, asked: &JobScoresQuestion) -> Result<JobScoresPage> {
    let Some(page) = engine.dataset(&asked.dataset)?.jobs().scores_from(&asked.job, asked.first) else {
        return Ok(JobScoresPage::default());
    };
    let Page { snapshot, first, collected, effective, next } = page;
    let (snapshot, items) = snapshot.map_or((0, 0), |on| (on.fingerprint, on.items));
    Ok(JobScoresPage { known: true, snapshot, items, first, scores: collected, effective, next })
}
