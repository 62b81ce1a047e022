//! The engine's words in the words of the wire, for every door that speaks `fodder.v1`: errors and sources.

use fodder_api::v1::{self, ErrorCode};
use fodder_core::{Error, config::Medium, engine::Source};

/// The code that stands for an error.
pub(crate) fn code(error: &Error) -> ErrorCode {
    match error {
        Error::NotFound(_) => ErrorCode::NotFound,
        Error::Invalid(_) => ErrorCode::Invalid,
        Error::Conflict(_) => ErrorCode::Conflict,
        Error::Stale(_) => ErrorCode::Stale,
        Error::Denied(_) => ErrorCode::Denied,
        Error::Unavailable(_) => ErrorCode::Unavailable,
        Error::Full(_) => ErrorCode::Full,
        Error::Corrupt(_) => ErrorCode::Corrupt,
        Error::Closed => ErrorCode::Closed,
        Error::Internal(_) => ErrorCode::Internal,
    }
}

/// The name on the wire of where bytes came from.
pub(crate) fn source(source: Source) -> v1::Source {
    match source {
        Source::Tier(Medium::Mem) => v1::Source::TierMem,
        Source::Tier(Medium::Ssd) => v1::Source::TierSsd,
        Source::Tier(Medium::Hdd) => v1::Source::TierHdd,
        Source::Joined => v1::Source::Joined,
        Source::Origin => v1::Source::Origin,
        Source::Bypass => v1::Source::Bypass,
    }
}
