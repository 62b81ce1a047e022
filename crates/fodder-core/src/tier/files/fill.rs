//! Writing the bytes of a piece into a cache file, as it costs the kernel least.

use super::Kept;
use rustix::{fs::FallocateFlags, io::Errno};
use std::io::{Error, ErrorKind, IoSlice, Result};

/// What one write takes, and the grid in the file on which writes begin: the kernel then takes one block of memory for each,
/// and not many that are as small as the place where the write before ended lets them be. The bytes lie in memory as they
/// were written: in blocks of 64 KiB eight readers who map a file read it 0.8 times as fast. Larger ones than these save
/// nothing more, and a virtual machine has often given its largest blocks back to its host.
const WRITE_BYTES: u64 = 256 << 10;
/// The most parts that a system takes in one write.
const MOST_PARTS: usize = 1024;
/// From this length on it pays to ask for the place on the disk first.
const LONG_BYTES: u64 = 128 << 10;

impl Kept {
    /// Takes the place of a piece on the disk at once; else a file system that finds places late (ext4) keeps books about
    /// every 4 KiB of it while it is written. Those that cannot do it are none the worse.
    pub(in crate::tier) fn set_aside(&self, offset: u64, len: u64) {
        if len >= LONG_BYTES {
            let _writing = self.writing.lock();
            // Whether there is no room is for the write to say.
            let _ = rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, len);
        }
    }

    /// Writes all parts, one behind the other. Each stretch is shown to `look` just before, so that it is still near the
    /// processor when the kernel copies it.
    pub(in crate::tier) fn write_at(
        &self,
        parts: &[&[u8]],
        mut offset: u64,
        mut look: impl FnMut(&[u8]),
    ) -> Result<()> {
        let mut parts = Parts { rest: parts, taken: 0 };
        let mut stretch = Vec::new();
        loop {
            stretch.clear();
            let len = parts.take(WRITE_BYTES - offset % WRITE_BYTES, &mut stretch);
            if len == 0 {
                return Ok(());
            }
            stretch.iter().for_each(|part| look(part));
            let _writing = self.writing.lock();
            self.write_stretch(&mut stretch, offset)?;
            offset += len;
        }
    }

    fn write_stretch(&self, mut parts: &mut [IoSlice<'_>], mut offset: u64) -> Result<()> {
        while !parts.is_empty() {
            match rustix::io::pwritev(&self.file, parts, offset) {
                Ok(0) => return Err(Error::from(ErrorKind::WriteZero)),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut parts, written);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// What is left of the parts.
struct Parts<'a> {
    rest: &'a [&'a [u8]],
    /// How much of the first was taken.
    taken: usize,
}

impl<'a> Parts<'a> {
    /// Takes the next bytes, so many at most and as many parts as one write may have. How many they are; 0 at the end.
    fn take(&mut self, most: u64, into: &mut Vec<IoSlice<'a>>) -> u64 {
        let mut len = 0;
        while len < most
            && into.len() < MOST_PARTS
            && let Some((first, behind)) = self.rest.split_first()
        {
            let part = &first[self.taken..];
            let part = &part[..part.len().min((most - len) as usize)];
            self.taken += part.len();
            if self.taken == first.len() {
                (self.rest, self.taken) = (behind, 0);
            }
            if !part.is_empty() {
                into.push(IoSlice::new(part));
                len += part.len() as u64;
            }
        }
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    fn kept() -> std::sync::Arc<Kept> {
        Kept::new(tempfile::tempfile().unwrap().into(), true)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn however_a_piece_is_cut_its_bytes_are_looked_at_and_written_once_and_in_order(
            lengths in prop::collection::vec(prop_oneof![4 => 0usize..3, 1 => 1usize..500_000], 0..1500),
            offset in 0u64..600_000,
        ) {
            let bytes: Vec<u8> = (0..lengths.iter().sum()).map(|at: usize| (at % 251) as u8).collect();
            let mut rest = &bytes[..];
            let parts: Vec<&[u8]> = lengths.iter().map(|len| rest.split_off(..*len).unwrap()).collect();
            let (kept, mut seen) = (kept(), Vec::new());
            kept.write_at(&parts, offset, |part| seen.extend_from_slice(part)).unwrap();
            prop_assert!(seen == bytes);
            let mut written = vec![0; bytes.len()];
            kept.file.read_exact_at(&mut written, offset).unwrap();
            prop_assert!(written == bytes);
        }

        #[test]
        fn writes_end_on_the_grid_of_the_file(lengths in prop::collection::vec(1usize..300_000, 1..12), offset in 0u64..600_000) {
            let bytes = vec![0; 300_000];
            let slices: Vec<&[u8]> = lengths.iter().map(|len| &bytes[..*len]).collect();
            let (mut parts, mut at) = (Parts { rest: &slices, taken: 0 }, offset);
            let end = offset + lengths.iter().sum::<usize>() as u64;
            while at < end {
                at += parts.take(WRITE_BYTES - at % WRITE_BYTES, &mut Vec::new());
                prop_assert!(at == end || at % WRITE_BYTES == 0);
            }
            prop_assert_eq!(parts.take(1, &mut Vec::new()), 0);
        }
    }

    #[test]
    fn a_place_that_is_set_aside_is_empty_and_no_longer_than_the_file() {
        let kept = kept();
        kept.file.set_len(1000).unwrap();
        kept.set_aside(0, 1 << 20);
        assert_eq!(kept.file.metadata().unwrap().size(), 1000);
        let mut bytes = [7; 1000];
        kept.file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [0; 1000]);
    }
}
