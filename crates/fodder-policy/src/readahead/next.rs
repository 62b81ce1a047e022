//! Objects that readers of others come to: what was proposed of them before anybody opened them, and who did then.

use super::{Access, ReaderId, line::Head};
use std::{collections::VecDeque, ops::Range};

/// Objects that are remembered; those that were expected first are forgotten first.
const MAX_EXPECTED: usize = 256;

/// Objects that are expected to be read.
#[derive(Debug, Default)]
pub(super) struct Expected(VecDeque<Next>);

#[derive(Debug)]
struct Next {
    object: u32,
    head: Head,
    /// Who reads the object before it.
    from: ReaderId,
    /// Whoever reads the object before it has all of that at hand, and is not seen any more.
    from_unseen: bool,
    /// Who came.
    reader: Option<ReaderId>,
}

impl Expected {
    /// An object will be read by who reads another now. What to bring in of it that was not proposed yet; nothing if its
    /// reader is there, and looks ahead for itself.
    pub(super) fn expect(&mut self, object: u32, from: ReaderId, head: Head) -> Range<u64> {
        if let Some(next) = self.0.iter_mut().rev().find(|next| next.object == object) {
            if next.reader.is_some() {
                return 0..0;
            }
            // Reads of the same reader may be reported after the news that it is not seen any more: they ran in other threads.
            next.from_unseen &= next.from == from;
            next.from = from;
            if head.proposed <= next.head.proposed {
                return 0..0;
            }
            let from = next.head.proposed;
            next.head = head;
            return from..head.proposed;
        }
        if self.0.len() >= MAX_EXPECTED {
            self.0.pop_front();
        }
        self.0.push_back(Next { object, head, from, from_unseen: false, reader: None });
        0..head.proposed
    }

    /// Somebody reads for the first time: what it begins with, if it was expected.
    pub(super) fn take(&mut self, access: &Access) -> Option<Head> {
        let expected = |next: &&mut Next| next.object == access.reader.object && next.reader.is_none();
        let next = self.0.iter_mut().rev().find(expected).filter(|_| access.range.start == 0)?;
        next.reader = Some(access.reader);
        Some(next.head)
    }

    /// Who reads the object before one that was expected and to which nobody has come yet, and whether it is seen no more.
    pub(super) fn who_comes(&self, object: u32) -> Option<(ReaderId, bool)> {
        let next = self.0.iter().rev().find(|next| next.object == object && next.reader.is_none())?;
        Some((next.from, next.from_unseen))
    }

    /// Those who read an object are seen no more.
    pub(super) fn unseen(&mut self, object: u32) {
        self.0.iter_mut().filter(|next| next.from.object == object).for_each(|next| next.from_unseen = true);
    }

    /// Who came does not read it after all; somebody else may.
    pub(super) fn left(&mut self, reader: ReaderId) {
        self.0.iter_mut().filter(|next| next.reader == Some(reader)).for_each(|next| next.reader = None);
    }

    /// A reader is well on its way through the object where it was expected.
    pub(super) fn arrived(&mut self, reader: ReaderId) {
        self.0.retain(|next| next.reader != Some(reader));
    }

    /// Who came to an object that was expected, if somebody did. None: it was not expected.
    pub(super) fn reader_of(&self, object: u32) -> Option<Option<ReaderId>> {
        self.0.iter().rev().find(|next| next.object == object).map(|next| next.reader)
    }
}
