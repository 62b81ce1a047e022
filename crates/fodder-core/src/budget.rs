//! The one memory budget for bytes on their way.
