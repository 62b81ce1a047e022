//! What is known of each node's part of a warm-up, how parts are added up, and how a bound is divided. Pure, but for the time at
//! which a node was last heard.

use crate::warm::Unknown;
use fodder_api::v1::{WarmNode, WarmProgress};
use fodder_core::engine::warm::average;
use std::time::{Duration, Instant};

/// Problems that are told one by one, of all nodes.
const MAX_PROBLEMS: usize = 20;

/// What a node said, or that it said nothing.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Told {
    Progress(Box<WarmProgress>),
    /// It will not, and not later either.
    Refused(String),
    /// It does not answer now.
    Silent(String),
    /// It does not answer any more.
    Left(String),
}

/// One node's part.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) id: u128,
    address: String,
    pub(super) heard_at: Instant,
    progress: WarmProgress,
    end: Option<Told>,
    error: String,
}

impl Part {
    pub(super) fn new(id: u128, address: String) -> Self {
        let (heard_at, progress) = (Instant::now(), WarmProgress::default());
        Self { id, address, heard_at, progress, end: None, error: String::new() }
    }

    /// Takes in what the node said.
    pub(super) fn told(&mut self, told: Told) {
        match &told {
            Told::Progress(progress) => {
                self.heard_at = Instant::now();
                self.error.clear();
                self.progress = (**progress).clone();
                if progress.finished {
                    self.end = Some(told);
                }
            }
            Told::Silent(why) => self.error.clone_from(why),
            Told::Refused(why) | Told::Left(why) => {
                self.error.clone_from(why);
                self.end = Some(told);
            }
        }
    }

    /// Whether nothing more is to be expected of it in this round.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Whether it went away: what it owned is others' now, or will be.
    pub(super) fn has_left(&self) -> bool {
        matches!(self.end, Some(Told::Left(_) | Told::Silent(_)))
    }

    /// Whether it will not do its part.
    pub(super) fn refuses(&self) -> bool {
        matches!(self.end, Some(Told::Refused(_)))
    }
}

/// How much may be there on each node at the end, so that all together have at most `most`: what each has, and of what is
/// left as much of it as it lacks of what all lack.
pub(super) fn divide(most: u64, parts: &[Part]) -> Vec<(u128, u64)> {
    let lacks = |part: &Part| part.progress.bytes.saturating_sub(part.progress.bytes_there);
    let there: u64 = parts.iter().map(|part| part.progress.bytes_there).sum();
    let lacking: u64 = parts.iter().map(lacks).sum();
    let left = most.saturating_sub(there).min(lacking);
    let more = |part: &Part| (u128::from(left) * u128::from(lacks(part)) / u128::from(lacking.max(1))) as u64;
    parts.iter().map(|part| (part.id, part.progress.bytes_there + more(part))).collect()
}

/// All parts together, over all rounds.
#[derive(Debug)]
pub(super) struct Whole {
    files: u64,
    bytes: u64,
    unknown: Unknown,
    /// What was there before the first round.
    skipped: Option<(u64, u64)>,
    /// Bytes fetched in earlier rounds, and the parts of the last.
    fetched_before: u64,
    owned: Vec<Part>,
    copies: Vec<Part>,
}

impl Whole {
    /// So many objects and bytes are wanted.
    pub(super) fn new(files: u64, bytes: u64, unknown: Unknown) -> Self {
        Self { files, bytes, unknown, skipped: None, fetched_before: 0, owned: Vec::new(), copies: Vec::new() }
    }

    /// Takes in how the parts stand: of what is owned, or of copies. A mere look says only what was there before.
    pub(super) fn take_in(&mut self, parts: &[Part], copies: bool, is_look: bool) {
        if is_look {
            return;
        }
        let last = if copies { &mut self.copies } else { &mut self.owned };
        let fetched = |parts: &[Part]| parts.iter().map(|part| part.progress.bytes_fetched).sum::<u64>();
        // A new round begins with nothing.
        self.fetched_before += fetched(last).saturating_sub(fetched(parts));
        *last = parts.to_vec();
        if !copies {
            if self.skipped.is_none() && parts.iter().all(|part| part.progress.files > 0 || part.is_over()) {
                let sum = |of: fn(&WarmProgress) -> u64| parts.iter().map(|part| of(&part.progress)).sum();
                self.skipped = Some((sum(|progress| progress.files_skipped), sum(|progress| progress.bytes_skipped)));
            }
            self.fetched_before += fetched(&std::mem::take(&mut self.copies));
        }
    }

