//! Takes out of a page of a listing what object_store cannot carry: keys with empty parts, `.`, `..`, control
//! characters or a slash at an end. Works on the text, because a control character makes it no XML at all.

use crate::origin::name;
use bytes::Bytes;

/// How a store spells an entry and its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements {
    entry: &'static str,
    key: &'static str,
    size: &'static str,
}

/// What was taken out of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TakenOut {
    /// How many entries cannot be read.
    pub(super) skipped: u64,
    /// Keys that mark directories: objects without bytes, with a slash at the end.
    pub(super) markers: Vec<String>,
}

impl Elements {
    /// The spelling of the listing that a query asks for; None if it asks for none.
    pub(super) fn of(query: &str) -> Option<Self> {
        let mut parts = query.split('&');
        parts.find_map(|part| match part {
            "list-type=2" => Some(Self { entry: "Contents", key: "Key", size: "Size" }),
            "comp=list" => Some(Self { entry: "Blob", key: "Name", size: "Content-Length" }),
            _ => None,
        })
    }

    /// The page without the entries that cannot be read, and what was taken out.
    pub(super) fn readable(&self, page: Bytes) -> (Bytes, TakenOut) {
        let mut taken_out = TakenOut::default();
        let Ok(text) = std::str::from_utf8(&page) else { return (page, taken_out) };
        let (open, close) = (format!("<{}>", self.entry), format!("</{}>", self.entry));
        let (mut kept, mut rest, mut removed) = (String::new(), text, false);
        while let Some(start) = rest.find(&open) {
            let Some(end) = rest[start..].find(&close).map(|end| start + end + close.len()) else { break };
            let entry = &rest[start..end];
            let key = self::text(entry, self.key);
            if key.as_deref().is_some_and(|key| name::path(key).is_some()) {
                kept.push_str(&rest[..end]);
            } else {
                kept.push_str(&rest[..start]);
                removed = true;
                let is_empty = self::text(entry, self.size).is_some_and(|size| size.trim() == "0");
                match key.filter(|key| is_empty && is_marker(key)) {
                    Some(key) => taken_out.markers.push(key),
                    None => taken_out.skipped += 1,
                }
            }
            rest = &rest[end..];
        }
        if !removed {
            return (page, taken_out);
        }
        kept.push_str(rest);
        (kept.into(), taken_out)
    }
}

/// Whether a key, of an object without bytes, marks a directory.
fn is_marker(key: &str) -> bool {
    key.strip_suffix('/').is_some_and(|directory| name::path(directory).is_some())
}

/// The text of the first element of a name, with its entities replaced; None if there is none.
pub(super) fn text(xml: &str, element: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{element}>"))?;
    let (text, _) = rest.split_once(&format!("</{element}>"))?;
    unescape(text)
}

fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let (entity, after) = after.split_once(';')?;
        plain.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            number => {
                let number = number.strip_prefix('#')?;
                let code = match number.strip_prefix(['x', 'X']) {
                    Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(code)?
            }
        });
        rest = after;
    }
    plain.push_str(rest);
    Some(plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn unreadable_keys_go_and_everything_else_stays_as_it_was() {
        let entry = |key: &str, size: u64| format!("<Contents><Key>{key}</Key><Size>{size}</Size></Contents>");
        let page = |entries: &[String]| Bytes::from(format!("<R><A>1</A>{}<T>x</T></R>", entries.concat()));
        let good = [entry("a/b", 1), entry("a&amp;&lt;b&#233;", 2), entry("100%", 0)];
        let mut all = good.to_vec();
        for key in ["../a", "a//b", "a&#10;b", "a\u{1}", "/a", "a/", ".", "&bad;"] {
            all.insert(1, entry(key, 5));
        }
        all.extend(["dir/", "a//", "/", "b&amp;c/d/"].map(|key| entry(key, 0)));
        let elements = Elements::of("prefix=a&list-type=2").unwrap();
        let taken_out = TakenOut { skipped: 10, markers: vec!["dir/".into(), "b&c/d/".into()] };
        assert_eq!(elements.readable(page(&all)), (page(&good), taken_out));
        assert_eq!(elements.readable(page(&good)), (page(&good), TakenOut::default()));
        assert!(Elements::of("prefix=list").is_none());
    }
}
