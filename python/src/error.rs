//! The one mapping of errors to Python's exceptions, which `fodder.errors` defines.

use crate::signal;
use fodder_api::Error;
use pyo3::{prelude::*, types::PyType};

/// The exception that stands for an error. What a signal handler raised meanwhile goes first.
pub(crate) fn raise(error: Error) -> PyErr {
    if let Some(raised) = signal::raised() {
        return raised;
    }
    let name = match &error {
        Error::NotFound(_) => "NotFound",
        Error::Invalid(_) => "Invalid",
        Error::Conflict(_) => "Conflict",
        Error::Stale(_) => "Stale",
        Error::Denied(_) => "Denied",
        Error::Unavailable(_) => "Unavailable",
        Error::Full(_) => "Full",
        Error::Corrupt(_) => "Corrupt",
        Error::Closed(_) => "Closed",
        Error::Internal(_) => "Internal",
    };
    named(name, error.to_string())
}

/// An exception of `fodder.errors` by its name.
pub(crate) fn named(name: &str, text: String) -> PyErr {
    Python::attach(|py| {
        let class = py.import("fodder.errors").and_then(|module| module.getattr(name));
        match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
            Ok(class) => PyErr::from_type(class, text),
            Err(error) => error,
        }
    })
}

/// An error of the policies, as those that cross the wire.
pub(crate) fn raise_policy(error: fodder_policy::Error) -> PyErr {
    use fodder_policy::Error as E;
    raise(match error {
        E::Invalid(text) => Error::Invalid(text),
        E::NotFound(text) => Error::NotFound(text),
        E::Conflict(text) => Error::Conflict(text),
        E::Full(text) => Error::Full(text),
        E::Corrupt(text) => Error::Corrupt(text),
    })
}
