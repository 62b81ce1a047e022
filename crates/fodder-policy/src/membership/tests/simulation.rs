//! Many views over a network that loses, delays, doubles and cuts, with clocks that jump and nodes that die, leave and
//! come back: thousands of schedules, each decided by its seed.

use super::*;
use crate::sim::random::Random;
use std::collections::BTreeSet;

const TICK: Duration = Duration::from_millis(500);
const PATIENCE: Patience =
    Patience { unreachable_after: Duration::from_secs(3), forgotten_after: Duration::from_secs(12), max_members: 64 };
const OTHERS_TOLD: usize = 2;
const FANOUT: usize = 2;

struct Node {
    id: u128,
    address: String,
    /// The disk: survives a death, unless it is wiped.
    incarnation: u64,
    /// The disk was once put back as it had been.
    put_back: bool,
    view: Option<View>,
    /// What its clock is ahead of the world's.
    skew: Duration,
    /// The newest that its view ever showed of each member, since it started.
    shown: BTreeMap<NodeId, (Incarnation, u64)>,
    /// What it saw last.
    told: Option<Members>,
}

/// Whether members are what was seen before, however often they have said it.
fn says_the_same(before: &Option<Members>, after: &Members) -> bool {
    let Some(before) = before else { return after.all().len() == 1 };
    let same = |(a, b): (&Seen, &Seen)| a.unreachable == b.unreachable && a.member.says_the_same(&b.member);
    before.all().len() == after.all().len() && before.all().iter().zip(after.all()).all(same)
}

struct Letter {
    arrives: u64,
    to: String,
    words: Vec<Member>,
    /// Where it comes from; none of one that is played again.
    from: Option<String>,
    /// It is to be answered.
    asks: bool,
}

struct World {
    random: Random,
    tick: u64,
    nodes: Vec<Node>,
    letters: Vec<Letter>,
    cut: BTreeSet<(usize, usize)>,
    calm: bool,
    /// Each tells a few what it heard, instead of asking all.
    gossip: bool,
    ids: u128,
    /// Words that were said under way, to be played again later.
    recorded: Vec<Member>,
}

