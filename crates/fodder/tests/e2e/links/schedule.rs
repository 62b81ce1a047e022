//! Mischief at random: links cut and slowed down, nodes stopped and killed, and everything healed again. What a schedule does
//! follows from its seed; when it happens does not, since these are real processes.

use super::{
    fleet::{Fleet, Way},
    load::Load,
    network::{Cuts, Host, Network},
    training::Epoch,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};
use rustix::process::Signal;
use std::collections::BTreeSet;

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mischief {
    /// The nodes fall into these and the rest.
    Halves(Vec<usize>),
    /// What the first sends does not reach the second, which the first still hears.
    Deaf(usize, usize),
    /// Some links are cut, each in one direction.
    Holes(Vec<(usize, usize)>),
    /// One node does not reach etcd.
    NoEtcd(Vec<usize>),
    /// A node is stopped.
    Stopped(usize),
    /// A node sends slowly.
    Slow(usize),
    /// A node is killed.
    Killed(usize),
}

impl Mischief {
    fn draw(rng: &mut SmallRng, nodes: usize, way: Way) -> Self {
        let mut order: Vec<usize> = (0..nodes).collect();
        order.shuffle(rng);
        let (one, other) = (order[0], order[1]);
        let some = |rng: &mut SmallRng| order[..rng.random_range(1..nodes)].to_vec();
        match rng.random_range(0..if way == Way::Etcd { 12 } else { 9 }) {
            0..3 => Self::Halves(some(rng)),
            3 => Self::Deaf(one, other),
            4 => {
                let mut pairs: Vec<_> = order.iter().flat_map(|a| (0..nodes).map(|b| (*a, b))).collect();
                pairs.retain(|(a, b)| a != b);
                pairs.shuffle(rng);
                Self::Holes(pairs[..rng.random_range(1..pairs.len())].to_vec())
            }
            5 | 6 => Self::Stopped(one),
            7 => Self::Slow(one),
            8 => Self::Killed(one),
            9 => Self::NoEtcd((0..nodes).collect()),
            _ => Self::NoEtcd(some(rng)),
        }
    }

    fn cuts(&self, nodes: usize) -> Cuts {
        match self {
            Self::Halves(one) => {
                let (one, other): (Vec<usize>, Vec<usize>) = (0..nodes).partition(|n| one.contains(n));
                let hosts = |side: Vec<usize>| side.into_iter().map(Host::Node).collect::<Vec<_>>();
                Network::between(&hosts(one), &hosts(other))
            }
            Self::Deaf(from, to) => [(Host::Node(*from), Host::Node(*to))].into(),
            Self::Holes(pairs) => pairs.iter().map(|(from, to)| (Host::Node(*from), Host::Node(*to))).collect(),
            Self::NoEtcd(who) => who.iter().map(|n| (Host::Node(*n), Host::Etcd)).collect(),
            Self::Stopped(_) | Self::Slow(_) | Self::Killed(_) => Cuts::new(),
        }
    }

    /// Who cannot read meanwhile.
    fn absent(&self) -> Option<usize> {
        match self {
            Self::Stopped(n) | Self::Killed(n) => Some(*n),
            _ => None,
        }
    }
}

/// The mischief that a seed stands for, step by step: in each step all of these are so at once.
pub(crate) fn steps(seed: u64, nodes: usize, way: Way) -> Vec<Vec<Mischief>> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut step = || {
        let mut step: Vec<Mischief> = Vec::new();
        for _ in 0..rng.random_range(1..=2) {
            let mischief = Mischief::draw(&mut rng, nodes, way);
            // Somebody must be left to read, and nobody is stopped twice.
            if mischief.absent().is_none_or(|n| step.iter().all(|other| other.absent() != Some(n))) {
                step.push(mischief);
            }
        }
        step
    };
    let first = step();
    if seed.is_multiple_of(3) { vec![first, step()] } else { vec![first] }
}

/// Does what a seed stands for under load and in the middle of an epoch, heals everything, and waits until all nodes agree and
/// the epoch is over.
pub(crate) fn run(fleet: &mut Fleet, load: &mut Load, mut epoch: Epoch, steps: &[Vec<Mischief>], reads: u64) {
    let nodes = fleet.nodes.len();
    for (number, step) in steps.iter().enumerate() {
        let absent: Vec<_> = step.iter().filter_map(Mischief::absent).collect();
        let killed = |mischief: &Mischief| if let Mischief::Killed(n) = mischief { Some(*n) } else { None };
        epoch.trouble(&absent, &step.iter().filter_map(killed).collect::<Vec<_>>());
        for mischief in step {
            match mischief {
                Mischief::Stopped(n) => fleet.nodes[*n].as_ref().unwrap().signal(Signal::STOP),
                Mischief::Killed(n) => {
                    load.away(*n, true);
                    // Killed when dropped.
                    fleet.nodes[*n] = None;
                }
                _ => {}
            }
        }
        fleet.network.cut(step.iter().flat_map(|mischief| mischief.cuts(nodes)).collect());
        let slow = |mischief: &Mischief| if let Mischief::Slow(n) = mischief { Some(*n) } else { None };
        if !fleet.network.slow(step.iter().filter_map(slow).collect()) {
            println!("a link could not be slowed down here");
        }
        let present: Vec<_> = (0..nodes).filter(|n| !absent.contains(n)).collect();
        load.read_on(&present, reads);
        if number == 0 {
            epoch.go_on(&present);
        }
        for mischief in step {
            match mischief {
                Mischief::Stopped(n) => fleet.nodes[*n].as_ref().unwrap().signal(Signal::CONT),
                // It starts while links are still cut.
                Mischief::Killed(n) => {
                    fleet.start(*n);
                    load.read_on(&[*n], 1);
                    load.away(*n, false);
                }
                _ => {}
            }
        }
    }
    epoch.trouble(&[], &[]);
    fleet.network.cut(Cuts::new());
    fleet.network.slow(BTreeSet::new());
    fleet.agree();
    epoch.end(fleet);
    load.read_on(&(0..nodes).collect::<Vec<_>>(), 10);
}
