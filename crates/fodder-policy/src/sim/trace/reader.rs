//! Reads a trace from parts of a file: which form it has is told by how it begins.

use super::{
    Trace, recorded,
    text::{self, Columns},
};
use crate::{Error, Result};

/// Reads a trace in either form. It is given the bytes of a file, in parts of any length.
#[derive(Debug)]
pub struct Reader {
    form: Form,
    /// What the last part left over: part of a line or of a record.
    rest: Vec<u8>,
}

#[derive(Debug)]
enum Form {
    /// Too few bytes have come to tell.
    Unknown(Choice),
    Recorded(recorded::Reader),
    Text(text::Reader),
}

/// What to take of a trace.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Which dataset of a recording. None takes the only one.
    pub dataset: Option<String>,
    /// Which columns of a text. None goes by its header or their number.
    pub columns: Option<Columns>,
}

impl Reader {
    /// A reader that has read nothing.
    pub fn new(choice: Choice) -> Self {
        Self { form: Form::Unknown(choice), rest: Vec::new() }
    }

    /// Reads the next part. An error names the line or the record that is wrong.
    pub fn feed(&mut self, part: &[u8]) -> Result<()> {
        self.rest.extend(part);
        if let Form::Unknown(choice) = &self.form
            && self.rest.len() >= recorded::MAGIC.len()
        {
            self.form = recognise(&self.rest, choice.clone())?;
        }
        let taken = match &mut self.form {
            Form::Unknown(_) => 0,
            Form::Recorded(reader) => reader.feed(&self.rest)?,
            Form::Text(reader) => reader.feed(&self.rest)?,
        };
        self.rest.drain(..taken);
        Ok(())
    }

    /// The whole trace. A recording that ends inside a record counts as far as it goes.
    pub fn finish(self) -> Result<Trace> {
        match self.form {
            Form::Unknown(choice) => {
                let mut reader = text::Reader::new(choice.columns);
                let taken = reader.feed(&self.rest)?;
                reader.finish(&self.rest[taken..])
            }
            Form::Recorded(reader) => reader.finish(),
            Form::Text(reader) => reader.finish(&self.rest),
        }
    }
}

/// Tells forms apart by their first bytes.
fn recognise(bytes: &[u8], choice: Choice) -> Result<Form> {
    let compressed =
        |with: &str| Err(Error::Invalid(format!("the trace is compressed: decompress it first, with {with}")));
    match bytes {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => compressed("zstd -d"),
        [0x1f, 0x8b, ..] => compressed("gunzip"),
        _ if bytes.starts_with(&recorded::MAGIC) => Ok(Form::Recorded(recorded::Reader::new(choice.dataset))),
        _ => Ok(Form::Text(text::Reader::new(choice.columns))),
    }
}
