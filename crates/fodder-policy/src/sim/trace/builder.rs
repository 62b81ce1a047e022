//! Builds a trace from requests as they are read: names become dense ids in the order they come up.

use super::{Scores, Sizes, Trace};
use crate::residency::signal::UNSCORED;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// A trace under construction.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    ids: FxHashMap<u64, u32>,
    requests: Vec<u32>,
    /// By id, the greatest that was seen: a cache must hold that.
    sizes: Vec<u32>,
    sized: bool,
    /// As they came, by name, and before which request.
    scores: Vec<(usize, Vec<f32>)>,
}

impl Builder {
    /// An object was asked for.
    pub(crate) fn request(&mut self, name: u64, bytes: Option<u32>) {
        let fresh = self.ids.len() as u32;
        let id = match self.ids.entry(name) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(vacant) => {
                self.sizes.push(1);
                *vacant.insert(fresh)
            }
        };
        if let Some(bytes) = bytes {
            self.sized = true;
            self.sizes[id as usize] = self.sizes[id as usize].max(bytes);
        }
        self.requests.push(id);
    }

    /// Objects are worth this from here on, by name.
    pub(crate) fn scores(&mut self, scores: Vec<f32>) {
        self.scores.push((self.requests.len(), scores));
    }

    /// How many requests there are.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The whole trace.
    pub(crate) fn build(self) -> Trace {
        let alike = self.sizes.windows(2).all(|pair| pair[0] == pair[1]);
        let scores = self.scores.iter().map(|(at, by_name)| {
            let mut by_id = vec![UNSCORED; self.ids.len()];
            for (&name, &id) in &self.ids {
                by_id[id as usize] = by_name.get(name as usize).copied().unwrap_or(UNSCORED);
            }
            Scores { at: *at, by_id: by_id.into() }
        });
        Trace {
            scores: scores.collect(),
            items: self.ids.len() as u32,
            sizes: if !self.sized || alike { Sizes::One } else { Sizes::Each(self.sizes.into()) },
            requests: self.requests,
            ..Trace::default()
        }
    }
}
