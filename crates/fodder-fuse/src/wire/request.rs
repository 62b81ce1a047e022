//! What the kernel asks.

use super::Numbers;

/// The bytes of a request's head.
pub(crate) const HEAD_BYTES: usize = 40;

/// The longest name or value that comes with a request; the longest list of what is forgotten is far below it too.
pub(crate) const MAX_REST_BYTES: usize = 64 << 10;

/// The head of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) opcode: u32,
    /// The number that its answer must name.
    pub(crate) unique: u64,
    pub(crate) ino: u64,
}

impl Head {
    /// The head at the front of some bytes; None if they are too few.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let mut numbers = Numbers(bytes.get(..HEAD_BYTES)?);
        let (_length, opcode) = (numbers.u32(), numbers.u32());
        Some(Self { opcode, unique: numbers.u64(), ino: numbers.u64() })
    }
}

/// One thing that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        times: u64,
    },
    ForgetMany(Forgotten<'a>),
    Attributes,
    ReadLink,
    Open,
    Read {
        handle: u64,
        offset: u64,
        size: u32,
        /// For pages that the kernel keeps, and not for a program that reads: of an open file that is not kept by the kernel,
        /// somebody has mapped it and touched a page of these.
        paged: bool,
    },
    Release {
        handle: u64,
    },
    Flush,
    OpenDirectory,
    List {
        handle: u64,
        cookie: u64,
        size: u32,
        plus: bool,
    },
    ReleaseDirectory {
        handle: u64,
    },
    FileSystem,
    ExtendedAttribute {
        name: &'a [u8],
        room: u32,
    },
    ExtendedAttributes {
        room: u32,
    },
    Control,
    /// The kernel says that nobody waits for an answer any more. It takes the answer all the same.
    Interrupt,
    Destroy,
    /// Something that a read-only directory has no answer to.
    Other,
}

/// What is forgotten at once: pairs of inode and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forgotten<'a>(&'a [u8]);

impl Iterator for Forgotten<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let (pair, rest) = self.0.split_at_checked(16)?;
        self.0 = rest;
        let mut numbers = Numbers(pair);
        Some((numbers.u64(), numbers.u64()))
    }
}

pub(crate) const INIT: u32 = 26;

/// A program waits for a read, whose number of an owner of locks comes with it.
const READ_BY_OWNER: u32 = 1 << 1;

/// The bytes of the structure that follows the head of a request; names and the like come behind it.
pub(crate) fn argument_bytes(opcode: u32) -> usize {
    match opcode {
        // FORGET, OPEN, GETXATTR, LISTXATTR, OPENDIR, INTERRUPT, BATCH_FORGET
        2 | 14 | 22 | 23 | 27 | 36 | 42 => 8,
        // GETATTR
        3 => 16,
        // RELEASE, FLUSH, RELEASEDIR
        18 | 25 | 29 => 24,
        // READ, READDIR, READDIRPLUS
        15 | 28 | 44 => 40,
        _ => 0,
    }
}

/// The request that a head, the structure of its operation and what is behind it mean.
pub(crate) fn operation<'a>(opcode: u32, argument: &[u8], rest: &'a [u8]) -> Operation<'a> {
    let mut numbers = Numbers(argument);
    match opcode {
        1 => Operation::Lookup { name: name(rest) },
        2 => Operation::Forget { times: numbers.u64() },
        3 => Operation::Attributes,
        5 => Operation::ReadLink,
        14 => Operation::Open,
        15 => {
            let (handle, offset, size) = (numbers.u64(), numbers.u64(), numbers.u32());
            Operation::Read { handle, offset, size, paged: numbers.u32() & READ_BY_OWNER == 0 }
        }
        17 => Operation::FileSystem,
        18 => Operation::Release { handle: numbers.u64() },
        22 => Operation::ExtendedAttribute { name: name(rest), room: numbers.u32() },
        23 => Operation::ExtendedAttributes { room: numbers.u32() },
        25 => Operation::Flush,
        27 => Operation::OpenDirectory,
        28 | 44 => {
            let (handle, cookie, size) = (numbers.u64(), numbers.u64(), numbers.u32());
            Operation::List { handle, cookie, size, plus: opcode == 44 }
        }
        29 => Operation::ReleaseDirectory { handle: numbers.u64() },
        36 => Operation::Interrupt,
        38 => Operation::Destroy,
        39 => Operation::Control,
        42 => {
            let pairs = (numbers.u32() as usize).saturating_mul(16);
            Operation::ForgetMany(Forgotten(&rest[..rest.len().min(pairs)]))
        }
        _ => Operation::Other,
    }
}

/// A name ends with a zero byte.
fn name(rest: &[u8]) -> &[u8] {
    rest.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_read_and_a_lookup_are_read_as_the_kernel_writes_them() {
        let mut bytes = Vec::new();
        bytes.extend(80u32.to_ne_bytes());
        bytes.extend(15u32.to_ne_bytes());
        bytes.extend(7u64.to_ne_bytes());
        bytes.extend(99u64.to_ne_bytes());
        bytes.extend([0; 16]);
        let head = Head::of(&bytes);
        assert_eq!(head, Some(Head { opcode: 15, unique: 7, ino: 99 }));
        assert_eq!(Head::of(&bytes[..39]), None);
        for (flags, paged) in [(0u32, true), (READ_BY_OWNER, false)] {
            let mut argument = [5u64.to_ne_bytes(), 4096u64.to_ne_bytes()].concat();
            argument.extend([1000u32.to_ne_bytes(), flags.to_ne_bytes()].concat());
            let read = Operation::Read { handle: 5, offset: 4096, size: 1000, paged };
            assert_eq!(operation(15, &argument, &[]), read);
        }
        assert_eq!(operation(1, &[], b"name\0rest"), Operation::Lookup { name: b"name" });
        let lots = [1u64.to_ne_bytes(), 2u64.to_ne_bytes(), 3u64.to_ne_bytes(), 4u64.to_ne_bytes()].concat();
        let Operation::ForgetMany(forgotten) = operation(42, &1u32.to_ne_bytes(), &lots) else { panic!("forgotten") };
        assert_eq!(forgotten.collect::<Vec<_>>(), [(1, 2)]);
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_request_that_cannot_be_read(opcode in 0u32..64, argument: Vec<u8>, rest: Vec<u8>) {
            if let Operation::ForgetMany(forgotten) = operation(opcode, &argument, &rest) {
                prop_assert!(forgotten.count() <= rest.len() / 16);
            }
        }
    }
}
