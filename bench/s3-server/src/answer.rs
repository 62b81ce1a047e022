//! One request, one answer.

use crate::{
    Fault, Seen, State,
    body::{Bytestream, End, PAUSE, Payload},
    listing,
};
use hyper::{Method, Request, Response, body::Incoming, header, http::response::Builder};
use std::{collections::HashMap, io, ops::Range, sync::Arc, sync::atomic::Ordering};
use tokio::net::TcpStream;

/// Answers a request. An error ends the connection.
pub(crate) async fn answer(
    state: Arc<State>,
    socket: Arc<TcpStream>,
    request: Request<Incoming>,
) -> io::Result<Response<Payload>> {
    let guard = state.enter();
    let path = decode(request.uri().path().trim_start_matches('/'), false);
    let key = path.split_once('/').map_or("", |(_bucket, key)| key).to_owned();
    let header =
        |name: header::HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (range, if_match, if_none) = (header(header::RANGE), header(header::IF_MATCH), header(header::IF_NONE_MATCH));
    if state.remember {
        let signed = request.headers().contains_key(header::AUTHORIZATION);
        let seen = Seen {
            method: request.method().to_string(),
            key: key.clone(),
            range: range.clone(),
            if_match: if_match.clone(),
            signed,
        };
        state.seen.lock().push(seen);
    }
    let latency = *state.latency.lock();
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let fault = state.next_fault(&key);
    match &fault {
        Fault::Status(status, code) => return refusal(*status, code, "a fault that was asked for"),
        Fault::Body(status, body) => return text(Response::builder().status(*status), (*body).to_owned()),
        Fault::Reset => {
            socket.set_zero_linger()?;
            return Err(io::Error::other("reset"));
        }
        Fault::Late(late) => tokio::time::sleep(*late).await,
        Fault::Replace(object) => drop(state.objects.lock().insert(key.clone(), object.clone())),
        _ => {}
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return refusal(405, "MethodNotAllowed", "only GET and HEAD");
    }
    if key.is_empty() {
        let page = listing::page(
            &state.objects.lock(),
            &query(request.uri().query().unwrap_or_default()),
            state.page.load(Ordering::Relaxed),
        );
        return text(Response::builder().header(header::CONTENT_TYPE, "application/xml"), page);
    }
    let object = state.objects.lock().get(&key).cloned();
    let Some(object) = object else { return refusal(404, "NoSuchKey", "The specified key does not exist.") };
    let (etag, size) = (object.etag(), object.size());
    let names = |condition: &str| condition == "*" || condition.split(',').any(|tag| tag.trim() == etag);
    if if_match.is_some_and(|condition| !names(&condition)) {
        return refusal(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold");
    }
    if if_none.is_some_and(|condition| names(&condition)) {
        return refusal(304, "NotModified", "");
    }
    let mut builder = Response::builder()
        .header(header::ETAG, etag)
        .header(header::LAST_MODIFIED, listing::http_date(object.modified()))
        .header(header::ACCEPT_RANGES, "bytes");
    let wanted = match range.as_deref().map(|range| parse_range(range, size)) {
        None => 0..size,
        Some(None) => return refusal(416, "InvalidRange", "The requested range is not satisfiable"),
        Some(Some(mut range)) => {
            if matches!(fault, Fault::Narrow) {
                range.end -= (range.end - range.start) / 2;
            }
            let content = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            builder = builder.status(206).header(header::CONTENT_RANGE, content);
            range
        }
    };
    builder = builder.header(header::CONTENT_LENGTH, wanted.end - wanted.start);
    if *request.method() == Method::HEAD {
        return builder.body(Payload::Text(None)).map_err(io::Error::other);
    }
    let object = object.open()?;
    let pause = Box::pin(tokio::time::sleep(PAUSE));
    let stream = Bytestream { state, range: sent(&fault, wanted), end: end(fault, key), object, pause, _guard: guard };
    builder.body(Payload::Bytes(Box::new(stream))).map_err(io::Error::other)
}

/// The bytes that are sent before the body ends.
fn sent(fault: &Fault, range: Range<u64>) -> Range<u64> {
    match fault {
        Fault::Cut(bytes) | Fault::Short(bytes) | Fault::Stall(bytes) | Fault::CutAndReplace(bytes, _) => {
            range.start..range.end.min(range.start + bytes)
        }
        _ => range,
    }
}

fn end(fault: Fault, key: String) -> End {
    match fault {
        Fault::Cut(_) => End::Cut,
        Fault::Short(_) => End::Short,
        Fault::Stall(_) => End::Stall,
        Fault::CutAndReplace(_, object) => End::Replace(key, object),
        _ => End::Whole,
    }
}

fn text(builder: Builder, text: String) -> io::Result<Response<Payload>> {
    builder.body(Payload::Text(Some(text.into()))).map_err(io::Error::other)
}

fn refusal(status: u16, code: &str, message: &str) -> io::Result<Response<Payload>> {
    if status == 304 {
        return Response::builder().status(status).body(Payload::Text(None)).map_err(io::Error::other);
    }
    text(
        Response::builder().status(status).header(header::CONTENT_TYPE, "application/xml"),
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>"),
    )
}

/// The bytes that `bytes=a-b`, `bytes=a-` or `bytes=-n` name; None if there are none.
fn parse_range(text: &str, size: u64) -> Option<Range<u64>> {
    let (start, end) = text.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (start.parse::<u64>().ok(), end.parse::<u64>().ok()) {
        (Some(start), Some(end)) => start..size.min(end + 1),
        (Some(start), None) => start..size,
        (None, Some(last)) => size.saturating_sub(last)..size,
        (None, None) => return None,
    };
    (!range.is_empty()).then_some(range)
}

fn query(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(key, value)| (decode(key, true), decode(value, true))).collect()
}

/// A text without its percent signs; in a query a plus is a space.
fn decode(text: &str, query: bool) -> String {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                plain.push(byte);
                at += 2;
            }
            (b'+', _) if query => plain.push(b' '),
            (byte, _) => plain.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}
