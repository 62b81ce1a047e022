//! What stays in a cache: the trait every residency policy implements, and the choice among them.
//!
//! One instance decides for one dataset in one tier. Ids are piece ids: dense, starting at 0, growing when
//! a refresh finds new objects. The caller owns the bytes and the quota; a policy only orders ids.

pub mod auto;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod dense;
mod explanation;
mod heap;
pub(crate) mod idset;
pub mod importance;
pub mod lfu;
mod list;
pub mod lru;
pub mod minio;
pub mod pending;
pub(crate) mod phantom;
pub mod plan;
pub mod quiver;
mod ring;
pub mod s3fifo;
pub mod semantic;
pub mod share;
pub mod sieve;
pub mod signal;
mod turnover;
mod worth;

pub use explanation::{Explanation, ShadowRatio};

use signal::Signal;
use std::{fmt, str::FromStr};

pub(crate) use idset::IdSet;

/// Why the caller asks for a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// The dataset itself wants room for a newcomer: a policy may decline, and the newcomer stays out.
    Newcomer,
    /// The space must be given back (another dataset is owed it, the quota shrank, the disk is full):
    /// a policy that holds anything must name a victim.
    Yield,
}

/// Decides which of a dataset's pieces stay. See the conformance suite for what every policy promises.
///
/// The caller's side of the contract: `inserted` only for an id that is not resident, `removed` and `hit`
/// only for one that is, `removed` after acting on each `victim`. Readers race with evictions, so a policy that
/// is told otherwise ignores it.
pub trait Residency: Send + fmt::Debug {
    /// A resident piece was read.
    fn hit(&mut self, id: u32);

    /// Whether hits change anything. Where they do not, the caller need not report them.
    fn heeds_hits(&self) -> bool {
        true
    }

    /// Whether [`Signal::Planned`], [`Signal::Consumed`] and [`Signal::Dropped`] change anything. Where they do not, the
    /// caller need not send them.
    fn heeds_plans(&self) -> bool {
        false
    }

    /// Whether [`Signal::NextUse`] changes anything. Where it does not, the caller need not send it.
    fn heeds_next_use(&self) -> bool {
        false
    }

    /// Whether [`Signal::Neighbours`] changes anything. Where it does not, nobody need look for neighbours.
    fn heeds_neighbours(&self) -> bool {
        false
    }

    /// A piece of `bytes` was missed and could be kept; `room` says whether it fits without a victim.
    /// False keeps it out: it is then served and forgotten.
    fn admit(&mut self, id: u32, bytes: u32, room: bool) -> bool;

    /// Who goes next. The id stays resident until `removed` says otherwise; asking twice without removing
    /// names the same id.
    fn victim(&mut self, pressure: Pressure) -> Option<u32>;

    /// A piece became resident.
    fn inserted(&mut self, id: u32, bytes: u32);

    /// A piece ceased to be resident, as a victim or for another reason (corrupt, changed, evicted by hand).
    fn removed(&mut self, id: u32);

    /// Something about the ids that reads do not tell. See [`Signal`] for who sends what; most is ignored by most.
    fn signal(&mut self, _signal: Signal<'_>) {}

    /// These ids, of which none is resident, will name other pieces from now on: what signals said of them is void.
    fn forget(&mut self, _ids: &[u32]) {}

    /// Does at most `steps` small steps of what a signal has left to do; true while there is more. Called off the
    /// read path, again and again, so that no reader waits for a pass over all ids. Every answer is right at
    /// every moment in between.
    fn settle(&mut self, _steps: usize) -> bool {
        false
    }

    /// A resident that may answer for `id`, which is not resident itself, to a job that takes substitutes.
    fn stand_in(&self, _id: u32) -> Option<u32> {
        None
    }

    /// What a policy that chooses among others has chosen, and why. None for all that do not.
    fn explain(&self) -> Option<Explanation> {
        None
    }

    /// How many pieces are resident.
    fn len(&self) -> usize;

    /// Whether nothing is resident.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory the policy holds, for the accounting of memory an item.
    fn memory_bytes(&self) -> usize;
}

/// The choice of a residency policy, as it is written in a configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Policy {
    /// Fill, then never evict: best for epochs over more data than fits.
    #[default]
    Minio,
    /// Evict what was used longest ago.
    Lru,
    /// Evict what was used least often.
    Lfu,
    /// Evict what arrived longest ago and was not used since it was last looked at.
    Sieve,
    /// Let newcomers prove themselves in a small queue.
    S3Fifo,
    /// Evict what the jobs' scores say is worth least.
    Importance,
    /// Keep one of what is alike, and what differs.
    Semantic,
    /// Hold chunks of the dataset, one being read and one being loaded.
    Quiver,
    /// Evict what the fewest jobs still need this epoch.
    Pending,
    /// Evict what the jobs' plans need furthest in the future.
    Plan,
    /// Follow whichever of the others would hit most.
    Auto,
}

