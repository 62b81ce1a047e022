//! What a command writes: results to stdout; errors, warnings and notes to stderr.
//!
//! Names of files come from whoever wrote them, so control characters in text for people are escaped. What a program reads
//! (JSON, YAML, scripts) is written as it is. A reader of stdout that has seen enough (`| head`) is no error; a stdout that
//! cannot be written to (a full disk) is one. Nothing here panics if stderr is closed or full.

use anyhow::{Context, Result};
use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

/// The exit status for a command line that is not understood, as clap, the shell and most programs have it.
pub(crate) const EXIT_USAGE: u8 = 2;

/// Prints a result for a person.
pub(crate) fn print(text: &str) -> Result<ExitCode> {
    print_raw(&escaped(text))
}

/// Prints a result for a program.
pub(crate) fn print_raw(text: &str) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))?;
    Ok(ExitCode::SUCCESS)
}

/// What came of writing to stdout: nobody who reads any more is no error.
pub(crate) fn written(outcome: io::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// A line for the process or the person that started this one. That stdout cannot be written to is no reason to stop.
pub(crate) fn print_line(line: &str) {
    let mut out = io::stdout().lock();
    let line = if out.is_terminal() { escaped(line) } else { Cow::Borrowed(line) };
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Says why a command failed.
pub(crate) fn error(message: impl Display) {
    complain("error", message);
}

/// Says what a user should know although the command goes on. The Python package shows these lines as warnings.
pub(crate) fn warn(message: impl Display) {
    complain("warning", message);
}

/// Says what became of something.
pub(crate) fn note(message: impl Display) {
    complain("note", message);
}

fn complain(kind: &str, message: impl Display) {
    let message = message.to_string();
    let _ = writeln!(io::stderr(), "{kind}: {}", escaped(&message));
}

/// Text without control characters other than line breaks and tabs, and without characters that reorder a line: a terminal
/// obeys the former, and the latter make a line look like another one.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, |char| !matches!(char, '\n' | '\t'))
}

/// The same for a name, which is one line.
pub(crate) fn escaped_name(name: &str) -> Cow<'_, str> {
    escape(name, |_| true)
}

fn escape(text: &str, also: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_hostile = |char: char| (char.is_control() && also(char)) || reorders(char);
    if !text.contains(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for char in text.chars() {
        match is_hostile(char) {
            true => clean.extend(char.escape_default()),
            false => clean.push(char),
        }
    }
    Cow::Owned(clean)
}

/// Whether a character changes the direction of those behind it.
fn reorders(char: char) -> bool {
    matches!(char, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether stderr may have colours: it is a terminal that knows them, and the user has not asked for none (NO_COLOR).
pub(crate) fn stderr_has_colours() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stderr().is_terminal() && !is_refused && !is_dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_all_else_stays() {
        assert!(matches!(escaped("two\nlines,\ta tab and déjà vu"), Cow::Borrowed(_)));
        assert_eq!(escaped("red \x1b[31m, bell \x07, csi \u{9b}"), "red \\u{1b}[31m, bell \\u{7}, csi \\u{9b}");
        assert_eq!(escaped("over\rwritten"), "over\\rwritten");
        assert_eq!(escaped("\u{202e}gpj.exe"), "\\u{202e}gpj.exe");
        assert_eq!(escaped_name("a\nfake: line"), "a\\nfake: line");
    }
}
