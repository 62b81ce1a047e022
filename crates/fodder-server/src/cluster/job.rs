//! Jobs over nodes: asks the others what they know of a job before it is answered, and tells them what is new here.
//!
//! What words mean is the engine's business; here they are packed, sent within deadlines, and passed on. A node that cannot
//! be reached is left out: it hears later.

pub(crate) mod embedding;
pub(crate) mod lack;
pub(crate) mod list;
pub(crate) mod score;
pub(super) mod waiting;

use super::Peering;
use crate::NodeInfo;
use bytes::Bytes;
use fodder_api::v1::{JobWords, PeerMessage, PeerReply, peer_message, peer_reply};
use fodder_core::{
    Dataset, Engine,
    job::{Pages, Place, Settings, Telling, Word},
};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// How long others are waited for before a job is answered without them.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// How often what is new is told.
const PERIOD: Duration = Duration::from_millis(200);

/// How often everything is told to one of the others, in turn.
const ROUND: Duration = Duration::from_secs(1);

/// The most bytes of words in one message. Frames have room for twice that.
const MESSAGE_BYTES: usize = 224 << 10;

/// How many messages an answer may be long: a job of as many ranks as there may be takes about ten.
const MAX_PAGES: usize = 64;

/// How often a dataset is refreshed at most because others speak of a snapshot that is not here.
const REFRESH: Duration = Duration::from_secs(30);

impl Peering {
    /// Speaks with all others of a job before it is answered. Costs nothing where there are none.
    pub(crate) async fn consult(&self, dataset: &Arc<Dataset>, job: &str) {
        if self.is_alone() {
            return;
        }
        let own = dataset.jobs().word_of(job).into_iter().collect();
        let mut messages = pack(&dataset.config().name, own);
        let last = messages.pop().unwrap_or_default();
        for words in messages {
            self.tell_each(&message_of(words), PATIENCE).await;
        }
        self.hear(dataset, job, &last.words).await;
        let lacks = || dataset.jobs().without_snapshots().into_iter().filter(|(name, _)| name == job);
        let (mut got, mut missed) = (false, false);
        for (_, lack) in lacks() {
            match self.pull_snapshot(dataset, &lack.fingerprint.to_le_bytes()).await {
                Some(_) => got = true,
                None => missed = true,
            }
        }
        if missed && self.may_refresh(&dataset.config().name) {
            tracing::info!(
                dataset = dataset.config().name,
                job,
                "other nodes use a snapshot that this node lacks, and none can send it: refreshing"
            );
            match dataset.refresh().await {
                Ok(_) => got = true,
                Err(error) => tracing::warn!(%error, "cannot refresh"),
            }
        }
        if got {
            // What they said of it can be understood now.
            Box::pin(self.consult(dataset, job)).await;
        }
    }

    /// Hears what all others know of all jobs of a dataset.
    pub(crate) async fn hear_all(&self, dataset: &Arc<Dataset>) {
        if !self.is_alone() {
            self.hear(dataset, "", &[]).await;
        }
    }

    /// Tells all others these words, and hears what they know of a job; waits for each only so long. What comes in time is
    /// heeded as it comes.
    async fn hear(&self, dataset: &Arc<Dataset>, job: &str, words: &[Bytes]) {
        let others: Vec<u128> = self.view().peers().map(|peer| peer.id).collect();
        let hear = |other| timeout(PATIENCE, self.hear_pages(other, dataset, job, words.to_vec()));
        futures::future::join_all(others.into_iter().map(hear)).await;
    }

    async fn hear_pages(&self, other: u128, dataset: &Arc<Dataset>, job: &str, mut words: Vec<Bytes>) {
        let mut from = Bytes::new();
        for _ in 0..MAX_PAGES {
            let (dataset_name, wanted) = (dataset.config().name.clone(), vec![job.into()]);
            let words = std::mem::take(&mut words);
            let question = JobWords { dataset: dataset_name, words, wanted, from, ..JobWords::default() };
            let Ok(reply) = self.tell(other, &message_of(question)).await else { return };
            let Some(peer_reply::Reply::Jobs(words)) = reply.reply else { return };
            self.heed_words(dataset, &words);
            if words.next.is_empty() {
                return;
            }
            from = words.next;
        }
        tracing::warn!(dataset = dataset.config().name, job, "the job state of another node is too long to be sent");
    }

    /// Tells the others what is new of jobs until nobody listens, and everything now and then.
    pub async fn spread_jobs(self: Arc<Self>, engine: std::sync::Weak<Engine>) {
        let (mut turn, mut last_round) = (0, Instant::now());
        loop {
            tokio::time::sleep(PERIOD).await;
            let Some(engine) = engine.upgrade() else { return };
            if self.is_alone() {
                continue;
            }
            let everything = last_round.elapsed() >= ROUND;
            for dataset in engine.datasets() {
                self.spread_news(&dataset).await;
                if everything {
                    self.tell_everything(&dataset, turn).await;
                }
            }
            if everything {
                (turn, last_round) = (turn + 1, Instant::now());
            }
        }
    }

