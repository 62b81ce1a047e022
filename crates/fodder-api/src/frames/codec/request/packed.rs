//! Lists in a request, as they lie in it.

use super::super::{ObjectId, Result, bad, u64_at};

/// Packed ids, as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids<'a>(pub(super) &'a [u8]);

impl<'a> Ids<'a> {
    pub(super) fn decode(body: &'a [u8], most: usize) -> Result<Self> {
        if !body.len().is_multiple_of(8) || body.len() / 8 > most {
            return bad(format!("{} bytes of ids, and {most} ids of 8 bytes are allowed", body.len()));
        }
        Ok(Self(body))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The id at an index below the length.
    pub fn get(&self, index: usize) -> u64 {
        u64_at(self.0, index * 8)
    }

    /// In the order asked.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.0.chunks_exact(8).map(|id| u64_at(id, 0))
    }
}

/// Packed objects, as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectIds<'a>(pub(super) &'a [u8]);

impl<'a> ObjectIds<'a> {
    pub(super) fn decode(body: &'a [u8], most: usize) -> Result<Self> {
        if !body.len().is_multiple_of(ObjectId::BYTES) || body.len() / ObjectId::BYTES > most {
            return bad(format!(
                "{} bytes of objects, and {most} of {} bytes are allowed",
                body.len(),
                ObjectId::BYTES
            ));
        }
        Ok(Self(body))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len() / ObjectId::BYTES
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order sent.
    pub fn iter(&self) -> impl Iterator<Item = ObjectId> + use<'a> {
        let whole = self.0.chunks_exact(ObjectId::BYTES);
        whole.map(|bytes| ObjectId::decode(bytes.try_into().expect("an exact chunk")))
    }
}

/// Ids packed for a request, into a buffer that is used again.
pub(in crate::frames) fn pack<'a>(ids: &[u64], into: &'a mut Vec<u8>) -> Ids<'a> {
    into.clear();
    into.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    Ids(into)
}

/// Objects packed for a request.
pub(in crate::frames) fn pack_objects<'a>(objects: &[ObjectId], into: &'a mut Vec<u8>) -> ObjectIds<'a> {
    into.clear();
    into.extend(objects.iter().flat_map(ObjectId::encode));
    ObjectIds(into)
}
