//! The few bytes behind a read that came with it: what the kernel asks for next if its reader's memory begins inside a page.
//!
//! Less than a page for each open file, and of one version of an object, which never changes.

/// Bytes of an object that were not asked for yet.
#[derive(Debug, Default)]
pub(super) struct Rest {
    offset: u64,
    bytes: Vec<u8>,
}

impl Rest {
    /// Keeps bytes, instead of those that were kept before.
    pub(super) fn keep(&mut self, offset: u64, bytes: &[u8]) {
        self.offset = offset;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    /// Reads a range into the room that is made for it, if all of it is kept: how many bytes it was.
    pub(super) fn read<'a>(
        &self,
        offset: u64,
        length: usize,
        room: impl FnOnce(usize) -> &'a mut [u8],
    ) -> Option<usize> {
        let from = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let kept = self.bytes.get(from..from.checked_add(length)?).filter(|kept| !kept.is_empty())?;
        room(length).copy_from_slice(kept);
        Some(length)
    }
}
