//! What a request's headers ask of the bytes: which range, and only if they changed. Pure.

use axum::http::{HeaderMap, HeaderValue, header};
use fodder_core::id::Version;
use std::ops::Range;

/// Which part of the bytes to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of them.
    Whole,
    /// These, which exist and are not empty.
    Range(Range<u64>),
    /// The range that was asked for begins behind the end.
    Unsatisfiable,
}

/// The part that `Range` asks for, unless `If-Range` names other bytes. What is not understood (another unit, several
/// ranges, junk) means the whole, as RFC 9110 has it.
pub(super) fn part(headers: &HeaderMap, etag: &HeaderValue, size: u64) -> Part {
    let Some(range) = headers.get(header::RANGE).and_then(|value| value.to_str().ok()) else { return Part::Whole };
    if headers.get(header::IF_RANGE).is_some_and(|other| other != etag || other.as_bytes().starts_with(b"W/")) {
        return Part::Whole;
    }
    match parse(range, size) {
        None => Part::Whole,
        Some(range) if range.start < range.end => Part::Range(range),
        Some(_) => Part::Unsatisfiable,
    }
}

/// `bytes=a-b`, `bytes=a-` or `bytes=-n`, cut to the size; an empty range if it has no byte.
fn parse(text: &str, size: u64) -> Option<Range<u64>> {
    let (first, last) = text.trim().strip_prefix("bytes=")?.trim().split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A number too large for the type is behind every end.
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    match (digits(first), digits(last)) {
        (true, true) if number(first) > number(last) => None,
        (true, true) => Some(number(first).min(size)..number(last).saturating_add(1).min(size)),
        (true, false) if last.is_empty() => Some(number(first).min(size)..size),
        (false, true) if first.is_empty() => Some(size.saturating_sub(number(last))..size),
        _ => None,
    }
}

/// Whether `If-None-Match` names these bytes, so that they need not be sent.
pub(super) fn is_known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    headers.get_all(header::IF_NONE_MATCH).iter().any(|value| names(value, etag))
}

/// Whether `If-Match` is there and names other bytes.
pub(super) fn is_refused(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let mut wanted = headers.get_all(header::IF_MATCH).iter().peekable();
    wanted.peek().is_some() && !wanted.any(|value| names(value, etag))
}

fn names(list: &HeaderValue, etag: &HeaderValue) -> bool {
    let strong = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
    let mut tags = list.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    tags.any(|tag| tag == b"*" || strong(tag) == strong(etag.as_bytes()))
}

/// The `ETag` of a part of an object: its version; with the range, if it is not the whole object.
pub(super) fn etag(version: &Version, part: Option<&Range<u64>>) -> HeaderValue {
    let text = &*version.0;
    let weak = if text.starts_with("W/") { "W/" } else { "" };
    let inner = text.trim_start_matches("W/").trim_matches('"');
    let mut tag = format!("{weak}\"");
    for byte in inner.bytes() {
        // What an entity tag may hold (RFC 9110, etagc), less the comma that would confuse lists of them.
        match byte {
            0x21 | 0x23..=0x2b | 0x2d..=0x7e => tag.push(char::from(byte)),
            _ => tag.push_str(&format!("%{byte:02X}")),
        }
    }
    if let Some(part) = part {
        tag.push_str(&format!(":{}-{}", part.start, part.end));
    }
    tag.push('"');
    HeaderValue::from_str(&tag).expect("only visible ASCII was put in")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_range_is_cut_to_the_size() {
        let etag = HeaderValue::from_static("\"a\"");
        for (text, expected) in [
            ("bytes=0-0", Part::Range(0..1)),
            ("bytes=2-5", Part::Range(2..6)),
            ("bytes=2-", Part::Range(2..10)),
            ("bytes=-3", Part::Range(7..10)),
            ("bytes=-30", Part::Range(0..10)),
            ("bytes=9-99999999999999999999999", Part::Range(9..10)),
            ("bytes=10-", Part::Unsatisfiable),
            ("bytes=10-12", Part::Unsatisfiable),
            ("bytes=99999999999999999999999-", Part::Unsatisfiable),
            ("bytes=-0", Part::Unsatisfiable),
            ("bytes=5-2", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("items=0-1", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("bytes=--1", Part::Whole),
            ("bytes=-", Part::Whole),
            ("", Part::Whole),
        ] {
            assert_eq!(part(&headers(&[(header::RANGE, text)]), &etag, 10), expected, "{text}");
        }
        assert_eq!(part(&headers(&[(header::RANGE, "bytes=0-")]), &etag, 0), Part::Unsatisfiable);
        assert_eq!(part(&HeaderMap::new(), &etag, 10), Part::Whole);
    }

    #[test]
    fn a_range_of_other_bytes_is_answered_with_the_whole() {
        let etag = HeaderValue::from_static("\"a\"");
        let ask = |tag| headers(&[(header::RANGE, "bytes=0-0"), (header::IF_RANGE, tag)]);
        assert_eq!(part(&ask("\"a\""), &etag, 10), Part::Range(0..1));
        assert_eq!(part(&ask("\"b\""), &etag, 10), Part::Whole);
        assert_eq!(part(&ask("W/\"a\""), &etag, 10), Part::Whole);
    }

    #[test]
    fn conditions_compare_entity_tags() {
        let etag = HeaderValue::from_static("\"a\"");
        for (text, known) in [("\"a\"", true), ("W/\"a\"", true), ("\"b\", \"a\"", true), ("*", true), ("\"b\"", false)]
        {
            assert_eq!(is_known(&headers(&[(header::IF_NONE_MATCH, text)]), &etag), known, "{text}");
            assert_eq!(is_refused(&headers(&[(header::IF_MATCH, text)]), &etag), !known, "{text}");
        }
        assert!(!is_known(&HeaderMap::new(), &etag) && !is_refused(&HeaderMap::new(), &etag));
    }

    #[test]
    fn every_version_makes_a_valid_entity_tag() {
        for (version, expected) in [
            ("\"abc\"", "\"abc\""),
            ("abc", "\"abc\""),
            ("W/\"abc\"", "W/\"abc\""),
            ("mtime:17-10", "\"mtime:17-10\""),
            ("a\"b\n,ü", "\"a%22b%0A%2C%C3%BC\""),
            ("", "\"\""),
        ] {
            assert_eq!(etag(&Version(version.into()), None), expected, "{version}");
        }
        assert_eq!(etag(&Version("abc".into()), Some(&(5..7))), "\"abc:5-7\"");
    }
}
