//! Words of members as they travel over gRPC: encoded, sealed, and looked at before they are believed.

use super::{Incarnation, Member, NodeId, Seal, State, Versions};
use fodder_api::v1::{self, MemberState};
use prost::Message;
use std::net::SocketAddr;

/// How many others a member tells about at a time.
pub(super) const OTHERS_TOLD: usize = 8;

/// The most words in one message, with room for members of later versions that tell more.
const MAX_WORDS: usize = 64;

/// What a member says, its own word first; in gossip also where each was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) words: Vec<Member>,
    /// As many as words.
    pub(super) places: Vec<Option<SocketAddr>>,
    /// It answers, and wants no answer.
    pub(super) answer: bool,
}

/// Encodes and seals what a member says, its own word first.
pub(super) fn sealed(words: Vec<Member>, seal: &Seal) -> v1::HelloMessage {
    let places = vec![None; words.len()];
    sealed_told(&Told { words, places, answer: false }, seal)
}

/// Encodes and seals what a member says.
pub(super) fn sealed_told(told: &Told, seal: &Seal) -> v1::HelloMessage {
    let word = |(word, place): (&Member, &Option<SocketAddr>)| v1::MemberWord {
        gossip_address: place.map(|place| place.to_string()).unwrap_or_default(),
        ..to_wire(word)
    };
    let members = told.words.iter().zip(&told.places).map(word).collect();
    let words = v1::Words { members, answer: told.answer }.encode_to_vec();
    v1::HelloMessage { seal: seal.of(&words).to_vec().into(), words: words.into() }
}

/// Why a message is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unbelieved {
    /// Whoever sent it does not know the token.
    #[error("the seal is not that of this cluster: see that all nodes have the same token")]
    Stranger,
    /// It makes no sense.
    #[error("{0}")]
    Nonsense(String),
}

/// What a member said, its own word first, if it belongs to the cluster.
pub(super) fn opened(message: &v1::HelloMessage, seal: &Seal) -> Result<Vec<Member>, Unbelieved> {
    opened_told(message, seal).map(|told| told.words)
}

/// What a member said, if it belongs to the cluster.
pub(super) fn opened_told(message: &v1::HelloMessage, seal: &Seal) -> Result<Told, Unbelieved> {
    if !seal.fits(&message.words, &message.seal) {
        return Err(Unbelieved::Stranger);
    }
    let nonsense = |why: &str| Unbelieved::Nonsense(why.into());
    let words = v1::Words::decode(message.words.clone()).map_err(|_| nonsense("the words cannot be decoded"))?;
    if words.members.is_empty() || words.members.len() > MAX_WORDS {
        return Err(nonsense("a member speaks of itself first, and of few others"));
    }
    let answer = words.answer;
    let places = words.members.iter().map(|word| word.gossip_address.parse().ok()).collect();
    let words: Option<Vec<_>> = words.members.into_iter().map(from_wire).collect();
    let words = words.ok_or_else(|| nonsense("an identity has 16 bytes, and versions are small"))?;
    Ok(Told { words, places, answer })
}

fn to_wire(member: &Member) -> v1::MemberWord {
    let state = match member.state {
        State::Joining => MemberState::Joining,
        State::Serving => MemberState::Serving,
        State::Draining => MemberState::Draining,
        State::Left => MemberState::Left,
    };
    v1::MemberWord {
        id: member.id.0.to_be_bytes().to_vec().into(),
        incarnation: member.incarnation.0,
        revision: member.revision,
        address: member.address.clone(),
        zone: member.zone.clone(),
        capacity_bytes: member.capacity_bytes,
        oldest_version: member.versions.oldest.into(),
        newest_version: member.versions.newest.into(),
        state: state.into(),
        gossip_address: String::new(),
    }
}

fn from_wire(word: v1::MemberWord) -> Option<Member> {
    let state = match MemberState::try_from(word.state) {
        Ok(MemberState::Serving) => State::Serving,
        Ok(MemberState::Draining) => State::Draining,
        Ok(MemberState::Left) => State::Left,
        // One from a later version owns nothing as far as this one can tell.
        Ok(MemberState::Joining | MemberState::Unspecified) | Err(_) => State::Joining,
    };
    Some(Member {
        id: NodeId(u128::from_be_bytes(word.id.as_ref().try_into().ok()?)),
        incarnation: Incarnation(word.incarnation),
        revision: word.revision,
        address: word.address,
        zone: word.zone,
        capacity_bytes: word.capacity_bytes,
        versions: Versions {
            oldest: word.oldest_version.try_into().ok()?,
            newest: word.newest_version.try_into().ok()?,
        },
        state,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{super::tests::member, *};

    #[test]
    fn words_survive_the_way_over_the_wire() {
        let seal = Seal::new("token");
        for state in [State::Joining, State::Serving, State::Draining, State::Left] {
            let words = vec![Member { state, ..member(1) }, member(u128::MAX)];
            assert_eq!(opened(&sealed(words.clone(), &seal), &seal), Ok(words.clone()));
            let places = vec![None, "10.0.0.1:18282".parse().ok()];
            let told = Told { words, places, answer: true };
            assert_eq!(opened_told(&sealed_told(&told, &seal), &seal), Ok(told));
        }
    }

    #[test]
    fn words_of_strangers_and_nonsense_are_not_believed() {
        let seal = Seal::new("token");
        let message = sealed(vec![member(1)], &seal);
        assert_eq!(opened(&message, &Seal::new("other")), Err(Unbelieved::Stranger));
        let told = |members| {
            let words = v1::Words { members, answer: false }.encode_to_vec();
            v1::HelloMessage { seal: seal.of(&words).to_vec().into(), words: words.into() }
        };
        let short = v1::MemberWord { id: vec![1; 15].into(), ..to_wire(&member(1)) };
        for wrong in [vec![], vec![to_wire(&member(1)); MAX_WORDS + 1], vec![short]] {
            assert!(matches!(opened(&told(wrong), &seal), Err(Unbelieved::Nonsense(_))));
        }
        let future = v1::MemberWord { state: 99, ..to_wire(&member(1)) };
        assert_eq!(opened(&told(vec![future]), &seal).unwrap()[0].state, State::Joining);
    }
}
