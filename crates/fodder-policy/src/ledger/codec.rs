//! Numbers in few bytes, and a sum over them. Whatever is read may be anything: nothing here panics or trusts a length.

use crate::{Error, Result, permutation::mix};

/// Writes numbers, seven bits a byte, the least first.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// What was written and its sum.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let sum = sum(&self.0);
        self.bytes(&sum.to_le_bytes());
        self.0
    }
}

/// Reads what a [`Writer`] wrote.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Checks the sum, which covers `bytes` from the first, and reads from `start` on.
    pub(crate) fn new(bytes: &'a [u8], start: usize) -> Result<Self> {
        let (body, written) = bytes.split_last_chunk::<8>().ok_or_else(damaged)?;
        let intact = u64::from_le_bytes(*written) == sum(body);
        body.get(start..).filter(|_| intact).map(Self).ok_or_else(damaged)
    }

    /// Reads bytes whose sum was checked as a part of others.
    pub(crate) fn bare(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn word(&mut self) -> Result<u64> {
        let bytes = self.bytes(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| damaged())?))
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(1)?[0];
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(damaged());
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged())
    }

    /// A number that is at most a bound.
    pub(crate) fn at_most(&mut self, bound: u32) -> Result<u32> {
        u32::try_from(self.number()?).ok().filter(|&number| number <= bound).ok_or_else(damaged)
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }
}

/// The error for bytes that are not those that were written.
pub(crate) fn damaged() -> Error {
    Error::Corrupt("the checkpoint is damaged (its checksum does not match): use another one".into())
}

/// Tells apart bytes that were changed by accident.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(mix(bytes.len() as u64), |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, &byte| mix(hash ^ u64::from(byte)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(numbers: Vec<u64>) {
            let mut writer = Writer::default();
            numbers.iter().for_each(|&number| writer.number(number));
            let bytes = writer.finish();
            let mut reader = Reader::new(&bytes, 0).unwrap();
            for number in numbers {
                prop_assert_eq!(reader.number(), Ok(number));
            }
            prop_assert_eq!(reader.left(), 0);
            prop_assert!(reader.number().is_err());
        }

        #[test]
        fn a_changed_byte_is_noticed(mut bytes: Vec<u8>, at: prop::sample::Index, change in 1u8..) {
            let mut writer = Writer::default();
            writer.bytes(&bytes);
            bytes = writer.finish();
            prop_assert!(Reader::new(&bytes, 0).is_ok());
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            prop_assert!(Reader::new(&bytes, 0).is_err());
        }
    }

    #[test]
    fn numbers_over_64_bits_and_cut_off_ones_are_refused() {
        for body in
            [&[0xff; 9][..], &[0xff; 12], &[0x80; 12], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            let mut writer = Writer::default();
            writer.bytes(body);
            let bytes = writer.finish();
            assert!(Reader::new(&bytes, 0).unwrap().number().is_err(), "{body:x?}");
        }
    }
}
