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
}

/// What a view made of something it heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It was news.
    News,
    /// It was known, or older than what is known.
    Old,
    /// It is said under this node's own identity, and this node did not say it: the cache directory was copied, or put
    /// back as it once was. The view has taken the word back by saying something newer.
    Double,
}

#[derive(Debug)]
struct Known {
    member: Member,
    /// When it was last heard here.
    heard_at: Option<Duration>,
    /// The newest that was heard by its own voice.
    voice: Option<(Incarnation, u64)>,
    /// When anybody last told something new of it.
    told_at: Duration,
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
            cursor: None,
        }
    }

    /// What this node says of itself.
    pub fn me(&self) -> &Member {
        &self.me
    }

    /// Changes what this node says of itself.
    pub fn say(&mut self, state: State) {
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
            .filter(|(_, known)| !self.is_silent(known))
            .map(|(_, known)| known.member.clone())
            .take(others)
            .collect();
        self.cursor = told.last().map(|member| member.id);
        [self.me.clone()].into_iter().chain(told).collect()
    }

    /// Takes in what somebody says of a member, in any order and any number of times.
    pub fn hear(&mut self, member: Member, voice: Voice, now: Duration) -> Result<Heard, Refused> {
        // Most of what others pass on is known already, and nothing of it need be looked at.
        let is_known = |known: &Known| member.moment() <= known.member.moment();
        if voice == Voice::Hearsay && self.others.get(&member.id).is_some_and(is_known) {
            self.pass(now);
            return Ok(Heard::Old);
        }
        member.check()?;
        self.pass(now);
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

    /// Somebody who knows says that a member lives in this incarnation: a lease that is kept, a heartbeat that counts up.
    pub fn vouch(&mut self, id: NodeId, incarnation: Incarnation, now: Duration) {
        self.pass(now);
        let now = self.now;
        if let Some(known) = self.others.get_mut(&id).filter(|known| known.member.incarnation == incarnation) {
            known.heard_at = Some(now);
            known.told_at = now;
        }
    }

    /// Somebody who knows says that a member in this incarnation is silent: a lease ran out.
    pub fn miss(&mut self, id: NodeId, incarnation: Incarnation) {
        if let Some(known) = self.others.get_mut(&id).filter(|known| known.member.incarnation == incarnation) {
            known.heard_at = None;
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
        let (now, patience) = (self.now, self.patience.forgotten_after);
        let forgotten: Vec<_> = self
            .others
            .values()
            .filter(|known| now.saturating_sub(known.told_at) > patience)
            .map(|known| (known.member.id, known.member.moment()))
            .collect();
        forgotten.into_iter().for_each(|(id, moment)| self.bury(id, moment));
    }

    /// The members as they are seen now.
    pub fn members(&self) -> Members {
        let seen = |known: &Known| Seen { member: known.member.clone(), unreachable: self.is_silent(known) };
        Members::new(self.me.clone(), self.others.values().map(seen))
    }

    /// Whether members that were seen before are what is seen now, however often it was said since. Nothing is copied: this is
    /// asked at every word that is heard.
    pub fn still_sees(&self, before: &Members) -> bool {
        let same = |(known, seen): (&Known, &Seen)| {
            self.is_silent(known) == seen.unreachable && known.member.says_the_same(&seen.member)
        };
        before.all().len() == self.others.len() + 1
            && before.me().says_the_same(&self.me)
            && self.others.values().zip(before.others()).all(same)
    }

    /// The addresses of all others, to ask them whether they live.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.others.values().map(|known| known.member.address.as_str())
    }

    fn is_silent(&self, known: &Known) -> bool {
        known.heard_at.is_none_or(|at| self.now.saturating_sub(at) > self.patience.unreachable_after)
    }

    /// A word under this node's own identity: an echo of what it said, or somebody else's.
    fn hear_of_me(&mut self, heard: &Member) -> Heard {
        if heard.moment() <= self.me.moment() {
            return Heard::Old;
        }
        self.me.incarnation = heard.incarnation;
        self.me.revision = heard.revision + 1;
        Heard::Double
    }

    /// A member's own voice tells that it lives, also where others were quicker to pass on what it said later.
    fn hear_voice(&mut self, member: &Member) {
        let same_life = |known: &&mut Known| known.member.incarnation == member.incarnation;
        if let Some(known) = self.others.get_mut(&member.id).filter(same_life)
            && known.voice < Some(member.moment())
        {
            known.voice = Some(member.moment());
            known.heard_at = Some(self.now);
            known.told_at = self.now;
        }
    }

    /// Believes a member that may be believed.
    fn take(&mut self, member: Member, voice: Voice) {
        let now = self.now;
        if voice == Voice::Own {
            // An address is whose voice comes from there: whoever had it before has lost it.
            let lost = self.others.values_mut().filter(|known| known.member.address == member.address);
            lost.for_each(|known| known.heard_at = None);
        }
        // Hearsay of a new life, or of another address, is no sign that it can be heard here.
        let same =
            |known: &Known| known.member.incarnation == member.incarnation && known.member.address == member.address;
        let before = self.others.get_mut(&member.id);
        let (heard_at, voice) = match voice {
            Voice::Own => (Some(now), Some(member.moment())),
            Voice::Hearsay => {
                let before = before.as_deref().filter(|known| same(known));
                before.map_or((None, None), |known| (known.heard_at, known.voice))
            }
        };
        match before {
            Some(known) => *known = Known { member, heard_at, voice, told_at: now },
            None => drop(self.others.insert(member.id, Known { member, heard_at, voice, told_at: now })),
        }
    }

    /// Makes room for one more. Who was only heard of makes room for who speaks.
    fn make_room(&mut self, voice: Voice) -> Result<(), Refused> {
        if self.others.len() < self.patience.max_members {
            return Ok(());
        }
        let silent = self.others.values().filter(|known| self.is_silent(known));
        let longest = silent.min_by_key(|known| (known.heard_at, known.told_at)).map(|known| known.member.id);
        match longest {
            Some(id) if voice == Voice::Own => {
                let moment = self.others[&id].member.moment();
                self.bury(id, moment);
                Ok(())
            }
            _ => Err(Refused(format!("there are {} members already, and more are not taken", self.others.len()))),
        }
    }

    /// Forgets a member, except that nothing older may bring it back.
    fn bury(&mut self, id: NodeId, moment: (Incarnation, u64)) {
        self.others.remove(&id);
        self.gone.retain(|(gone, _)| *gone != id);
        if self.gone.len() >= self.patience.max_members.max(1) {
            self.gone.pop_front();
        }
        self.gone.push_back((id, moment));
    }
}
