//! What policies and jobs say they hold is what they have allocated: the bytes an item that Fodder prints hang on it.

use fodder_policy::{
    Policy, Signal,
    job::{BatchRequest, Introduction, Jobs, Scores, Settings},
    plan::{Order, Snapshot},
    residency::signal::{Ids, NO_KEY},
    serving::{Approximation, Mode},
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::Arc,
    time::Duration,
};

thread_local! {
    /// Bytes this thread has allocated and not freed.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(change: isize) {
    // A thread that ends may free after its counter is gone; nobody reads that counter any more.
    let _ = HELD.try_with(|held| held.set(held.get() + change));
}

#[allow(unsafe_code, reason = "an allocator that counts can only be written this way")]
// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor touches the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` took the memory from the same place.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn every_policy_states_exactly_the_memory_it_holds() {
    for policy in Policy::ALL {
        let (scores, keys): (Arc<[f32]>, Arc<[u32]>) = ([0.5; 9].into(), [0, NO_KEY, 0].into());
        let before = HELD.get();
        let mut residency = policy.build();
        residency.signal(Signal::Planned(Ids::Below(70_000)));
        residency.signal(Signal::Packed(&[1_000, 30_000]));
        residency.signal(Signal::Scores(Arc::clone(&scores)));
        residency.signal(Signal::Neighbours(Arc::clone(&keys)));
        residency.signal(Signal::NextUse { id: 80_000, at: 7 });
        for id in (0..50_000).chain([200_000, 60_000]) {
            residency.inserted(id, 1 << 20);
            residency.hit(id / 2);
        }
        (0..40_000).step_by(3).for_each(|id| residency.removed(id));
        let held = HELD.get() - before;
        assert_eq!(residency.memory_bytes() as isize, held, "{policy}");
        drop(residency);
        assert_eq!(HELD.get(), before, "{policy}");
    }
}

/// A job that plans by a list, was given a part of it, has acknowledged a part of that, and has scored some items.
fn busy(jobs: &mut Jobs, mode: Mode, world: u32) {
    let now = Duration::ZERO;
    let introduction = Introduction { mode, world, ..Introduction::new(mode.name()) };
    let job = jobs.introduce(introduction, now).expect("it is right");
    let ids: Vec<u32> = (0..100_000).step_by(2).collect();
    jobs.begin(job, 0, 0, Order::Ids(ids.as_slice().into()), now).expect("it is a plan");
    for number in 0..50 {
        let request = BatchRequest { job, epoch: 0, rank: 0, number, count: 100 };
        jobs.next_batch(request, &|id| id % 3 == 0, now).expect("it is there");
        (0..100).for_each(|id| jobs.inserted(1, 100 * number as u32 + id, Some(id)));
        if number % 3 == 0 {
            jobs.acknowledge(job, 0, 0, number, now).expect("it was given");
        }
    }
    jobs.report_scores(job, Scores::Sparse { ids: &ids, values: &vec![0.5; ids.len()] }, now).expect("they are right");
    jobs.apply_scores(job, now).expect("it is there");
}

#[test]
fn jobs_hold_no_more_memory_than_they_state() {
    let approx = Mode::Approx(Approximation { max_fraction: 0.5, same_class: true, max_repeats: 9 });
    for (mode, world) in [(Mode::Strict, 1), (Mode::Reorder { window: 5_000 }, 1), (approx, 1), (Mode::Strict, 1_000)] {
        let before = HELD.get();
        let mut jobs = Jobs::new(Snapshot { fingerprint: 1, items: 100_000 }, Settings::default(), 1);
        busy(&mut jobs, mode, world);
        let (held, stated) = (HELD.get() - before, jobs.memory_bytes() as isize);
        assert!(held <= stated, "{}: {held} bytes held, {stated} stated", mode.name());
        assert!(stated < 3 * held, "{}: {held} bytes held, {stated} stated", mode.name());
    }
}

#[test]
fn a_seeded_strict_job_takes_a_bit_an_item_and_little_for_a_rank() {
    let before = HELD.get();
    let mut jobs = Jobs::new(Snapshot { fingerprint: 1, items: 10_000_000 }, Settings::default(), 1);
    let introduction = Introduction { world: 1_000, ..Introduction::new("job") };
    let job = jobs.introduce(introduction, Duration::ZERO).expect("it is right");
    jobs.begin(job, 0, 0, Order::Seed(1), Duration::ZERO).expect("it is a plan");
    let held = HELD.get() - before;
    assert!(held < 10_000_000 / 8 + 1_000 * 120 + 4_096, "{held} bytes");
}
