//! Tests of one view; what many of them agree on is in [`simulation`].

#![allow(clippy::unwrap_used)]

mod simulation;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn member(id: u128) -> Member {
    Member {
        id: NodeId(id),
        incarnation: Incarnation(1),
        revision: 1,
        address: format!("node-{id}:18284"),
        zone: "a".into(),
        capacity_bytes: 1 << 30,
        versions: Versions { oldest: 1, newest: 2 },
        state: State::Serving,
        rest: Vec::new(),
    }
}

fn said(id: u128, incarnation: u64, revision: u64, state: State) -> Member {
    Member { incarnation: Incarnation(incarnation), revision, state, ..member(id) }
}

fn view() -> View {
    View::new(member(0), Patience { max_members: 8, ..Patience::default() })
}

/// Lets time pass in steps that blame the silent.
fn wait(view: &mut View, until: Duration) {
    while view.clock < until {
        view.pass((view.clock + SECOND).min(until));
    }
}

fn state(view: &View, id: u128) -> String {
    view.members().get(NodeId(id)).map_or("unknown".into(), Seen::state)
}

#[test]
fn the_newest_word_of_a_member_counts_in_any_order_and_however_often() {
    let words = [said(1, 1, 5, State::Serving), said(1, 2, 1, State::Joining), said(1, 2, 2, State::Draining)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut view = view();
        for at in order.into_iter().chain(order) {
            view.hear(words[at].clone(), Voice::Own, SECOND).unwrap();
        }
        assert_eq!(view.members().get(NodeId(1)).unwrap().member, words[2], "{order:?}");
    }
}

#[test]
fn a_silent_member_is_unreachable_then_forgotten_and_owns_nothing() {
    let mut view = view();
    view.hear(member(1), Voice::Own, SECOND).unwrap();
    assert_eq!(view.members().owners().count(), 2);
    wait(&mut view, SECOND * 6);
    assert_eq!(state(&view, 1), "serving");
    wait(&mut view, SECOND * 7);
    assert_eq!(state(&view, 1), "unreachable");
    assert_eq!(view.members().owners().count(), 1);
    wait(&mut view, SECOND * 3602);
    assert_eq!(state(&view, 1), "unknown");
}

#[test]
fn who_is_only_heard_of_is_not_counted_on_until_it_speaks() {
    let mut view = view();
    view.hear(member(1), Voice::Hearsay, SECOND).unwrap();
    assert_eq!(state(&view, 1), "unreachable");
    assert!(view.addresses().any(|address| address == "node-1:18284"), "it is asked");
    view.hear(said(1, 1, 2, State::Serving), Voice::Own, SECOND).unwrap();
    assert_eq!(state(&view, 1), "serving");
    view.hear(said(1, 2, 1, State::Serving), Voice::Hearsay, SECOND).unwrap();
    assert_eq!(state(&view, 1), "unreachable", "a new life has not been heard here");
}

#[test]
fn a_voice_counts_also_when_a_rumour_was_quicker_but_only_once() {
    let mut view = view();
    view.hear(said(1, 1, 5, State::Draining), Voice::Hearsay, SECOND).unwrap();
    assert_eq!(view.hear(said(1, 1, 4, State::Serving), Voice::Own, SECOND), Ok(Heard::Old));
    assert_eq!(state(&view, 1), "draining", "it lives, and what it said later counts");
    wait(&mut view, SECOND * 7);
    view.hear(said(1, 1, 4, State::Serving), Voice::Own, SECOND * 7).unwrap();
    assert_eq!(state(&view, 1), "unreachable", "a recording is no voice");
}

#[test]
fn one_that_somebody_hears_is_not_forgotten_by_who_cannot() {
    let mut view = view();
    for second in 1..8000 {
        view.hear(said(1, 1, second, State::Serving), Voice::Hearsay, SECOND * second as u32).unwrap();
    }
    assert_eq!(state(&view, 1), "unreachable");
}

#[test]
fn no_old_word_brings_back_who_left_or_was_forgotten() {
    let mut view = view();
    view.hear(said(1, 3, 7, State::Left), Voice::Own, SECOND).unwrap();
    view.hear(said(2, 3, 7, State::Serving), Voice::Own, SECOND).unwrap();
    wait(&mut view, SECOND * 4000);
    for id in [1, 2] {
        for (incarnation, revision) in [(3, 7), (3, 6), (2, 9)] {
            let old = said(id, incarnation, revision, State::Serving);
            assert_eq!(view.hear(old, Voice::Own, SECOND * 4000), Ok(Heard::Old));
        }
        assert_eq!(state(&view, id), "unknown");
        view.hear(said(id, 3, 8, State::Serving), Voice::Own, SECOND * 4000).unwrap();
        assert_eq!(state(&view, id), "serving", "it has spoken again");
    }
}

#[test]
fn a_node_that_slept_or_whose_clock_jumped_blames_nobody() {
    let mut view = view();
    view.hear(member(1), Voice::Own, SECOND).unwrap();
    view.pass(SECOND * 86_400);
    assert_eq!(state(&view, 1), "serving");
    view.pass(SECOND);
    assert_eq!(state(&view, 1), "serving", "back again");
    wait(&mut view, SECOND * 7);
    assert_eq!(state(&view, 1), "unreachable", "now it had its chance");
}

