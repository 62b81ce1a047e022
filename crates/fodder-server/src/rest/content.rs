//! Bytes on their way out: a part of an object as an HTTP answer, streamed as fast as the client takes it.

use super::{
    condition::{self, Part},
    problem::Problem,
};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use fodder_core::{
    Dataset,
    config::Medium,
    engine::{Reply, Source},
    id::ObjectSlot,
};
use futures::{StreamExt, TryStreamExt, stream};
use std::{ops::Range, sync::Arc};

/// Where the (first of the) bytes came from.
pub(super) const SOURCE: &str = "x-fodder-source";

/// A part of an object that is asked for as a whole: the object itself, or an item of it.
pub(super) struct Content {
    pub(super) dataset: Arc<Dataset>,
    pub(super) object: ObjectSlot,
    /// Its bytes of the object.
    pub(super) range: Range<u64>,
    /// Whether it is the whole object.
    pub(super) is_whole: bool,
}

/// Answers a GET or HEAD, with ranges and conditions.
pub(super) async fn answer(content: Content, method: &Method, headers: &HeaderMap) -> Result<Response, Problem> {
    let Content { dataset, object, range, is_whole } = content;
    let objects = dataset.objects();
    let etag = condition::etag(&objects.version(object), (!is_whole).then_some(&range));
    let media_type = if is_whole { media_type(&objects.path(object)) } else { OCTETS };
    let size = range.end - range.start;

    if condition::is_refused(headers, &etag) {
        let message = "the object does not have the version of If-Match: leave it out, or look the version up again";
        return Err(Problem::new(StatusCode::PRECONDITION_FAILED, "stale", message));
    }
    if condition::is_known(headers, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    let (status, part) = match condition::part(headers, &etag, size) {
        Part::Whole => (StatusCode::OK, 0..size),
        Part::Range(part) => (StatusCode::PARTIAL_CONTENT, part),
        Part::Unsatisfiable => {
            let message = format!("the range is beyond the end, which is at {size} bytes");
            let mut response = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "invalid", message).into_response();
            response.headers_mut().insert(header::CONTENT_RANGE, ascii(format!("bytes */{size}")));
            return Ok(response);
        }
    };

    let mut response = if *method == Method::HEAD || part.is_empty() {
        Response::new(Body::empty())
    } else {
        let absolute = range.start + part.start..range.start + part.end;
        let (source, body) = body(&dataset, object, absolute).await?;
        let mut response = Response::new(body);
        response.headers_mut().insert(SOURCE, HeaderValue::from_static(source_name(source)));
        response
    };
    *response.status_mut() = status;
    let out = response.headers_mut();
    if status == StatusCode::PARTIAL_CONTENT {
        out.insert(header::CONTENT_RANGE, ascii(format!("bytes {}-{}/{size}", part.start, part.end - 1)));
    }
    out.insert(header::CONTENT_LENGTH, HeaderValue::from(part.end - part.start));
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    out.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    out.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    out.insert(header::ETAG, etag);
    Ok(response)
}

/// The bytes, and where the first of them came from: that much is read before the status is sent, so that what cannot
/// be read has its own status. A failure behind that ends the connection before Content-Length is reached.
async fn body(dataset: &Arc<Dataset>, object: ObjectSlot, range: Range<u64>) -> Result<(Source, Body), Problem> {
    if range.end - range.start <= Dataset::MAX_READ_BYTES {
        let reply = dataset.read(object, range).await?;
        let source = reply.source;
        return Ok((source, Body::from_stream(segments(reply))));
    }
    let mut replies = dataset.read_stream(object, range);
    let Some(first) = replies.next().await else {
        return Err(fodder_core::Error::Internal("a read gave no bytes".into()).into());
    };
    let first = first?;
    let source = first.source;
    let rest =
        replies.inspect_err(|error| tracing::warn!(%error, "a REST answer broke off")).map_ok(segments).try_flatten();
    Ok((source, Body::from_stream(segments(first).chain(rest))))
}

fn segments(reply: Reply) -> impl futures::Stream<Item = Result<Bytes, fodder_core::Error>> {
    stream::iter(reply.segments.into_iter().map(Ok))
}

/// How a source is called in headers and metrics.
pub(crate) fn source_name(source: Source) -> &'static str {
    match source {
        Source::Tier(Medium::Mem) => "tier_mem",
        Source::Tier(Medium::Ssd) => "tier_ssd",
        Source::Tier(Medium::Hdd) => "tier_hdd",
        Source::Prefetched => "prefetched",
        Source::Substituted => "substituted",
        Source::Joined => "joined",
        Source::Origin => "origin",
        Source::Peer => "peer",
        Source::Bypass => "bypass",
    }
}

const OCTETS: &str = "application/octet-stream";

/// The media type by the extension of a path. Nothing that a browser would run is named as such: data is only data.
fn media_type(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((_, extension)) = name.rsplit_once('.') else { return OCTETS };
    match extension.to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "gif" => "image/gif",
        "bmp" => "image/bmp",
        "webp" => "image/webp",
        "tif" | "tiff" => "image/tiff",
        "ppm" => "image/x-portable-pixmap",
        "pgm" => "image/x-portable-graymap",
        "wav" => "audio/wav",
        "flac" => "audio/flac",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "txt" | "csv" | "tsv" | "log" | "md" => "text/plain; charset=utf-8",
        "json" => "application/json",
        "jsonl" => "application/jsonl",
        "tar" => "application/x-tar",
        "gz" | "tgz" => "application/gzip",
        "zst" => "application/zstd",
        "parquet" => "application/vnd.apache.parquet",
        _ => OCTETS,
    }
}

fn ascii(text: String) -> HeaderValue {
    HeaderValue::from_str(&text).expect("digits and punctuation are valid in a header")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_gives_the_media_type_and_never_one_that_runs() {
        assert_eq!(media_type("cat/1.JPEG"), "image/jpeg");
        assert_eq!(media_type("a.b/c"), OCTETS);
        assert_eq!(media_type("page.html"), OCTETS);
        assert_eq!(media_type("drawing.svg"), OCTETS);
        assert_eq!(media_type(""), OCTETS);
    }
}
