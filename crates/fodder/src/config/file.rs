//! Reading a YAML file so that a mistake names its line, and what was probably meant.

use super::{Config, icache};
use serde_yaml_ng::Value;
use std::fmt::Write as _;

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1, where one can be blamed.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Problem {
    /// For a person: file, line, message, and the line itself.
    pub fn shown_in(&self, file: &str, text: &str) -> String {
        let Some(line) = self.line else {
            return format!("{file}: {}", self.message);
        };
        let mut shown = format!("{file}:{line}: {}", self.message);
        // The line may hold the credentials of an origin, and error messages end up in logs.
        if let Some(content) = text.lines().nth(line - 1).filter(|content| !content.contains('@')) {
            let _ = write!(shown, "\n  {line:>4} | {content}");
        }
        shown
    }
}

/// Reads Fodder's YAML, or iCache's (which gives notes on what became of it).
pub fn parse(text: &str) -> Result<(Config, Vec<String>), Problem> {
    let value: Value = serde_yaml_ng::from_str(text).map_err(|error| {
        let Problem { line, message } = explain(&error, text);
        Problem { line, message: format!("not valid YAML: {message}") }
    })?;
    match &value {
        // An empty file, or one of comments only, is a file that changes nothing.
        Value::Null => return Ok((Config::default(), Vec::new())),
        Value::Mapping(mapping) if icache::is_icache(mapping) => return icache::translate(text, mapping),
        _ => {}
    }
    // From the text and not from the value, which has forgotten its lines.
    match serde_yaml_ng::from_str(text) {
        Ok(config) => Ok((config, Vec::new())),
        Err(error) => Err(explain(&error, text)),
    }
}

/// Turns a message of the YAML reader into one for the person who wrote the file.
pub(super) fn explain(error: &serde_yaml_ng::Error, text: &str) -> Problem {
    let whole = error.to_string();
    let line = error.location().map(|location| location.line());
    let message = match whole.rsplit_once(" at line ") {
        Some((message, _)) => message,
        None => &whole,
    };
    let (place, what) = split_place(message);
    let named = |key: &str| format!("`{place}{}{key}`", if place.is_empty() { "" } else { "." });
    if let Some((key, known)) = unknown(what, "unknown field ") {
        let message = format!("unknown setting {}{}", named(key), suggestion(key, &known));
        return Problem { line: line_of_key(text, key, line), message };
    }
    if let Some((value, known)) = unknown(what, "unknown variant ") {
        let message = format!("{place}: unknown value {value:?}{}", suggestion(value, &known));
        return Problem { line, message };
    }
    if let Some(key) = what.strip_prefix("missing field ") {
        return Problem { line, message: format!("the setting {} is missing", named(key.trim_matches('`'))) };
    }
    let reworded = reword_types(what);
    let message = if place.is_empty() { reworded } else { format!("{place}: {reworded}") };
    Problem { line, message }
}

/// `engine.tiers[0]: unknown field …` into where and what. The place never holds a space.
fn split_place(message: &str) -> (&str, &str) {
    match message.split_once(": ") {
        Some((place, what)) if !place.contains(' ') && !place.is_empty() => (place, what),
        _ => ("", message),
    }
}

/// The word and the known words of ``unknown field `x`, expected one of `a`, `b` ``.
fn unknown<'a>(what: &'a str, kind: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (word, expected) = what.strip_prefix(kind)?.split_once(", ")?;
    let known = expected.split('`').skip(1).step_by(2).collect();
    Some((word.trim_matches('`'), known))
}

/// `; did you mean …?`, or what there is.
pub(super) fn suggestion(word: &str, known: &[&str]) -> String {
    let lower = word.to_lowercase();
    let near = known
        .iter()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(&lower, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    match near {
        Some((_, candidate)) => format!("; did you mean `{candidate}`?"),
        None => format!("; known are {}", known.join(", ")),
    }
}

/// The reader blames the line where a mapping ends or begins; the person looks for the key.
fn line_of_key(text: &str, key: &str, near: Option<usize>) -> Option<usize> {
    let is_key = |line: &str| {
        let line = line.trim_start().trim_start_matches("- ").trim_start();
        line.trim_matches(['"', '\'']).starts_with(key) && line.contains(':')
    };
    let near = near?;
    let lines: Vec<usize> =
        text.lines().enumerate().filter(|(_, line)| is_key(line)).map(|(index, _)| index + 1).collect();
    lines.into_iter().min_by_key(|line| line.abs_diff(near)).or(Some(near))
}

/// Serde's words for types are Rust's; these are the file's.
fn reword_types(what: &str) -> String {
    let Some((found, expected)) = what
        .strip_prefix("invalid type: ")
        .or(what.strip_prefix("invalid value: "))
        .and_then(|w| w.split_once(", expected "))
    else {
        return match what {
            "invalid socket address syntax" => "not an address: write IP:PORT, such as 127.0.0.1:18283".into(),
            other => other.to_owned(),
        };
    };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "string" => "a text",
        "a sequence" => "a list (lines that begin with `- `)",
        _ if expected.starts_with("struct ") => "settings below it (`key: value`)",
        other => other,
    };
    let found = match found {
        "unit value" => "nothing",
        "map" => "settings below it",
        "sequence" => "a list",
        other => other,
    };
    format!("expected {expected}, found {found}")
}