#[test]
fn an_address_belongs_to_who_speaks_from_it() {
    let mut view = view();
    view.hear(member(1), Voice::Own, SECOND).unwrap();
    let wiped = Member { address: "node-1:18284".into(), ..member(2) };
    view.hear(wiped, Voice::Own, SECOND).unwrap();
    assert_eq!((state(&view, 1), state(&view, 2)), ("unreachable".into(), "serving".into()));
}

#[test]
fn a_copy_of_this_nodes_identity_is_noticed_and_outdone() {
    let mut view = view();
    assert_eq!(view.hear(member(0), Voice::Hearsay, SECOND), Ok(Heard::Old), "an echo");
    let double = Member { address: "elsewhere:1".into(), ..said(0, 9, 9, State::Serving) };
    assert_eq!(view.hear(double, Voice::Own, SECOND), Ok(Heard::Double));
    assert!(view.me().moment() > (Incarnation(9), 9));
    assert_eq!(view.members().me().address, "node-0:18284");
}

#[test]
fn one_that_was_put_back_as_it_once_was_is_told_so_and_counts_again() {
    let silent = |view: &mut View| wait(view, SECOND * 60);
    let forgotten = |view: &mut View| wait(view, SECOND * 4000);
    let left =
        |view: &mut View| assert_eq!(view.hear(said(1, 7, 60, State::Left), Voice::Own, SECOND), Ok(Heard::News));
    for (fate, incarnation) in [(&silent as &dyn Fn(&mut View), 4), (&silent, 7), (&forgotten, 4), (&left, 4)] {
        let mut view = view();
        view.hear(said(1, 7, 50, State::Serving), Voice::Own, SECOND).unwrap();
        fate(&mut view);
        let mut back = View::new(said(1, incarnation, 0, State::Joining), Patience::default());
        let (word, now) = (back.tell(0).remove(0), view.clock + SECOND);
        assert_eq!(view.hear(word.clone(), Voice::Own, now), Ok(Heard::Old));
        let reminder = view.reminder(&word).unwrap();
        assert_eq!(back.hear(reminder, Voice::Hearsay, SECOND), Ok(Heard::Double));
        assert!(back.news().is_some(), "it has something else to say");
        let word = back.tell(0).remove(0);
        assert_eq!(view.hear(word.clone(), Voice::Own, now), Ok(Heard::News));
        assert_eq!((state(&view, 1), view.reminder(&word)), ("joining".into(), None));
    }
}

#[test]
fn a_full_view_takes_who_speaks_and_not_who_is_heard_of() {
    let mut view = view();
    for id in 1..=8 {
        view.hear(member(id), if id == 3 { Voice::Hearsay } else { Voice::Own }, SECOND).unwrap();
    }
    view.hear(member(9), Voice::Hearsay, SECOND).unwrap_err();
    view.hear(member(9), Voice::Own, SECOND).unwrap();
    assert_eq!((state(&view, 3), state(&view, 9)), ("unknown".into(), "serving".into()));
    let error = view.hear(member(10), Voice::Own, SECOND).unwrap_err();
    assert_eq!(error.to_string(), "there are already 8 members, which is the maximum");
    for id in 100..10_000 {
        view.hear(said(id, 1, 1, State::Left), Voice::Own, SECOND).unwrap();
    }
    assert!(view.gone.len() <= 8 && view.others.len() <= 8);
}

#[test]
fn what_no_node_says_is_refused() {
    let wrong = [
        Member { address: "nowhere".into(), ..member(1) },
        Member { address: "a b:1".into(), ..member(1) },
        Member { address: "::1:80".into(), ..member(1) },
        Member { address: "[]:80".into(), ..member(1) },
        Member { address: "node:0".into(), ..member(1) },
        Member { address: "node:99999".into(), ..member(1) },
        Member { address: "node:1,other:1".into(), ..member(1) },
        Member { address: format!("{}:1", "x".repeat(MAX_ADDRESS_BYTES)), ..member(1) },
        Member { zone: "z".repeat(MAX_ZONE_BYTES + 1), ..member(1) },
        Member { zone: "a\nb".into(), ..member(1) },
        Member { revision: u64::MAX, ..member(1) },
        Member { rest: vec![0; MAX_REST_BYTES + 1], ..member(1) },
        Member { incarnation: Incarnation(u64::MAX), ..member(1) },
        Member { versions: Versions { oldest: 3, newest: 2 }, ..member(1) },
    ];
    for member in wrong {
        let mut view = view();
        assert!(view.hear(member.clone(), Voice::Own, SECOND).is_err(), "{member:?}");
        assert_eq!(view.members().all().len(), 1);
    }
    for address in ["node:1", "127.0.0.2:18284", "[::1]:65535"] {
        check_address(address).unwrap();
    }
}

