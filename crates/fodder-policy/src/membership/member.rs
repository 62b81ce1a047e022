//! What a member says of itself: identity, incarnation, place, size, state.
//!
//! All of it comes from other machines, so all of it is bounded and checked before it is believed.

use super::Refused;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The longest address: a host name of 253 bytes, a colon, a port.
pub const MAX_ADDRESS_BYTES: usize = 259;

/// The longest name of a zone, as Kubernetes bounds its labels.
pub const MAX_ZONE_BYTES: usize = 63;

/// The most that is passed on without being understood.
pub const MAX_REST_BYTES: usize = 256;

/// The largest incarnation or revision: one a microsecond for a century. Larger ones come from nobody.
pub const MAX_COUNT: u64 = 1 << 52;

/// Who a node is: 128 random bits, drawn once and kept in its cache directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u128);

/// How often a node has started: one more each time, kept beside its identity, so that clocks do not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

/// The part of its life in which a member says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It answers, owns nothing yet, and gets ready to.
    Joining,
    /// It owns its share.
    Serving,
    /// It answers, owns nothing any more, and hands over what it alone holds.
    Draining,
    /// It has gone on purpose. The last thing an incarnation says.
    Left,
}

/// The versions of the protocol between nodes that a member speaks, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Versions {
    /// The oldest.
    pub oldest: u16,
    /// The newest.
    pub newest: u16,
}

/// What one member says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Who it is.
    pub id: NodeId,
    /// In which of its lives.
    pub incarnation: Incarnation,
    /// How often it has spoken in this life: of two things it said, the one with the higher number counts.
    pub revision: u64,
    /// Where its gRPC and frames are reached: `host:port`.
    pub address: String,
    /// Where it stands; empty where nobody has said.
    pub zone: String,
    /// How much it can hold.
    pub capacity_bytes: u64,
    /// What it speaks.
    pub versions: Versions,
    /// What it says of its state.
    pub state: State,
    /// What it says that only later versions understand: kept as it came, for those to whom it is passed on.
    pub rest: Vec<u8>,
}

impl Member {
    /// What orders everything a member ever says.
    pub fn moment(&self) -> (Incarnation, u64) {
        (self.incarnation, self.revision)
    }

    /// Whether it says the same as another, however often.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let Self { id, incarnation, revision: _, address, zone, capacity_bytes, versions, state, rest } = self;
        (*id, *incarnation, *capacity_bytes, *versions, *state)
            == (other.id, other.incarnation, other.capacity_bytes, other.versions, other.state)
            && (address, zone, rest) == (&other.address, &other.zone, &other.rest)
    }

    /// Refuses what no node says.
    pub fn check(&self) -> Result<(), Refused> {
        check_address(&self.address)?;
        check_zone(&self.zone)?;
        if self.incarnation.0 > MAX_COUNT || self.revision > MAX_COUNT {
            return Err(Refused("an impossible incarnation or revision".into()));
        }
        if self.rest.len() > MAX_REST_BYTES {
            return Err(Refused("too much unknown data".into()));
        }
        if self.versions.oldest > self.versions.newest {
            return Err(Refused("the oldest version of the protocol is newer than the newest".into()));
        }
        Ok(())
    }
}

/// Whether a text is `host:port` where somebody could be reached.
pub fn check_address(address: &str) -> Result<(), Refused> {
    let wrong =
        || Refused(format!("{:?} is not an address: write HOST:PORT, such as node-3:18284", shortened(address)));
    if address.len() > MAX_ADDRESS_BYTES || address.contains(|c: char| !c.is_ascii_graphic() || "/@,?#".contains(c)) {
        return Err(wrong());
    }
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let bracketed = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
    if host.is_empty()
        || (host.contains([':', '[', ']']) && !bracketed)
        || !port.parse().is_ok_and(|port: u16| port > 0)
    {
        return Err(wrong());
    }
    Ok(())
}

/// Whether a text can be the name of a zone.
pub fn check_zone(zone: &str) -> Result<(), Refused> {
    let strange = |c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c));
    if zone.len() > MAX_ZONE_BYTES || zone.contains(strange) {
        return Err(Refused(format!(
            "{:?} is not the name of a zone: use up to {MAX_ZONE_BYTES} letters, digits, `-`, `_` and `.`",
            shortened(zone)
        )));
    }
    Ok(())
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_ADDRESS_BYTES).collect()
}

impl Versions {
    /// The newest version that both speak.
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Joining => "joining",
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Left => "left",
        })
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for NodeId {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let digits = text.len() == 32 && text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
        let id = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        id.map(Self).ok_or_else(|| Refused(format!("{:?} is not an identity of 32 hex digits", shortened(text))))
    }
}

impl Serialize for NodeId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
