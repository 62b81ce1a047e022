//! Batches, retries, acknowledgements and resumes, against a plain count of how often each item was consumed.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::{
    plan::{Order, Share, Snapshot, Uneven, generate},
    serving::{Look, Mode, Serving, Spent},
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SNAPSHOT: Snapshot = Snapshot { fingerprint: 7, items: 100 };

fn deal(world: u32, uneven: Uneven) -> Deal {
    let plan = Plan::new(SNAPSHOT, 0, Order::Seed(1)).unwrap();
    let rest = Rest::whole(plan.len());
    Deal::new(Arc::new(plan), rest, Share::new(world, uneven).unwrap())
}

/// A run of a job: what is dealt, who answers, what is noted.
struct Run {
    deal: Deal,
    serving: Box<dyn Serving>,
    ledger: Ledger,
}

impl Run {
    fn new(deal: Deal, mode: Mode) -> Self {
        let serving = mode.build(&deal, &Spent::default());
        Self { ledger: Ledger::new(&deal), serving, deal }
    }

    /// The run that goes on from a checkpoint on another number of ranks.
    fn resume(bytes: &[u8], deal: &Deal, share: Share, mode: Mode) -> Self {
        let checkpoint = Checkpoint::decode(bytes, deal.plan().snapshot()).unwrap();
        let plan = checkpoint.plan(deal.plan().ids().cloned()).unwrap();
        assert_eq!(plan, **deal.plan());
        let deal = Deal::new(Arc::clone(deal.plan()), checkpoint.rest(), share);
        let serving = mode.build(&deal, &checkpoint.spent());
        Self { ledger: Ledger::resume(checkpoint, &deal), serving, deal }
    }

    fn deliver(&mut self, rank: u32, count: u32, look: &dyn Look) -> Arc<[Served]> {
        let slice = self.deal.slice(rank);
        let items: Arc<[Served]> = (0..count).map_while(|_| self.serving.next(&slice, look)).collect();
        self.ledger.deliver(&slice, count, Arc::clone(&items)).unwrap();
        items
    }
}

#[test]
fn a_batch_asked_for_again_is_the_same_and_no_duplicate() {
    let mut run = Run::new(deal(2, Uneven::Pad), Mode::Strict);
    let items = run.deliver(0, 8, &|_| false);
    for _ in 0..3 {
        assert_eq!(run.ledger.given(0, 0, 8).unwrap(), Some(Arc::clone(&items)));
    }
    assert_eq!(run.ledger.given(1, 0, 8).unwrap(), None);
    assert_eq!(run.ledger.acknowledge(&run.deal, 0, 0), Ok(true));
    assert_eq!(run.ledger.acknowledge(&run.deal, 0, 0), Ok(false));
    let audit = run.ledger.audit(&run.deal);
    assert_eq!((audit.consumed, audit.duplicates), (8, 0));
}

#[test]
fn a_batch_asked_for_wrongly_is_refused() {
    let mut run = Run::new(deal(2, Uneven::Pad), Mode::Strict);
    run.deliver(0, 8, &|_| false);
    let message = |result: Result<Option<Arc<[Served]>>>| result.unwrap_err().to_string();
    assert!(message(run.ledger.given(0, 0, 9)).contains("requested with a count of 8 and now with 9"));
    assert!(message(run.ledger.given(2, 0, 8)).contains("no rank 2: the job has 2 ranks"));
    let early = run.ledger.acknowledge(&run.deal, 0, 1).unwrap_err().to_string();
    assert!(early.contains("batch 1 of rank 0 was not delivered (the next is 1)"), "{early}");
    run.ledger.acknowledge(&run.deal, 0, 0).unwrap();
    assert!(message(run.ledger.given(0, 0, 8)).contains("is already acknowledged: ask for batch 1"));
}

#[test]
fn batches_may_be_acknowledged_in_any_order() {
    let mut run = Run::new(deal(1, Uneven::Pad), Mode::Strict);
    (0..4).for_each(|_| drop(run.deliver(0, 5, &|_| false)));
    for number in [2, 0, 3, 1] {
        assert_eq!(run.ledger.acknowledge(&run.deal, 0, number), Ok(true));
        assert_eq!(run.ledger.acknowledge(&run.deal, 0, number), Ok(false));
        assert!(run.ledger.given(0, number, 5).is_err());
    }
    assert_eq!((run.ledger.consumed(), run.ledger.unacknowledged()), (20, 0));
    assert_eq!(run.ledger.next_number(0), Ok(4));
}

