//! Which objects a warming is about, in which order.

use super::{Selection, Share};
use crate::{
    Dataset, Error, Result,
    catalog::{Child, Objects, Snapshot},
    config::DatasetConfig,
    id::ObjectSlot,
    origin::redacted,
};
use rustc_hash::FxHashSet;
use std::{sync::Arc, vec};

/// Objects looked up in one go.
const PAGE: usize = 1024;

/// The objects of a selection, as often as they are walked over.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    snapshot: Arc<Snapshot>,
    table: Arc<Objects>,
    which: Which,
    /// Whether what is behind links is left out.
    shown: bool,
    pub(super) share: Share,
}

#[derive(Debug, Clone)]
enum Which {
    Prefix(String),
    Listed(Arc<[ObjectSlot]>),
}

impl Chosen {
    /// Finds what a selection means. [`Error::NotFound`] if a path means nothing.
    pub(super) fn new(dataset: &Dataset, selection: Selection, share: Share) -> Result<Self> {
        let (snapshot, table) = (dataset.snapshot(), dataset.objects());
        let shown = matches!(selection, Selection::Shown(_));
        let which = match selection {
            Selection::Objects(mut slots) => {
                let mut seen = FxHashSet::default();
                slots.retain(|slot| seen.insert(slot.0));
                Which::Listed(slots.into())
            }
            Selection::Path(_) | Selection::Shown(_) if snapshot.object_count() == 0 => {
                let DatasetConfig { name, origin, .. } = dataset.config();
                let text = format!("there is nothing to fetch: {} has no files", redacted(origin));
                return Err(Error::NotFound(format!(
                    "{text}; check the spelling, or run `fodder index {name}` first if they are new"
                )));
            }
            Selection::Path(path) | Selection::Shown(path) => match snapshot.find(path.trim_end_matches('/')) {
                Some(Child::Directory) if path.trim_end_matches('/').is_empty() => Which::Prefix(String::new()),
                Some(Child::Directory) => Which::Prefix(format!("{}/", path.trim_end_matches('/'))),
                Some(Child::Object(slot)) => Which::Listed([slot].into()),
                None if !snapshot.list(&path, None, 1).is_empty() => Which::Prefix(path),
                None => {
                    let name = &dataset.config().name;
                    let text = format!("there is no {path:?} in dataset {name:?}");
                    return Err(Error::NotFound(format!("{text}; if it is new, run `fodder index {name}` first")));
                }
            },
        };
        Ok(Self { snapshot, table, which, shown, share })
    }

    /// All of them, in order.
    pub(super) fn walk(&self) -> Walk {
        let page = match &self.which {
            Which::Prefix(_) => Vec::new(),
            Which::Listed(slots) => slots.to_vec(),
        };
        Walk { chosen: self.clone(), page: page.into_iter(), last: None }
    }
}

/// A walk over chosen objects.
#[derive(Debug)]
pub(super) struct Walk {
    chosen: Chosen,
    page: vec::IntoIter<ObjectSlot>,
    /// The last object that was named: the next page begins behind it.
    last: Option<ObjectSlot>,
}

impl Iterator for Walk {
    type Item = ObjectSlot;

    fn next(&mut self) -> Option<ObjectSlot> {
        loop {
            let object = self.step()?;
            let snapshot = &self.chosen.snapshot;
            let behind_link = || snapshot.place_of(object).is_some_and(|place| snapshot.is_linked(place));
            if !self.chosen.shown || !behind_link() {
                return Some(object);
            }
        }
    }
}

impl Walk {
    fn step(&mut self) -> Option<ObjectSlot> {
        if self.page.len() == 0
            && let Which::Prefix(prefix) = &self.chosen.which
        {
            let after = self.last.map(|last| self.chosen.table.path(last));
            self.page = self.chosen.snapshot.list(prefix, after.as_deref(), PAGE).into_iter();
        }
        self.last = self.page.next();
        self.last
    }
}
