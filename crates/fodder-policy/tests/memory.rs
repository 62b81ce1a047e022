//! What a policy says it holds is what it has allocated: the bytes an item that Fodder prints hang on it.

use fodder_policy::{
    Policy, Signal,
    residency::signal::{Ids, NO_KEY},
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::Arc,
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
