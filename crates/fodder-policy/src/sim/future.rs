//! When each request's item is asked for again: what Belady and the policy `plan` know.

use super::Trace;

/// An item that is never asked for again.
const NEVER: u32 = u32::MAX;

/// For each request of a trace, the position of the next request of the same item.
#[derive(Debug, Clone)]
pub struct Future {
    next: Vec<u32>,
}

impl Future {
    /// Looks through a trace once, from its end: O(n).
    pub fn of(trace: &Trace) -> Self {
        let mut seen = vec![NEVER; trace.items as usize];
        let mut next = vec![NEVER; trace.requests.len()];
        for (at, &id) in trace.requests.iter().enumerate().rev() {
            next[at] = seen[id as usize];
            seen[id as usize] = at as u32;
        }
        Self { next }
    }

    /// When the item of the request at `at` is asked for again.
    #[inline]
    pub fn next(&self, at: usize) -> Option<u32> {
        let next = self.next[at];
        (next != NEVER).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_knows_the_next_of_its_item() {
        let trace = Trace { requests: vec![2, 0, 2, 1, 0, 2], items: 3, ..Trace::default() };
        let future = Future::of(&trace);
        let next: Vec<_> = (0..6).map(|at| future.next(at)).collect();
        assert_eq!(next, [Some(2), Some(4), Some(5), None, None, None]);
    }
}