impl World {
    fn new(seed: u64, gossip: bool) -> Self {
        let mut world = Self {
            random: Random::of(seed, 1),
            tick: 0,
            nodes: Vec::new(),
            letters: Vec::new(),
            cut: BTreeSet::new(),
            calm: false,
            gossip,
            ids: 0,
            recorded: Vec::new(),
        };
        for at in 0..3 + world.random.below(3) as usize {
            world.ids += 1;
            let (id, address) = (world.ids, format!("node-{at}:1"));
            world.nodes.push(Node {
                id,
                address,
                incarnation: 0,
                put_back: false,
                view: None,
                skew: Duration::ZERO,
                shown: BTreeMap::new(),
                told: None,
            });
            world.start(at);
        }
        world
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    fn start(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.incarnation += 1;
        let me = Member { address: node.address.clone(), ..said(node.id, node.incarnation, 0, State::Joining) };
        node.view = Some(View::new(me, PATIENCE));
        node.shown.clear();
        node.told = None;
    }

    fn clock(&self, at: usize) -> Duration {
        TICK * self.tick as u32 + self.nodes[at].skew
    }

    fn post(&mut self, from: usize, to: String, asks: bool, reminder: Option<Member>) {
        let Some(view) = &mut self.nodes[from].view else { return };
        let words: Vec<_> = view.tell(OTHERS_TOLD).into_iter().chain(reminder).collect();
        if self.recorded.len() < 200 {
            self.recorded.push(words[0].clone());
        }
        let Some(there) = self.nodes.iter().position(|node| node.address == to) else { return };
        let cut = self.cut.contains(&(from, there));
        let copies = if self.calm { 1 } else { [0, 1, 1, 1, 2][self.random.below(5) as usize] };
        for _ in 0..if cut { 0 } else { copies } {
            let delay = if self.calm { 0 } else { self.random.below(8) / 3 };
            let (arrives, from) = (self.tick + delay, Some(self.nodes[from].address.clone()));
            self.letters.push(Letter { arrives, to: to.clone(), words: words.clone(), from, asks });
        }
    }

    fn deliver(&mut self) {
        let tick = self.tick;
        let mut due: Vec<_> = self.letters.extract_if(.., |letter| letter.arrives <= tick).collect();
        while !due.is_empty() {
            let Letter { to, words, from, asks, .. } = due.swap_remove(self.random.below(due.len() as u64) as usize);
            let at = self.nodes.iter().position(|node| node.address == to).unwrap();
            let now = self.clock(at);
            let put_back = self.nodes[at].put_back;
            let Some(view) = &mut self.nodes[at].view else { continue };
            let own = words[0].clone();
            for (number, word) in words.into_iter().enumerate() {
                // Who is asked and answers was heard; who asks may not be reached the other way.
                let voice = match (number == 0 && !asks, self.gossip) {
                    (_, true) => Voice::Gossip,
                    (true, false) => Voice::Own,
                    (false, false) => Voice::Hearsay,
                };
                let heard = view.hear(word, voice, now);
                assert!(put_back || heard != Ok(Heard::Double), "nobody has two identities");
            }
            // Who is asked answers; who gossips says also unasked to somebody that it has said something newer before.
            let reminder = view.reminder(&own);
            if let Some(from) = from.filter(|_| asks || (self.gossip && reminder.is_some())) {
                self.post(at, from, false, reminder);
            }
            due.extend(self.letters.extract_if(.., |letter| letter.arrives <= tick));
        }
    }

    /// One interval: everybody asks its list (the first node) and all it knows, and looks at what it sees.
    fn step(&mut self) {
        self.tick += 1;
        for at in 0..self.nodes.len() {
            let now = self.clock(at);
            let seed = self.nodes[0].address.clone();
            let Some(view) = &mut self.nodes[at].view else { continue };
            view.pass(now);
            let mut asked: BTreeSet<String> = view.addresses().map(str::to_owned).collect();
            asked.insert(seed);
            asked.remove(&view.me().address);
            let mut asked: Vec<_> = asked.into_iter().collect();
            while self.gossip && asked.len() > FANOUT {
                asked.swap_remove(self.random.below(asked.len() as u64) as usize);
            }
            asked.into_iter().for_each(|address| self.post(at, address, true, None));
        }
        self.deliver();
        for node in &mut self.nodes {
            let Some(view) = &mut node.view else { continue };
            let members = view.members();
            if view.news().is_none() {
                assert!(says_the_same(&node.told, &members), "nobody was told of {members:?}");
            }
            node.told = Some(members);
            for seen in node.told.iter().flat_map(Members::all) {
                let shown = node.shown.entry(seen.member.id).or_default();
                assert!(seen.member.moment() >= *shown, "an old word of {:?} came back", seen.member);
                *shown = seen.member.moment();
                assert_ne!(seen.member.state, State::Left, "who left is not shown");
            }
        }
    }

    fn mischief(&mut self) {
        let count = self.nodes.len() as u64;
        let at = self.random.below(count) as usize;
        match self.random.below(13) {
            0 => self.nodes[at].view = None,
            1 if at > 0 => {
                // It leaves, and tells whom it reaches.
                if let Some(view) = &mut self.nodes[at].view {
                    view.say(State::Left);
                    let all: Vec<_> = view.addresses().map(str::to_owned).collect();
                    all.into_iter().for_each(|address| self.post(at, address, false, None));
                    self.nodes[at].view = None;
                }
            }
            2 | 3 if self.nodes[at].view.is_none() => self.start(at),
            4 if self.nodes[at].view.is_none() => {
                // Its disk was lost: it comes back as somebody else.
                self.ids += 1;
                (self.nodes[at].id, self.nodes[at].incarnation) = (self.ids, 0);
                self.nodes[at].put_back = false;
                self.start(at);
            }
            11 if self.nodes[at].view.is_none() => {
                self.nodes[at].incarnation = self.random.below(self.nodes[at].incarnation + 1);
                self.nodes[at].put_back = true;
                self.start(at);
            }
            5 => self.nodes[at].skew += Duration::from_secs(self.random.below(30)),
            6 => self.nodes[at].skew = self.nodes[at].skew.saturating_sub(Duration::from_secs(self.random.below(30))),
            7 => {
                if let Some(view) = &mut self.nodes[at].view {
                    view.say([State::Joining, State::Serving, State::Draining][self.random.below(3) as usize]);
                }
            }
            8 | 9 => {
                let left: Vec<bool> = (0..count).map(|_| self.random.below(2) == 0).collect();
                let pairs = (0..left.len()).flat_map(|a| (0..left.len()).map(move |b| (a, b)));
                self.cut = pairs.filter(|(a, b)| left[*a] != left[*b]).collect();
            }
            10 => self.cut = [(at, self.random.below(count) as usize)].into(),
            _ => self.cut.clear(),
        }
        if !self.recorded.is_empty() && self.chance(10) {
            let word = self.recorded[self.random.below(self.recorded.len() as u64) as usize].clone();
            let to = self.nodes[at].address.clone();
            self.letters.push(Letter { arrives: self.tick + 1, to, words: vec![word], from: None, asks: false });
        }
    }

    /// Those who live, as every one of them must see them.
    fn alive(&self) -> BTreeMap<NodeId, (Incarnation, State)> {
        let me = self.nodes.iter().filter_map(|node| node.view.as_ref()).map(View::me);
        me.map(|me| (me.id, (me.incarnation, me.state))).collect()
    }
}

fn schedule(seed: u64, gossip: bool) {
    let mut world = World::new(seed, gossip);
    for _ in 0..50 {
        if world.chance(40) {
            world.mischief();
        }
        world.step();
    }
    world.cut.clear();
    world.calm = true;
    // What all have in their lists must be there for those who never met to meet.
    if world.nodes[0].view.is_none() {
        world.start(0);
    }
    // As long as silence takes to be noticed, and a few rounds for rumours to go round.
    for _ in 0..if gossip { 40 } else { 14 } {
        world.step();
    }
    let alive = world.alive();
    for view in world.nodes.iter().filter_map(|node| node.view.as_ref()) {
        let members = view.members();
        let heard = members.all().iter().filter(|seen| !seen.unreachable);
        let heard: BTreeMap<_, _> =
            heard.map(|seen| (seen.member.id, (seen.member.incarnation, seen.member.state))).collect();
        assert_eq!(heard, alive, "seed {seed}: what {} sees", view.me().address);
    }
    // As long as the dead take to be forgotten: nobody else is even remembered.
    for _ in 0..40 {
        world.step();
    }
    for view in world.nodes.iter().filter_map(|node| node.view.as_ref()) {
        assert_eq!(view.members().all().len(), alive.len(), "seed {seed}: {:?}", view.members());
    }
}

#[test]
fn after_any_mischief_all_agree_nobody_is_lost_and_nobody_returns_from_the_dead() {
    for seed in 0..1000 {
        schedule(seed, false);
    }
}

#[test]
fn after_any_mischief_gossip_agrees_as_well() {
    for seed in 0..1000 {
        schedule(seed, true);
    }
}

#[test]
fn a_long_partition_heals_also_when_both_sides_have_forgotten_each_other() {
    let mut world = World::new(7, false);
    world.calm = true;
    for _ in 0..10 {
        world.step();
    }
    let count = world.nodes.len();
    let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b)));
    world.cut = pairs.filter(|(a, b)| (*a == 0) != (*b == 0)).collect();
    for _ in 0..60 {
        world.step();
    }
    let seen = |world: &World, at: usize| world.nodes[at].view.as_ref().unwrap().members().all().len();
    assert_eq!((seen(&world, 0), seen(&world, 1)), (1, count - 1));
    world.cut.clear();
    for _ in 0..6 {
        world.step();
    }
    assert!((0..count).all(|at| seen(&world, at) == count));
}