    /// Whether what the nodes say they own is all that is wanted, and no more.
    pub(super) fn adds_up(&self) -> bool {
        let sum = |of: fn(&WarmProgress) -> u64| self.owned.iter().map(|part| of(&part.progress)).sum::<u64>();
        sum(|progress| progress.files) == self.files && sum(|progress| progress.bytes) == self.bytes
    }

    /// How it stands.
    pub(super) fn progress(&self) -> WarmProgress {
        let parts = || self.owned.iter().chain(&self.copies);
        let sum = |of: fn(&WarmProgress) -> u64| self.owned.iter().map(|part| of(&part.progress)).sum::<u64>();
        let copied = |of: fn(&WarmProgress) -> u64| self.copies.iter().map(|part| of(&part.progress)).sum::<u64>();
        let (files_skipped, bytes_skipped) = self.skipped.unwrap_or_default();
        let because = parts().map(|part| &part.progress.declined_because).find(|why| !why.is_empty());
        let rate: f64 = parts().filter(|part| !part.is_over()).map(|part| part.progress.bytes_per_second).sum();
        WarmProgress {
            files: self.files,
            bytes: self.bytes,
            files_there: sum(|progress| progress.files_there),
            bytes_there: sum(|progress| progress.bytes_there),
            files_skipped,
            bytes_skipped,
            bytes_fetched: self.fetched_before + parts().map(|part| part.progress.bytes_fetched).sum::<u64>(),
            files_too_large: sum(|progress| progress.files_too_large),
            files_declined: sum(|progress| progress.files_declined),
            declined_because: because.cloned().unwrap_or_default(),
            files_failed: sum(|progress| progress.files_failed),
            files_outdated: sum(|progress| progress.files_outdated),
            files_evicted: sum(|progress| progress.files_evicted),
            files_unknown: self.unknown.count,
            unknown: self.unknown.first.clone(),
            bytes_per_second: rate,
            // All are done when the last is.
            eta_ms: parts().filter(|part| !part.is_over()).filter_map(|part| part.progress.eta_ms).max(),
            finished: false,
            complete: false,
            problems: parts().flat_map(|part| part.progress.problems.clone()).take(MAX_PROBLEMS).collect(),
            nodes: self.owned.iter().map(|part| self.node(part)).collect(),
            bytes_copied: copied(|progress| progress.bytes),
            bytes_copied_there: copied(|progress| progress.bytes_there),
        }
    }

    /// How it stands at its end, after so much time.
    pub(super) fn last(&self, took: Duration) -> WarmProgress {
        let mut parts = self.owned.iter().chain(&self.copies);
        let complete = self.adds_up() && self.unknown.count == 0 && parts.all(|part| part.progress.complete);
        let progress = self.progress();
        let bytes_per_second = average(progress.bytes_fetched, took);
        WarmProgress { finished: true, complete, bytes_per_second, eta_ms: None, ..progress }
    }

