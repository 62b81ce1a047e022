//! What a failed request means to the caller: which of the engine's errors it becomes, and whether to try again.
//! The text of a store's own error is shown only after it was scrubbed of credentials.

use super::redact::scrub;
use crate::Error;
use object_store::Error as StoreError;
use std::{error::Error as StdError, fmt};

/// Why one attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is no such object.
    Missing,
    /// The object is another version by now.
    Changed,
    /// The credentials are missing or do not suffice.
    Denied(String),
    /// The operating system denies access to a local file.
    NoPermission(String),
    /// Trying again is useless.
    Useless(String),
    /// Trying again may help.
    Passing(String),
}

/// An answer of a server that is not the object: its status, and what it says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) message: String,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        [&self.code, &self.message].iter().filter(|part| !part.is_empty()).try_for_each(|part| write!(f, ", {part}"))
    }
}

impl StdError for Answer {}

/// No credentials could be had.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoCredentials(pub(super) String);

impl Failure {
    /// What an error of a store means.
    pub(super) fn of(error: &StoreError) -> Self {
        if let Some(missing) = find::<NoCredentials>(error) {
            return Failure::Denied(scrub(&missing.0));
        }
        if let Some(answer) = find::<Answer>(error) {
            return Self::of_answer(answer);
        }
        let text = || scrub(&innermost(error));
        match error {
            StoreError::NotFound { .. } => Failure::Missing,
            StoreError::Precondition { .. } | StoreError::NotModified { .. } => Failure::Changed,
            StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => Failure::Denied(text()),
            StoreError::NotSupported { .. }
            | StoreError::NotImplemented { .. }
            | StoreError::InvalidPath { .. }
            | StoreError::UnknownConfigurationKey { .. } => Failure::Useless(text()),
            _ => match find::<std::io::Error>(error).map(std::io::Error::kind) {
                Some(std::io::ErrorKind::PermissionDenied) => Failure::NoPermission(text()),
                _ => Failure::Passing(text()),
            },
        }
    }

    fn of_answer(answer: &Answer) -> Self {
        let text = scrub(&answer.to_string());
        match answer.status {
            404 => Failure::Missing,
            412 => Failure::Changed,
            // The object is shorter than it was.
            416 => Failure::Changed,
            501 | 505 => Failure::Useless(text),
            401 | 403 => Failure::Denied(text),
            408 | 425 | 429 | 500.. => Failure::Passing(text),
            // Passing troubles that S3 calls bad requests. The answer to a HEAD has no body to say which it was.
            400 if matches!(&*answer.code, "" | "RequestTimeout" | "SlowDown" | "ExpiredToken") => {
                Failure::Passing(text)
            }
            300..400 => Failure::Useless(format!(
                "{text}: the bucket is in another region or at another endpoint; set AWS_REGION, or add ?region=REGION to the URI"
            )),
            _ => Failure::Useless(text),
        }
    }

    /// The engine's error for it. `what` names the object or origin, without credentials.
    pub(super) fn error(self, what: &str, account: &str) -> Error {
        match self {
            Failure::Missing => Error::NotFound(format!("{what} does not exist")),
            Failure::Changed => {
                Error::Stale(format!("{what} changed at the origin; refresh the dataset and ask again"))
            }
            Failure::Denied(text) => Error::Denied(format!(
                "{what} may not be read: {text}; check the credentials, or use --anonymous for public data"
            )),
            Failure::NoPermission(text) => {
                let user = rustix::process::geteuid();
                Error::Denied(format!("{what} cannot be read: {text}; allow the node's user (uid {user}) to read it"))
            }
            Failure::Useless(text) => Error::Unavailable(format!("{what} cannot be read: {text}")),
            Failure::Passing(text) => {
                let advice =
                    if is_unreachable(&text) { "; check the address, and that its server can be reached" } else { "" };
                Error::Unavailable(format!("{what} cannot be read now ({account}): {text}{advice}"))
            }
        }
    }
}

/// Whether nobody has answered at all, as far as the system's own words tell.
fn is_unreachable(text: &str) -> bool {
    ["onnection refused", "o route to host", "nreachable", "ame or service not known", "failed to lookup address"]
        .iter()
        .any(|words| text.contains(words))
}

/// The first error of a type in a chain of sources.
pub(super) fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    std::iter::successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
}

/// The text of the last error of a chain: the outer ones repeat it, with URLs and tries that say nothing new.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let last = std::iter::successors(Some(error), |&error| error.source()).last();
    last.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_that_nobody_answers_for_comes_with_what_to_do() {
        let failed = |text: &str| Failure::Passing(text.into()).error("s3://b/x", "8 attempts").to_string();
        assert!(failed("Connection refused (os error 111)").ends_with("that its server can be reached"));
        assert!(failed("503 Slow Down").ends_with("503 Slow Down"));
    }

    #[test]
    fn a_local_file_without_permission_is_not_a_matter_of_credentials() {
        let error = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let failure = Failure::of(&StoreError::Generic { store: "local", source: error.into() });
        let text = failure.error("/data/a", "1 attempt").to_string();
        assert!(text.contains("denied") && text.contains("uid") && !text.contains("--anonymous"), "{text}");
    }
}
