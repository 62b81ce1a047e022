//! `tfrecord`: length (8 bytes), its masked CRC32C (4), the payload, the payload's masked CRC32C (4), and again.
//!
//! An item is the payload. The length's checksum is verified here; the payload is not read.

use super::shard::{Fault, ShardParser, Want, guess};
use crate::catalog::record::{Record, RecordList};

const HEAD: u64 = 12;
const FOOT: u64 = 4;

/// Finds the records of one TFRecord file.
#[derive(Debug)]
pub(crate) struct TfrecordParser {
    size: u64,
    at: u64,
    record: u64,
}

impl TfrecordParser {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, at: 0, record: 0 }
    }

    fn fault(&self, what: String) -> Fault {
        Fault { record: self.record, offset: self.at, what }
    }
}

impl ShardParser for TfrecordParser {
    fn want(&self) -> Want {
        match self.size - self.at {
            0 => Want::End,
            left => Want::Bytes { at: self.at, length: left.min(HEAD) as usize },
        }
    }

    fn give(&mut self, bytes: &[u8], records: &mut RecordList) -> Result<(), Fault> {
        let (Some(length), Some(sum)) = (bytes.first_chunk::<8>(), bytes.get(8..12)) else {
            return Err(self.fault(format!("the file ends after {} bytes of a record's head", bytes.len())));
        };
        if masked_crc(length).to_le_bytes() != sum {
            let hint = if self.at == 0 { guess(bytes) } else { "" };
            return Err(self.fault(format!("the checksum of the record's length does not match{hint}")));
        }
        let length = u64::from_le_bytes(*length);
        let end = self.at.checked_add(HEAD + FOOT).and_then(|end| end.checked_add(length));
        let Some(end) = end.filter(|end| *end <= self.size) else {
            return Err(self.fault(format!("the record has {length} bytes, and the file ends before that")));
        };
        records.push(Record { start: self.at + HEAD, length, label: None, key: b"" });
        self.record += 1;
        self.at = end;
        Ok(())
    }
}

/// TensorFlow's CRC: rotated and moved, so that a CRC over data that holds CRCs stays good.
fn masked_crc(bytes: &[u8]) -> u32 {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32;
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::layout::Layout;
    use proptest::prelude::*;

    /// A TFRecord file of these payloads.
    pub(crate) fn file(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for payload in payloads {
            let length = (payload.len() as u64).to_le_bytes();
            bytes.extend_from_slice(&length);
            bytes.extend_from_slice(&masked_crc(&length).to_le_bytes());
            bytes.extend_from_slice(payload);
            bytes.extend_from_slice(&masked_crc(payload).to_le_bytes());
        }
        bytes
    }

    #[test]
    fn payloads_are_found() {
        let payloads: [&[u8]; 4] = [b"one", b"", b"three three", &[7; 100_000]];
        let bytes = file(&payloads);
        let records = Layout::Tfrecord.records("f", &bytes).unwrap();
        let found: Vec<_> = records.iter().map(|r| &bytes[r.range.start as usize..r.range.end as usize]).collect();
        assert_eq!(found, payloads);
    }

    #[test]
    fn a_file_that_another_writer_made_is_read() {
        // Written by the Python package tfrecord 1.14: three examples with a label and an image each.
        let bytes = include_bytes!("../../tests/data/three.tfrecord");
        let records = Layout::Tfrecord.records("f", bytes).unwrap();
        let images: Vec<_> =
            records.iter().map(|r| &bytes[r.range.start as usize + 33..r.range.end as usize]).collect();
        assert_eq!(images, [&[0; 5][..], &[1; 6], &[2; 7]]);
    }

    #[test]
    fn damage_is_named_by_record_and_offset() {
        let mut bytes = file(&[b"one", b"two"]);
        let truncated = Layout::Tfrecord.records("dir/f", &bytes[..30]).unwrap_err().to_string();
        assert_eq!(truncated, "dir/f: record 1 at byte 19: the file ends after 11 bytes of a record's head");
        let short = Layout::Tfrecord.records("f", &bytes[..35]).unwrap_err().to_string();
        assert!(short.contains("record 1 at byte 19") && short.contains("3 bytes"), "{short}");
        bytes[20] ^= 1;
        let flipped = Layout::Tfrecord.records("f", &bytes).unwrap_err().to_string();
        assert!(flipped.contains("record 1 at byte 19") && flipped.contains("checksum"), "{flipped}");
        let zipped = Layout::Tfrecord.records("f", b"\x1f\x8b0123456789").unwrap_err().to_string();
        assert!(zipped.contains("gzip"), "{zipped}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_records_or_an_error(bytes: Vec<u8>, good in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4)) {
            let good: Vec<&[u8]> = good.iter().map(Vec::as_slice).collect();
            let mut file = file(&good);
            prop_assert_eq!(Layout::Tfrecord.records("f", &file).unwrap().len(), good.len());
            file.extend_from_slice(&bytes);
            let _ = Layout::Tfrecord.records("f", &file);
        }
    }
}
