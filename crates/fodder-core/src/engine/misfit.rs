//! Recognises a layout that probably does not fit the objects of a dataset. It warns; it decides nothing.

use super::Dataset;
use crate::{catalog::Snapshot, layout::Layout};

/// Objects that are looked at.
const SAMPLE: usize = 64;

/// Endings of shards, and the layouts that read them.
const SHARDS: [(&str, &str); 2] = [(".tar", "tar"), (".tfrecord", "tfrecord")];

impl Dataset {
    /// Why the layout probably does not fit, and what to do. None: it may well fit.
    pub(super) fn layout_warning(&self, snapshot: &Snapshot) -> Option<String> {
        let config = self.config();
        if snapshot.object_count() == 0 {
            return None;
        }
        if snapshot.is_empty() {
            return Some(format!(
                "dataset {:?} has no items: none of its {} objects is a file of layout {:?}; use the layout \"files\" for \
                 single files, or name the directory that holds the shards",
                config.name,
                snapshot.object_count(),
                config.layout.to_string()
            ));
        }
        let objects = self.objects();
        let paths: Vec<_> = snapshot.objects().take(SAMPLE).map(|object| objects.path(object)).collect();
        let all_end_with = |ending: &str| paths.iter().all(|path| path.to_ascii_lowercase().ends_with(ending));
        let shards = SHARDS.iter().find(|(ending, _)| config.layout == Layout::Files && all_end_with(ending));
        shards.map(|(ending, layout)| {
            format!(
                "dataset {:?} has only *{ending} files, and each of them is one item; use the layout {layout:?} for one item \
                 a sample",
                config.name
            )
        })
    }
}
