//! Who is in the cluster, as one of its members sees it.
//!
//! Every member speaks for itself: what it says is numbered by its incarnation and revision, so that of two things the
//! newer is known by itself, in whatever order and however often they arrive. What is passed on by others tells that a
//! member exists and where; only a member that was heard *here*, by its own voice or by somebody who vouches for it (a
//! lease at etcd), is counted on here. One that is silent is `unreachable`, which is said of it and never by it; after a
//! long silence it is forgotten, and only something newer than what was forgotten brings it back.
//!
//! A pure machine: time and what was heard are passed in. It knows no sockets, no clock and no randomness, and nothing
//! about who owns what.

mod member;
mod members;
#[cfg(test)]
mod tests;

pub use member::{
    Incarnation, MAX_ADDRESS_BYTES, MAX_COUNT, MAX_REST_BYTES, MAX_ZONE_BYTES, Member, NodeId, State, Versions,
    check_address, check_zone,
};
pub use members::{Members, Seen};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    time::Duration,
};

/// Something a member said that is not believed, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// How patient a view is, and how much it remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// So long a silence makes a member unreachable.
    pub unreachable_after: Duration,
    /// So long without a word of it from anybody makes it forgotten.
    pub forgotten_after: Duration,
    /// The most other members; and, again, the most that were forgotten and may not come back by an old word.
    pub max_members: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            unreachable_after: Duration::from_secs(5),
            forgotten_after: Duration::from_secs(3600),
            max_members: 1024,
        }
    }
}

/// Who tells something about a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// The member itself.
    Own,
    /// Another member.
    Hearsay,
    /// Another member, where each soon tells what it heard: whatever is new is a sign of life.
    Gossip,
}

/// What a view made of something it heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It was news.
    News,
    /// It was known, or older than what is known.
    Old,
    /// It is said under this node's own identity, and this node did not say it: the cache directory was copied, or put
    /// back as it once was. The view has outdone it with a life that nobody has heard of.
    Double,
}

#[derive(Debug)]
struct Known {
    member: Member,
    /// When it was last heard here.
    heard_at: Option<Duration>,
    /// Whether that is too long ago, or never was, as of when the view last looked.
    silent: bool,
    /// The newest that was heard by its own voice.
    voice: Option<(Incarnation, u64)>,
    /// When anybody last told something new of it.
    told_at: Duration,
}

impl Known {
    /// It is heard. Says whether it was silent before.
    fn hear(&mut self, now: Duration) -> bool {
        self.heard_at = Some(now);
        self.told_at = now;
        std::mem::replace(&mut self.silent, false)
    }

    /// It is not heard any more. Says whether it was before.
    fn lose(&mut self) -> bool {
        self.heard_at = None;
        !std::mem::replace(&mut self.silent, true)
    }
}

/// The members of a cluster, as one of them sees them.
#[derive(Debug)]
pub struct View {
    me: Member,
    patience: Patience,
    others: BTreeMap<NodeId, Known>,
    /// Those who left or were forgotten, and the last that is known of them; the oldest first.
    gone: VecDeque<(NodeId, (Incarnation, u64))>,
    /// What the clock last showed.
    clock: Duration,
    /// The time that has passed, without the jumps of the clock.
    now: Duration,
    /// Nobody falls silent or is forgotten before: until then nobody need be looked at.
    look_at: Duration,
    /// Whether the members are seen otherwise than when [`View::news`] was last asked for.
    is_news: bool,
    /// Whom to tell about next.
    cursor: Option<NodeId>,
}

impl View {
    /// A node that knows only itself.
    pub fn new(me: Member, patience: Patience) -> Self {
        Self {
            me,
            patience,
            others: BTreeMap::new(),
            gone: VecDeque::new(),
            clock: Duration::ZERO,
            now: Duration::ZERO,
            look_at: Duration::ZERO,
            is_news: false,
            cursor: None,
        }
    }

    /// What this node says of itself.
    pub fn me(&self) -> &Member {
        &self.me
    }

    /// Changes what this node says of itself.
    pub fn say(&mut self, state: State) {
        self.is_news |= self.me.state != state;
        self.me.state = state;
        self.me.revision += 1;
    }

    /// What to tell another: this node's own word first, newer than any before, then of `others` members that were heard
    /// lately, different ones each time. The silent are not told about, so that rumours of them die.
    pub fn tell(&mut self, others: usize) -> Vec<Member> {
        self.me.revision += 1;
        let after = self.cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let round = self.others.range((after, Bound::Unbounded)).chain(self.others.iter());
        let told: Vec<_> = round
            .take(self.others.len())
            .filter(|(_, known)| !known.silent)
            .map(|(_, known)| known.member.clone())
            .take(others)
            .collect();
        self.cursor = told.last().map(|member| member.id);
        [self.me.clone()].into_iter().chain(told).collect()
    }

