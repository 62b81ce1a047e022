//! Whole numbers in as few bytes as the largest of them needs: columns of fixed width, and varints.

use super::file::{Section, Summed};
use crate::Result;
use std::sync::Arc;

/// A column of `len` numbers of 0 to 8 bytes each; the section's first byte is the width.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    section: Section,
    width: usize,
    mask: u64,
    len: usize,
}

/// How many bytes a number needs.
pub(super) fn width(largest: u64) -> usize {
    (64 - largest.leading_zeros() as usize).div_ceil(8)
}

/// Writes a column: the width (enough for the largest number), then with [`put`] each number.
pub(super) fn begin(out: &mut Summed<'_>, width: usize) -> Result<()> {
    out.put(&[width as u8])
}

/// Writes one number of a column.
pub(super) fn put(out: &mut Summed<'_>, width: usize, number: u64) -> Result<()> {
    out.put(&number.to_le_bytes()[..width])
}

/// Writes a whole column.
pub(super) fn column(out: &mut Summed<'_>, numbers: &[u64]) -> Result<()> {
    let width = width(numbers.iter().copied().max().unwrap_or(0));
    begin(out, width)?;
    numbers.iter().try_for_each(|number| put(out, width, *number))
}

impl Packed {
    /// A column of `len` numbers; None if the section is not that.
    pub(super) fn open(section: Section, len: usize) -> Option<Self> {
        let width = usize::from(*section.bytes().first()?);
        let fits = width <= 8 && len.checked_mul(width)?.checked_add(1)? == section.len();
        let mask = if width == 0 { 0 } else { u64::MAX >> (64 - 8 * width) };
        fits.then_some(Self { section, width, mask, len })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A number by its position, which is below `len`.
    #[inline]
    pub(super) fn get(&self, index: usize) -> u64 {
        debug_assert!(index < self.len, "{index} of {}", self.len);
        let at = 1 + index * self.width;
        let bytes = &self.section.padded()[at..at + 8];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes")) & self.mask
    }

    /// All numbers, which are below 2^32, on the heap.
    pub(super) fn to_heap(&self) -> Arc<[u32]> {
        (0..self.len).map(|index| self.get(index) as u32).collect()
    }

    /// In an ascending column: how many numbers are at most `number`.
    pub(super) fn count_at_most(&self, number: u64) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle) <= number { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// Appends a varint: seven bits a byte, lowest first.
pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a varint off the front of `bytes`, which this module wrote.
pub(super) fn take_varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let Some((byte, rest)) = bytes.split_first() else { return number };
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// Takes `length` bytes (or what is left) off the front of `bytes`.
pub(super) fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (head, tail) = bytes.split_at(length.min(bytes.len()));
    *bytes = tail;
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_survive_the_round_trip(numbers: Vec<u64>) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| put_varint(&mut bytes, *number));
            let mut rest = &bytes[..];
            for number in numbers {
                prop_assert_eq!(take_varint(&mut rest), number);
            }
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_number_needs_as_many_bytes_as_it_has() {
        for (number, bytes) in [(0, 0), (1, 1), (255, 1), (256, 2), (1 << 40, 6), (u64::MAX, 8)] {
            assert_eq!(width(number), bytes);
        }
    }
}
