//! What a request that fails is answered with: a status and `{"error": {"kind", "message"}}`.
//!
//! The one place where the engine's errors become HTTP statuses.

use axum::{
    Json,
    extract::rejection::{JsonRejection, PathRejection, QueryRejection},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use fodder_core::Error;
use serde::Serialize;
use utoipa::ToSchema;

/// An answer that says what went wrong.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

/// The body of an answer that says what went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProblemBody {
    error: ProblemError,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
struct ProblemError {
    /// One of not_found, invalid, conflict, stale, denied, unavailable, full, corrupt, closed, internal,
    /// method_not_allowed, too_large, unsupported_media_type, timeout.
    kind: &'static str,
    /// What happened and what to do, for a person.
    message: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into() }
    }

    /// The request itself is wrong.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// As it is told where a status was sent before.
    pub(crate) fn into_value(self) -> serde_json::Value {
        serde_json::json!({ "event": "failed", "error": { "kind": self.kind, "message": self.message } })
    }

    /// There is no such thing.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, kind) = match &error {
            Error::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            Error::Invalid(_) => (StatusCode::BAD_REQUEST, "invalid"),
            Error::Conflict(_) => (StatusCode::CONFLICT, "conflict"),
            Error::Stale(_) => (StatusCode::CONFLICT, "stale"),
            Error::Denied(_) => (StatusCode::FORBIDDEN, "denied"),
            Error::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Error::Full(_) => (StatusCode::INSUFFICIENT_STORAGE, "full"),
            Error::Corrupt(_) => (StatusCode::BAD_GATEWAY, "corrupt"),
            Error::Closed => (StatusCode::SERVICE_UNAVAILABLE, "closed"),
            Error::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(%error, "a REST request failed");
        }
        Self::new(status, kind, error.to_string())
    }
}

/// What the framework says is wrong with a request, in the words of who sent it.
fn plain(text: &str) -> String {
    let beginnings = [
        ("Failed to deserialize the JSON body into the target type: ", "the body has a mistake: "),
        ("Failed to parse the request body as JSON: ", "the body is not valid JSON: "),
        ("Failed to deserialize query string: ", "the query has a mistake: "),
        ("Invalid URL: ", "the path has a mistake: "),
    ];
    let known = beginnings.into_iter().find_map(|(from, to)| Some(format!("{to}{}", text.strip_prefix(from)?)));
    known.unwrap_or_else(|| text.to_owned())
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::invalid(plain(&rejection.body_text()))
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::invalid(plain(&rejection.body_text()))
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        match rejection {
            JsonRejection::MissingJsonContentType(_) => Self::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "send JSON, with the header Content-Type: application/json",
            ),
            other => Self::invalid(plain(&other.body_text())),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, kind, message } = self;
        let mut response = (status, Json(ProblemBody { error: ProblemError { kind, message } })).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
