//! What came of looking for other nodes: where none was found, why, and what to do about it. Each cause is told once for each
//! place until somebody is found there, in one line for all places that have it: a list may name many nodes that do not run yet.
//!
//! Pure: it is told what was seen, and says what to say.

use super::Seed;
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    io::ErrorKind,
};
use tonic::Status;

/// The most places that a line names.
const NAMED: usize = 8;

/// Why no node was found at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// What was seen.
    pub(super) why: String,
    pub(super) cause: Cause,
}

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    Name,
    Silence,
    Speech,
    Gossip,
    /// Somebody there says no, and why.
    Refusal,
}

impl Cause {
    /// What to do, in a few words.
    fn advice(self) -> &'static str {
        match self {
            Self::Name => "check the names",
            Self::Silence => "check that nodes run there and can be reached",
            Self::Speech => {
                "check that these are gRPC ports of nodes, and that either all nodes have certificates of one authority or none has any"
            }
            Self::Gossip => {
                "check that nodes run there, that these are their gossip ports (the line `gossip`, not `grpc`), that \
                 UDP reaches them, and that they have the same token"
            }
            Self::Refusal => "check that they are configured for the same cluster",
        }
    }
}

impl Fault {
    pub(super) fn new(cause: Cause, why: impl Into<String>) -> Self {
        Self { why: why.into(), cause }
    }

    /// What a call that failed says of whom it was for.
    pub(super) fn of_call(status: &Status) -> Self {
        let Some(mut deepest) = status.source() else {
            return Self::new(Cause::Refusal, status.message());
        };
        while let Some(source) = deepest.source() {
            deepest = source;
        }
        let kind = deepest.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let is_silent = matches!(
            kind,
            Some(
                ErrorKind::ConnectionRefused
                    | ErrorKind::TimedOut
                    | ErrorKind::HostUnreachable
                    | ErrorKind::NetworkUnreachable
            )
        );
        Self::new(if is_silent { Cause::Silence } else { Cause::Speech }, deepest.to_string())
    }
}

/// One line to say.
#[derive(Debug, PartialEq, Eq)]
struct Complaint {
    places: Vec<String>,
    why: String,
    cause: Cause,
}

/// What was told so far.
#[derive(Debug, Default)]
pub(super) struct Search {
    told: BTreeMap<Seed, BTreeSet<Cause>>,
}

impl Search {
    /// Tells of the places where nobody is found now, as far as that is new.
    pub(super) fn tell(&mut self, lacking: BTreeMap<Seed, Fault>) {
        for Complaint { places, why, cause } in self.complaints(lacking) {
            let more = places.len().saturating_sub(NAMED);
            let mut at = places[..places.len() - more].join(", ");
            if more > 0 {
                at.push_str(&format!(" and {more} more"));
            }
            tracing::warn!(at, why, "found no other node there: {}", cause.advice());
        }
    }

    fn complaints(&mut self, lacking: BTreeMap<Seed, Fault>) -> Vec<Complaint> {
        self.told.retain(|seed, _| lacking.contains_key(seed));
        let mut complaints = BTreeMap::<Cause, Complaint>::new();
        for (seed, Fault { why, cause }) in lacking {
            let place = seed.to_string();
            if self.told.entry(seed).or_default().insert(cause) {
                let new = || Complaint { places: Vec::new(), why, cause };
                complaints.entry(cause).or_insert_with(new).places.push(place);
            }
        }
        complaints.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn lacking(list: &[(&str, Cause)]) -> BTreeMap<Seed, Fault> {
        let one =
            |(place, cause): &(&str, Cause)| (Seed::parse(place, None).unwrap().remove(0), Fault::new(*cause, "so"));
        list.iter().map(one).collect()
    }

    fn told(search: &mut Search, list: &[(&str, Cause)]) -> Vec<String> {
        let complaints = search.complaints(lacking(list));
        complaints.iter().map(|one| format!("{:?} {}", one.cause, one.places.join(" "))).collect()
    }

    #[test]
    fn each_cause_is_told_once_for_a_place_and_all_its_places_in_one_line() {
        use Cause::{Name, Silence, Speech};
        let mut search = Search::default();
        let down = [("a:1", Silence), ("b:1", Silence), ("c:1", Name)];
        assert_eq!(told(&mut search, &down), ["Name c:1", "Silence a:1 b:1"]);
        assert_eq!(told(&mut search, &down), Vec::<String>::new());
        // One came up, another is there but speaks otherwise, and then is away again.
        assert_eq!(told(&mut search, &[("b:1", Speech), ("c:1", Name)]), ["Speech b:1"]);
        assert_eq!(told(&mut search, &[("b:1", Silence), ("c:1", Name)]), Vec::<String>::new());
        // Who was found and is lost again is told of again.
        assert_eq!(told(&mut search, &down), ["Silence a:1"]);
    }
}
