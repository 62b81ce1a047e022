//! Traces as text, one request a line, as libCacheSim reads them: an object's id alone, or columns such as
//! `time,obj_id,obj_size`.
//!
//! Which column is which is said in libCacheSim's own words (`time-col=2, obj-id-col=5, obj-size-col=4`), by a header
//! line, or else by their number: one is the id, two are time and id, more are time, id and size. Ids and sizes are
//! whole numbers. Empty lines and lines that begin with `#` say nothing.

mod columns;

pub use columns::Columns;

use super::{MAX_REQUESTS, Trace, builder::Builder};
use crate::{Error, Result};

/// The longest line that is believed to be one.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Reads a trace line by line.
#[derive(Debug)]
pub(super) struct Reader {
    columns: Option<Columns>,
    delimiter: Delimiter,
    /// How many lines were read, and how many of them said anything.
    lines: u64,
    spoken: u64,
    trace: Builder,
}

/// What separates columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delimiter {
    Is(char),
    Blanks,
}

impl Reader {
    pub(super) fn new(columns: Option<Columns>) -> Self {
        Self { columns, delimiter: Delimiter::Blanks, lines: 0, spoken: 0, trace: Builder::default() }
    }

    /// Reads the whole lines in `bytes`; how many bytes they are. The next part begins with those left over.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.line(&rest[..end])?;
            rest = &rest[end + 1..];
        }
        if rest.len() > MAX_LINE_BYTES {
            return Err(self.junk(rest, "is longer than a line of a trace can be"));
        }
        Ok(bytes.len() - rest.len())
    }

    /// The whole trace; `rest` is a last line without an end.
    pub(super) fn finish(mut self, rest: &[u8]) -> Result<Trace> {
        if !rest.is_empty() {
            self.line(rest)?;
        }
        if self.trace.len() == 0 {
            return Err(Error::Invalid("the trace has no requests".into()));
        }
        Ok(self.trace.build())
    }

    fn line(&mut self, bytes: &[u8]) -> Result<()> {
        let Ok(text) = str::from_utf8(bytes) else { return Err(self.junk(bytes, "is not text")) };
        let text = text.trim();
        if !text.is_empty() && !text.starts_with('#') {
            self.words(text)?;
            self.spoken += 1;
        }
        self.lines += 1;
        Ok(())
    }

    fn words(&mut self, text: &str) -> Result<()> {
        if self.spoken == 0 {
            self.delimiter =
                [',', '\t', ';'].into_iter().find(|&c| text.contains(c)).map_or(Delimiter::Blanks, Delimiter::Is);
        }
        match self.delimiter {
            Delimiter::Is(delimiter) => self.fields(text, text.split(delimiter).map(str::trim)),
            Delimiter::Blanks => self.fields(text, text.split_whitespace()),
        }
    }

    fn fields<'a>(&mut self, text: &str, fields: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        if self.spoken == 0 && fields.clone().any(is_a_name) && fields.clone().all(|field| number(field).is_none()) {
            return self.header(text, fields);
        }
        let columns = *self.columns.get_or_insert_with(|| Columns::usual(fields.clone().count()));
        let field = |column: usize| fields.clone().nth(column);
        let Some(id) = field(columns.id).and_then(number) else {
            return Err(
                self.junk(text.as_bytes(), &format!("has no whole number as the id in column {}", columns.id + 1))
            );
        };
        let bytes = match columns.size {
            None => None,
            Some(column) => match field(column).and_then(number).and_then(|bytes| u32::try_from(bytes).ok()) {
                None => {
                    let why = format!("has no number of bytes below 4 GiB as the size in column {}", column + 1);
                    return Err(self.junk(text.as_bytes(), &why));
                }
                bytes => bytes,
            },
        };
        if self.trace.len() as u64 >= MAX_REQUESTS {
            return Err(Error::Invalid(format!("the trace has more than {MAX_REQUESTS} requests: use a part of it")));
        }
        self.trace.request(id, bytes);
        Ok(())
    }

    fn header<'a>(&mut self, text: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
        if self.columns.is_none() {
            let Some(columns) = Columns::named(names) else {
                return Err(self.junk(text.as_bytes(), "contains neither numbers nor a header with a column obj_id"));
            };
            self.columns = Some(columns);
        }
        Ok(())
    }

    fn junk(&self, line: &[u8], why: &str) -> Error {
        const SHOWN: usize = 60;
        let shown = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
        let more = if line.len() > SHOWN { "…" } else { "" };
        Error::Invalid(format!("line {} {why}: {shown:?}{more}", self.lines + 1))
    }
}

/// Whether a field looks as if it named a column.
fn is_a_name(field: &str) -> bool {
    field.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// A whole number, in decimal or as `0x…`.
fn number(field: &str) -> Option<u64> {
    match field.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => field.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
