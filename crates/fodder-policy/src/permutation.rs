//! A keyed permutation of `0..n`: the order of an epoch without a list of it.
//!
//! A Feistel network over a rectangle of `rows × columns` cells, just large enough for `n`, with cycle walking for the
//! few cells beyond it. The definition is frozen (docs/decisions/0007-keyed-permutation.md): checkpoints name a seed and
//! an epoch and rely on getting the same order from every version. It knows nothing of jobs or ranks.

/// Up to this many ids get [`ROUNDS_FEW`] rounds: small halves mix slowly, and cost little.
const FEW: u32 = 4_096;
const ROUNDS_FEW: u32 = 24;
const ROUNDS_MANY: u32 = 8;

/// The order that a seed gives an epoch: a bijection of `0..len`, computed in either direction in O(1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permutation {
    len: u32,
    rows: u32,
    columns: u32,
    key: u64,
}

impl Permutation {
    /// The order of `len` ids in epoch `epoch` under `seed`.
    pub fn new(len: u32, seed: u64, epoch: u64) -> Self {
        let columns = ceil_sqrt(len).max(1);
        Self { len, rows: len.div_ceil(columns).max(1), columns, key: mix(mix(seed) ^ epoch) }
    }

    /// How many ids it orders.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is nothing to order.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The id at a position. None past the end.
    pub fn at(&self, position: u32) -> Option<u32> {
        (position < self.len).then(|| self.walk(position, Self::forward))
    }

    /// The position of an id. None for an id that is not below `len`.
    pub fn position_of(&self, id: u32) -> Option<u32> {
        (id < self.len).then(|| self.walk(id, Self::backward))
    }

    /// Steps through the rectangle until a cell below `len` is met. The cell it starts from is one, so it ends; fewer
    /// than `columns` cells are not, so it nearly always ends at once.
    #[inline]
    fn walk(&self, start: u32, step: impl Fn(&Self, u32) -> u32) -> u32 {
        let mut cell = step(self, start);
        while cell >= self.len {
            cell = step(self, cell);
        }
        cell
    }

    #[inline]
    fn forward(&self, cell: u32) -> u32 {
        let (mut row, mut column) = (cell / self.columns, cell % self.columns);
        for round in (0..self.rounds()).step_by(2) {
            row = add(row, self.draw(round, column, self.rows), self.rows);
            column = add(column, self.draw(round + 1, row, self.columns), self.columns);
        }
        row * self.columns + column
    }

    #[inline]
    fn backward(&self, cell: u32) -> u32 {
        let (mut row, mut column) = (cell / self.columns, cell % self.columns);
        for round in (0..self.rounds()).step_by(2).rev() {
            column = subtract(column, self.draw(round + 1, row, self.columns), self.columns);
            row = subtract(row, self.draw(round, column, self.rows), self.rows);
        }
        row * self.columns + column
    }

    #[inline]
    fn rounds(&self) -> u32 {
        if self.len <= FEW { ROUNDS_FEW } else { ROUNDS_MANY }
    }

    /// The number below `bound` that one half draws for the other in a round.
    #[inline]
    fn draw(&self, round: u32, half: u32, bound: u32) -> u32 {
        let key = self.key.wrapping_add(u64::from(round + 1).wrapping_mul(GOLDEN));
        let drawn = mix(key ^ u64::from(half)) >> 32;
        ((drawn * u64::from(bound)) >> 32) as u32
    }
}

/// 2⁶⁴ divided by the golden ratio: far from any small multiple of itself.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of the 64-bit numbers that looks random (the finaliser of SplitMix64).
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// `a + b` modulo `bound`, of two numbers below it; `bound` is at most 2¹⁶.
#[inline]
fn add(a: u32, b: u32, bound: u32) -> u32 {
    let sum = a + b;
    if sum >= bound { sum - bound } else { sum }
}

/// `a − b` modulo `bound`, of two numbers below it.
#[inline]
fn subtract(a: u32, b: u32, bound: u32) -> u32 {
    if a >= b { a - b } else { a + bound - b }
}

/// The smallest number whose square is at least `n`.
fn ceil_sqrt(n: u32) -> u32 {
    let root = n.isqrt();
    root + u32::from(root * root < n)
}

#[cfg(test)]
mod tests;
