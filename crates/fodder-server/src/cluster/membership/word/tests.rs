//! Words on their way, also between nodes of different versions.

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
    let told = |members: Vec<v1::MemberWord>| {
        let members = members.iter().map(|word| word.encode_to_vec().into()).collect();
        let words = v1::Words { members, answer: false }.encode_to_vec();
        v1::HelloMessage { seal: seal.of(&words).to_vec().into(), words: words.into() }
    };
    let short = v1::MemberWord { id: vec![1; 15].into(), ..to_wire(&member(1)) };
    for wrong in [vec![], vec![short.clone()], vec![short, to_wire(&member(1))]] {
        assert!(matches!(opened(&told(wrong), &seal), Err(Unbelieved::Nonsense(_))));
    }
}

/// A word as a later version says it: with fields that are not known here, in a state that is not known here.
fn of_later_version(id: u128) -> Vec<u8> {
    let word = v1::MemberWord { state: 7, newest_version: 2, ..to_wire(&member(id)) };
    let mut word = word.encode_to_vec();
    prost::encoding::string::encode(11, &"a rack in a hall".to_owned(), &mut word);
    prost::encoding::uint64::encode(4000, &12_345, &mut word);
    word
}

fn message(members: Vec<Vec<u8>>, seal: &Seal) -> v1::HelloMessage {
    let mut words =
        v1::Words { members: members.into_iter().map(Bytes::from).collect(), answer: false }.encode_to_vec();
    // The message itself may have more, too.
    prost::encoding::uint64::encode(77, &1, &mut words);
    v1::HelloMessage { seal: seal.of(&words).to_vec().into(), words: words.into() }
}

/// The fields of a word by number; of those that stand there twice, the last counts.
fn numbers(word: &[u8]) -> Vec<u32> {
    let (mut rest, mut numbers) = (word, Vec::new());
    while !rest.is_empty() {
        let (tag, kind) = decode_key(&mut rest).unwrap();
        skip_field(kind, tag, &mut rest, DecodeContext::default()).unwrap();
        numbers.push(tag);
    }
    numbers
}

#[test]
fn what_a_later_version_says_is_understood_as_far_as_it_is_known_and_passed_on_whole() {
    let seal = Seal::new("token");
    let told = opened(&message(vec![of_later_version(1)], &seal), &seal).unwrap();
    assert_eq!((told[0].state, told[0].versions.newest), (State::Joining, 2), "it owns nothing here");
    assert!(!told[0].rest.is_empty());

    // Through two nodes of this version, to one that understands it.
    let mut passed_on = told;
    for _ in 0..2 {
        passed_on = opened(&sealed(vec![member(9), passed_on.pop().unwrap()], &seal), &seal).unwrap();
    }
    let sent = sealed(passed_on, &seal);
    let arrived = v1::Words::decode(sent.words).unwrap().members.pop().unwrap();
    assert_eq!(v1::MemberWord::decode(arrived.clone()).unwrap().state, 7);
    let later: Vec<_> = numbers(&arrived).into_iter().filter(|tag| *tag > LAST_FIELD).collect();
    assert_eq!(later, [11, 4000], "once each, however often it was passed on");
}

#[test]
fn a_word_that_is_not_understood_costs_nobody_elses() {
    let seal = Seal::new("token");
    let plain = |id| to_wire(&member(id)).encode_to_vec();
    let longer_identity = v1::MemberWord { id: vec![1; 32].into(), ..to_wire(&member(2)) }.encode_to_vec();
    let versions = v1::MemberWord { newest_version: 1 << 20, ..to_wire(&member(3)) }.encode_to_vec();
    let told = opened(&message(vec![plain(1), longer_identity, vec![0xff; 9], versions, plain(4)], &seal), &seal);
    assert_eq!(told, Ok(vec![member(1), member(4)]));
    // One that tells of more than this version would is heard as far as this version listens.
    let many = opened(&message((1..=600).map(plain).collect(), &seal), &seal).unwrap();
    assert_eq!(many.len(), MAX_WORDS);
}

#[test]
fn what_an_earlier_version_leaves_out_is_empty() {
    let seal = Seal::new("token");
    let word = v1::MemberWord {
        id: 1u128.to_be_bytes().to_vec().into(),
        incarnation: 3,
        address: "a:1".into(),
        ..v1::MemberWord::default()
    };
    let told = opened(&message(vec![word.encode_to_vec()], &seal), &seal).unwrap();
    assert_eq!((told[0].state, told[0].zone.as_str(), told[0].capacity_bytes), (State::Joining, "", 0));
    told[0].check().unwrap();
}

#[test]
fn more_than_is_passed_on_is_left_out_and_the_word_still_counts() {
    let seal = Seal::new("token");
    let mut word = to_wire(&member(1)).encode_to_vec();
    prost::encoding::bytes::encode(11, &vec![0u8; MAX_REST_BYTES + 1], &mut word);
    assert_eq!(opened(&message(vec![word], &seal), &seal), Ok(vec![member(1)]));
}
