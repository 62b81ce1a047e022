//! Several jobs at once, doing anything at any time, against plain sets of what each was given and has consumed.

use super::*;
use crate::serving::Approximation;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const ITEMS: u32 = 60;
const JOBS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Begin { rank: u32 },
    Batch { rank: u32, ahead: u64, count: u32 },
    Retry { rank: u32 },
    Acknowledge { rank: u32, back: u64 },
    Save,
    Resume { world: u32 },
    Leave,
    Insert(u32),
    Evict(u32),
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        4 => (0u32..4).prop_map(|rank| Step::Begin { rank }),
        12 => (0u32..4, 0u64..2, 1u32..12).prop_map(|(rank, ahead, count)| Step::Batch { rank, ahead, count }),
        2 => (0u32..4).prop_map(|rank| Step::Retry { rank }),
        8 => (0u32..4, 0u64..3).prop_map(|(rank, back)| Step::Acknowledge { rank, back }),
        2 => Just(Step::Save),
        1 => (1u32..4).prop_map(|world| Step::Resume { world }),
        1 => Just(Step::Leave),
        4 => (0..ITEMS).prop_map(Step::Insert),
        2 => (0..ITEMS).prop_map(Step::Evict),
    ];
    prop::collection::vec((0..JOBS, step), 0..150)
}

/// What a test knows of one job in one run.
#[derive(Debug, Clone, Default)]
struct Known {
    id: Option<JobId>,
    world: u32,
    epoch: u64,
    /// What each batch of the epoch was answered, with its count.
    batches: BTreeMap<(u32, u64), (Vec<u32>, u32)>,
    acknowledged: BTreeSet<(u32, u64)>,
    /// What was consumed before the last resume.
    base: BTreeSet<u32>,
    saved: Option<(Vec<u8>, u64, BTreeSet<u32>)>,
}

impl Known {
    fn next(&self, rank: u32) -> u64 {
        self.batches.range((rank, 0)..(rank + 1, 0)).next_back().map_or(0, |(&(_, number), _)| number + 1)
    }

    fn consumed(&self) -> BTreeSet<u32> {
        let items = self.acknowledged.iter().flat_map(|key| &self.batches[key].0);
        self.base.iter().chain(items).copied().collect()
    }

    fn given(&self) -> BTreeSet<u32> {
        self.base.iter().chain(self.batches.values().flat_map(|(items, _)| items)).copied().collect()
    }

    fn restart(&mut self, id: JobId, epoch: u64, base: BTreeSet<u32>) {
        (self.id, self.epoch, self.base) = (Some(id), epoch, base);
        self.batches.clear();
        self.acknowledged.clear();
    }
}

fn introduction(job: usize) -> Introduction {
    let approx = Approximation { max_fraction: 0.3, same_class: false, max_repeats: 2 };
    let mode = [Mode::Strict, Mode::Reorder { window: 20 }, Mode::Approx(approx)][job];
    Introduction { mode, world: 2, uneven: Uneven::Exact, ..Introduction::new(format!("job {job}")) }
}