#[test]
fn the_audit_tells_pads_drops_omissions_and_duplicates_apart() {
    let consume_all = |uneven| {
        let mut run = Run::new(deal(8, uneven), Mode::Strict);
        for rank in 0..8 {
            while !run.deliver(rank, 4, &|_| false).is_empty() {
                let number = run.ledger.next_number(rank).unwrap() - 1;
                run.ledger.acknowledge(&run.deal, rank, number).unwrap();
            }
        }
        run.ledger.audit(&run.deal)
    };
    let padded = consume_all(Uneven::Pad);
    assert_eq!((padded.consumed, padded.pads, padded.dropped, padded.is_exact()), (100, 4, 0, true));
    let dropped = consume_all(Uneven::Drop);
    assert_eq!((dropped.consumed, dropped.pads, dropped.dropped, dropped.is_exact()), (96, 0, 4, true));
    let exact = consume_all(Uneven::Exact);
    assert_eq!((exact.consumed, exact.pads, exact.dropped, exact.is_exact()), (100, 0, 0, true));

    let mut run = Run::new(deal(1, Uneven::Pad), Mode::Strict);
    let first = run.deal.plan().at(0).unwrap();
    assert!(run.ledger.consume(&run.deal, first));
    assert!(!run.ledger.consume(&run.deal, first));
    let audit = run.ledger.audit(&run.deal);
    assert_eq!((audit.omissions, audit.duplicates, audit.is_exact()), (99, 1, false));
}

#[test]
fn the_displacement_of_reordering_is_measured() {
    let mut run = Run::new(deal(1, Uneven::Pad), Mode::Reorder { window: 100 });
    let last = run.deal.plan().at(99).unwrap();
    while !run.deliver(0, 10, &|id| id == last).is_empty() {}
    (0..10).for_each(|number| drop(run.ledger.acknowledge(&run.deal, 0, number)));
    let audit = run.ledger.audit(&run.deal);
    // The last came 99 places early, and so all others one late.
    assert_eq!(audit.displacement_max, 99);
    assert_eq!(audit.displacement_mean, (99 + 99) as f64 / 100.0);
    assert!(audit.is_exact());
}

#[test]
fn what_ranks_consumed_elsewhere_is_merged_by_union() {
    let runs: Vec<Run> = (0..4)
        .map(|rank| {
            let mut run = Run::new(deal(4, Uneven::Pad), Mode::Strict);
            run.deliver(rank, 20 + rank, &|_| false);
            run.ledger.acknowledge(&run.deal, rank, 0).unwrap();
            run
        })
        .collect();
    let mut merged = runs[0].ledger.checkpoint(runs[0].deal.plan());
    for run in &runs[1..] {
        merged.merge(&run.ledger.checkpoint(run.deal.plan())).unwrap();
    }
    assert_eq!(merged.consumed(), 20 + 21 + 22 + 23);
    let ledger = Ledger::resume(merged.clone(), &runs[0].deal);
    assert_eq!(ledger.audit(&runs[0].deal).duplicates, 0);

    // Two ranks that both wrote the same slice did not keep to it, and the audit says so.
    merged.merge(&runs[1].ledger.checkpoint(runs[1].deal.plan())).unwrap();
    let ledger = Ledger::resume(merged.clone(), &runs[0].deal);
    assert_eq!(ledger.audit(&runs[0].deal).duplicates, 21);

    let other = Ledger::resume(merged.clone(), &runs[0].deal).checkpoint(runs[0].deal.plan());
    assert!(matches!(merged.merge(&other), Err(Error::Conflict(_))), "they began at different moments");
}

#[test]
fn ranks_that_resumed_together_share_what_was_before_without_duplicates() {
    let mut run = Run::new(deal(1, Uneven::Pad), Mode::Strict);
    run.deliver(0, 40, &|_| false);
    run.ledger.acknowledge(&run.deal, 0, 0).unwrap();
    let bytes = run.ledger.checkpoint(run.deal.plan()).encode();
    let halves: Vec<Checkpoint> = (0..2)
        .map(|rank| {
            let mut half = Run::resume(&bytes, &run.deal, Share::new(2, Uneven::Pad).unwrap(), Mode::Strict);
            half.deliver(rank, 100, &|_| false);
            half.ledger.acknowledge(&half.deal, rank, 0).unwrap();
            half.ledger.checkpoint(half.deal.plan())
        })
        .collect();
    let mut merged = halves[0].clone();
    merged.merge(&halves[1]).unwrap();
    let audit = Ledger::resume(merged, &run.deal).audit(&run.deal);
    assert_eq!((audit.consumed, audit.duplicates, audit.omissions), (100, 0, 0));
}

