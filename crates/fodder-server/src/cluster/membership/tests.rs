//! What every way of knowing the members must do, over real sockets; each way is run through the same scenarios.

#![allow(clippy::unwrap_used)]

mod conformance;
mod node;
pub(super) mod server;

use super::*;

/// A member that serves.
pub(super) fn member(id: u128) -> Member {
    Member {
        id: NodeId(id),
        incarnation: Incarnation(1),
        revision: 0,
        address: format!("127.0.0.1:{}", 1 + id % 65_535),
        zone: "a".into(),
        capacity_bytes: 1 << 30,
        versions: VERSIONS,
        state: State::Serving,
        rest: Vec::new(),
    }
}
