//! What stays in a cache: the trait every residency policy implements, and the choice among them.
//!
//! One instance decides for one dataset in one tier. Ids are piece ids: dense, starting at 0, growing when
//! a refresh finds new objects. The caller owns the bytes and the quota; a policy only orders ids.

pub mod lru;
pub mod minio;

use std::fmt;

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
/// only for one that is, `removed` after acting on each `victim`.
pub trait Residency: Send + fmt::Debug {
    /// A resident piece was read.
    fn hit(&mut self, id: u32);

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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Fill, then never evict: best for epochs over more data than fits.
    #[default]
    Minio,
    /// Evict what was used longest ago.
    Lru,
}
