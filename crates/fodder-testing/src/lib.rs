//! Test support that the other crates share. A dev-dependency only: no product code depends on it.

mod skip;

pub use skip::{report_skip, test_name};
