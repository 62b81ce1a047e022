//! This node among others.
//!
//! - [`membership`]: who is there.
//!
//! What must not be here: what is kept, and how reads are answered.

pub mod membership;
