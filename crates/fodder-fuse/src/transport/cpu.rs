//! The processors of this machine: the kernel has one queue for each that there could be.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{fs, sync::OnceLock};

/// The processors this process could use before any of its threads was bound to one.
static ALL: OnceLock<CpuSet> = OnceLock::new();

/// How many processors the kernel reckons with, also those that are not there.
pub(super) fn possible() -> usize {
    let ranges = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    count(&ranges).unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Lets this thread run on one processor alone, if it may.
pub(super) fn stay_on(cpu: usize) {
    if cpu < CpuSet::MAX_CPU {
        let mut set = CpuSet::new();
        set.set(cpu);
        // Where that is not allowed it runs anywhere, and is a little slower.
        let _ = sched_setaffinity(None, &set);
    }
}

/// The processors that this process may use. Called before any thread is bound to one.
pub(super) fn usable() -> Vec<usize> {
    let set = ALL.get_or_init(|| sched_getaffinity(None).unwrap_or_default());
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Lets who runs go on when this thread is woken, instead of being interrupted for it. Who has asked something sleeps anyway;
/// who has closed a file goes on, and what it asks next is taken together with that.
pub(super) fn wait_its_turn() {
    schedule(libc::SCHED_BATCH);
}

/// Lets this thread run as any other: on every processor, and at once when it is woken. The one that started it may not.
pub(crate) fn roam() {
    schedule(libc::SCHED_OTHER);
    if let Some(all) = ALL.get() {
        let _ = sched_setaffinity(None, all);
    }
}

/// How this thread is scheduled. Both ways are open to everybody, and have the same share of the processor.
fn schedule(policy: i32) {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the structure it is given, and is about the thread that makes it.
    #[allow(unsafe_code, reason = "rustix has no such call")]
    let set = unsafe { libc::sched_setscheduler(0, policy, &raw const priority) };
    if set != 0 {
        tracing::debug!(error = %std::io::Error::last_os_error(), "a thread is scheduled as it was");
    }
}

/// One more than the last number of ranges such as `0-3,8-11`.
fn count(ranges: &str) -> Option<usize> {
    let last = ranges.trim().rsplit([',', '-']).next()?;
    last.parse::<usize>().ok().map(|last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How this thread is scheduled.
    fn policy() -> i32 {
        // SAFETY: takes a number and gives one.
        #[allow(unsafe_code, reason = "rustix has no such call")]
        unsafe {
            libc::sched_getscheduler(0)
        }
    }

    #[test]
    fn who_is_started_by_a_thread_that_waits_its_turn_does_not() {
        let started = std::thread::spawn(|| {
            wait_its_turn();
            let inherited = std::thread::spawn(|| (policy(), roam(), policy())).join();
            (policy(), inherited.expect("it does not panic"))
        });
        let (own, (before, (), after)) = started.join().expect("it does not panic");
        assert_eq!((own, before, after), (libc::SCHED_BATCH, libc::SCHED_BATCH, libc::SCHED_OTHER));
    }

    #[test]
    fn processors_are_counted_as_the_kernel_numbers_them() {
        assert_eq!(count("0\n"), Some(1));
        assert_eq!(count("0-127\n"), Some(128));
        assert_eq!(count("0-3,8-11\n"), Some(12));
        assert_eq!(count(""), None);
        assert!(possible() >= usable().len() && !usable().is_empty());
    }
}
