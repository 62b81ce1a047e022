//! Shares are even whatever members are called, and little moves for it.

use super::{super::front::Front, *};

/// Members that are called at random.
fn named(seed: u64, capacities: &[u64]) -> Vec<Member> {
    let name = |n: usize| mix(mix(seed).wrapping_add(n as u64 + 1));
    capacities.iter().enumerate().map(|(n, capacity)| Member { key: name(n), capacity: *capacity, zone: 0 }).collect()
}

fn loads(count: u64, bytes: impl Fn(u64) -> u64) -> Vec<(Parcel, u64)> {
    parcels(count).enumerate().map(|(n, parcel)| (parcel, bytes(n as u64))).collect()
}

fn balanced(members: &[Member], loads: &[(Parcel, u64)], replicas: usize) -> Placement {
    let all: Vec<_> = loads.iter().map(|(parcel, bytes)| Load::new(*parcel, *bytes)).collect();
    Placement::new(members.iter().copied()).balanced(&all, replicas)
}

/// The most that a member owns, measured by its capacity and by what all own.
fn fullest(placement: &Placement, loads: &[(Parcel, u64)], replicas: usize) -> f64 {
    let (mut bytes, mut total) = (vec![0; placement.members().len()], 0);
    for (parcel, load) in loads {
        for owner in placement.owners(*parcel, replicas) {
            let at = placement.members().iter().position(|member| *member == owner).expect("an owner is a member");
            bytes[at] += load;
            total += load;
        }
    }
    let capacity: u64 = placement.members().iter().map(|member| member.capacity).sum();
    let full =
        |(bytes, member): (&u64, &Member)| (*bytes as f64 / total as f64) / (member.capacity as f64 / capacity as f64);
    bytes.iter().zip(placement.members()).map(full).fold(0.0, f64::max)
}

#[test]
fn whatever_members_are_called_their_shares_of_some_thousand_objects_are_even() {
    let objects = loads(2000, |_| 128 << 10);
    for (count, seed) in [3, 5, 16].into_iter().flat_map(|count| (0..20).map(move |seed| (count, seed))) {
        let members = named(seed, &vec![1 << 30; count]);
        let even = fullest(&balanced(&members, &objects, 1), &objects, 1);
        assert!(even <= 1.02, "{count} members, seed {seed}: {even}");
    }
}

#[test]
fn shares_go_by_capacity_also_where_objects_differ_in_size() {
    let objects = loads(3000, |n| 1000 + (mix(n) % 1000).pow(2));
    for seed in 0..20 {
        let members = named(seed, &[1 << 30, 2 << 30, 7 << 30, 1 << 30]);
        let even = fullest(&balanced(&members, &objects, 1), &objects, 1);
        assert!(even <= 1.02, "seed {seed}: {even}");
    }
}

#[test]
fn of_few_large_parcels_nobody_owns_much_more_than_its_share() {
    let mut worst: (f64, f64) = (0.0, 0.0);
    for seed in 0..50 {
        let shift = u64::from(mix(seed) as u32);
        let few: Vec<_> = loads(60, |_| 64 << 20)
            .into_iter()
            .map(|(parcel, bytes)| (Parcel { number: parcel.number ^ shift as u32, ..parcel }, bytes))
            .collect();
        let members = named(seed, &[1 << 30; 5]);
        let by_chance = fullest(&Placement::new(members.iter().copied()), &few, 1);
        let even = fullest(&balanced(&members, &few, 1), &few, 1);
        assert!(even <= by_chance);
        worst = (worst.0.max(by_chance), worst.1.max(even));
    }
    // Twelve parcels a member: one more is 1.083.
    assert!(worst.1 < 1.09, "{worst:?}");
}

#[test]
fn copies_are_spread_evenly_too() {
    let objects = loads(2000, |_| 1 << 20);
    for seed in 0..10 {
        let mut members = named(seed, &[1 << 30; 6]);
        members.iter_mut().enumerate().for_each(|(n, member)| member.zone = n as u32 % 3);
        let even = fullest(&balanced(&members, &objects, 2), &objects, 2);
        assert!(even <= 1.03, "seed {seed}: {even}");
    }
}

#[test]
fn one_that_comes_takes_its_share_and_hardly_anything_else_moves() {
    let objects = loads(2000, |_| 128 << 10);
    for seed in 0..20 {
        let four = named(seed, &[1 << 30; 4]);
        let (before, after) = (balanced(&four[..3], &objects, 1), balanced(&four, &objects, 1));
        let (mut to_it, mut between) = (0, 0);
        for (parcel, _) in &objects {
            let (old, new) = (before.owner(*parcel), after.owner(*parcel));
            match new {
                _ if old == new => {}
                Some(owner) if owner == four[3] => to_it += 1,
                _ => between += 1,
            }
        }
        assert!((450..=510).contains(&to_it), "seed {seed}: {to_it} of 2000 to the fourth");
        assert!(between <= 120, "seed {seed}: {between} of 2000 between the others");
    }
}

#[test]
fn what_is_even_by_chance_is_left_as_it_is() {
    let members = named(1, &[1 << 30; 3]);
    let many = loads(200_000, |_| 1);
    assert_eq!(balanced(&members, &many, 1), Placement::new(members.iter().copied()));
    assert_eq!(balanced(&members, &[], 1), Placement::new(members.iter().copied()));
    let (few, all) = (loads(100, |_| 1), Placement::new(members.iter().copied()));
    assert_eq!(balanced(&members, &few, 3), all, "everybody owns everything");
    assert_eq!(balanced(&members[..1], &few, 1).members().len(), 1);
}

#[test]
fn what_is_added_up_again_is_what_drawing_again_would_give() {
    let objects: Vec<_> = loads(300, |n| 1 + n % 9).iter().map(|(parcel, bytes)| Load::new(*parcel, *bytes)).collect();
    for (seed, replicas, zones) in (0..30).flat_map(|seed| [(seed, 1, 1), (seed, 2, 1), (seed, 2, 3), (seed, 3, 2)]) {
        let mut members = named(seed, &[1 << 30; 20]);
        members.iter_mut().enumerate().for_each(|(n, member)| member.capacity <<= n % 3);
        // One zone has nearly everybody.
        members.iter_mut().enumerate().for_each(|(n, member)| member.zone = (n as u32).min(zones - 1));
        let mut placement = Placement::new(members);
        let front = Front::new(&placement, &objects, replicas);
        // From a little to so much that anybody may come first.
        for percent in [0, 1, 10, 50, 90] {
            for (n, hand) in placement.hands.iter_mut().enumerate() {
                let change = u128::from(mix(seed ^ n as u64 ^ percent << 8) % (2 * percent + 1)) + 100;
                hand.resistance = hand.resistance * (change - u128::from(percent)) / 100;
            }
            let mut right = vec![0; placement.members().len()];
            for load in &objects {
                placement
                    .all(load.point, replicas)
                    .into_iter()
                    .for_each(|owner| right[owner] += u128::from(load.bytes));
            }
            assert_eq!(front.shares(&placement), right, "seed {seed}, {replicas} replicas, {zones} zones, {percent} %");
        }
    }
}