proptest! {
    #[test]
    fn jobs_never_disturb_each_other_and_each_sees_every_item_once(steps in steps()) {
        let snapshot = Snapshot { fingerprint: 7, items: ITEMS };
        let mut jobs = Jobs::new(snapshot, Settings::default(), 9);
        let mut cached = BTreeSet::new();
        let mut known = vec![Known::default(); JOBS];
        for (job, step) in steps {
            let my = &mut known[job];
            let order = Order::Seed(job as u64);
            let Some(id) = my.id else {
                let id = jobs.introduce(introduction(job), NOW).unwrap();
                *my = Known { world: 2, ..Known::default() };
                my.restart(id, 0, BTreeSet::new());
                (0..2).for_each(|rank| drop(jobs.begin(id, rank, 0, order.clone(), NOW).unwrap()));
                continue;
            };
            let in_world = |rank: u32| rank % my.world;
            match step {
                Step::Begin { rank: 0 } => {
                    // All ranks turn.
                    let exact = my.consumed().len() as u32 == ITEMS;
                    let turn = |rank| jobs.begin(id, rank, my.epoch + 1, order.clone(), NOW).unwrap();
                    let begun: Vec<Begun> = (0..my.world).map(turn).collect();
                    let audit = begun.last().unwrap().audit.unwrap();
                    prop_assert_eq!(audit.duplicates, 0);
                    prop_assert_eq!(audit.is_exact(), exact);
                    my.restart(id, my.epoch + 1, BTreeSet::new());
                }
                Step::Begin { rank } => {
                    let begun = jobs.begin(id, in_world(rank), my.epoch, order, NOW).unwrap();
                    prop_assert_eq!((begun.audit, begun.effects), (None, vec![]));
                }
                Step::Batch { rank, ahead, count } => {
                    let rank = in_world(rank);
                    let next = my.next(rank);
                    let before = my.given();
                    let mut consumed = Vec::new();
                    for number in (next..=next + ahead).rev() {
                        let request = BatchRequest { job: id, epoch: my.epoch, rank, number, count };
                        let answer = jobs.next_batch(request, &|id| cached.contains(&id), NOW).unwrap();
                        let Answer::Batch { items, effects } = answer else { panic!("it is not in step") };
                        prop_assert!(number == next + ahead || effects.is_empty(), "it was reserved");
                        consumed.extend(effects.iter().map(|effect| plan_of(effect).1[0]));
                        if !items.is_empty() {
                            my.batches.insert((rank, number), (items.iter().map(|item| item.asked).collect(), count));
                        }
                    }
                    let after = my.given();
                    prop_assert_eq!(after.len(), before.len() + consumed.len(), "nothing was given twice");
                    prop_assert!(consumed.iter().all(|id| after.contains(id) && !before.contains(id)));
                }
                Step::Retry { rank } => {
                    let rank = in_world(rank);
                    for (&(rank, number), (items, count)) in my.batches.range((rank, 0)..(rank + 1, 0)) {
                        let request = BatchRequest { job: id, epoch: my.epoch, rank, number, count: *count };
                        let answer = jobs.next_batch(request, &|_| false, NOW);
                        if my.acknowledged.contains(&(rank, number)) {
                            prop_assert!(matches!(answer, Err(Error::Conflict(_))));
                            continue;
                        }
                        let Ok(Answer::Batch { items: again, effects }) = answer else { panic!("it was given") };
                        prop_assert!(again.iter().map(|item| item.asked).eq(items.iter().copied()));
                        prop_assert_eq!(effects, vec![]);
                    }
                }
                Step::Acknowledge { rank, back } => {
                    let rank = in_world(rank);
                    if let Some(number) = my.next(rank).checked_sub(back + 1) {
                        jobs.acknowledge(id, my.epoch, rank, number, NOW).unwrap();
                        my.acknowledged.insert((rank, number));
                    }
                }
                Step::Save => my.saved = Some((jobs.checkpoint(id).unwrap(), my.epoch, my.consumed())),
                Step::Resume { world } => {
                    let Some((checkpoint, epoch, base)) = my.saved.clone() else { continue };
                    let request = Resume { job: id, rank: None, world, start: Start::default(), checkpoint: &checkpoint, ids: None };
                    let resumed = jobs.resume(request, NOW).unwrap();
                    prop_assert_eq!((resumed.epoch, resumed.left), (epoch, ITEMS - base.len() as u32));
                    my.world = world;
                    my.restart(resumed.job, epoch, base);
                    (0..world).for_each(|rank| drop(jobs.begin(resumed.job, rank, epoch, order.clone(), NOW).unwrap()));
                }
                Step::Leave => {
                    let gone = jobs.leave(id, NOW).unwrap();
                    let dropped: BTreeSet<u32> = gone.effects.iter().flat_map(|effect| plan_of(effect).1).collect();
                    prop_assert!(dropped.into_iter().eq((0..ITEMS).filter(|id| !my.given().contains(id))));
                    *my = Known::default();
                }
                Step::Insert(item) => {
                    if cached.insert(item) {
                        jobs.inserted(7, item, None);
                    }
                }
                Step::Evict(item) => {
                    if cached.remove(&item) {
                        jobs.evicted(7, item);
                    }
                }
            }
            let status = jobs.status(NOW);
            let mut needing = vec![0; ITEMS as usize];
            for my in known.iter().filter(|my| my.id.is_some()) {
                let status = status.iter().find(|status| Some(status.job) == my.id).unwrap();
                let given = my.given();
                prop_assert_eq!((status.consumed as usize, status.delivered as usize), (my.consumed().len(), given.len()));
                (0..ITEMS).filter(|item| !given.contains(item)).for_each(|item| needing[item as usize] += 1);
            }
            prop_assert!((0..ITEMS).map(|item| jobs.pending(7, item)).eq(needing));
        }
    }
}
