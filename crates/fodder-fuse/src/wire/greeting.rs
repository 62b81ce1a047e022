//! The first request of a connection: what the kernel can do, and what is wanted of it.

use super::{Answer, Numbers};

/// The protocol this is written for.
const MAJOR: u32 = 7;
const MINOR: u32 = 42;

/// The oldest that is spoken: Linux 5.4.
const OLDEST_MINOR: u32 = 31;

/// The largest read the kernel asks for.
pub(crate) const MAX_READ_BYTES: usize = 1 << 20;

/// The same in pages, which have 4 to 64 KiB. Were it asked for more than it is given, it would take files for shorter.
fn max_pages() -> u16 {
    u16::try_from(MAX_READ_BYTES / rustix::param::page_size()).unwrap_or(u16::MAX).max(1)
}

/// Nothing is ever written, so the smallest the kernel allows.
const MAX_WRITE_BYTES: u32 = 4096;

/// How deep file systems may be stacked: a cache on overlayfs, as in a container, needs two.
const STACK_DEPTH: u32 = 2;

const ASYNC_READ: u64 = 1 << 0;
const DO_READDIRPLUS: u64 = 1 << 13;
const READDIRPLUS_AUTO: u64 = 1 << 14;
const ASYNC_DIO: u64 = 1 << 15;
const NO_OPEN_SUPPORT: u64 = 1 << 17;
const PARALLEL_DIROPS: u64 = 1 << 18;
const MAX_PAGES_FLAG: u64 = 1 << 22;
const CACHE_SYMLINKS: u64 = 1 << 23;
const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
const INIT_EXT: u64 = 1 << 30;
const HAS_EXPIRE_ONLY: u64 = 1 << 35;
const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
const PASSTHROUGH: u64 = 1 << 37;
const NO_EXPORT_SUPPORT: u64 = 1 << 38;
const OVER_IO_URING: u64 = 1 << 41;

/// What a file system needs of the kernel, where it has it.
const WANTED: u64 = ASYNC_READ
    | DO_READDIRPLUS
    | READDIRPLUS_AUTO
    | ASYNC_DIO
    | NO_OPEN_SUPPORT
    | PARALLEL_DIROPS
    | MAX_PAGES_FLAG
    | CACHE_SYMLINKS
    | EXPLICIT_INVAL_DATA
    | INIT_EXT
    | HAS_EXPIRE_ONLY
    | DIRECT_IO_ALLOW_MMAP
    | PASSTHROUGH
    | NO_EXPORT_SUPPORT;

/// What the kernel said of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    major: u32,
    minor: u32,
    max_readahead: u32,
    flags: u64,
}

/// What the kernel is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    pub(crate) max_background: u16,
    pub(crate) congestion_threshold: u16,
}

impl Greeting {
    /// Reads what is behind the head of the first request.
    pub(crate) fn of(body: &[u8]) -> Self {
        let mut numbers = Numbers(body);
        let (major, minor, max_readahead) = (numbers.u32(), numbers.u32(), numbers.u32());
        let low = u64::from(numbers.u32());
        let high = if low & INIT_EXT == 0 { 0 } else { u64::from(numbers.u32()) };
        Self { major, minor, max_readahead, flags: low | high << 32 }
    }

    /// Whether the kernel speaks a later language, and must be told which one is spoken here.
    pub(crate) fn is_later(&self) -> bool {
        self.major > MAJOR
    }

    /// Whether the kernel is too old.
    pub(crate) fn is_too_old(&self) -> bool {
        self.major < MAJOR || self.major == MAJOR && self.minor < OLDEST_MINOR
    }

    /// The kernel can read files by itself.
    pub(crate) fn has_passthrough(&self) -> bool {
        self.flags & PASSTHROUGH != 0
    }

    /// The kernel needs not open files.
    pub(crate) fn has_no_open(&self) -> bool {
        self.flags & NO_OPEN_SUPPORT != 0
    }

    /// The kernel offers to be answered through io_uring.
    pub(crate) fn has_ring(&self) -> bool {
        self.flags & OVER_IO_URING != 0
    }

    /// The answer: what is wanted of it.
    pub(crate) fn answer(&self, tuning: Tuning, ring: bool) -> [u8; 64] {
        let wanted = if ring { WANTED | OVER_IO_URING } else { WANTED };
        let flags = self.flags & wanted;
        let depth = if self.has_passthrough() { STACK_DEPTH } else { 0 };
        Answer::new()
            .u32(MAJOR)
            .u32(MINOR.min(self.minor))
            .u32(self.max_readahead)
            .u32(flags as u32)
            .u16(tuning.max_background)
            .u16(tuning.congestion_threshold)
            .u32(MAX_WRITE_BYTES)
            // Times to the nanosecond.
            .u32(1)
            .u16(max_pages())
            .u16(0)
            .u32((flags >> 32) as u32)
            .u32(depth)
            .bytes()
    }

    /// The answer to a kernel that speaks a later language: it then greets again in this one.
    pub(crate) fn version_only() -> [u8; 64] {
        Answer::new().u32(MAJOR).u32(MINOR).bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(minor: u32, flags: u64) -> Greeting {
        let mut body = Vec::new();
        for number in [7, minor, 131_072, flags as u32, (flags >> 32) as u32] {
            body.extend(number.to_ne_bytes());
        }
        Greeting::of(&body)
    }

    #[test]
    fn only_what_the_kernel_has_is_asked_of_it() {
        let tuning = Tuning { max_background: 64, congestion_threshold: 48 };
        let new = said(45, INIT_EXT | PASSTHROUGH | OVER_IO_URING | NO_OPEN_SUPPORT);
        assert!(new.has_passthrough() && new.has_ring() && new.has_no_open() && !new.is_too_old());
        let flags = |answer: [u8; 64]| {
            let number = |at: usize| u64::from(u32::from_ne_bytes([0, 1, 2, 3].map(|byte| answer[at + byte])));
            number(12) | number(32) << 32
        };
        assert_eq!(flags(new.answer(tuning, true)), INIT_EXT | PASSTHROUGH | OVER_IO_URING | NO_OPEN_SUPPORT);
        assert_eq!(flags(new.answer(tuning, false)), INIT_EXT | PASSTHROUGH | NO_OPEN_SUPPORT);
        // Without the flag that says so, what follows is not meant.
        let old = said(31, ASYNC_READ | PASSTHROUGH);
        assert!(!old.has_passthrough() && !old.is_too_old());
        assert_eq!(flags(old.answer(tuning, true)), ASYNC_READ);
        assert!(said(30, 0).is_too_old());
    }
}