    /// Takes in what somebody says of a member, in any order and any number of times.
    pub fn hear(&mut self, member: Member, voice: Voice, now: Duration) -> Result<Heard, Refused> {
        self.pass(now);
        if let Some(heard) = self.hear_again(&member, voice) {
            return Ok(heard);
        }
        member.check()?;
        if member.id == self.me.id {
            return Ok(self.hear_of_me(&member));
        }
        if voice == Voice::Own {
            self.hear_voice(&member);
        }
        let known = self.others.get(&member.id).map(|known| known.member.moment());
        let gone = || self.gone.iter().find(|(id, _)| *id == member.id).map(|(_, moment)| *moment);
        if known.or_else(gone).is_some_and(|known| member.moment() <= known) {
            return Ok(Heard::Old);
        }
        if member.state == State::Left {
            self.bury(member.id, member.moment());
            return Ok(Heard::News);
        }
        if known.is_none() {
            self.make_room(voice)?;
            self.gone.retain(|(id, _)| *id != member.id);
        }
        self.take(member, voice);
        Ok(Heard::News)
    }

    /// What a member is to be told of itself whose own word is older than what is known of it: its cache directory was put back
    /// as it once was, or is a copy. Nothing that it says would count otherwise, until it has counted up to where it was; and
    /// others do not tell of it while it is silent.
    pub fn reminder(&self, own: &Member) -> Option<Member> {
        if let Some(known) = self.others.get(&own.id) {
            return (own.moment() < known.member.moment()).then(|| known.member.clone());
        }
        let (_, (incarnation, revision)) = *self.gone.iter().find(|(id, _)| *id == own.id)?;
        let gone = Member { incarnation, revision, state: State::Left, ..own.clone() };
        (own.moment() < gone.moment()).then_some(gone)
    }

    /// Somebody who knows says that a member lives in this incarnation: a lease that is kept, a heartbeat that counts up.
    pub fn vouch(&mut self, id: NodeId, incarnation: Incarnation, now: Duration) {
        self.pass(now);
        let now = self.now;
        if let Some(known) = self.others.get_mut(&id).filter(|known| known.member.incarnation == incarnation) {
            self.is_news |= known.hear(now);
        }
    }

    /// Somebody who knows says that a member in this incarnation is silent: a lease ran out.
    pub fn miss(&mut self, id: NodeId, incarnation: Incarnation) {
        if let Some(known) = self.others.get_mut(&id).filter(|known| known.member.incarnation == incarnation) {
            self.is_news |= known.lose();
        }
    }

    /// Lets time pass. Call it several times within [`Patience::unreachable_after`]; if it was not called for longer than
    /// half of that, this node itself slept or its clock jumped, and nobody is blamed for having been silent meanwhile.
    pub fn pass(&mut self, now: Duration) {
        let step = now.saturating_sub(self.clock);
        self.clock = now;
        if step.is_zero() || step > self.patience.unreachable_after / 2 {
            return;
        }
        self.now += step;
        if self.now > self.look_at {
            self.look();
        }
    }

    /// The members as they are seen now.
    pub fn members(&self) -> Members {
        let seen = |known: &Known| Seen { member: known.member.clone(), unreachable: known.silent };
        Members::new(self.me.clone(), self.others.values().map(seen))
    }

    /// The members as they are seen now, if that is something else than when this was last asked; that they say the same again
    /// is nothing else. Asked at every word that is heard.
    pub fn news(&mut self) -> Option<Members> {
        std::mem::take(&mut self.is_news).then(|| self.members())
    }