    fn node(&self, part: &Part) -> WarmNode {
        let copies = self.copies.iter().find(|copies| copies.id == part.id);
        let WarmProgress { files, bytes, files_there, bytes_there, bytes_fetched, .. } = part.progress;
        WarmNode {
            id: format!("{:032x}", part.id),
            address: part.address.clone(),
            files,
            bytes,
            files_there,
            bytes_there,
            bytes_fetched: bytes_fetched + copies.map_or(0, |part| part.progress.bytes_fetched),
            bytes_copied: copies.map_or(0, |part| part.progress.bytes),
            bytes_copied_there: copies.map_or(0, |part| part.progress.bytes_there),
            finished: part.progress.finished && copies.is_none_or(|part| part.progress.finished),
            error: copies.map_or(&part.error, |copies| &copies.error).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_secs(2);

    fn part(id: u128, files: u64, bytes: u64, there: u64) -> Part {
        let mut part = Part::new(id, format!("node-{id}:1"));
        let (finished, complete) = (true, bytes == there);
        let files_there = if complete { files } else { 0 };
        let (bytes_there, bytes_fetched) = (there, there);
        let progress = WarmProgress {
            files,
            bytes,
            files_there,
            bytes_there,
            bytes_fetched,
            finished,
            complete,
            ..Default::default()
        };
        part.told(Told::Progress(Box::new(progress)));
        part
    }

    #[test]
    fn what_nodes_own_adds_up_or_the_round_does_not_count() {
        let mut whole = Whole::new(10, 1000, Unknown::default());
        whole.take_in(&[part(1, 4, 400, 400), part(2, 5, 500, 500)], false, false);
        assert!(!whole.adds_up() && !whole.last(TOOK).complete, "one object is nobody's");
        whole.take_in(&[part(1, 5, 500, 500), part(2, 5, 500, 500)], false, false);
        assert!(whole.adds_up());
        let last = whole.last(TOOK);
        assert!(last.complete && last.finished, "{last:?}");
        assert_eq!((last.files_there, last.bytes_there, last.nodes.len()), (10, 1000, 2));
        assert_eq!((last.bytes_fetched, last.bytes_per_second), (1000, 500.0));
    }

    #[test]
    fn nothing_is_complete_without_the_copies_or_while_paths_are_unknown() {
        let mut whole = Whole::new(1, 100, Unknown::default());
        whole.take_in(&[part(1, 1, 100, 100)], false, false);
        whole.take_in(&[part(1, 1, 50, 20)], true, false);
        assert!(!whole.last(TOOK).complete);
        assert_eq!((whole.last(TOOK).bytes_copied, whole.last(TOOK).bytes_copied_there), (50, 20));
        let mut unknown = Unknown::default();
        unknown.note(3);
        let mut whole = Whole::new(1, 100, unknown);
        whole.take_in(&[part(1, 1, 100, 100)], false, false);
        assert!(!whole.last(TOOK).complete && whole.last(TOOK).files_unknown == 1);
    }

    #[test]
    fn a_node_that_left_or_refuses_is_over_and_one_that_is_silent_is_not() {
        let mut one = Part::new(1, String::new());
        one.told(Told::Silent("no answer".into()));
        assert!(!one.is_over() && !one.has_left());
        one.told(Told::Left("gone".into()));
        assert!(one.is_over() && one.has_left() && !one.refuses());
        let mut one = Part::new(1, String::new());
        one.told(Told::Refused("version 4".into()));
        assert!(one.is_over() && one.refuses() && !one.has_left());
    }

    #[test]
    fn a_bound_is_divided_by_what_is_lacking_and_never_exceeded() {
        let parts = [part(1, 1, 1000, 100), part(2, 1, 100, 100), part(3, 1, 2000, 200)];
        let bounds = divide(1300, &parts);
        assert_eq!(bounds, [(1, 100 + 300), (2, 100), (3, 200 + 600)]);
        let sum = |bounds: &[(u128, u64)]| bounds.iter().map(|(_, bytes)| bytes).sum::<u64>();
        assert!(sum(&divide(1301, &parts)) <= 1301);
        assert_eq!(sum(&divide(u64::MAX, &parts)), 3100);
        assert_eq!(sum(&divide(0, &parts)), 400, "what is there stays");
    }

    #[test]
    fn what_was_fetched_is_counted_over_all_rounds() {
        let mut whole = Whole::new(2, 200, Unknown::default());
        whole.take_in(&[part(1, 1, 100, 100), part(2, 1, 100, 30)], false, false);
        // The next round begins with nothing.
        whole.take_in(&[Part::new(1, String::new())], false, false);
        let mut again = part(1, 2, 200, 200);
        again.progress.bytes_fetched = 100;
        whole.take_in(&[again], false, false);
        assert_eq!(whole.last(TOOK).bytes_fetched, 130 + 100);
    }
}
