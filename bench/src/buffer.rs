//! The memory that batches end in: reused, and in huge pages where the system has them, as NumPy's large arrays are.

use anyhow::{Result, ensure};
use memmap2::{Advice, MmapMut};
use std::ops::{Deref, DerefMut};

/// Room for a batch of the largest scenario, and some more.
const BYTES: usize = 64 << 20;

/// A buffer of fixed size.
#[derive(Debug)]
pub(crate) struct Buffer(MmapMut);

impl Buffer {
    /// A buffer that can hold any batch of the scenarios.
    pub(crate) fn new() -> Result<Self> {
        let mut map = MmapMut::map_anon(BYTES)?;
        // A system without huge pages is slower for everybody, and not wrong.
        let _ = map.advise(Advice::HugePage);
        map.fill(0);
        Ok(Self(map))
    }

    /// The first `len` bytes.
    pub(crate) fn front(&mut self, len: usize) -> Result<&mut [u8]> {
        ensure!(len <= BYTES, "a batch of {len} bytes does not fit the buffer");
        Ok(&mut self.0[..len])
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
