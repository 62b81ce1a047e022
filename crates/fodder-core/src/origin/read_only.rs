//! Origins are only read; what object_store's trait asks for beside that is refused alike everywhere.

use object_store::Error;

/// The refusal.
pub(super) fn unsupported(operation: &str, store: &'static str) -> Error {
    Error::NotImplemented { operation: operation.into(), implementer: store.into() }
}
