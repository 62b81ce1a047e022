//! One block of 512 bytes: a tar member's header in the formats v7, ustar, GNU and pax, and a pax record list.

/// Bytes of a block.
pub(super) const BLOCK: usize = 512;

/// What a header says of its member.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) name: Vec<u8>,
    pub(super) size: u64,
    pub(super) kind: Kind,
}

/// What kind of member it is, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file with data.
    File,
    /// A file with holes in GNU's old format; with `true`, more blocks of its map follow before the data.
    Sparse(bool),
    /// The long name of the next member.
    LongName,
    /// pax records for the next member.
    Pax,
    /// pax records for all members that follow.
    PaxGlobal,
    /// A directory, link or device: no data, whatever the size says.
    Bare,
    /// Anything else: skipped with its data.
    Other,
}

impl Header {
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Self, &'static str> {
        if !checksum_holds(block) {
            return Err("not a tar header: its checksum does not match");
        }
        let size = number(&block[124..136]).ok_or("the member's size is no number")?;
        let mut name = text(&block[..100]).to_vec();
        let kind = match block[156] {
            0 if name.ends_with(b"/") => Kind::Bare,
            0 | b'0' | b'7' => Kind::File,
            b'S' => Kind::Sparse(block[482] != 0),
            b'L' => Kind::LongName,
            b'x' | b'X' => Kind::Pax,
            b'g' => Kind::PaxGlobal,
            b'1'..=b'6' => Kind::Bare,
            _ => Kind::Other,
        };
        let prefix = text(&block[345..500]);
        if &block[257..263] == b"ustar\0" && !prefix.is_empty() && kind != Kind::LongName {
            name = [prefix, b"/", &name].concat();
        }
        Ok(Self { name, size, kind })
    }
}

/// Up to the first NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|byte| *byte == 0).unwrap_or(field.len())]
}

/// A number: octal digits with spaces around, or GNU's base 256.
fn number(field: &[u8]) -> Option<u64> {
    match field[0] {
        0x80..0xff => {
            let start = u64::from(field[0] & 0x7f);
            field[1..].iter().try_fold(start, |n, byte| n.checked_mul(256)?.checked_add(u64::from(*byte)))
        }
        0xff => None,
        _ => {
            let digits = text(field).trim_ascii();
            digits.iter().try_fold(0u64, |n, byte| match byte {
                b'0'..=b'7' => n.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
                _ => None,
            })
        }
    }
}

/// The sum of all bytes, the checksum's own counted as spaces; some old tars summed signed bytes.
fn checksum_holds(block: &[u8; BLOCK]) -> bool {
    let others = || block[..148].iter().chain(&block[156..]);
    let unsigned = 8 * 32 + others().map(|byte| i64::from(*byte)).sum::<i64>();
    let signed = 8 * 32 + others().map(|byte| i64::from(*byte as i8)).sum::<i64>();
    number(&block[148..156]).is_some_and(|sum| [unsigned, signed].contains(&(sum as i64)))
}

/// What pax records may say that matters here.
#[derive(Debug, Default, Clone)]
pub(super) struct Overrides {
    pub(super) name: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
}

impl Overrides {
    /// Takes records of the form `LENGTH KEY=VALUE\n`, LENGTH counting all of it.
    pub(super) fn read_pax(&mut self, mut data: &[u8]) -> Result<(), &'static str> {
        const BROKEN: &str = "its pax header is broken";
        let mut sparse_name = None;
        while data.first().is_some_and(|byte| *byte != 0) {
            let space = data.iter().take(20).position(|byte| *byte == b' ').ok_or(BROKEN)?;
            let length: usize =
                std::str::from_utf8(&data[..space]).ok().and_then(|digits| digits.parse().ok()).ok_or(BROKEN)?;
            if length <= space + 1 || length > data.len() || data[length - 1] != b'\n' {
                return Err(BROKEN);
            }
            let record = &data[space + 1..length - 1];
            let equals = record.iter().position(|byte| *byte == b'=').ok_or(BROKEN)?;
            let value = &record[equals + 1..];
            match &record[..equals] {
                b"path" => self.name = Some(value.to_vec()),
                b"GNU.sparse.name" => sparse_name = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                    self.size = Some(size.ok_or("the size in its pax header is no number")?);
                }
                _ => {}
            }
            data = &data[length..];
        }
        self.name = sparse_name.or(self.name.take());
        Ok(())
    }
}
