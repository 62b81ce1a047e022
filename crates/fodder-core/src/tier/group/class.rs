//! Size classes: how large the cell of an object is.

use super::KEY_BYTES;

/// How many classes there are.
pub(in crate::tier) const CLASSES: usize = CELL_BYTES.len();

/// Four sizes to each doubling, so that at most a fifth of a cell is unused, and one for objects of exactly 4 KiB.
const CELL_BYTES: [u16; 29] = [
    32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536,
    1792, 2048, 2560, 3072, 3584, 4112,
];

/// A size of cells, by its place among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tier) struct SizeClass(u8);

impl SizeClass {
    /// The smallest class that has room for an object; None if none has, or there is nothing to store.
    #[inline]
    pub(in crate::tier) fn of(size: u64) -> Option<Self> {
        let needed = size.checked_add(KEY_BYTES)?;
        let at = CELL_BYTES.partition_point(|&bytes| u64::from(bytes) < needed);
        (size > 0 && at < CLASSES).then_some(Self(at as u8))
    }

    pub(in crate::tier) fn all() -> impl Iterator<Item = Self> {
        (0..CLASSES as u8).map(Self)
    }

    #[inline]
    pub(in crate::tier) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Bytes of a cell.
    #[inline]
    pub(in crate::tier) fn cell_bytes(self) -> u64 {
        u64::from(CELL_BYTES[self.index()])
    }

    /// Where a cell begins in the file.
    #[inline]
    pub(in crate::tier) fn offset(self, cell: u32) -> u64 {
        u64::from(cell) * self.cell_bytes()
    }

    /// The number under which the file is kept open, beside the slots of objects.
    #[inline]
    pub(in crate::tier) fn file_number(self) -> u32 {
        u32::MAX - u32::from(self.0)
    }

    /// The class whose file is kept under a number.
    pub(in crate::tier) fn of_file_number(number: u32) -> Option<Self> {
        let at = u32::MAX - number;
        ((at as usize) < CLASSES).then_some(Self(at as u8))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_object_of_up_to_four_kib_has_a_cell_that_is_not_much_too_large() {
        for size in 1..=4096 {
            let class = SizeClass::of(size).unwrap();
            let (cell, needed) = (class.cell_bytes(), size + KEY_BYTES);
            assert!(cell >= needed && cell - needed <= (cell / 5).max(15), "{size} bytes in a cell of {cell}");
            assert_eq!(SizeClass::of_file_number(class.file_number()), Some(class));
        }
        assert_eq!(SizeClass::of(4097), None);
        assert_eq!(SizeClass::of(0), None);
        assert_eq!(SizeClass::of(u64::MAX), None);
        assert_eq!(SizeClass::of_file_number(7), None);
        assert!(SizeClass::all().is_sorted() && SizeClass::all().count() == CLASSES);
    }
}
