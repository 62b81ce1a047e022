//! The note that a running node leaves in its cache directory's lock, for people and for those who want to join it.

use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Who holds a cache directory and where it listens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// The node's process.
    pub pid: u32,
    /// REST and metrics.
    pub rest: Option<String>,
    /// gRPC and frames.
    pub grpc: Option<String>,
    /// gRPC and frames on this host.
    pub socket: Option<PathBuf>,
}

impl Note {
    /// The note of the node that holds a directory, or held it last.
    pub fn read(dir: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(dir.join("LOCK")).ok()?).ok()
    }
}
