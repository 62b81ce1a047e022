//! Doubly linked lists of ids, threaded through one array over the ids: 8 bytes an id, every operation O(1).
//!
//! Any number of lists may share one array, since an id is in at most one of them. Which one, the owner knows.

use super::dense::reserve;

/// Where a list ends. Never an id: there are at most `u32::MAX` pieces, so the greatest id is one less.
pub(super) const END: u32 = u32::MAX;

/// The neighbours of one id in its list.
#[derive(Debug, Clone, Copy)]
struct Link {
    /// The next newer id. An id that is in no list is its own neighbour, which none in a list is.
    newer: u32,
    /// The next older id.
    older: u32,
}

/// The array that lists are threaded through.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: Vec<Link>,
}

/// The two ends of one list.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    /// The id that was put in last, or [`END`].
    pub(super) newest: u32,
    /// The id that was put in first, or [`END`].
    pub(super) oldest: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { newest: END, oldest: END }
    }
}

impl List {
    /// The id that was put in first.
    pub(super) fn first(&self) -> Option<u32> {
        (self.oldest != END).then_some(self.oldest)
    }

    /// Whether nobody is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.oldest == END
    }
}

impl Links {
    /// Whether an id is in any list.
    pub(super) fn contains(&self, id: u32) -> bool {
        self.links.get(id as usize).is_some_and(|link| link.newer != id)
    }

    /// The next newer id in the list that `id` is in, or [`END`].
    pub(super) fn newer(&self, id: u32) -> u32 {
        self.links[id as usize].newer
    }

    /// Puts an id that is in no list at the newest end of one.
    pub(super) fn push_newest(&mut self, list: &mut List, id: u32) {
        if id as usize >= self.links.len() {
            self.grow(id);
        }
        self.links[id as usize] = Link { newer: END, older: list.newest };
        match list.newest {
            END => list.oldest = id,
            newest => self.links[newest as usize].newer = id,
        }
        list.newest = id;
    }

    /// Takes an id out of the list it is in.
    pub(super) fn unlink(&mut self, list: &mut List, id: u32) {
        let Link { newer, older } = self.links[id as usize];
        match newer {
            END => list.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            END => list.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        self.links[id as usize] = Link { newer: id, older: id };
    }

    /// Moves an id to the newest end of the list it is in.
    pub(super) fn renew(&mut self, list: &mut List, id: u32) {
        if list.newest != id {
            self.unlink(list, id);
            self.push_newest(list, id);
        }
    }

    /// Bytes it holds on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
    }

    fn grow(&mut self, id: u32) {
        let len = id as usize + 1;
        reserve(&mut self.links, len);
        for id in self.links.len() as u32..len as u32 {
            self.links.push(Link { newer: id, older: id });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(links: &Links, list: &List) -> Vec<u32> {
        let after = |&id: &u32| Some(links.newer(id)).filter(|&newer| newer != END);
        std::iter::successors(list.first(), after).collect()
    }

    proptest! {
        #[test]
        fn two_lists_over_one_array_agree_with_two_vectors(
            steps in prop::collection::vec((0usize..2, 0u32..40, any::<bool>()), 1..300),
        ) {
            let mut links = Links::default();
            let (mut lists, mut models) = ([List::default(); 2], [Vec::new(), Vec::new()]);
            for (which, id, renew) in steps {
                match models.iter().position(|model: &Vec<u32>| model.contains(&id)) {
                    None => {
                        links.push_newest(&mut lists[which], id);
                        models[which].push(id);
                    }
                    Some(holder) => {
                        models[holder].retain(|&other| other != id);
                        if renew {
                            links.renew(&mut lists[holder], id);
                            models[holder].push(id);
                        } else {
                            links.unlink(&mut lists[holder], id);
                        }
                    }
                }
                for (list, model) in lists.iter().zip(&models) {
                    prop_assert_eq!(&members(&links, list), model);
                    prop_assert_eq!(list.is_empty(), model.is_empty());
                    prop_assert_eq!(list.newest, model.last().copied().unwrap_or(END));
                }
                for id in 0..50 {
                    prop_assert_eq!(links.contains(id), models.concat().contains(&id));
                }
            }
        }
    }
}