#[test]
fn what_is_told_is_new_each_time_goes_round_and_leaves_out_the_silent() {
    let mut view = view();
    for id in 1..=5 {
        view.hear(member(id), if id == 2 { Voice::Hearsay } else { Voice::Own }, SECOND).unwrap();
    }
    let mut told = Vec::new();
    let mut revision = 0;
    for _ in 0..4 {
        let words = view.tell(2);
        assert!(words[0].id == NodeId(0) && words[0].revision > revision);
        revision = words[0].revision;
        told.extend(words[1..].iter().map(|member| member.id.0));
    }
    assert_eq!(told, [1, 3, 4, 5, 1, 3, 4, 5]);
}

#[test]
fn a_lease_vouches_for_one_life_only() {
    let mut view = view();
    view.hear(said(1, 2, 1, State::Serving), Voice::Hearsay, SECOND).unwrap();
    view.vouch(NodeId(1), Incarnation(1), SECOND);
    assert_eq!(state(&view, 1), "unreachable");
    view.vouch(NodeId(1), Incarnation(2), SECOND);
    assert_eq!(state(&view, 1), "serving");
    view.miss(NodeId(1), Incarnation(1));
    assert_eq!(state(&view, 1), "serving");
    view.miss(NodeId(1), Incarnation(2));
    assert_eq!(state(&view, 1), "unreachable");
}

#[test]
fn what_is_said_again_is_no_news_and_everything_else_is() {
    let mut view = view();
    assert_eq!(view.news(), None);
    view.hear(member(1), Voice::Own, SECOND).unwrap();
    assert_eq!(view.news(), Some(view.members()), "somebody came");
    for (revision, voice) in [(2, Voice::Own), (3, Voice::Hearsay), (4, Voice::Gossip), (4, Voice::Own)] {
        view.hear(said(1, 1, revision, State::Serving), voice, SECOND).unwrap();
        assert_eq!(view.news(), None, "{revision} {voice:?}");
    }
    assert_eq!(view.members().get(NodeId(1)).unwrap().member.revision, 4, "the newest counts all the same");
    view.say(State::Serving);
    assert_eq!(view.news(), None);
    view.say(State::Draining);
    assert!(view.news().is_some(), "it says something else itself");
    view.hear(said(1, 1, 5, State::Draining), Voice::Hearsay, SECOND).unwrap();
    assert!(view.news().is_some(), "somebody says something else");
    wait(&mut view, SECOND * 7);
    assert!(view.news().is_some(), "somebody fell silent");
    wait(&mut view, SECOND * 20);
    assert_eq!(view.news(), None, "it still is");
    view.hear(said(1, 1, 6, State::Draining), Voice::Gossip, SECOND * 20).unwrap();
    assert!(view.news().is_some(), "it is heard again");
    view.miss(NodeId(1), Incarnation(1));
    assert!(view.news().is_some());
    view.vouch(NodeId(1), Incarnation(1), SECOND * 20);
    assert!(view.news().is_some());
    view.hear(said(1, 1, 7, State::Left), Voice::Hearsay, SECOND * 20).unwrap();
    assert!(view.news().is_some(), "it left");
}

#[test]
fn what_a_word_costs_does_not_grow_with_the_members() {
    const WORDS: u64 = 500;
    let cost = |members: u128, voice: Voice| {
        let patience = Patience { max_members: members as usize, ..Patience::default() };
        let mut view = View::new(member(0), patience);
        for id in 1..=members {
            view.hear(said(id, 1, 0, State::Serving), Voice::Own, SECOND).unwrap();
        }
        view.news();
        let mut revision = 0;
        let mut round = || {
            let began = std::time::Instant::now();
            for _ in 0..WORDS {
                revision += 1;
                let now = SECOND + Duration::from_millis(revision);
                view.hear(said(1 + u128::from(revision % 100), 1, revision, State::Serving), voice, now).unwrap();
                assert_eq!(view.news(), None);
            }
            began.elapsed()
        };
        // The least of several: whatever else runs here makes them longer.
        (0..5).map(|_| round()).min().unwrap()
    };
    for voice in [Voice::Own, Voice::Hearsay, Voice::Gossip] {
        let (few, many) = (cost(100, voice), cost(4000, voice));
        assert!(many < few * 8, "{WORDS} words, {voice:?}: {few:?} among 100 members, {many:?} among 4000");
    }
}

#[test]
fn two_members_speak_the_newest_version_they_share() {
    let range = |oldest, newest| Versions { oldest, newest };
    assert_eq!(range(1, 2).common(range(2, 3)), Some(2));
    assert_eq!(range(1, 3).common(range(1, 2)), Some(2));
    assert_eq!(range(1, 1).common(range(2, 3)), None);
}

#[test]
fn an_identity_survives_the_way_through_text() {
    let text = serde_json::to_string(&NodeId(77)).unwrap();
    assert_eq!(text, "\"0000000000000000000000000000004d\"");
    assert_eq!(serde_json::from_str::<NodeId>(&text).unwrap(), NodeId(77));
    for id in ["", "4d", "0000000000000000000000000000004D", "+000000000000000000000000000004d"] {
        id.parse::<NodeId>().unwrap_err();
    }
}
