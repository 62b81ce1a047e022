//! Words in pages that each fit into a message. Who is given one page after the other, over some time, is given everything that
//! was known when it was given the first.
//!
//! A page ends behind a stint of a job, in the order of names, epochs and writers, and the next one begins behind that: so
//! whatever comes, goes or grows meanwhile, nothing that was there is passed over.

use super::{Slip, StintId, Word, Writer, read_text, unreadable, write_bytes};
use crate::{
    Result,
    ledger::codec::{Reader, Writer as Out},
};
use std::{collections::VecDeque, mem};

/// What a slip takes at most beside its state.
const SLIP_BYTES: usize = 32;

/// Where a page ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Of which job it spoke last.
    name: String,
    /// And of which stint of it, in an epoch; None: of none.
    stint: Option<(u64, Writer)>,
}

impl Place {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        write_bytes(&mut out, self.name.as_bytes());
        if let Some((epoch, Writer { rank, stint })) = self.stint {
            out.number(epoch);
            out.number(rank.map_or(0, |rank| u64::from(rank) + 1));
            out.number(stint.ordinal.into());
            out.number(stint.salt);
        }
        out.finish()
    }

    /// From bytes, whatever they are.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = Reader::new(bytes, 0)?;
        let name = read_text(&mut input)?;
        if input.left() == 0 {
            return Ok(Self { name, stint: None });
        }
        let epoch = input.number()?;
        let rank = input.number()?.checked_sub(1).map(u32::try_from).transpose().map_err(|_| unreadable("lies"))?;
        let stint = StintId { ordinal: input.at_most(u32::MAX)?, salt: input.number()? };
        match input.left() {
            0 => Ok(Self { name, stint: Some((epoch, Writer { rank, stint })) }),
            _ => Err(unreadable("goes on at no place")),
        }
    }
}

/// Words, page by page.
#[derive(Debug)]
pub struct Pages {
    left: VecDeque<Word>,
    /// Where the last page ended.
    place: Option<Place>,
    most_bytes: usize,
    left_out: Vec<String>,
}

impl Pages {
    /// These words, in pages of at most so many bytes each that may be heeded in any order; of them what is behind a place.
    pub fn new(mut words: Vec<Word>, behind: Option<Place>, most_bytes: usize) -> Self {
        words.sort_unstable_by(|one, next| one.name.cmp(&next.name));
        if let Some(Place { name, stint }) = &behind {
            words.retain_mut(|word| match word.name.cmp(name) {
                std::cmp::Ordering::Less => false,
                std::cmp::Ordering::Equal => word.keep_behind(*stint),
                std::cmp::Ordering::Greater => true,
            });
        }
        Self { left: words.into(), place: behind, most_bytes, left_out: Vec::new() }
    }

    /// Where the last page ended, if there is more behind it.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref().filter(|_| !self.left.is_empty())
    }

    /// The jobs of which something had to be left out, once for each thing: it alone is longer than a page.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Takes the next word as far as it fits into what is left of a page; whether all of it did.
    fn fill(&mut self, page: &mut Vec<Word>, used: &mut usize) -> bool {
        let Some(mut word) = self.left.pop_front() else { return false };
        let mut slips: VecDeque<_> = word.take_slips().into();
        if word.encode().len() > self.most_bytes {
            self.left_out.push(word.name.clone());
            word.told.iter_mut().for_each(|told| told.checkpoint = None);
        }
        let (empty, mut rest) = (word.encode().len(), word.clone());
        if *used + empty > self.most_bytes && !page.is_empty() {
            rest.put_slips(slips);
            self.left.push_front(rest);
            return false;
        }
        *used += empty;
        let mut place = Place { name: word.name.clone(), stint: None };
        while let Some((at, slip)) = slips.pop_front() {
            let more = slip.state.len() + SLIP_BYTES;
            let key = word.told.as_ref().map(|told| (told.chapters[at].epoch, slip.writer));
            if empty + more > self.most_bytes {
                self.left_out.push(word.name.clone());
            } else if *used + more > self.most_bytes {
                slips.push_front((at, slip));
                break;
            } else {
                *used += more;
                word.told.iter_mut().for_each(|told| told.chapters[at].slips.push(slip.clone()));
            }
            place.stint = key;
        }
        self.place = Some(place);
        page.push(word);
        let is_whole = slips.is_empty();
        if !is_whole {
            rest.put_slips(slips);
            self.left.push_front(rest);
        }
        is_whole
    }
}

impl Iterator for Pages {
    type Item = Vec<Word>;

    fn next(&mut self) -> Option<Vec<Word>> {
        let (mut page, mut used) = (Vec::new(), 0);
        while self.fill(&mut page, &mut used) {}
        Some(page).filter(|page| !page.is_empty())
    }
}

/// Slips, and of which chapter each is.
type Slips = Vec<(usize, Slip)>;

impl Word {
    /// Takes all slips out, in their order.
    fn take_slips(&mut self) -> Slips {
        let mut slips = Slips::new();
        for (at, chapter) in self.told.iter_mut().flat_map(|told| &mut told.chapters).enumerate() {
            slips.extend(mem::take(&mut chapter.slips).into_iter().map(|slip| (at, slip)));
        }
        slips.sort_by_key(|(at, slip)| (*at, slip.writer));
        slips
    }

    fn put_slips(&mut self, slips: impl IntoIterator<Item = (usize, Slip)>) {
        let Some(told) = &mut self.told else { return };
        slips.into_iter().for_each(|(at, slip)| told.chapters[at].slips.push(slip));
    }

    /// Keeps of what is known of stints what is behind one; whether that is any.
    fn keep_behind(&mut self, last: Option<(u64, Writer)>) -> bool {
        let mut is_any = false;
        for chapter in self.told.iter_mut().flat_map(|told| &mut told.chapters) {
            let epoch = chapter.epoch;
            chapter.slips.retain(|slip| Some((epoch, slip.writer)) > last);
            is_any |= !chapter.slips.is_empty();
        }
        is_any
    }
}
