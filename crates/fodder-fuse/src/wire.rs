//! The kernel's protocol (FUSE 7.x, linux/fuse.h): requests read from their bytes, answers written as bytes.
//!
//! Pure: knows no descriptors, no file system and no transport.

pub(crate) mod answer;
pub(crate) mod greeting;
pub(crate) mod request;

/// Takes numbers off the front of a request, in this machine's byte order. What is not there reads as zero: the kernel
/// sends shorter structures in older versions of its protocol.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let there = self.0.len().min(N);
        bytes[..there].copy_from_slice(&self.0[..there]);
        self.0 = &self.0[there..];
        bytes
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }
}

/// Puts numbers into an answer of a known length.
struct Answer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Answer<N> {
    fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    fn u16(self, number: u16) -> Self {
        self.put(&number.to_ne_bytes())
    }

    fn u32(self, number: u32) -> Self {
        self.put(&number.to_ne_bytes())
    }

    fn u64(self, number: u64) -> Self {
        self.put(&number.to_ne_bytes())
    }

    /// The bytes, with zeros for what was not put.
    fn bytes(self) -> [u8; N] {
        self.bytes
    }
}
