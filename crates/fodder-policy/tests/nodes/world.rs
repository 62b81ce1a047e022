//! The nodes of a simulated cluster and what is on its way between them.

use fodder_policy::{
    job::{Jobs, Settings, Telling, Word},
    plan::Snapshot,
};
use std::time::Duration;

/// The dataset, alike on every node.
pub(crate) const ITEMS: u32 = 61;
pub(crate) const SNAPSHOT: Snapshot = Snapshot { fingerprint: 7, items: ITEMS };

/// Numbers that follow from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound.max(1) as u64) as usize
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.roll() % 100 < chance
    }
}

/// All nodes, their links, and messages under way.
pub(crate) struct World {
    pub(crate) nodes: Vec<Jobs>,
    /// Which side of a partition each is on.
    pub(crate) sides: Vec<u8>,
    under_way: Vec<(usize, Vec<u8>)>,
    pub(crate) now: Duration,
    next_salt: u64,
    pub(crate) dice: Dice,
    /// Of a hundred messages, how many are lost.
    pub(crate) loss: u64,
}

impl World {
    pub(crate) fn new(nodes: usize, loss: u64, dice: Dice) -> Self {
        let mut world = Self {
            nodes: Vec::new(),
            sides: vec![0; nodes],
            under_way: Vec::new(),
            now: Duration::from_secs(1_000),
            next_salt: dice.0,
            dice,
            loss,
        };
        world.nodes = (0..nodes).map(|_| world.fresh()).collect();
        world
    }

    fn fresh(&mut self) -> Jobs {
        self.next_salt += 1;
        Jobs::new(SNAPSHOT, Settings::default(), self.next_salt)
    }

    /// A node dies and comes back, and knows nothing.
    pub(crate) fn crash(&mut self, node: usize) {
        self.nodes[node] = self.fresh();
    }

    fn hears(&self, from: usize, to: usize) -> bool {
        from != to && self.sides[from] == self.sides[to]
    }

    /// A node tells all it can reach what it has to say, sooner or later.
    pub(crate) fn spread(&mut self, from: usize, telling: Telling) {
        let words = self.nodes[from].words(telling, self.now);
        for to in (0..self.nodes.len()).filter(|to| self.hears(from, *to)).collect::<Vec<_>>() {
            for word in &words {
                if !self.dice.percent(self.loss) {
                    self.under_way.push((to, word.encode()));
                }
            }
        }
        // What is late for too long is lost.
        let excess = self.under_way.len().saturating_sub(64);
        self.under_way.drain(..excess);
    }

    /// Something that was under way arrives, and perhaps not for the last time.
    pub(crate) fn arrive(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let place = self.dice.below(self.under_way.len());
        let (to, bytes) = match self.dice.percent(20) {
            true => self.under_way[place].clone(),
            false => self.under_way.swap_remove(place),
        };
        self.heed(to, &bytes);
    }

    fn heed(&mut self, node: usize, bytes: &[u8]) {
        let word = Word::decode(bytes, &Settings::default()).expect("nodes speak well");
        let heeded = self.nodes[node].heed(word, &[SNAPSHOT], self.now);
        assert_eq!(heeded.refused, 0);
        assert!(self.nodes[node].without_snapshots(&[SNAPSHOT]).is_empty());
    }

    /// A node speaks with all it can reach, and waits for their answers; some do not come.
    pub(crate) fn exchange(&mut self, node: usize) {
        for other in (0..self.nodes.len()).filter(|other| self.hears(node, *other)).collect::<Vec<_>>() {
            if !self.dice.percent(self.loss) {
                self.tell(node, other);
                if !self.dice.percent(self.loss) {
                    self.tell(other, node);
                }
            }
        }
    }

    fn tell(&mut self, from: usize, to: usize) {
        for word in self.nodes[from].words(Telling::All, self.now) {
            self.heed(to, &word.encode());
        }
    }

    /// The network is whole again, and everybody has spoken with everybody.
    pub(crate) fn settle(&mut self) {
        self.sides.fill(0);
        for _ in 0..2 {
            for from in 0..self.nodes.len() {
                (0..self.nodes.len()).filter(|to| *to != from).for_each(|to| self.tell(from, to));
            }
        }
    }
}
