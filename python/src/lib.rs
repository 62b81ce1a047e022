//! The native part of the Python package: a node's client and the arithmetic of plans, as Python sees them.
//!
//! It converts and calls; what a user reads about it is in `python/fodder/_fodder.pyi`. What must not be here: anything
//! of a framework, and any state that a forked process would share with its parent (`process`).

mod batch;
mod buffer;
mod connection;
mod error;
mod items;
mod job;
mod leases;
mod node;
mod plan;
mod process;
mod signal;

use pyo3::prelude::*;

/// What Python imports as `fodder._fodder`.
#[pymodule]
fn _fodder(module: &Bound<'_, PyModule>) -> PyResult<()> {
    signal::watch();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<node::Node>()?;
    module.add_class::<plan::Plan>()?;
    Ok(())
}
