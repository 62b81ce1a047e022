//! Words of members as they travel, whatever the way: encoded, sealed, and looked at before they are believed.
//!
//! Nodes of different versions are together while a cluster is upgraded. What a later version says beside what is known here
//! is passed on as it came, so that those who understand it do not lose it by way of those who do not.

use super::{Incarnation, Member, NodeId, Seal, State, Versions, seal::SEAL_BYTES};
use bytes::Bytes;
use fodder_api::v1::{self, MemberState};
use fodder_policy::membership::MAX_REST_BYTES;
use prost::{
    Message,
    encoding::{DecodeContext, decode_key, int32, skip_field},
};
use std::net::SocketAddr;

/// How many others a member tells about at a time.
pub(super) const OTHERS_TOLD: usize = 8;

/// The most words that are taken from one message, with room for members of later versions that tell more.
const MAX_WORDS: usize = 512;

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
    sealed_words(encoded(told).collect(), told.answer, seal)
}

/// Encodes and seals what a member says in as many messages as it takes for none to be longer than this, if a word is not as long
/// by itself. Each begins with the member's own word; the first alone may want an answer.
pub(super) fn sealed_in_parts(told: &Told, max_bytes: usize, seal: &Seal) -> Vec<v1::HelloMessage> {
    let mut words = encoded(told);
    let Some(own) = words.next() else { return Vec::new() };
    let (mut parts, mut bytes) = (vec![vec![own.clone()]], own.len());
    for word in words {
        let part = parts.last_mut().expect("there is a first");
        if part.len() > 1 && MESSAGE_BYTES + bytes + word.len() + WORD_BYTES * (part.len() + 1) > max_bytes {
            bytes = own.len() + word.len();
            parts.push(vec![own.clone(), word]);
        } else {
            bytes += word.len();
            part.push(word);
        }
    }
    let sealed = |(number, words)| sealed_words(words, told.answer || number > 0, seal);
    parts.into_iter().enumerate().map(sealed).collect()
}

/// What a message has beside its words, and what it has beside each, at most.
const MESSAGE_BYTES: usize = SEAL_BYTES + 8;
const WORD_BYTES: usize = 3;

fn encoded(told: &Told) -> impl Iterator<Item = Bytes> {
    told.words.iter().zip(&told.places).map(|(word, place)| {
        let place = place.map(|place| place.to_string()).unwrap_or_default();
        let mut encoded = v1::MemberWord { gossip_address: place, ..to_wire(word) }.encode_to_vec();
        // Behind what is understood here, so that it counts for who understands it.
        encoded.extend_from_slice(&word.rest);
        encoded.into()
    })
}

fn sealed_words(members: Vec<Bytes>, answer: bool, seal: &Seal) -> v1::HelloMessage {
    let words = v1::Words { members, answer }.encode_to_vec();
    v1::HelloMessage { seal: seal.of(&words).to_vec().into(), words: words.into() }
}

/// Why a message is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unbelieved {
    /// Whoever sent it does not know the token.
    #[error("the message is not authenticated for this cluster: check that all nodes have the same token")]
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
    let words = v1::Words::decode(message.words.clone()).map_err(|_| nonsense("the message cannot be decoded"))?;
    let (mut told, mut own) = (Told { words: Vec::new(), places: Vec::new(), answer: words.answer }, false);
    for (number, word) in words.members.into_iter().take(MAX_WORDS).enumerate() {
        // What a later version says of others may not be understood; the rest still is.
        let Some((member, place)) = from_wire(word) else { continue };
        own |= number == 0;
        told.words.push(member);
        told.places.push(place);
    }
    own.then_some(told)
        .ok_or_else(|| nonsense("a member speaks of itself first: an identity has 16 bytes, versions are small"))
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

fn from_wire(encoded: Bytes) -> Option<(Member, Option<SocketAddr>)> {
    let word = v1::MemberWord::decode(encoded.clone()).ok()?;
    let said = MemberState::try_from(word.state);
    let state = match said {
        Ok(MemberState::Serving) => State::Serving,
        Ok(MemberState::Draining) => State::Draining,
        Ok(MemberState::Left) => State::Left,
        // One from a later version owns nothing as far as this one can tell.
        Ok(MemberState::Joining | MemberState::Unspecified) | Err(_) => State::Joining,
    };
    let mut rest = later_fields(&encoded)?;
    if said.is_err() {
        int32::encode(STATE_FIELD, &word.state, &mut rest);
    }
    let member = Member {
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
        rest: if rest.len() <= MAX_REST_BYTES { rest } else { Vec::new() },
    };
    Some((member, word.gossip_address.parse().ok()))
}

/// The number of a member's state in its word, and the last number that is understood here.
const STATE_FIELD: u32 = 9;
const LAST_FIELD: u32 = 10;

/// The fields of an encoded word that later versions have, as they are.
fn later_fields(mut encoded: &[u8]) -> Option<Vec<u8>> {
    let mut later = Vec::new();
    while !encoded.is_empty() {
        let mut after = encoded;
        let (tag, kind) = decode_key(&mut after).ok()?;
        skip_field(kind, tag, &mut after, DecodeContext::default()).ok()?;
        if tag > LAST_FIELD {
            later.extend_from_slice(&encoded[..encoded.len() - after.len()]);
        }
        encoded = after;
    }
    Some(later)
}

#[cfg(test)]
mod tests;
