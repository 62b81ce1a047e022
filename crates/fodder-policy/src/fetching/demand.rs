//! `demand`: only what is asked for, when it is.

use super::{Fetching, Next, View};

/// It has no state.
#[derive(Debug)]
pub struct Demand;

impl Fetching for Demand {
    fn next(&mut self, _view: &dyn View, _room_bytes: u64) -> Next {
        Next::Nothing
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}
