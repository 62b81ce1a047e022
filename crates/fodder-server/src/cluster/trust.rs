//! What makes a node believe another: everything that is set is asked for.

use super::{tls::Tls, token::Token};
use std::sync::Arc;

/// What both sides of a connection between nodes must have. With nothing set, whoever connects is believed.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// A word that both know.
    pub token: Option<Token>,
    /// Certificates that an authority of both vouches for.
    pub tls: Option<Arc<Tls>>,
}

impl Trust {
    /// Whether anything is asked for.
    pub fn is_asked(&self) -> bool {
        self.token.is_some() || self.tls.is_some()
    }
}

impl From<Option<Token>> for Trust {
    fn from(token: Option<Token>) -> Self {
        Self { token, tls: None }
    }
}