/// What happens to a job while it runs.
#[derive(Debug, Clone)]
enum Step {
    Deliver {
        rank: u32,
        count: u32,
    },
    Acknowledge {
        rank: u32,
        back: u64,
    },
    Checkpoint,
    /// Resume from one of the checkpoints so far on so many ranks.
    Resume {
        which: usize,
        world: u32,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u32..8, 1u32..20).prop_map(|(rank, count)| Step::Deliver { rank, count }),
        4 => (0u32..8, 0u64..4).prop_map(|(rank, back)| Step::Acknowledge { rank, back }),
        1 => Just(Step::Checkpoint),
        1 => (any::<usize>(), 1u32..9).prop_map(|(which, world)| Step::Resume { which, world }),
    ];
    prop::collection::vec(step, 0..80)
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::Strict),
        prop_oneof![0u32..30, Just(u32::MAX)].prop_map(|window| Mode::Reorder { window }),
        Just(Mode::Approx(crate::serving::Approximation { max_fraction: 0.3, same_class: false, max_repeats: 3 })),
    ]
}

proptest! {
    /// Whatever is delivered, acknowledged, resumed and rolled back, every item is consumed exactly once in the line of
    /// runs that led to the end.
    #[test]
    fn every_item_is_consumed_exactly_once_in_the_end(
        deal in generate::deals(), mode in modes(), steps in steps(), modulus in 1u32..5
    ) {
        let look = |id: u32| id.is_multiple_of(modulus);
        let uneven = match deal.share().uneven() {
            Uneven::Drop => Uneven::Exact,
            other => other,
        };
        let deal = Deal::new(Arc::clone(deal.plan()), Rest::whole(deal.plan().len()), Share::new(deal.share().world(), uneven).unwrap());
        let mut run = Run::new(deal, mode);
        // How often each item was consumed, now and at each checkpoint.
        let mut times = BTreeMap::<u32, u32>::new();
        let mut saved = vec![(run.ledger.checkpoint(run.deal.plan()).encode(), times.clone())];
        let acknowledge = |run: &mut Run, rank: u32, number: u64, times: &mut BTreeMap<u32, u32>| {
            let items: Vec<Served> = run.ledger.lanes[rank as usize].batch(number).map_or(vec![], |batch| batch.items.to_vec());
            if run.ledger.acknowledge(&run.deal, rank, number).unwrap() {
                items.iter().filter(|item| item.kind != Kind::Pad).for_each(|item| *times.entry(item.asked).or_default() += 1);
            }
        };
        for step in steps {
            let world = run.deal.share().world();
            match step {
                Step::Deliver { rank, count } => drop(run.deliver(rank % world, count, &look)),
                Step::Acknowledge { rank, back } => {
                    let rank = rank % world;
                    if let Some(number) = run.ledger.next_number(rank).unwrap().checked_sub(back + 1) {
                        acknowledge(&mut run, rank, number, &mut times);
                    }
                }
                Step::Checkpoint => saved.push((run.ledger.checkpoint(run.deal.plan()).encode(), times.clone())),
                Step::Resume { which, world } => {
                    let (bytes, then) = &saved[which % saved.len()];
                    run = Run::resume(bytes, &run.deal, Share::new(world, uneven).unwrap(), mode);
                    times = then.clone();
                    prop_assert_eq!(run.deal.rest().len() as usize, run.deal.plan().len() as usize - times.len());
                }
            }
            prop_assert_eq!(run.ledger.consumed() as usize, times.len());
            let undelivered = run.ledger.undelivered(run.deal.plan());
            prop_assert!(undelivered.iter().all(|position| !times.contains_key(&run.deal.plan().at(position).unwrap())));
        }
        for rank in 0..run.deal.share().world() {
            while !run.deliver(rank, 7, &look).is_empty() {}
            (0..run.ledger.next_number(rank).unwrap()).for_each(|number| acknowledge(&mut run, rank, number, &mut times));
        }
        let audit = run.ledger.audit(&run.deal);
        prop_assert!(audit.is_exact(), "{audit:?}");
        prop_assert_eq!(audit.consumed, u64::from(run.deal.plan().len()));
        prop_assert!(times.len() as u32 == run.deal.plan().len() && times.values().all(|&times| times == 1));
        prop_assert!(run.ledger.undelivered(run.deal.plan()).is_empty());
        prop_assert!(audit.substitutions as f64 <= 0.3 * audit.planned as f64);
    }
}
