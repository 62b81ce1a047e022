//! The machine that knows who is there, behind a lock, with the time; and the place where others look for changes.

use super::{Incarnation, Member, Members, NodeId, Patience, State};
use fodder_policy::membership::{Heard, View, Voice};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// Who is there, for all who hear and all who ask.
#[derive(Debug)]
pub(crate) struct Board {
    view: Mutex<View>,
    started: Instant,
    news: watch::Sender<Arc<Members>>,
    /// How long members took to answer, where they were asked.
    answers: Mutex<BTreeMap<NodeId, Duration>>,
}

impl Board {
    pub(crate) fn new(me: Member, patience: Patience) -> Arc<Self> {
        let view = View::new(me, patience);
        let news = watch::Sender::new(Arc::new(view.members()));
        Arc::new(Self { view: Mutex::new(view), started: Instant::now(), news, answers: Mutex::default() })
    }

    pub(crate) fn members(&self) -> watch::Receiver<Arc<Members>> {
        self.news.subscribe()
    }

    /// How long a member last took to answer.
    pub(crate) fn answered_in(&self, id: NodeId) -> Option<Duration> {
        self.answers.lock().get(&id).copied()
    }

    /// Says something new about this node.
    pub(super) fn say(&self, state: State) {
        self.change(|view, _| view.say(state));
    }

    /// What to tell another.
    pub(super) fn tell(&self, others: usize) -> Vec<Member> {
        self.view.lock().tell(others)
    }

    /// Takes in what a member answered: its own word, then what it heard of others.
    pub(super) fn answered(&self, words: Vec<Member>, took: Duration) {
        if let Some(id) = words.first().map(|member| member.id) {
            let known = self.news.borrow().clone();
            let mut answers = self.answers.lock();
            answers.insert(id, took);
            if answers.len() > known.all().len() {
                answers.retain(|id, _| known.get(*id).is_some());
            }
        }
        self.take_in(words, Voice::Own);
    }

    /// Takes in what was heard of members, by others or by themselves: nobody knows yet whether they can be reached.
    pub(super) fn told(&self, words: Vec<Member>) {
        self.take_in(words, Voice::Hearsay);
    }

    /// Takes in what a member says who asks; what to answer: of so many others, and of itself what it has forgotten.
    pub(super) fn asked(&self, words: Vec<Member>, others: usize) -> Vec<Member> {
        let own = words.first().cloned();
        self.told(words);
        let reminder = own.and_then(|own| self.reminder(&own));
        self.tell(others).into_iter().chain(reminder).collect()
    }

    /// What a member is to be told of itself whose own word is older than what is known of it.
    pub(super) fn reminder(&self, own: &Member) -> Option<Member> {
        self.view.lock().reminder(own)
    }

    /// What this node says of itself.
    pub(super) fn me(&self) -> Member {
        self.view.lock().me().clone()
    }

    /// Takes in gossip: whatever is new in it is a sign of life, whoever passed it on. Says of each word whether it was new.
    pub(super) fn gossiped(&self, words: Vec<Member>) -> Vec<bool> {
        self.change(|view, now| words.into_iter().map(|word| take_in(view, word, Voice::Gossip, now)).collect())
    }

    /// Somebody who knows says that these live.
    pub(super) fn vouch(&self, living: impl IntoIterator<Item = (NodeId, Incarnation)>) {
        self.change(|view, now| living.into_iter().for_each(|(id, incarnation)| view.vouch(id, incarnation, now)));
    }

    /// Somebody who knows says that one is silent.
    pub(super) fn miss(&self, id: NodeId, incarnation: Incarnation) {
        self.change(|view, _| view.miss(id, incarnation));
    }

    /// Lets time pass.
    pub(super) fn pass(&self) {
        self.change(|view, now| view.pass(now));
    }

    fn take_in(&self, words: Vec<Member>, first: Voice) {
        self.change(|view, now| {
            for (number, word) in words.into_iter().enumerate() {
                take_in(view, word, if number == 0 { first } else { Voice::Hearsay }, now);
            }
        });
    }

    /// Changes the view, and tells those who wait if it then says something else.
    fn change<T>(&self, change: impl FnOnce(&mut View, Duration) -> T) -> T {
        let mut view = self.view.lock();
        let done = change(&mut view, self.started.elapsed());
        if let Some(members) = view.news() {
            log_changes(&self.news.borrow(), &members);
            self.news.send_replace(Arc::new(members));
        }
        done
    }
}

/// Takes in one word; says whether it was news.
fn take_in(view: &mut View, word: Member, voice: Voice, now: Duration) -> bool {
    let member = word.id;
    // Words of others are many, and nothing of them is needed later.
    let address = (member == view.me().id).then(|| word.address.clone());
    match view.hear(word, voice, now) {
        Ok(Heard::News) => return true,
        Ok(Heard::Old) => {}
        Ok(Heard::Double) => tracing::warn!(
            address,
            "another node uses the identity of this one, or this node has lost its latest state: if its cache \
             directory was restored from a backup, nothing needs to be done; if it was copied to another node, \
             remove identity.json from the copy"
        ),
        Err(refused) => tracing::debug!(%member, %refused, "a message of a member is rejected"),
    }
    false
}

/// One line for whoever came, went or changed its state.
fn log_changes(before: &Members, after: &Members) {
    for seen in after.others() {
        let state = seen.state();
        if before.get(seen.member.id).is_none_or(|last| last.state() != state) {
            tracing::info!(member = %seen.member.id, address = seen.member.address, state, "a member of the cluster");
        }
    }
    for seen in before.others().filter(|seen| after.get(seen.member.id).is_none()) {
        tracing::info!(member = %seen.member.id, address = seen.member.address, "a member left or was forgotten");
    }
}
