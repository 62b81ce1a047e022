//! Why something of the mount could not be done, and the one mapping to what the kernel is told.

use fodder_api::Error as NodeError;
use std::io;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a mount could not be made, or not be ended; the message tells what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not exist: correct the name.
    #[error("{0}")]
    NotFound(String),
    /// The request is wrong: correct it.
    #[error("{0}")]
    Invalid(String),
    /// Something else is there already, or somebody uses it.
    #[error("{0}")]
    Busy(String),
    /// This machine or this user cannot do it.
    #[error("{0}")]
    Unsupported(String),
    /// The node does not answer.
    #[error("{0}")]
    Unavailable(String),
    /// A fault of the system.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// A system call that failed, and what it was for.
    pub(crate) fn io(what: impl std::fmt::Display, error: &io::Error) -> Self {
        Self::Internal(format!("cannot {what}: {error}"))
    }
}

/// What a program that uses the mount is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errno {
    /// There is nothing of this name.
    NoEntry,
    /// The kernel's number for it means nothing any more, or the object changed at the origin: open it again.
    Stale,
    /// The origin does not allow it.
    Denied,
    /// It is a directory.
    IsDirectory,
    /// It is no directory.
    NotDirectory,
    /// It is something else than what can be asked so.
    Invalid,
    /// There is no such attribute.
    NoAttribute,
    /// The buffer is too small.
    Range,
    /// The bytes cannot be had.
    Io,
    /// The call does not exist, and the kernel need not ask again.
    NoCall,
    /// It is no terminal, which programs ask of every file.
    NotTerminal,
}

impl Errno {
    /// The number that stands for it. Exhaustive, so that a new one is decided here.
    pub(crate) fn raw(self) -> i32 {
        use rustix::io::Errno as Number;
        let number = match self {
            Self::NoEntry => Number::NOENT,
            Self::Stale => Number::STALE,
            Self::Denied => Number::ACCESS,
            Self::IsDirectory => Number::ISDIR,
            Self::NotDirectory => Number::NOTDIR,
            Self::Invalid => Number::INVAL,
            Self::NoAttribute => Number::NODATA,
            Self::Range => Number::RANGE,
            Self::Io => Number::IO,
            Self::NoCall => Number::NOSYS,
            Self::NotTerminal => Number::NOTTY,
        };
        number.raw_os_error()
    }
}

impl From<&NodeError> for Errno {
    fn from(error: &NodeError) -> Self {
        match error {
            NodeError::NotFound(_) => Self::NoEntry,
            NodeError::Stale(_) => Self::Stale,
            NodeError::Denied(_) => Self::Denied,
            NodeError::Invalid(_)
            | NodeError::Conflict(_)
            | NodeError::Unavailable(_)
            | NodeError::Full(_)
            | NodeError::Corrupt(_)
            | NodeError::Closed(_)
            | NodeError::Internal(_) => Self::Io,
        }
    }
}
