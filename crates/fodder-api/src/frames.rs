//! The framed batch protocol.
