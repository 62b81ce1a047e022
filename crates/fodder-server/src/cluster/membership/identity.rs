//! Who this node is: 128 random bits and a counter of starts, in one small file of the cache directory.
//!
//! The counter is durable before anybody hears of it, so that no start ever speaks with an older voice than the last.

use super::{Incarnation, NodeId};
use fodder_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::Path,
};

/// The file.
const NAME: &str = "identity.json";

/// Who a node is, in which of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Who.
    pub id: NodeId,
    /// In which life.
    pub incarnation: Incarnation,
}

impl Identity {
    /// The next life of the node whose cache directory this is; a new node, if it has none. Only the holder of the
    /// directory's lock may ask. Waits for the disk.
    pub fn next(dir: &Path) -> Result<Self> {
        let path = dir.join(NAME);
        let last = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).ok(),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("read", &path, &error)),
        };
        if last.is_none() && path.exists() {
            tracing::warn!(path = %path.display(), "cannot read the identity of the node: it becomes a new member");
        }
        let last = last.unwrap_or_else(|| Self { id: NodeId(rand::random()), incarnation: Incarnation(0) });
        let next = Self { incarnation: Incarnation(last.incarnation.0 + 1), ..last };
        next.write(dir, &path).map_err(|error| Error::io("write", &path, &error))?;
        Ok(next)
    }

    fn write(&self, dir: &Path, path: &Path) -> std::io::Result<()> {
        let temporary = path.with_extension("tmp");
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec(self).expect("an identity is plain data"))?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(dir)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_node_keeps_its_identity_and_counts_its_starts() {
        let dir = tempfile::tempdir().unwrap();
        let first = Identity::next(dir.path()).unwrap();
        let second = Identity::next(dir.path()).unwrap();
        assert_eq!((first.id, first.incarnation), (second.id, Incarnation(1)));
        assert_eq!(second.incarnation, Incarnation(2));
        let elsewhere = tempfile::tempdir().unwrap();
        assert_ne!(Identity::next(elsewhere.path()).unwrap().id, first.id);
    }

    #[test]
    fn a_file_that_cannot_be_read_makes_a_new_member_and_a_missing_directory_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let first = Identity::next(dir.path()).unwrap();
        fs::write(dir.path().join(NAME), b"{\"id\": 7").unwrap();
        let second = Identity::next(dir.path()).unwrap();
        assert_ne!(second.id, first.id);
        assert_eq!(second.incarnation, Incarnation(1));
        Identity::next(&dir.path().join("nowhere")).unwrap_err();
    }
}
