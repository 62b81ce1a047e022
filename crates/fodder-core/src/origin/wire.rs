//! What all HTTP stores share: timeouts, and a look at every answer before object_store sees it.
//!
//! Errors of servers are turned into [`Answer`]s, because their bodies may hold credentials (S3 repeats the signed
//! request) and because their status decides whether to try again. Listings lose the entries that object_store cannot
//! carry: one of them would fail the whole page.

mod listing;

use super::{failure::Answer, patience::Patience};
use async_trait::async_trait;
use object_store::{
    ClientOptions, HeaderMap, HeaderValue, Result, RetryConfig,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
    },
};
use parking_lot::Mutex;
use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Makes connections whose answers are looked at.
#[derive(Debug, Clone, Default)]
pub(super) struct Wire {
    /// Counts the entries that listings lost.
    pub(super) skipped: Arc<AtomicU64>,
    /// Keys that mark directories, of the last page of a listing.
    pub(super) markers: Arc<Mutex<Vec<String>>>,
    /// Set when a server says that the credentials expired.
    pub(super) expired: Arc<AtomicBool>,
    /// Put behind the `?` of every request: the signature of a presigned URL.
    pub(super) query: Option<Secret>,
    /// Sent as `Authorization` with every request.
    pub(super) authorization: Option<HeaderValue>,
}

/// A text that is never shown.
#[derive(Clone)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The options of every HTTP client: no deadline for a whole body, because the reader watches its progress.
pub(super) fn client_options(patience: &Patience) -> ClientOptions {
    ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(patience.connect)
        .with_pool_max_idle_per_host(256)
        .with_allow_http(true)
        .with_http1_only()
        .with_user_agent(HeaderValue::from_static(concat!("fodder/", env!("CARGO_PKG_VERSION"))))
}

/// object_store does not try again: the reader does, for every store alike.
pub(super) fn no_retry() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

impl HttpConnector for Wire {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let mut options = options.clone();
        if let Some(authorization) = &self.authorization {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", authorization.clone());
            options = options.with_default_headers(headers);
        }
        let client = ReqwestConnector::default().connect(&options)?;
        Ok(HttpClient::new(Wired { client, wire: self.clone() }))
    }
}

#[derive(Debug)]
struct Wired {
    client: HttpClient,
    wire: Wire,
}

#[async_trait]
impl HttpService for Wired {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if let Some(Secret(query)) = &self.wire.query {
            let uri = format!("{}?{query}", request.uri());
            *request.uri_mut() = uri.parse().map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        }
        let elements = listing::Elements::of(request.uri().query().unwrap_or_default());
        let range = bounded_range(request.headers());
        let answer = self.client.execute(request).await?;
        let status = answer.status().as_u16();
        if let (200, Some(range)) = (status, range) {
            return cut(answer, range).await;
        }
        match status {
            200..300 => match elements {
                Some(elements) => self.listing(answer, elements).await,
                None => Ok(answer),
            },
            // object_store knows what these mean for an object.
            304 | 404 | 409 | 412 if elements.is_none() => Ok(answer),
            _ => Err(self.refusal(status, answer).await),
        }
    }
}

impl Wired {
    async fn listing(&self, answer: HttpResponse, elements: listing::Elements) -> Result<HttpResponse, HttpError> {
        let (parts, body) = answer.into_parts();
        let page = body.bytes().await?;
        let (page, taken_out) = elements.readable(page);
        self.wire.skipped.fetch_add(taken_out.skipped, Ordering::Relaxed);
        *self.wire.markers.lock() = taken_out.markers;
        Ok(HttpResponse::from_parts(parts, page.into()))
    }

    /// What a server says instead of an answer. Of the body only the code and the message are kept.
    async fn refusal(&self, status: u16, answer: HttpResponse) -> HttpError {
        let body = answer.into_body().bytes().await.unwrap_or_default();
        let body = String::from_utf8_lossy(&body[..body.len().min(16 << 10)]);
        let part = |tag| {
            let text = listing::text(&body, tag).unwrap_or_default();
            text.chars().filter(|c| !c.is_control()).take(300).collect()
        };
        let answer = Answer { status, code: part("Code"), message: part("Message") };
        let unsaid = status == 400 && answer.code.is_empty();
        if unsaid || matches!(&*answer.code, "ExpiredToken" | "InvalidToken" | "RequestExpired") {
            self.wire.expired.store(true, Ordering::Relaxed);
        }
        HttpError::new(HttpErrorKind::Unknown, answer)
    }
}

/// The largest object that is read whole where a server ignores `Range`: larger ones would be read again and again.
const MAX_WHOLE_BYTES: u64 = 8 << 20;

/// The bytes that a request asks for, if it asks for a range with both ends.
fn bounded_range(headers: &HeaderMap) -> Option<Range<u64>> {
    let (start, last) = headers.get("range")?.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    Some(start.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?)
}

/// Takes the range out of the whole object, which a server that ignores `Range` has sent.
async fn cut(answer: HttpResponse, range: Range<u64>) -> Result<HttpResponse, HttpError> {
    let refused = |status, message: String| {
        HttpError::new(HttpErrorKind::Unknown, Answer { status, code: String::new(), message })
    };
    let length = answer.headers().get("content-length").and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let Some(length) = length.filter(|length| *length <= MAX_WHOLE_BYTES) else {
        return Err(refused(
            200,
            format!(
                "the server ignores Range requests, and the object is larger than {} MiB: \
                 serve it from a server that supports them",
                MAX_WHOLE_BYTES >> 20
            ),
        ));
    };
    let (mut parts, body) = answer.into_parts();
    let body = body.bytes().await?;
    if range.start > range.end || range.end > body.len() as u64 {
        return Err(refused(416, "the object is shorter than the range".into()));
    }
    let total = length.max(body.len() as u64);
    let content_range = format!("bytes {}-{}/{total}", range.start, range.end - 1);
    parts.status = 206u16.try_into().map_err(|_| refused(200, "no such status".into()))?;
    parts.headers.insert("content-range", content_range.parse().map_err(|_| refused(200, "a bad range".into()))?);
    parts.headers.insert("content-length", (range.end - range.start).into());
    Ok(HttpResponse::from_parts(parts, body.slice(range.start as usize..range.end as usize).into()))
}
