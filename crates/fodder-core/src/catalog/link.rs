//! The symbolic links of a snapshot, by path: flat, mapped, searched by halving. They decorate what the objects are:
//! whatever a link leads to is an object, or a directory of objects, at the link's own path too.

use super::{
    file::{FileWriter, MappedFile, Section},
    packed::{self, Packed, put_varint, take, take_varint},
};
use crate::{Result, origin::Link};
use std::sync::Arc;

/// Links of a snapshot, in path order.
#[derive(Debug, Clone)]
pub(super) struct Links {
    starts: Option<Packed>,
    bytes: Section,
}

/// Appends a link as the file has it.
pub(super) fn pack(link: &Link, out: &mut Vec<u8>) {
    for text in [&link.path, &link.target] {
        put_varint(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(&link.modified_ns.to_le_bytes());
}

/// Writes the sections `id` and `id + 1`, if there are links.
pub(super) fn write(file: &mut FileWriter, id: u32, links: &[Link]) -> Result<()> {
    if links.is_empty() {
        return Ok(());
    }
    let (mut starts, mut packed) = (Vec::with_capacity(links.len()), Vec::new());
    file.section(id, |out| {
        for link in links {
            starts.push(out.length());
            packed.clear();
            pack(link, &mut packed);
            out.put(&packed)?;
        }
        Ok(())
    })?;
    file.section(id + 1, |out| packed::column(out, &starts))
}

impl Links {
    pub(super) fn open(file: &Arc<MappedFile>, id: u32, count: u32) -> Option<Self> {
        let starts = match count {
            0 => None,
            count => Some(Packed::open(file.section(id + 1), count as usize)?),
        };
        Some(Self { starts, bytes: file.section(id) })
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.starts.as_ref().map_or(0, Packed::len)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn path_at(&self, index: usize) -> (&[u8], &[u8]) {
        let start = self.starts.as_ref().map_or(0, |starts| starts.get(index));
        let mut rest = self.bytes.bytes().get(start as usize..).unwrap_or_default();
        (text(&mut rest), rest)
    }

    /// A link by its number, which is below `len`.
    pub(super) fn get(&self, index: usize) -> Link {
        let (path, mut rest) = self.path_at(index);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (path, target) = (text(path), text(self::text(&mut rest)));
        Link { path, target, modified_ns: rest.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes)) }
    }

    /// The link at a path: what it says, and when it was made.
    pub(super) fn find(&self, path: &str) -> Option<(String, i64)> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let (found, mut rest) = self.path_at(middle);
            match found.cmp(path.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let target = String::from_utf8(text(&mut rest).to_vec()).ok()?;
                    return Some((target, i64::from_le_bytes(*rest.first_chunk()?)));
                }
            }
        }
        None
    }

    /// Whether they are exactly these.
    pub(super) fn are(&self, links: &[Link]) -> bool {
        let same =
            |link: &Link| self.find(&link.path).is_some_and(|found| found == (link.target.clone(), link.modified_ns));
        self.len() == links.len() && links.iter().all(same)
    }
}

fn text<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = take_varint(rest) as usize;
    take(rest, length)
}
