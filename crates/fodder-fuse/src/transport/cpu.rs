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

/// Lets this thread run on every processor again, if the one that started it was bound to one.
pub(crate) fn roam() {
    if let Some(all) = ALL.get() {
        let _ = sched_setaffinity(None, all);
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

    #[test]
    fn processors_are_counted_as_the_kernel_numbers_them() {
        assert_eq!(count("0\n"), Some(1));
        assert_eq!(count("0-127\n"), Some(128));
        assert_eq!(count("0-3,8-11\n"), Some(12));
        assert_eq!(count(""), None);
        assert!(possible() >= usable().len() && !usable().is_empty());
    }
}
