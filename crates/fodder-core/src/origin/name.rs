//! Names of objects as object_store's `Path` can carry them.
//!
//! A `Path` takes any Unicode but ASCII control characters, empty parts, `.` and `..`. File names never have the latter
//! three; their control characters are escaped here, so that every readable file name can be listed and read. Keys of
//! object stores that a `Path` cannot carry are skipped when listing.

use object_store::path::Path;

/// Stands before the two hexadecimal digits of a control character, and before itself. A code point for private use.
const ESCAPE: char = '\u{F8FA}';

/// A file name without control characters (but NUL, which no file name has).
pub(super) fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            ESCAPE => escaped.extend([ESCAPE, ESCAPE]),
            c if c.is_ascii_control() && c != '\0' => {
                escaped.push(ESCAPE);
                escaped.push_str(&format!("{:02x}", c as u32));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// The file name that was escaped; None if it could not have been.
pub(super) fn unescape(escaped: &str) -> Option<String> {
    let mut name = String::with_capacity(escaped.len());
    let mut chars = escaped.chars();
    while let Some(c) = chars.next() {
        name.push(match c {
            ESCAPE => match chars.next()? {
                ESCAPE => ESCAPE,
                high => {
                    let digits = [high, chars.next()?];
                    let code = digits.iter().try_fold(0, |code, digit| Some(code * 16 + digit.to_digit(16)?))?;
                    char::from_u32(code).filter(|c| c.is_ascii_control() && *c != '\0')?
                }
            },
            c => c,
        });
    }
    Some(name)
}

/// The path of exactly this name; None if a path cannot carry it (`a//b`, `../a`, `/a`, `a/`).
pub(super) fn path(name: &str) -> Option<Path> {
    Path::parse(name).ok().filter(|path| !name.is_empty() && path.as_ref() == name)
}

/// How a store spells names in its paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// As they are.
    Plain,
    /// As file names, whose control characters are escaped.
    Files,
    /// With percent signs, which the store takes out itself.
    #[cfg_attr(not(feature = "all-origins"), allow(dead_code, reason = "only OpenDAL's stores do"))]
    Encoded,
}

impl Naming {
    /// The path of a name; None if no object can have the name.
    pub(super) fn path(self, name: &str) -> Option<Path> {
        match self {
            Naming::Plain => path(name),
            Naming::Files => path(&escape(name)),
            Naming::Encoded => path(name).map(|_| Path::from(name)),
        }
    }

    /// The name that a path spells; None if it is not one that could be read.
    pub(super) fn name(self, path: &str) -> Option<String> {
        match self {
            Naming::Plain => Some(path.into()),
            Naming::Files => unescape(path),
            Naming::Encoded => Some(percent_decoded(path)).filter(|name| self::path(name).is_some()),
        }
    }
}

/// A text without its percent signs.
pub(super) fn percent_decoded(text: &str) -> String {
    // A form pair without `=` is just its decoded key.
    let form = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    url::form_urlencoded::parse(form.as_bytes()).next().map(|(key, _)| key.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_file_name_survives_the_escape() {
        for name in ["a", "a\nb", "\u{1}\u{7f}", "\u{F8FA}0a", "\u{F8FA}", "ünï\u{F8FA}\n", "100%#?"] {
            assert_eq!(unescape(&escape(name)).unwrap(), name);
            assert!(path(&escape(name)).is_some(), "{name:?}");
        }
        assert_ne!(escape("\u{F8FA}0a"), escape("\n"));
        assert_eq!(unescape("\u{F8FA}"), None);
        assert_eq!(unescape("\u{F8FA}2f"), None, "no slash can be smuggled in");
    }

    #[test]
    fn every_spelling_gives_back_the_name() {
        for naming in [Naming::Plain, Naming::Files, Naming::Encoded] {
            for name in ["a/b c", "100%", "%2e%2e/x", "a+b&c=d", "ü/#?*"] {
                assert_eq!(naming.name(naming.path(name).unwrap().as_ref()).unwrap(), name, "{naming:?}");
            }
            assert!(naming.path("../a").is_none() && naming.path("a//b").is_none());
        }
        assert!(Naming::Encoded.name("%2E%2E/a").is_none());
    }

    #[test]
    fn a_name_that_leaves_the_origin_or_changes_on_the_way_is_no_path() {
        for name in ["", "..", "../a", "a/../b", ".", "a//b", "/a", "a/", "a\nb", "a\0"] {
            assert!(path(name).is_none(), "{name:?}");
        }
        for name in ["a", "a/b", "...", "a b", "%2e%2e", "a\\b", "ü"] {
            assert!(path(name).is_some(), "{name:?}");
        }
    }
}
