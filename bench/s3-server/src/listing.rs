//! ListObjectsV2: a page of keys as XML.

use crate::Object;
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    ops::Bound,
};

/// The page that a query asks for.
pub(crate) fn page(objects: &BTreeMap<String, Object>, query: &HashMap<String, String>, most: usize) -> String {
    let get = |key: &str| query.get(key).map_or("", String::as_str);
    let (prefix, delimiter) = (get("prefix"), get("delimiter"));
    let most = query.get("max-keys").and_then(|keys| keys.parse().ok()).unwrap_or(most).min(most);
    let after = [get("continuation-token"), get("start-after")].into_iter().find(|key| !key.is_empty());
    let start = after.map_or(Bound::Included(prefix), |key| {
        if key < prefix { Bound::Included(prefix) } else { Bound::Excluded(key) }
    });
    let spell = |key: &str| if get("encoding-type") == "url" { url_encode(key) } else { escape(key) };

    let (mut entries, mut prefixes, mut count) = (String::new(), Vec::<String>::new(), 0);
    let mut last = None;
    for (key, object) in objects.range::<str, _>((start, Bound::Unbounded)) {
        if !key.starts_with(prefix) {
            break;
        }
        let directory = (!delimiter.is_empty())
            .then(|| key[prefix.len()..].find(delimiter).map(|at| &key[..prefix.len() + at + delimiter.len()]))
            .flatten();
        let known = directory
            .is_some_and(|d| prefixes.last().is_some_and(|last| last == d) || after.is_some_and(|a| a.starts_with(d)));
        if count == most && !known {
            return wrap(&entries, &prefixes, last, count, &spell);
        }
        last = Some(key);
        match directory {
            Some(_) if known => {}
            Some(directory) => {
                prefixes.push(directory.into());
                count += 1;
            }
            None => {
                entry(&mut entries, &spell(key), object);
                count += 1;
            }
        }
    }
    wrap(&entries, &prefixes, None, count, &spell)
}

fn entry(xml: &mut String, key: &str, object: &Object) {
    let (etag, time) = (escape(&object.etag()), timestamp(object.modified()));
    // Writing to a String does not fail.
    let _ = write!(
        xml,
        "<Contents><Key>{key}</Key><LastModified>{time}</LastModified><ETag>{etag}</ETag><Size>{}</Size>\
         <StorageClass>STANDARD</StorageClass></Contents>",
        object.size()
    );
}

fn wrap(
    entries: &str,
    prefixes: &[String],
    next: Option<&String>,
    count: usize,
    spell: &dyn Fn(&str) -> String,
) -> String {
    let prefixes: String =
        prefixes.iter().map(|p| format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", spell(p))).collect();
    let token =
        next.map(|key| format!("<NextContinuationToken>{}</NextContinuationToken>", escape(key))).unwrap_or_default();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><KeyCount>{count}</KeyCount>\
         <IsTruncated>{}</IsTruncated>{token}{entries}{prefixes}</ListBucketResult>",
        next.is_some()
    )
}

/// A text in XML. Control characters become references, which is no valid XML, and what S3 does.
pub(crate) fn escape(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            c if c.is_ascii_control() => xml.push_str(&format!("&#x{:x};", c as u32)),
            c => xml.push(c),
        }
    }
    xml
}

fn url_encode(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.*/".contains(byte);
    text.bytes().map(|b| if plain(&b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The year, month and day of a number of days since 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // Days are counted from March, so that the leap day comes last; an era is 400 years.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// `2026-11-15T10:00:00.000Z`
fn timestamp(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.000Z")
}

/// `Sun, 15 Nov 2026 10:00:00 GMT`
pub(crate) fn http_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day) = date(seconds / 86_400);
    let (name, month) = (DAYS[(seconds / 86_400 % 7) as usize], MONTHS[month as usize - 1]);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{name}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(http_date(1_794_736_800), "Sun, 15 Nov 2026 10:00:00 GMT");
    }
}
