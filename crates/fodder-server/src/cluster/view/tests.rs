#![allow(clippy::unwrap_used)]
use super::*;
use crate::cluster::peer::Failure;

const NOW: Duration = Duration::from_secs(100);

fn member(id: u128) -> Neighbour {
    let address = format!("127.0.0.{id}:1");
    Neighbour { id, address, zone: String::new(), capacity_bytes: 1 << 30, owns: true, answers: true }
}

fn members(ids: std::ops::RangeInclusive<u128>) -> Vec<Neighbour> {
    ids.map(member).collect()
}

fn new_peer(one: &Neighbour) -> Arc<Peer> {
    Arc::new(Peer::new(one.id, one.address.clone()))
}

fn view_of(me: u128, replicas: usize, members: &[Neighbour]) -> View {
    View::after(&View::default(), (me, replicas), members, &Contents::default(), Duration::ZERO, new_peer)
}

fn objects() -> impl Iterator<Item = FileKey> {
    (0u128..300).map(|n| FileKey((n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)).to_be_bytes()))
}

fn asked(view: &View, object: FileKey) -> Vec<(u128, Manner)> {
    view.whom_to_ask(&wanted(object, false), NOW).iter().map(|(peer, manner)| (peer.id, *manner)).collect()
}

fn wanted(key: FileKey, for_peer: bool) -> Wanted {
    let waited = Duration::ZERO;
    Wanted { dataset: String::new(), path: String::new(), key, object_bytes: 1, range: 0..1, for_peer, waited }
}

#[test]
fn each_object_has_one_owner_and_all_others_ask_it_first() {
    let all = members(1..=5);
    let views: Vec<_> = (1..=5).map(|me| view_of(me, 1, &all)).collect();
    let mut owned = [0; 5];
    for object in objects() {
        let owners: Vec<_> = (0..5).filter(|n| views[*n].role("", object, 0, NOW) == Role::Owner).collect();
        let [owner] = owners[..] else { panic!("{} owners", owners.len()) };
        owned[owner] += 1;
        for (n, view) in views.iter().enumerate() {
            let first = asked(view, object).first().copied();
            let expected = (n != owner).then_some((owner as u128 + 1, Manner::Owner));
            assert_eq!(first, expected, "nobody is asked by the owner, and the owner by all others");
        }
    }
    assert!(owned.iter().all(|count| *count > 30), "{owned:?}");
}

#[test]
fn the_next_does_the_work_of_an_owner_that_does_not_answer() {
    let all = members(1..=4);
    let views: Vec<_> = (1..=4).map(|me| view_of(me, 1, &all)).collect();
    for view in &views[1..] {
        let dead = view.peers().find(|peer| peer.id == 1).unwrap();
        (0..3).for_each(|_| dead.failed(&Failure::Silent(String::new()), None, NOW));
    }
    for object in objects() {
        let was_owned_by_dead = views[0].role("", object, 0, NOW) == Role::Owner;
        let owners: Vec<_> = (1..4).filter(|n| views[*n].role("", object, 0, NOW) == Role::Owner).collect();
        let [owner] = owners[..] else { panic!("{} owners", owners.len()) };
        for n in (1..4).filter(|n| *n != owner) {
            let (first, manner) = asked(&views[n], object)[0];
            assert_eq!(first, owner as u128 + 1);
            assert_eq!(manner, if was_owned_by_dead { Manner::StandIn } else { Manner::Owner });
        }
    }
}

#[test]
fn whoever_has_become_an_owner_asks_the_one_before_for_what_it_holds() {
    let before = view_of(4, 1, &members(1..=3));
    let after = View::after(&before, (4, 1), &members(1..=4), &Contents::default(), NOW, new_peer);
    let mut moved = 0;
    for object in objects() {
        let former = asked(&before, object)[0].0;
        if after.role("", object, 0, NOW) == Role::Owner {
            moved += 1;
            let holders = asked(&after, object);
            assert_eq!(holders[0], (former, Manner::Holder));
            assert!(holders.len() <= 3 && holders.iter().all(|(_, manner)| *manner == Manner::Holder), "and the next");
            assert_eq!(after.whom_to_ask(&wanted(object, true), NOW).len(), holders.len(), "also for a peer");
            assert!(after.whom_to_ask(&wanted(object, false), NOW + MEMORY).is_empty(), "not for ever");
        } else {
            assert_eq!(asked(&after, object)[0], (former, Manner::Owner), "nothing else has moved");
            assert!(after.whom_to_ask(&wanted(object, true), NOW).is_empty(), "there is no third hop");
        }
    }
    assert!((40..110).contains(&moved), "{moved} of 300 moved to the fourth of four");
}

