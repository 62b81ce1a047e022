//! Shares are fair, and as little moves as can.

use super::*;

mod balance;

fn member(key: u64, capacity: u64) -> Member {
    Member { key: mix(key + 1), capacity, zone: 0 }
}

fn parcels(count: u64) -> impl Iterator<Item = Parcel> {
    (0..count)
        .map(|n| Parcel { object: u128::from(mix(n / 7)) << 64 | u128::from(mix(n / 7 + 1)), number: (n % 7) as u32 })
}

/// How many of the parcels each member owns.
fn shares(placement: &Placement, count: u64) -> Vec<u64> {
    let mut shares = vec![0; placement.members().len()];
    for parcel in parcels(count) {
        let owner = placement.owner(parcel).expect("there are members");
        let at = placement.members().iter().position(|member| *member == owner);
        shares[at.expect("an owner is a member")] += 1;
    }
    shares
}

#[test]
fn logarithms_are_as_they_should_be() {
    for x in [0, 1, 2, 3, 1000, 1 << 40, (1 << 40) + 12345, u64::MAX / 3, u64::MAX - 1, u64::MAX] {
        let right = 64.0 - (x as f64 + 1.0).log2();
        let ours = minus_log2(x) as f64 / f64::from(FRACTION).exp2();
        assert!((ours - right).abs() < 1e-6, "{x}: {ours} and not {right}");
    }
}

#[test]
fn sixteen_members_share_a_million_parcels_evenly() {
    let placement = Placement::new((0..16).map(|key| member(key, 1 << 40)));
    let shares = shares(&placement, 1_000_000);
    let most = *shares.iter().max().expect("sixteen");
    assert!(most as f64 <= 1.1 * 1_000_000.0 / 16.0, "{shares:?}");
}

#[test]
fn whoever_holds_twice_as_much_owns_twice_as_much() {
    let placement = Placement::new([member(1, 100), member(2, 200), member(3, 0), member(4, 700)]);
    assert_eq!(placement.members().len(), 3);
    for (share, member) in shares(&placement, 200_000).into_iter().zip(placement.members()) {
        let right = 200_000.0 * member.capacity as f64 / 1000.0;
        assert!((share as f64 - right).abs() < 0.03 * 200_000.0, "{share} and not {right}");
    }
}

#[test]
fn one_that_comes_takes_its_share_and_nothing_else_moves() {
    let before = Placement::new((0..3).map(|key| member(key, 10)));
    let newcomer = member(3, 10);
    let after = Placement::new(before.members().iter().copied().chain([newcomer]));
    let mut moved = 0;
    for parcel in parcels(100_000) {
        let (old, new) = (before.owner(parcel), after.owner(parcel));
        if old != new {
            assert_eq!(new, Some(newcomer));
            moved += 1;
        }
    }
    assert!((24_000..26_000).contains(&moved), "{moved}");
}

#[test]
fn copies_stand_on_different_members_and_in_different_zones() {
    let zones = |key| Member { zone: (key % 3) as u32, ..member(key, 10) };
    let placement = Placement::new((0..9).map(zones));
    for parcel in parcels(1000) {
        let owners = placement.owners(parcel, 3);
        assert_eq!(owners.first().copied(), placement.owner(parcel));
        let mut zones: Vec<_> = owners.iter().map(|owner| owner.zone).collect();
        zones.sort_unstable();
        assert_eq!(zones, [0, 1, 2]);
        let all = placement.owners(parcel, 20);
        assert_eq!(all.len(), 9);
        assert_eq!(all[..3], owners);
    }
}

#[test]
fn the_order_in_which_members_are_named_does_not_matter() {
    let members: Vec<_> = (0..5).map(|key| member(key, key + 1)).collect();
    let (one, other) = (Placement::new(members.clone()), Placement::new(members.into_iter().rev()));
    assert!(parcels(1000).all(|parcel| one.owner(parcel) == other.owner(parcel)));
    assert_eq!(Placement::default().owner(Parcel { object: 1, number: 0 }), None);
    assert!(Placement::default().owners(Parcel { object: 1, number: 0 }, 2).is_empty());
}
