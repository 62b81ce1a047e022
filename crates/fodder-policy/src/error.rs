//! Why a job's request is refused, in variants named by what the caller does next.

/// A result of the machines that answer jobs.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request was refused. A refused request has had no effect; each message tells a person what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such job, or no such epoch or batch of it.
    #[error("{0}")]
    NotFound(String),
    /// The request itself is wrong: correct it, retrying is useless.
    #[error("{0}")]
    Invalid(String),
    /// It contradicts what was said before.
    #[error("{0}")]
    Conflict(String),
    /// A bound is reached: finish something first.
    #[error("{0}")]
    Full(String),
    /// The bytes of a checkpoint are not those that were written.
    #[error("{0}")]
    Corrupt(String),
}
