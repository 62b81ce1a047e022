//! How objects become items: one file a layout.

use serde::{Deserialize, Serialize};

/// How a dataset's objects become items.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// A file is a sample is an item, in torchvision's ImageFolder order, with class labels where directories are classes.
    #[default]
    Files,
    /// Every object is cut into blocks of this many bytes.
    Blocks {
        /// Bytes of a block; the last one of an object may be shorter.
        block_bytes: u32,
    },
    /// WebDataset shards: the files of one key are one sample.
    Tar,
    /// TensorFlow records.
    Tfrecord,
}