#[test]
fn whoever_does_the_work_of_one_that_is_away_asks_the_others_for_what_they_hold() {
    let before = view_of(1, 1, &members(1..=4));
    let after = View::after(&before, (1, 1), &members(1..=3), &Contents::default(), NOW, new_peer);
    let was_fourths = |object: &FileKey| asked(&before, *object).first() == Some(&(4, Manner::Owner));
    let mut ours = 0;
    for object in objects().filter(was_fourths) {
        if after.role("", object, 0, NOW) == Role::Owner {
            ours += 1;
            let mut holders = asked(&after, object);
            holders.sort_unstable_by_key(|(id, _)| *id);
            assert_eq!(holders, [(2, Manner::Holder), (3, Manner::Holder)]);
        }
    }
    assert!(ours > 5, "{ours}");
}

#[test]
fn what_is_sought_has_an_owner_that_did_not_own_it_before() {
    let four = view_of(1, 1, &members(1..=4));
    let three = View::after(&four, (1, 1), &members(1..=3), &Contents::default(), NOW, new_peer);
    let again = View::after(&three, (1, 1), &members(1..=4), &Contents::default(), NOW, new_peer);
    for object in objects() {
        let was_fourths = asked(&four, object).first() == Some(&(4, Manner::Owner));
        assert!(!four.is_sought("", object, 0));
        assert_eq!(three.is_sought("", object, 0), was_fourths);
        assert!(!again.is_sought("", object, 0), "whoever has returned has what it had");
    }
}

#[test]
fn replicas_ask_the_owner_and_those_near_one_ask_it_first() {
    let mut all = members(1..=6);
    all.iter_mut().for_each(|one| one.zone = if one.id % 2 == 0 { "east".into() } else { "west".into() });
    let views: Vec<_> = (1..=6).map(|me| view_of(me, 2, &all)).collect();
    for object in objects() {
        let roles: Vec<_> = views.iter().map(|view| view.role("", object, 0, NOW)).collect();
        let owner = roles.iter().position(|role| *role == Role::Owner).unwrap();
        let spare = roles.iter().position(|role| *role == Role::Spare).unwrap();
        assert_eq!(roles.iter().filter(|role| **role != Role::Guest).count(), 2);
        assert_ne!(owner % 2, spare % 2, "the copies stand in two zones");
        for (n, view) in views.iter().enumerate() {
            let first = asked(view, object).first().map(|(id, _)| *id as usize - 1);
            let expected = match n {
                n if n == owner => None,
                n if n != spare && n % 2 == spare % 2 => Some(spare),
                _ => Some(owner),
            };
            assert_eq!(first, expected);
        }
    }
}

#[test]
fn one_that_goes_owns_nothing_and_is_asked_for_what_it_holds() {
    let before = view_of(1, 1, &members(1..=3));
    let mut all = members(1..=3);
    all[2].owns = false;
    let after = View::after(&before, (1, 1), &all, &Contents::default(), NOW, new_peer);
    for object in objects().filter(|object| asked(&before, *object).first().is_some_and(|(id, _)| *id == 3)) {
        match after.role("", object, 0, NOW) {
            Role::Owner => assert_eq!(asked(&after, object)[0], (3, Manner::Holder)),
            _ => assert_eq!(asked(&after, object)[0], (2, Manner::Owner)),
        }
    }
}

#[test]
fn nobody_is_asked_by_one_whom_it_asks() {
    for replicas in 1..4 {
        let all = members(1..=6);
        let views: Vec<_> = (1..=6).map(|me| view_of(me, replicas, &all)).collect();
        for object in objects() {
            let asks = |a: usize, b: usize| asked(&views[a], object).iter().any(|(id, _)| *id == b as u128 + 1);
            for (a, b) in (0..6).flat_map(|a| (0..a).map(move |b| (a, b))) {
                assert!(!(asks(a, b) && asks(b, a)), "{a} and {b} would wait for each other");
            }
        }
    }
}
