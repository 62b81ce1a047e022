//! The passage from one order of the residents to the next, in small steps.
//!
//! When new scores come, residents still stand in the order of the old ones. They are moved one id after the other;
//! meanwhile those not yet moved keep the old order among themselves and come before those that were, so there is
//! one right order at every moment. It knows nothing of what an order is made of.

/// An order, and the one that takes its place.
#[derive(Debug, Default)]
pub(super) struct Turnover<T> {
    /// Counts the orders: residents of an older generation come before those of a newer one.
    generation: u32,
    now: T,
    next: Option<T>,
    /// Came while another was on its way in. Only the newest of these matters.
    queued: Option<T>,
    /// Ids below this are in the next order, the others in the present one.
    moved: u32,
}

impl<T> Turnover<T> {
    /// The newest order it was told of.
    pub(super) fn newest(&self) -> &T {
        self.queued.as_ref().or(self.next.as_ref()).unwrap_or(&self.now)
    }

    /// All orders that it was told of, to correct them for ids that are not in any.
    pub(super) fn orders_mut(&mut self) -> impl Iterator<Item = &mut T> {
        [&mut self.now].into_iter().chain(&mut self.next).chain(&mut self.queued)
    }

    /// A new order; where nobody is there to be moved, it holds at once.
    pub(super) fn begin(&mut self, order: T, nobody: bool) {
        if nobody {
            *self = Self { generation: self.generation, now: order, next: None, queued: None, moved: 0 };
        } else if self.next.is_some() {
            self.queued = Some(order);
        } else {
            self.next = Some(order);
        }
    }

    /// The generation that an id belongs to, and its order.
    pub(super) fn of(&self, id: u32) -> (u32, &T) {
        match &self.next {
            Some(next) if id < self.moved => (self.generation.wrapping_add(1), next),
            _ => (self.generation, &self.now),
        }
    }

    /// The order of a generation that a resident belongs to.
    pub(super) fn order(&self, generation: u32) -> &T {
        match &self.next {
            Some(next) if generation != self.generation => next,
            _ => &self.now,
        }
    }

    /// Whether anyone is still to be moved.
    pub(super) fn is_going_on(&self) -> bool {
        self.next.is_some()
    }

    /// One step, where all ids are below `end`: the id which now belongs to the next order and must be given its
    /// place there, if it is resident. None when the step ended the passage, or there is none.
    pub(super) fn step(&mut self, end: u32) -> Option<u32> {
        if self.next.is_some() && self.moved < end {
            self.moved += 1;
            return Some(self.moved - 1);
        }
        if let Some(next) = self.next.take() {
            self.now = next;
            self.generation = self.generation.wrapping_add(1);
            self.next = self.queued.take();
            self.moved = 0;
        }
        None
    }
}
