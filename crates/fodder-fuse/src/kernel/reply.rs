//! The way an answer goes back: one for each transport.

use crate::error::Errno;

/// Where the answer to one request goes. Dropped without one, the program that asked is told of an I/O error.
pub(crate) trait Reply: Send + Sized + 'static {
    /// Room for an answer of so many bytes, to be filled in place. At most what the kernel asks for at a time.
    fn room(&mut self, bytes: usize) -> &mut [u8];
    /// Answers with the first bytes of the room.
    fn done(self, bytes: usize);
    /// Answers with bytes from elsewhere.
    fn data(self, bytes: &[u8]);
    /// Answers that it cannot be done.
    fn error(self, error: Errno);
}
