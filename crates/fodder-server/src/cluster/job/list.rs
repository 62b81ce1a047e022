//! Lists that jobs have begun epochs with at other nodes: asked for, page by page, so that this node can speak of those epochs.
//!
//! What is lacking, and whether what came is it, the engine decides.

use crate::cluster::Peering;
use fodder_api::v1::{JobListPage, JobListQuestion, PeerMessage, peer_message, peer_reply};
use fodder_core::{Dataset, Engine, Error, Result, job::Lack};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// Items in one page: 192 KiB of what a frame has room for.
const PAGE: usize = 48 << 10;

/// How long one page may take.
const PATIENCE: Duration = Duration::from_secs(5);

impl Peering {
    /// Asks one node after the other for a list until one has it, and hears of its epoch then.
    pub(super) async fn pull_list(&self, dataset: &Arc<Dataset>, lack: Lack) {
        for other in self.view().peers().map(|peer| peer.id).collect::<Vec<_>>() {
            let Some(ids) = self.list_from(other, dataset, &lack).await else { continue };
            let (at, wanted) = (Arc::clone(dataset), lack.clone());
            let taken = tokio::task::spawn_blocking(move || at.jobs().take_list(&wanted, ids)).await;
            match taken.unwrap_or_else(|error| Err(Error::Internal(error.to_string()))) {
                Ok(()) => return self.consult(dataset, &lack.job).await,
                Err(error) => {
                    tracing::warn!(dataset = dataset.config().name, job = lack.job, %error, "cannot accept a list of ids");
                }
            }
        }
    }

    /// All of a list, if that node has it.
    async fn list_from(&self, other: u128, dataset: &Arc<Dataset>, lack: &Lack) -> Option<Vec<u32>> {
        let mut ids = Vec::new();
        while ids.len() < lack.planned as usize {
            let question = JobListQuestion {
                dataset: dataset.config().name.clone(),
                job: lack.job.clone(),
                epoch: lack.epoch,
                fingerprint: lack.fingerprint,
                first: ids.len() as u32,
            };
            let message = PeerMessage { message: Some(peer_message::Message::ListFrom(question)) };
            let reply = timeout(PATIENCE, self.tell(other, &message)).await.ok()?.ok()?;
            match reply.reply {
                Some(peer_reply::Reply::ListPage(page)) if !page.ids.is_empty() => ids.extend(page.ids),
                _ => return None,
            }
        }
        Some(ids)
    }
}

/// Answers a node that lacks a list.
pub(crate) fn answer(engine: &Arc<Engine>, asked: &JobListQuestion) -> Result<JobListPage> {
    let dataset = engine.dataset(&asked.dataset)?;
    let list = dataset.jobs().list_of(&asked.job, asked.epoch, asked.fingerprint).unwrap_or_default();
    let rest = list.get(asked.first as usize..).unwrap_or_default();
    Ok(JobListPage { ids: rest[..rest.len().min(PAGE)].to_vec() })
}
