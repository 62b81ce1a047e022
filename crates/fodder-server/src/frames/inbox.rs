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
    /// Bytes that were received since the connection was made.
    received: u64,
    /// Files that came with the bytes; few, or the connection ends. With each the number of bytes that had been received when it
    /// came: the message that brought it ends there at the earliest, because the kernel passes no later message on with it.
    descriptors: VecDeque<(u64, OwnedFd)>,
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
        let mut descriptors = VecDeque::new();
        let received = line.receive_with(into, &mut descriptors)?;
        self.received += received as u64;
        self.descriptors.extend(descriptors.into_iter().map(|descriptor| (self.received, descriptor)));
        if self.descriptors.len() > MAX_LEASES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more files than a request may bring"));
        }
        Ok(received)
    }

    /// Takes the files that came with the request whose bytes were taken last: so many, or fewer if not all arrived.
    pub(super) fn take_files(&mut self, count: usize) -> Vec<File> {
        let mut files = self.files_of_taken();
        files.truncate(count);
        files
    }

    /// Closes the files that came with the request whose bytes were taken last, and that it did not take: the next request must
    /// not take them for its own.
    pub(super) fn close_files(&mut self) {
        if !self.descriptors.is_empty() {
            drop(self.files_of_taken());
        }
    }

    fn files_of_taken(&mut self) -> Vec<File> {
        let taken = self.received - (self.filled - self.taken) as u64;
        let count = self.descriptors.iter().take_while(|(at, _)| *at <= taken).count();
        self.descriptors.drain(..count).map(|(_, descriptor)| File::from(descriptor)).collect()
    }

    /// Gives its memory back, if nothing waits in it.
    pub(super) fn shrink(&mut self) {
        if self.taken == self.filled && self.descriptors.is_empty() {
            *self = Self { received: self.received, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fodder_api::frames::Socket;
    use std::{
        io::Write,
        os::{
            fd::AsFd,
            unix::{fs::MetadataExt, net::UnixStream},
        },
        time::Duration,
    };

    #[test]
    fn files_belong_to_the_request_they_came_with_and_are_closed_with_it() {
        let (sender, receiver) = UnixStream::pair().unwrap();
        let (mut line, mut inbox) = (Line::Plain(Socket::Unix(receiver)), Inbox::default());
        let mut sender = Socket::Unix(sender);
        let limit = Duration::from_secs(5);
        let files: Vec<File> = (0..3).map(|_| tempfile::tempfile().unwrap()).collect();
        let send = |sender: &mut Socket, bytes: &[u8], files: &[File]| {
            let descriptors: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
            sender.send_with(bytes, &descriptors, limit).unwrap();
        };
        // All of it has arrived before the first byte is taken.
        send(&mut sender, b"plain", &[]);
        send(&mut sender, b"two", &files[..2]);
        send(&mut sender, b"plain", &[]);
        send(&mut sender, b"one", &files[2..]);
        let mut take = |inbox: &mut Inbox, bytes: usize| {
            let mut rest = vec![0; bytes];
            while !rest.is_empty() {
                let count = inbox.take(&mut line, &mut rest).unwrap();
                rest.drain(..count);
            }
        };
        let same = |file: &File, other: &File| {
            let [file, other] = [file, other].map(|file| file.metadata().unwrap());
            (file.dev(), file.ino()) == (other.dev(), other.ino())
        };
        take(&mut inbox, 5);
        assert!(inbox.take_files(2).is_empty(), "they came with the next");
        inbox.close_files();
        take(&mut inbox, 3);
        let taken = inbox.take_files(1);
        assert!(taken.len() == 1 && same(&taken[0], &files[0]));
        inbox.close_files();
        take(&mut inbox, 5);
        assert!(inbox.take_files(2).is_empty(), "what the request before did not take is closed");
        inbox.close_files();
        take(&mut inbox, 3);
        let taken = inbox.take_files(2);
        assert!(taken.len() == 1 && same(&taken[0], &files[2]));
        assert!(inbox.descriptors.is_empty());
    }

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
