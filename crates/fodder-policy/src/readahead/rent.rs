//! Whether a small read at random brings in its piece or only its own bytes.
//!
//! It is the question of whoever rents: each read past the cache pays for its own bytes again, and bringing in the piece is
//! paid once. As long as little of a piece was asked for, its bytes are rented; when a sixteenth of it has been paid in
//! rent, it is brought in. So nobody who reads at random ever causes more than seventeen bytes to be fetched for each byte
//! used, who reads only here and there causes one, and who reads everything in any order causes little more than one.

use rustc_hash::FxHashMap;

/// The part of a piece that is paid in rent before the piece is brought in.
const PART: u32 = 16;
/// What is used of what a kernel reads around a page that was touched: a record of a file of tokens is about so long.
const GLANCE_BYTES: u32 = 8 << 10;
/// Pieces whose rent is remembered. When there are more, all begin anew.
const MAX_PIECES: usize = 1 << 20;

/// What was paid for pieces that are not there.
#[derive(Debug, Default)]
pub struct Rent {
    paid: FxHashMap<u32, u32>,
}

impl Rent {
    /// The most bytes that are fetched for each byte used.
    pub const MOST_BYTES_A_BYTE: u32 = PART + 1;

    /// The same for what a kernel reads around a page of a mapped file, of which it is not known how much is used.
    pub fn pays_for_glance(&mut self, piece: u32, bytes: u32, piece_bytes: u32) -> bool {
        let used = if bytes > piece_bytes / PART * 2 { bytes } else { bytes.min(GLANCE_BYTES) };
        self.pays(piece, used, piece_bytes)
    }

    /// A jump reads `bytes` of a missing piece. True: only those should be fetched; false: all of it.
    pub fn pays(&mut self, piece: u32, bytes: u32, piece_bytes: u32) -> bool {
        let paid = self.paid.get(&piece).copied().unwrap_or(0).saturating_add(bytes);
        if paid > piece_bytes / PART {
            self.paid.remove(&piece);
            return false;
        }
        if self.paid.len() >= MAX_PIECES && !self.paid.contains_key(&piece) {
            self.paid.clear();
        }
        self.paid.insert(piece, paid);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PIECE: u32 = 1 << 20;

    #[test]
    fn a_piece_is_brought_in_when_a_sixteenth_of_it_was_paid() {
        let mut rent = Rent::default();
        assert!((0..8).all(|_| rent.pays(7, 8 << 10, PIECE)));
        assert!(!rent.pays(7, 8 << 10, PIECE));
        assert!(rent.pays(7, 8 << 10, PIECE), "it has left again: all begins anew");
        assert!(rent.pays(8, 8 << 10, PIECE), "each piece has its own account");
        assert!(!rent.pays(9, PIECE / 8, PIECE), "a large read brings in the piece at once");
    }

    #[test]
    fn what_a_kernel_reads_around_a_page_is_not_taken_for_what_is_used() {
        let mut rent = Rent::default();
        assert!((0..8).all(|_| rent.pays_for_glance(7, 32 << 10, PIECE)));
        assert!(!rent.pays_for_glance(7, 32 << 10, PIECE));
        assert!(rent.pays_for_glance(8, 128 << 10, PIECE));
        assert!(!rent.pays_for_glance(9, PIECE, PIECE), "as much as a piece is not fetched eight times");
    }

    proptest! {
        #[test]
        fn nobody_causes_more_to_be_fetched_than_the_bound_says(reads in prop::collection::vec((0u32..20, 1u32..PIECE), 1..400)) {
            let mut rent = Rent::default();
            let (mut fetched, mut used) = (0u64, 0u64);
            for (piece, bytes) in reads {
                // The worst case: a piece that was brought in is gone at once.
                fetched += u64::from(if rent.pays(piece, bytes, PIECE) { bytes } else { PIECE });
                used += u64::from(bytes);
                prop_assert!(fetched <= used * u64::from(Rent::MOST_BYTES_A_BYTE));
            }
        }
    }
}
