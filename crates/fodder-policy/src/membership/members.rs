//! The members of a cluster as one of them sees them at one moment.

use super::{Member, NodeId, State};

/// A member, and what is said of it here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// What it says of itself, as far as it was heard.
    pub member: Member,
    /// What others say of it: it is silent. It owns nothing as long as they do.
    pub unreachable: bool,
}

impl Seen {
    /// Whether it owns a share of what is cached.
    pub fn owns(&self) -> bool {
        self.member.state == State::Serving && !self.unreachable
    }

    /// Its state in a word: its own, or `unreachable`.
    pub fn state(&self) -> String {
        if self.unreachable { "unreachable".into() } else { self.member.state.to_string() }
    }
}

/// The members of a cluster as one of them sees them, by identity, itself among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    me: NodeId,
    list: Vec<Seen>,
}

impl Members {
    /// One that sees itself and others, each once.
    pub(super) fn new(me: Member, others: impl Iterator<Item = Seen>) -> Self {
        let id = me.id;
        let mut list: Vec<_> = others.chain([Seen { member: me, unreachable: false }]).collect();
        list.sort_unstable_by_key(|seen| seen.member.id);
        Self { me: id, list }
    }

    /// A node without others.
    pub fn alone(me: Member) -> Self {
        Self::new(me, std::iter::empty())
    }

    /// Everybody.
    pub fn all(&self) -> &[Seen] {
        &self.list
    }

    /// The one who sees.
    pub fn me(&self) -> &Member {
        &self.get(self.me).expect("it is among its members").member
    }

    /// Everybody else.
    pub fn others(&self) -> impl Iterator<Item = &Seen> {
        self.list.iter().filter(|seen| seen.member.id != self.me)
    }

    /// Those who own a share.
    pub fn owners(&self) -> impl Iterator<Item = &Seen> {
        self.list.iter().filter(|seen| seen.owns())
    }

    /// One of them.
    pub fn get(&self, id: NodeId) -> Option<&Seen> {
        self.list.binary_search_by_key(&id, |seen| seen.member.id).ok().map(|at| &self.list[at])
    }
}