/// What can be set about the policies that have anything to set.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// About `importance`.
    pub importance: importance::Settings,
    /// About `semantic`.
    pub semantic: semantic::Settings,
}

impl Policy {
    /// Every choice, the default first.
    pub const ALL: [Self; 11] = [
        Self::Minio,
        Self::Lru,
        Self::Lfu,
        Self::Sieve,
        Self::S3Fifo,
        Self::Importance,
        Self::Semantic,
        Self::Quiver,
        Self::Pending,
        Self::Plan,
        Self::Auto,
    ];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minio => "minio",
            Self::Lru => "lru",
            Self::Lfu => "lfu",
            Self::Sieve => "sieve",
            Self::S3Fifo => "s3fifo",
            Self::Importance => "importance",
            Self::Semantic => "semantic",
            Self::Quiver => "quiver",
            Self::Pending => "pending",
            Self::Plan => "plan",
            Self::Auto => "auto",
        }
    }

    /// A new, empty instance, with nothing set.
    pub fn build(self) -> Box<dyn Residency> {
        self.build_with(&Settings::default())
    }

    /// A new, empty instance.
    pub fn build_with(self, settings: &Settings) -> Box<dyn Residency> {
        match self {
            Self::Minio => Box::<minio::Minio>::default(),
            Self::Lru => Box::<lru::Lru>::default(),
            Self::Lfu => Box::<lfu::Lfu>::default(),
            Self::Sieve => Box::<sieve::Sieve>::default(),
            Self::S3Fifo => Box::<s3fifo::S3Fifo>::default(),
            Self::Importance => Box::new(importance::Importance::new(settings.importance)),
            Self::Semantic => Box::new(semantic::Semantic::new(settings.semantic)),
            Self::Quiver => Box::<quiver::Quiver>::default(),
            Self::Pending => Box::<pending::Pending>::default(),
            Self::Plan => Box::<plan::Plan>::default(),
            Self::Auto => Box::new(auto::Auto::new(settings)),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<Policy> for &'static str {
    fn from(policy: Policy) -> Self {
        policy.name()
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownPolicy(text.into()))
    }
}

impl TryFrom<String> for Policy {
    type Error = UnknownPolicy;

    fn try_from(text: String) -> Result<Self, UnknownPolicy> {
        text.parse()
    }
}

/// The name of a policy that does not exist. Its message lists those that do, and the nearest one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl UnknownPolicy {
    /// The existing policy that is spelt most alike, if any is alike at all.
    pub fn nearest(&self) -> Option<Policy> {
        let given = self.0.to_ascii_lowercase();
        Policy::ALL
            .into_iter()
            .map(|policy| (strsim::normalized_damerau_levenshtein(&given, policy.name()), policy))
            .filter(|(likeness, _)| *likeness >= 0.3)
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
            .map(|(_, policy)| policy)
    }
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown policy {:?}: choose one of", self.0)?;
        for (position, policy) in Policy::ALL.into_iter().enumerate() {
            write!(f, "{} {policy}", if position == 0 { "" } else { "," })?;
        }
        match self.nearest() {
            Some(policy) => write!(f, " (did you mean {policy}?)"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownPolicy {}

#[cfg(test)]
mod tests;
