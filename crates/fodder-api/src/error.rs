//! The one error of the client, its variants named by what the caller does next.

use crate::v1::ErrorCode;

/// A result of the client.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The trailer of a gRPC status that names the [`ErrorCode`].
pub const ERROR_TRAILER: &str = "fodder-error";

/// What a node says to a client on another machine, where it answers nobody there but nodes.
pub const NODES_ONLY: &str = "this node answers other machines only if they are nodes of its cluster: run the command on the \
                              machine of this node, or use the node on yours";

/// Why a node could not do as asked, or could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    /// The node, its origin or a disk does not answer now: try again later.
    #[error("{0}")]
    Unavailable(String),
    /// No room: make some, or ask for less.
    #[error("{0}")]
    Full(String),
    /// Bytes are not what they should be.
    #[error("{0}")]
    Corrupt(String),
    /// The node is shutting down, or has removed the dataset: open it anew.
    #[error("{0}")]
    Closed(String),
    /// A fault of Fodder itself.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// The error a code and a message from the wire stand for. A code this client does not know is internal.
    pub fn from_code(code: ErrorCode, message: String) -> Self {
        match code {
            ErrorCode::NotFound => Self::NotFound(message),
            ErrorCode::Invalid => Self::Invalid(message),
            ErrorCode::Conflict => Self::Conflict(message),
            ErrorCode::Stale => Self::Stale(message),
            ErrorCode::Denied => Self::Denied(message),
            ErrorCode::Unavailable => Self::Unavailable(message),
            ErrorCode::Full => Self::Full(message),
            ErrorCode::Corrupt => Self::Corrupt(message),
            ErrorCode::Closed => Self::Closed(message),
            ErrorCode::Internal | ErrorCode::Unspecified => Self::Internal(message),
        }
    }

    /// Whether the node answers no clients on this machine; another may.
    pub fn is_for_nodes_only(&self) -> bool {
        matches!(self, Self::Denied(text) if text == NODES_ONLY)
    }

    /// The code that stands for this error on the wire.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound(_) => ErrorCode::NotFound,
            Self::Invalid(_) => ErrorCode::Invalid,
            Self::Conflict(_) => ErrorCode::Conflict,
            Self::Stale(_) => ErrorCode::Stale,
            Self::Denied(_) => ErrorCode::Denied,
            Self::Unavailable(_) => ErrorCode::Unavailable,
            Self::Full(_) => ErrorCode::Full,
            Self::Corrupt(_) => ErrorCode::Corrupt,
            Self::Closed(_) => ErrorCode::Closed,
            Self::Internal(_) => ErrorCode::Internal,
        }
    }
}

/// The name of a code as the trailer [`ERROR_TRAILER`] holds it: `not_found`, `invalid` and so on.
pub fn code_name(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NotFound => "not_found",
        ErrorCode::Invalid => "invalid",
        ErrorCode::Conflict => "conflict",
        ErrorCode::Stale => "stale",
        ErrorCode::Denied => "denied",
        ErrorCode::Unavailable => "unavailable",
        ErrorCode::Full => "full",
        ErrorCode::Corrupt => "corrupt",
        ErrorCode::Closed => "closed",
        ErrorCode::Internal | ErrorCode::Unspecified => "internal",
    }
}

/// The code a gRPC status stands for: its trailer says, or, where something between client and node answered,
/// its gRPC code.
fn code_of(status: &tonic::Status) -> ErrorCode {
    use tonic::Code;
    if let Some(name) = status.metadata().get(ERROR_TRAILER).and_then(|value| value.to_str().ok()) {
        let known = (1..=10).filter_map(|number| ErrorCode::try_from(number).ok());
        if let Some(code) = known.into_iter().find(|code| code_name(*code) == name) {
            return code;
        }
    }
    match status.code() {
        Code::NotFound => ErrorCode::NotFound,
        Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented => ErrorCode::Invalid,
        Code::AlreadyExists | Code::Aborted => ErrorCode::Conflict,
        Code::FailedPrecondition => ErrorCode::Stale,
        Code::PermissionDenied | Code::Unauthenticated => ErrorCode::Denied,
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => ErrorCode::Unavailable,
        Code::ResourceExhausted => ErrorCode::Full,
        Code::DataLoss => ErrorCode::Corrupt,
        Code::Ok | Code::Unknown | Code::Internal => ErrorCode::Internal,
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        Self::from_code(code_of(&status), status.message().to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_code_survives_the_way_through_a_status() {
        for number in 1..=10 {
            let code = ErrorCode::try_from(number).unwrap();
            let mut status = tonic::Status::unknown("what happened");
            status.metadata_mut().insert(ERROR_TRAILER, code_name(code).parse().unwrap());
            let error = Error::from(status);
            assert_eq!(error.code(), code);
            assert_eq!(error.to_string(), "what happened");
        }
    }

    #[test]
    fn a_status_without_the_trailer_is_read_by_its_grpc_code() {
        assert_eq!(Error::from(tonic::Status::not_found("x")), Error::NotFound("x".into()));
        assert_eq!(Error::from(tonic::Status::deadline_exceeded("x")), Error::Unavailable("x".into()));
        let mut strange = tonic::Status::not_found("x");
        strange.metadata_mut().insert(ERROR_TRAILER, "from-the-future".parse().unwrap());
        assert_eq!(Error::from(strange), Error::NotFound("x".into()));
    }
}