    async fn spread_news(&self, dataset: &Arc<Dataset>) {
        if !dataset.jobs().has_news() {
            return;
        }
        for words in pack(&dataset.config().name, dataset.jobs().words(Telling::News)) {
            // Whoever does not hear it hears it later.
            self.tell_each(&message_of(words), PATIENCE).await;
        }
    }

    /// Tells all others at once, and waits for each only so long. What those said who answered.
    pub(super) async fn tell_each(&self, message: &PeerMessage, patience: Duration) -> Vec<PeerReply> {
        let others: Vec<u128> = self.view().peers().map(|peer| peer.id).collect();
        let tell = |other| timeout(patience, self.tell(other, message));
        let told = futures::future::join_all(others.into_iter().map(tell)).await;
        told.into_iter().filter_map(|told| told.ok()?.ok()).collect()
    }

    /// One after the other hears everything, so that what was lost is made up for.
    async fn tell_everything(&self, dataset: &Arc<Dataset>, turn: usize) {
        let mut others: Vec<u128> = self.view().peers().map(|peer| peer.id).collect();
        others.sort_unstable();
        let Some(other) = others.get(turn % others.len().max(1)) else { return };
        for words in pack(&dataset.config().name, dataset.jobs().words(Telling::All)) {
            if !matches!(timeout(PATIENCE, self.tell(*other, &message_of(words))).await, Ok(Ok(_))) {
                return;
            }
        }
    }

    fn heed_words(&self, dataset: &Arc<Dataset>, said: &JobWords) {
        self.refused_words.fetch_add(heed(dataset, said), Relaxed);
    }

    /// What others said of jobs and could not be taken, and reports that could not be passed on.
    pub(crate) fn untaken(&self) -> [(&'static str, u64); 3] {
        let words = self.refused_words.load(Relaxed);
        [("words", words), ("scores", self.scores.dropped()), ("embeddings", self.embeddings.dropped())]
    }

    pub(super) fn may_refresh(&self, dataset: &str) -> bool {
        let mut refreshed = self.refreshed.lock();
        let now = Instant::now();
        refreshed.retain(|_, at| now.duration_since(*at) < REFRESH);
        // Whoever is refused does not put off the next time.
        let may = !refreshed.contains_key(dataset);
        if may {
            refreshed.insert(dataset.into(), now);
        }
        may
    }
}

/// Answers what another node says and asks of jobs.
pub(crate) fn answer(engine: &Arc<Engine>, info: &NodeInfo, said: &JobWords) -> fodder_core::Result<JobWords> {
    let dataset = engine.dataset(&said.dataset)?;
    if let Some(peering) = info.state.peering() {
        peering.heed_words(&dataset, said);
    }
    let known: Vec<Word> = match said.wanted.first() {
        Some(name) if name.is_empty() => dataset.jobs().words(Telling::All),
        name => name.and_then(|name| dataset.jobs().word_of(name)).into_iter().collect(),
    };
    let behind = (!said.from.is_empty()).then(|| Place::decode(&said.from)).transpose()?;
    let mut pages = Pages::new(known, behind, MESSAGE_BYTES);
    // One answer is one frame: what does not fit is asked for with where it goes on.
    let words = pages.next().iter().flatten().map(|word| word.encode().into()).collect();
    tell_of_left_out(&said.dataset, pages.left_out());
    let next = pages.place().map(|place| place.encode().into()).unwrap_or_default();
    Ok(JobWords { dataset: said.dataset.clone(), words, next, ..JobWords::default() })
}

/// Heeds words: how much of them could not be taken.
fn heed(dataset: &Arc<Dataset>, said: &JobWords) -> u64 {
    let mut refused = 0;
    for bytes in &said.words {
        match Word::decode(bytes, &Settings::default()) {
            Ok(word) => refused += dataset.jobs().heed(word).refused,
            Err(error) => {
                refused += 1;
                tracing::warn!(dataset = dataset.config().name, %error, "another node sent a job state that cannot be read");
            }
        }
    }
    if refused > 0 {
        tracing::warn!(dataset = dataset.config().name, refused, "cannot accept all job states of other nodes");
    }
    refused
}

/// Words in messages that each fit into a frame.
fn pack(dataset: &str, words: Vec<Word>) -> Vec<JobWords> {
    let mut pages = Pages::new(words, None, MESSAGE_BYTES);
    let message = |page: Vec<Word>| JobWords {
        dataset: dataset.into(),
        words: page.iter().map(|word| word.encode().into()).collect(),
        ..JobWords::default()
    };
    let messages = pages.by_ref().map(message).collect();
    tell_of_left_out(dataset, pages.left_out());
    messages
}

fn message_of(words: JobWords) -> PeerMessage {
    PeerMessage { message: Some(peer_message::Message::Jobs(words)) }
}

fn tell_of_left_out(dataset: &str, jobs: &[String]) {
    if !jobs.is_empty() {
        tracing::warn!(dataset, ?jobs, "the job state is too long to be sent to other nodes");
    }
}
