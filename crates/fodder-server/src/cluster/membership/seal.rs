//! What proves that words come from somebody who knows the cluster's token: a keyed hash.
//!
//! It hides nothing and is enough on a network one trusts: words that are played again are older than what is known, and
//! so have no effect.

use std::fmt;

/// Bytes of a seal.
pub(crate) const SEAL_BYTES: usize = 16;

/// The key of a cluster's words.
#[derive(Clone)]
pub struct Seal([u8; 32]);

impl Seal {
    /// From the text that all nodes of the cluster are given. Nodes without a token have the empty text.
    pub fn new(token: &str) -> Self {
        Self(blake3::derive_key("fodder 2026 words of a cluster's members", token.trim().as_bytes()))
    }

    /// The seal of some bytes.
    pub(crate) fn of(&self, bytes: &[u8]) -> [u8; SEAL_BYTES] {
        let hash = blake3::keyed_hash(&self.0, bytes);
        hash.as_bytes()[..SEAL_BYTES].try_into().expect("a hash is longer")
    }

    /// Whether it is the seal of these bytes. Takes as long whatever is wrong.
    pub(crate) fn fits(&self, bytes: &[u8], seal: &[u8]) -> bool {
        let right = self.of(bytes);
        seal.len() == SEAL_BYTES && right.iter().zip(seal).fold(0, |wrong, (a, b)| wrong | (a ^ b)) == 0
    }
}

/// Never printed.
impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_fits_its_bytes_and_its_token_only() {
        let seal = Seal::new("a word of the cluster\n");
        let made = seal.of(b"words");
        assert!(Seal::new("a word of the cluster").fits(b"words", &made));
        assert!(!seal.fits(b"word", &made));
        assert!(!seal.fits(b"words", &made[1..]));
        assert!(!seal.fits(b"words", &[0; SEAL_BYTES]));
        assert!(!Seal::new("").fits(b"words", &made));
        assert_eq!(format!("{seal:?}"), "Seal");
    }
}
