//! The one error of the engine, its variants named by what the caller does next.

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the engine could not do as asked. Each message tells a person what to do; none holds a credential.
///
/// Clone, because one failed fetch answers every reader who joined it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// It does not exist: correct the name.
    #[error("{0}")]
    NotFound(String),
    /// The request itself is wrong: correct it, retrying is useless.
    #[error("{0}")]
    Invalid(String),
    /// It exists already, or is held by someone else.
    #[error("{0}")]
    Conflict(String),
    /// The object changed at the origin since the snapshot was taken: refresh and ask again.
    #[error("{0}")]
    Stale(String),
    /// The credentials do not allow it.
    #[error("{0}")]
    Denied(String),
    /// The origin or a disk does not answer now: try again later.
    #[error("{0}")]
    Unavailable(String),
    /// No room: make some, or ask for less.
    #[error("{0}")]
    Full(String),
    /// Bytes are not what they should be (a broken shard, a snapshot of another format).
    #[error("{0}")]
    Corrupt(String),
    /// The node is shutting down, or has removed the dataset: ask anew, by name.
    #[error("the node is shutting down, or has removed the dataset")]
    Closed,
    /// A fault of Fodder itself.
    #[error("internal error: {0}; please report this")]
    Internal(String),
}

impl Error {
    /// An I/O error on a local file or directory, with what was being done to which path.
    pub fn io(doing: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        let text = format!("cannot {doing} {}: {error}", path.display());
        match error.kind() {
            K::NotFound => Error::NotFound(text),
            K::PermissionDenied => Error::Denied(text),
            K::StorageFull | K::QuotaExceeded => Error::Full(format!("{text}; make room on that file system")),
            _ => Error::Unavailable(text),
        }
    }
}

impl From<fodder_policy::Error> for Error {
    fn from(error: fodder_policy::Error) -> Self {
        use fodder_policy::Error as Refused;
        match error {
            Refused::NotFound(text) => Error::NotFound(text),
            Refused::Invalid(text) => Error::Invalid(text),
            Refused::Conflict(text) => Error::Conflict(text),
            Refused::Full(text) => Error::Full(text),
            Refused::Corrupt(text) => Error::Corrupt(text),
        }
    }
}
