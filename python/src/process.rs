//! What belongs to one process. A forked child must not touch its parent's connections, locks or threads: it makes its
//! own, and leaves the parent's alone, undropped.

use std::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};
use tokio::runtime::Runtime;

/// A value that each process makes for itself when it first needs it. No lock is taken, since a lock that another thread
/// holds while this one forks is never released in the child.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    slot: AtomicPtr<Slot<T>>,
}

#[derive(Debug)]
struct Slot<T> {
    pid: u32,
    value: T,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { slot: AtomicPtr::new(ptr::null_mut()) }
    }

    /// This process's value.
    pub(crate) fn get(&self, make: impl Fn() -> T) -> &T {
        loop {
            let current = self.slot.load(Ordering::Acquire);
            if let Some(value) = self.own(current) {
                return value;
            }
            let fresh = Box::into_raw(Box::new(Slot { pid: std::process::id(), value: make() }));
            match self.slot.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
                // What the parent had stays where it is: dropping it would act on the parent's sockets and threads.
                Ok(_) => {}
                #[allow(unsafe_code, reason = "the box that was just made and that nobody else has seen")]
                // SAFETY: `fresh` came from `Box::into_raw` above and was not published.
                Err(_) => drop(unsafe { Box::from_raw(fresh) }),
            }
        }
    }

    /// The value that this process's parent made, if this process has not made its own yet.
    #[allow(unsafe_code, reason = "reads what was published")]
    pub(crate) fn inherited(&self) -> Option<&T> {
        // SAFETY: a published slot is freed only when `self` is dropped, and by the process that made it.
        let slot = unsafe { self.slot.load(Ordering::Acquire).as_ref() }?;
        (slot.pid != std::process::id()).then_some(&slot.value)
    }

    /// The value behind a pointer, if this process made it.
    #[allow(unsafe_code, reason = "reads what was published")]
    fn own(&self, slot: *mut Slot<T>) -> Option<&T> {
        // SAFETY: a published slot is freed only when `self` is dropped.
        let slot = unsafe { slot.as_ref() }?;
        (slot.pid == std::process::id()).then_some(&slot.value)
    }
}

impl<T> Drop for PerProcess<T> {
    #[allow(unsafe_code, reason = "frees what was published")]
    fn drop(&mut self) {
        let slot = *self.slot.get_mut();
        if self.own(slot).is_some() {
            // SAFETY: it came from `Box::into_raw`, and nobody else has `self` any more.
            drop(unsafe { Box::from_raw(slot) });
        }
    }
}

static RUNTIME: PerProcess<Runtime> = PerProcess::new();

/// What drives this process's gRPC calls.
pub(crate) fn runtime() -> &'static Runtime {
    RUNTIME.get(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fodder")
            .enable_all()
            .build()
            .expect("a process can start one more thread")
    })
}
