//! The word that the nodes of a cluster share, and how two of them prove that they know it without saying it.
//!
//! Each side draws a nonce and answers with a keyed hash of both; so what was overheard is of no use again, and whoever sits
//! at a member's address without the token is not believed. What is said afterwards is not hidden: that is what TLS is for.

use fodder_core::{Error, Result};
use std::{fmt, path::Path};

/// The shared word, as a key.
#[derive(Clone)]
pub struct Token([u8; 32]);

/// Who proves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Side {
    /// The one who was connected to.
    Node,
    /// The one who connects.
    Peer,
}

/// The shortest word that is taken.
const LEAST_BYTES: usize = 16;

impl Token {
    /// From the text that all nodes of the cluster are given, without the white space around it.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.len() < LEAST_BYTES {
            return Err(Error::Invalid(format!(
                "the cluster's token has fewer than {LEAST_BYTES} characters: draw one with `openssl rand -hex 32`"
            )));
        }
        Ok(Self(blake3::derive_key("fodder 2026 token of a cluster", text.as_bytes())))
    }

    /// From a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io("read the token file", path, &error))?;
        Self::new(&text)
    }

    /// What one side says to prove that it knows the token.
    pub(crate) fn proof(&self, side: Side, peers: &[u8; 16], nodes: &[u8; 16]) -> blake3::Hash {
        let side: &[u8; 4] = match side {
            Side::Node => b"node",
            Side::Peer => b"peer",
        };
        blake3::Hasher::new_keyed(&self.0).update(side).update(peers).update(nodes).finalize()
    }
}

/// Never printed.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_proof_holds_for_one_token_one_side_and_one_pair_of_nonces() {
        let token = Token::new("a word of the cluster\n").unwrap();
        let proof = token.proof(Side::Peer, &[1; 16], &[2; 16]);
        assert_eq!(proof, Token::new(" a word of the cluster").unwrap().proof(Side::Peer, &[1; 16], &[2; 16]));
        assert_ne!(proof, token.proof(Side::Node, &[1; 16], &[2; 16]));
        assert_ne!(proof, token.proof(Side::Peer, &[2; 16], &[1; 16]));
        assert_ne!(proof, Token::new("another word, as long").unwrap().proof(Side::Peer, &[1; 16], &[2; 16]));
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn a_short_token_is_refused() {
        assert!(matches!(Token::new("secret"), Err(Error::Invalid(_))));
    }
}
