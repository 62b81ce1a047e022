//! What nodes learn of each other's ranks is the same in any order, any number of times, and says exactly what happened.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::{
    plan::{Order, Plan, Rest, Share, Snapshot, Uneven},
    serving::{Kind, Mode, Served, Serving, Spent},
};
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc};

const ITEMS: u32 = 50;

fn deal(world: u32, uneven: Uneven) -> Deal {
    let plan = Plan::new(Snapshot { fingerprint: 7, items: ITEMS }, 0, Order::Seed(1)).unwrap();
    Deal::new(Arc::new(plan), Rest::whole(ITEMS), Share::new(world, uneven).unwrap())
}

/// One node's part of an epoch.
struct Node {
    ledger: Ledger,
    serving: Box<dyn Serving>,
}

impl Node {
    fn new(deal: &Deal, salt: u64, mode: Mode) -> Self {
        Self { ledger: Ledger::new(deal).signed(salt), serving: mode.build(deal, &Spent::default()) }
    }

    fn learn(&mut self, deal: &Deal, slip: &Slip) {
        let news = self.ledger.learn(deal, slip).unwrap();
        for index in news.taken {
            if let Some(rank) = slip.writer.rank {
                self.serving.skip(&deal.slice(rank), index);
            }
        }
    }

    /// A rank comes here, and goes on behind what is known.
    fn attend(&mut self, deal: &Deal, rank: u32) {
        if self.ledger.attend(deal, rank, None).unwrap().is_some() {
            let (ledger, slice) = (&self.ledger, deal.slice(rank));
            self.serving.restart(&slice, &|index| ledger.has_taken(rank, index));
        }
    }

