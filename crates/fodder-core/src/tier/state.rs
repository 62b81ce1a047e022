//! The life of one piece as one byte: what it is now, and which filling of it this is.
//!
//! The upper five bits count fillings, so that whoever remembers a byte (the committer, a checking reader) notices
//! that the piece left and came back in between.

/// Where a piece stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Not here.
    Absent = 0,
    /// A disk thread is writing it.
    Writing = 1,
    /// A disk thread is writing it into a file that was dropped meanwhile.
    Doomed = 2,
    /// Its blocks are being given back.
    Leaving = 3,
    /// Here, remembered by the index, not yet compared with its checksum since the start.
    Unverified = 4,
    /// Here, and its bytes are right.
    Verified = 5,
}

/// The state byte of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State(pub(super) u8);

impl State {
    pub(super) fn kind(self) -> Kind {
        match self.0 & 7 {
            1 => Kind::Writing,
            2 => Kind::Doomed,
            3 => Kind::Leaving,
            4 => Kind::Unverified,
            5 => Kind::Verified,
            _ => Kind::Absent,
        }
    }

    /// Whether its bytes may be read.
    #[inline]
    pub(super) fn present(self) -> bool {
        self.0 & 7 >= Kind::Unverified as u8
    }

    #[inline]
    pub(super) fn verified(self) -> bool {
        self.0 & 7 == Kind::Verified as u8
    }

    /// The same filling, at another point of its life.
    pub(super) fn with(self, kind: Kind) -> Self {
        Self(self.0 & !7 | kind as u8)
    }

    /// The next filling, being written.
    pub(super) fn next_filling(self) -> Self {
        Self((self.0 & !7).wrapping_add(8) | Kind::Writing as u8)
    }

    /// Whether both bytes speak of one filling and the piece is here.
    pub(super) fn still(self, earlier: Self) -> bool {
        self.present() && self.0 >> 3 == earlier.0 >> 3
    }
}