    /// The addresses of all others, to ask them whether they live.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.others.values().map(|known| known.member.address.as_str())
    }

    /// Looks who has been silent for too long, and who for so long that it is forgotten; and until when nobody can be. Whoever
    /// is heard after this is not silent before as long again has passed.
    fn look(&mut self) {
        let (now, Patience { unreachable_after, forgotten_after, .. }) = (self.now, self.patience);
        self.look_at = now.saturating_add(unreachable_after.min(forgotten_after));
        let mut forgotten = Vec::new();
        for known in self.others.values_mut() {
            let silent_at = known.heard_at.map(|at| at.saturating_add(unreachable_after)).filter(|_| !known.silent);
            match silent_at {
                Some(at) if now > at => (known.silent, self.is_news) = (true, true),
                Some(at) => self.look_at = self.look_at.min(at),
                None => {}
            }
            let forgotten_at = known.told_at.saturating_add(forgotten_after);
            if now > forgotten_at {
                forgotten.push((known.member.id, known.member.moment()));
            } else {
                self.look_at = self.look_at.min(forgotten_at);
            }
        }
        forgotten.into_iter().for_each(|(id, moment)| self.bury(id, moment));
    }

    /// Most words say again what is known, and nothing of them is looked at but their number. None of any other.
    fn hear_again(&mut self, member: &Member, voice: Voice) -> Option<Heard> {
        let known = self.others.get_mut(&member.id)?;
        if voice != Voice::Own && member.moment() <= known.member.moment() {
            return Some(Heard::Old);
        }
        let is_newer = (known.member.revision + 1..=MAX_COUNT).contains(&member.revision);
        // Who was silent and speaks may have got an address from somebody.
        let wakes_up = known.silent && voice != Voice::Hearsay;
        if !is_newer || wakes_up || !known.member.says_the_same(member) {
            return None;
        }
        known.member.revision = member.revision;
        known.told_at = self.now;
        if voice == Voice::Own {
            known.voice = Some(member.moment());
        }
        if voice != Voice::Hearsay {
            known.heard_at = Some(self.now);
        }
        Some(Heard::News)
    }

    /// A word under this node's own identity: an echo of what it said, or somebody else's.
    fn hear_of_me(&mut self, heard: &Member) -> Heard {
        if heard.moment() <= self.me.moment() {
            return Heard::Old;
        }
        self.me.incarnation = Incarnation(heard.incarnation.0 + 1);
        self.me.revision = 0;
        self.is_news = true;
        Heard::Double
    }

    /// A member's own voice tells that it lives, also where others were quicker to pass on what it said later.
    fn hear_voice(&mut self, member: &Member) {
        let same_life = |known: &&mut Known| known.member.incarnation == member.incarnation;
        if let Some(known) = self.others.get_mut(&member.id).filter(same_life)
            && known.voice < Some(member.moment())
        {
            known.voice = Some(member.moment());
            self.is_news |= known.hear(self.now);
        }
    }

    /// Believes a member that may be believed.
    fn take(&mut self, member: Member, voice: Voice) {
        let now = self.now;
        if voice == Voice::Own {
            // An address is whose voice comes from there: whoever had it before has lost it.
            let others = self.others.values_mut().filter(|known| known.member.id != member.id);
            let lost = others.filter(|known| known.member.address == member.address);
            lost.for_each(|known| self.is_news |= known.lose());
        }
        // Hearsay of a new life, or of another address, is no sign that it can be heard here.
        let same =
            |known: &Known| known.member.incarnation == member.incarnation && known.member.address == member.address;
        let before = self.others.remove(&member.id);
        let same = before.as_ref().filter(|known| same(known));
        let (heard_at, silent) = match voice {
            Voice::Own | Voice::Gossip => (Some(now), false),
            Voice::Hearsay => same.map_or((None, true), |known| (known.heard_at, known.silent)),
        };
        let voice = match voice {
            Voice::Own => Some(member.moment()),
            Voice::Hearsay | Voice::Gossip => same.and_then(|known| known.voice),
        };
        let is_known = |known: &Known| known.silent == silent && known.member.says_the_same(&member);
        self.is_news |= !before.as_ref().is_some_and(is_known);
        self.others.insert(member.id, Known { member, heard_at, silent, voice, told_at: now });
    }

    /// Makes room for one more. Who was only heard of makes room for who speaks.
    fn make_room(&mut self, voice: Voice) -> Result<(), Refused> {
        if self.others.len() < self.patience.max_members {
            return Ok(());
        }
        let silent = self.others.values().filter(|known| known.silent);
        let longest = silent.min_by_key(|known| (known.heard_at, known.told_at)).map(|known| known.member.id);
        match longest {
            Some(id) if voice == Voice::Own => {
                let moment = self.others[&id].member.moment();
                self.bury(id, moment);
                Ok(())
            }
            _ => Err(Refused(format!("there are already {} members, which is the maximum", self.others.len()))),
        }
    }

    /// Forgets a member, except that nothing older may bring it back.
    fn bury(&mut self, id: NodeId, moment: (Incarnation, u64)) {
        self.is_news |= self.others.remove(&id).is_some();
        self.gone.retain(|(gone, _)| *gone != id);
        if self.gone.len() >= self.patience.max_members.max(1) {
            self.gone.pop_front();
        }
        self.gone.push_back((id, moment));
    }
}
