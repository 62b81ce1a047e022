//! A flat array by id that grows with the ids, with little slack. It knows nothing of policies.

/// One value an id. Ids past the end have none.
#[derive(Debug)]
pub(super) struct Dense<T> {
    values: Vec<T>,
}

impl<T> Default for Dense<T> {
    fn default() -> Self {
        Self { values: Vec::new() }
    }
}

impl<T: Copy> Dense<T> {
    /// How many ids have a value: those below this.
    pub(super) fn len(&self) -> u32 {
        self.values.len() as u32
    }

    /// The value of an id.
    pub(super) fn get(&self, id: u32) -> Option<T> {
        self.values.get(id as usize).copied()
    }

    /// The value of an id, to change it.
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.values.get_mut(id as usize)
    }

    /// The value of an id, which has one from now on: it and all before it that had none get `fill`.
    #[inline]
    pub(super) fn entry(&mut self, id: u32, fill: T) -> &mut T {
        if id as usize >= self.values.len() {
            self.cover(id as usize + 1, fill);
        }
        &mut self.values[id as usize]
    }

    /// Gives the first `len` ids a value: `fill` where they had none.
    pub(super) fn cover(&mut self, len: usize, fill: T) {
        if len > self.values.len() {
            reserve(&mut self.values, len);
            self.values.resize(len, fill);
        }
    }

    /// Bytes it holds on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.values.capacity() * size_of::<T>()
    }
}

/// Makes room for `len` values, with an eighth of slack instead of the usual doubling.
pub(super) fn reserve<T>(values: &mut Vec<T>, len: usize) {
    if len > values.capacity() {
        values.reserve_exact(len + len / 8 - values.len());
    }
}
