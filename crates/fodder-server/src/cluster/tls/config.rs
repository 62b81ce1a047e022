//! What a user says about certificates between nodes.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The files of a node's certificate, in PEM. They are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The node's certificate, and behind it those between it and the authority's.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of the authorities that vouch for the nodes of the cluster.
    pub ca: PathBuf,
}