    /// Delivers a batch; what it was.
    fn deliver(&mut self, deal: &Deal, rank: u32, count: u32) -> Arc<[Served]> {
        let slice = deal.slice(rank);
        let look = |id: u32| id.is_multiple_of(3);
        let ordinal = slice.len() - self.serving.left(&slice);
        let items: Arc<[Served]> = (0..count).map_while(|_| self.serving.next(&slice, &look)).collect();
        if !items.is_empty() {
            self.ledger.deliver_from(&slice, ordinal, count, Arc::clone(&items)).unwrap();
        }
        items
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A rank takes a batch and acknowledges it.
    Take { rank: u32, count: u32 },
    /// A rank takes a batch and dies before it says so.
    Lose { rank: u32, count: u32 },
    /// A rank goes to a node, with what it knows itself.
    Move { rank: u32, node: usize },
    /// A rank goes to a node and knows nothing.
    Forget { rank: u32, node: usize },
    /// A node tells another everything, or what is new.
    Tell { from: usize, to: usize, only_news: bool },
    /// An item is read by id.
    Read { node: usize, id: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u32..4, 1u32..6).prop_map(|(rank, count)| Step::Take { rank, count }),
        1 => (0u32..4, 1u32..6).prop_map(|(rank, count)| Step::Lose { rank, count }),
        2 => (0u32..4, 0usize..3).prop_map(|(rank, node)| Step::Move { rank, node }),
        1 => (0u32..4, 0usize..3).prop_map(|(rank, node)| Step::Forget { rank, node }),
        4 => (0usize..3, 0usize..3, any::<bool>()).prop_map(|(from, to, only_news)| Step::Tell { from, to, only_news }),
        1 => (0usize..3, 0..ITEMS).prop_map(|(node, id)| Step::Read { node, id }),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    /// Ranks wander between three nodes that tell each other what they happen to tell. In the end all have learnt
    /// everything, and each counts what was consumed as often as it was.
    #[test]
    fn every_node_counts_what_happened(
        steps in steps(), seed: u64, window in prop_oneof![Just(0u32), 1u32..20],
        uneven in prop_oneof![Just(Uneven::Pad), Just(Uneven::Drop), Just(Uneven::Exact)],
    ) {
        let mode = if window == 0 { Mode::Strict } else { Mode::Reorder { window } };
        let deal = deal(4, uneven);
        let mut nodes: Vec<Node> = (0..3).map(|salt| Node::new(&deal, salt, mode)).collect();
        let mut at = [0, 1, 2, 0];
        (0..4).for_each(|rank| nodes[at[rank as usize]].attend(&deal, rank));
        let mut times = BTreeMap::<u32, u64>::new();
        for step in steps {
            match step {
                Step::Take { rank, count } => {
                    let node = &mut nodes[at[rank as usize]];
                    let number = node.ledger.next_number(rank).unwrap();
                    let items = node.deliver(&deal, rank, count);
                    if !items.is_empty() {
                        prop_assert!(node.ledger.acknowledge(&deal, rank, number).unwrap());
                        items.iter().filter(|item| item.kind != Kind::Pad)
                            .for_each(|item| *times.entry(item.asked).or_default() += 1);
                    }
                }
                Step::Lose { rank, count } => drop(nodes[at[rank as usize]].deliver(&deal, rank, count)),
                Step::Move { rank, node } => {
                    let receipt = nodes[at[rank as usize]].ledger.slips(Some(rank), false);
                    receipt.iter().for_each(|slip| nodes[node].learn(&deal, slip));
                    at[rank as usize] = node;
                    nodes[node].attend(&deal, rank);
                }
                Step::Forget { rank, node } => {
                    at[rank as usize] = node;
                    nodes[node].attend(&deal, rank);
                }
                Step::Tell { from, to, only_news } => {
                    let slips = nodes[from].ledger.slips(None, only_news);
                    slips.iter().for_each(|slip| nodes[to].learn(&deal, slip));
                }
                Step::Read { node, id } => {
                    nodes[node].ledger.consume(&deal, id);
                    *times.entry(id).or_default() += 1;
                }
            }
        }
        // In an order that differs from node to node, and twice.
        let all: Vec<Slip> = nodes.iter_mut().flat_map(|node| node.ledger.slips(None, false)).collect();
        for (node, turn) in nodes.iter_mut().zip(seed..) {
            let mut order: Vec<usize> = (0..all.len()).chain(0..all.len()).collect();
            order.sort_by_key(|place| crate::permutation::mix(turn ^ *place as u64));
            order.iter().for_each(|&place| node.learn(&deal, &all[place]));
        }
        let audits: Vec<_> = nodes.iter().map(|node| node.ledger.audit(&deal)).collect();
        prop_assert!(audits.iter().all(|audit| *audit == audits[0]), "{:?}", audits);
        prop_assert_eq!(audits[0].consumed, times.len() as u64);
        prop_assert_eq!(audits[0].duplicates, times.values().map(|times| times - 1).sum::<u64>());
        let checkpoints: Vec<_> = nodes.iter().map(|node| node.ledger.checkpoint(deal.plan()).encode()).collect();
        prop_assert!(checkpoints.iter().all(|bytes| *bytes == checkpoints[0]));
    }

    /// Nobody falls over what a stranger says.
    #[test]
    fn any_bytes_are_learnt_or_refused(state: Vec<u8>, rank: Option<u32>, ordinal: u32, salt: u64) {
        let deal = deal(4, Uneven::Pad);
        let mut node = Node::new(&deal, 1, Mode::Strict);
        let writer = Writer { rank: rank.map(|rank| rank % 5), stint: StintId { ordinal, salt } };
        let _ = node.ledger.learn(&deal, &Slip { writer, state: state.into() });
        let audit = node.ledger.audit(&deal);
        prop_assert!(audit.consumed <= audit.planned);
        let _ = node.ledger.attend(&deal, 0, None);
        prop_assert!(node.ledger.memory_bytes() < 1 << 16);
    }
}

#[test]
fn a_rank_that_moves_with_its_receipt_goes_on_behind_it() {
    let deal = deal(2, Uneven::Exact);
    let (mut a, mut b) = (Node::new(&deal, 1, Mode::Strict), Node::new(&deal, 2, Mode::Strict));
    a.attend(&deal, 0);
    a.deliver(&deal, 0, 4);
    a.ledger.acknowledge(&deal, 0, 0).unwrap();
    let lost = a.deliver(&deal, 0, 3);
    let receipt = a.ledger.slips(Some(0), false);
    assert!(receipt.iter().map(|slip| slip.state.len()).sum::<usize>() < 16);
    receipt.iter().for_each(|slip| b.learn(&deal, slip));
    // The rank had consumed the last batch, and never heard that this was noted.
    let ids: Vec<u32> = lost.iter().map(|item| item.asked).collect();
    let news = b.ledger.claim(&deal, 0, receipt[0].writer.stint, &ids).unwrap();
    news.taken.iter().for_each(|&index| b.serving.skip(&deal.slice(0), index));
    b.attend(&deal, 0);
    assert_eq!(b.deliver(&deal, 0, 1)[0].asked, deal.slice(0).at(7).unwrap().id);
    // It was noted, as is heard later.
    a.ledger.acknowledge(&deal, 0, 1).unwrap();
    a.ledger.slips(None, false).iter().for_each(|slip| b.learn(&deal, slip));
    let audit = b.ledger.audit(&deal);
    assert_eq!((audit.consumed, audit.duplicates), (7, 0));
    assert!(
        b.ledger.claim(&deal, 0, receipt[0].writer.stint, &[deal.slice(1).at(0).unwrap().id]).is_err(),
        "it is another rank's"
    );
}

#[test]
fn a_rank_that_comes_back_is_given_what_it_had_not_consumed_here() {
    let deal = deal(1, Uneven::Exact);
    let (mut a, mut b) = (Node::new(&deal, 1, Mode::Strict), Node::new(&deal, 2, Mode::Strict));
    a.attend(&deal, 0);
    let lost = a.deliver(&deal, 0, 3);
    a.ledger.slips(None, false).iter().for_each(|slip| b.learn(&deal, slip));
    b.attend(&deal, 0);
    assert_eq!(b.deliver(&deal, 0, 2)[..], lost[..2]);
    b.ledger.acknowledge(&deal, 0, 0).unwrap();
    b.ledger.slips(None, false).iter().for_each(|slip| a.learn(&deal, slip));
    a.attend(&deal, 0);
    assert_eq!((a.ledger.next_number(0).unwrap(), a.ledger.unacknowledged()), (0, 0));
    assert_eq!(a.deliver(&deal, 0, 1)[..], lost[2..]);
    a.attend(&deal, 0);
    assert_eq!(a.ledger.next_number(0).unwrap(), 1, "it has not been elsewhere");
}

#[test]
fn a_rank_that_had_left_is_back_in_another_stint_and_keeps_its_batches() {
    let deal = deal(2, Uneven::Exact);
    let mut a = Node::new(&deal, 1, Mode::Strict);
    a.attend(&deal, 0);
    a.deliver(&deal, 0, 3);
    let left = a.ledger.last_stint(0);
    assert_eq!(a.ledger.attend(&deal, 0, left), Ok(None));
    assert!(a.ledger.last_stint(0) > left);
    assert_eq!(a.ledger.next_number(0), Ok(1));
    assert_eq!(a.ledger.acknowledge(&deal, 0, 0), Ok(true));
    assert_eq!(a.ledger.audit(&deal).consumed, 3);
}

#[test]
fn the_stints_of_a_rank_are_bounded() {
    let deal = deal(2, Uneven::Exact);
    let mut node = Node::new(&deal, 1, Mode::Strict);
    let state = Stint::new(deal.slice(0).len()).encode();
    for salt in 0..2 * MAX_STINTS as u64 {
        let writer = Writer { rank: Some(0), stint: StintId { ordinal: 1, salt } };
        let learnt = node.ledger.learn(&deal, &Slip { writer, state: state.clone() });
        assert_eq!(learnt.is_ok(), salt < MAX_STINTS as u64);
    }
}
