//! What was received and is not yet wanted: requests are short, and several of them come in one go. Knows no frames.

use super::Line;
use fodder_api::frames::MAX_LEASES;
use std::{collections::VecDeque, fs::File, io, os::fd::OwnedFd};

/// Bytes that are received at once where fewer are wanted.
const INBOX_BYTES: usize = 4 << 10;

/// Received bytes that wait to be taken.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Empty, or of full length.
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
    /// Files that came with the bytes; few, or the connection ends.
    descriptors: VecDeque<OwnedFd>,
}

impl Inbox {
    /// Takes some bytes, or receives them if there are none; 0 is the end.
    pub(super) fn take(&mut self, line: &mut Line, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.filled {
            if into.len() >= INBOX_BYTES {
                return self.receive(line, into);
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.resize(INBOX_BYTES, 0);
            let received = self.receive(line, &mut buffer);
            (self.buffer, self.taken, self.filled) = (buffer, 0, 0);
            self.filled = received?;
        }
        let count = into.len().min(self.filled - self.taken);
        into[..count].copy_from_slice(&self.buffer[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }

    fn receive(&mut self, line: &mut Line, into: &mut [u8]) -> io::Result<usize> {
        let received = line.receive_with(into, &mut self.descriptors)?;
        if self.descriptors.len() > MAX_LEASES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more files than a request may bring"));
        }
        Ok(received)
    }

    /// Takes the next files that came with what was received: so many, or fewer if not all arrived.
    pub(super) fn take_files(&mut self, count: usize) -> Vec<File> {
        let count = count.min(self.descriptors.len());
        self.descriptors.drain(..count).map(File::from).collect()
    }

    /// Gives its memory back, if nothing waits in it.
    pub(super) fn shrink(&mut self) {
        if self.taken == self.filled && self.descriptors.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fodder_api::frames::Socket;
    use std::{io::Write, os::unix::net::UnixStream};

    #[test]
    fn what_came_in_one_go_is_taken_bit_by_bit_and_then_there_is_nothing_left() {
        let (mut sender, receiver) = UnixStream::pair().unwrap();
        let (mut line, mut inbox) = (Line::Plain(Socket::Unix(receiver)), Inbox::default());
        let sent: Vec<u8> = (0..3 * INBOX_BYTES).map(|n| (n % 251) as u8).collect();
        sender.write_all(&sent).unwrap();
        drop(sender);
        let (mut all, mut sizes) = (Vec::new(), [16, 100, 2 * INBOX_BYTES, 7].into_iter().cycle());
        loop {
            let mut part = vec![0; sizes.next().unwrap()];
            let count = inbox.take(&mut line, &mut part).unwrap();
            if count == 0 {
                break;
            }
            all.extend_from_slice(&part[..count]);
        }
        assert!(all == sent);
        inbox.shrink();
        assert_eq!(inbox.buffer.capacity(), 0);
    }
}
