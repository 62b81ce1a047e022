//! Ctrl-C while Rust waits: Python's handler leaves a note, and is asked here what it means.

use pyo3::prelude::*;
use std::cell::RefCell;

thread_local! {
    /// What a signal handler raised while this thread was waiting.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Has blocking receives ask Python when a signal comes.
pub(crate) fn watch() {
    fodder_api::frames::ask_on_signal(should_end);
}

/// Runs the handlers of signals that have come; whether one of them raised something.
pub(crate) fn should_end() -> bool {
    if RAISED.with(|raised| raised.borrow().is_some()) {
        return true;
    }
    match Python::attach(|py| py.check_signals()) {
        Ok(()) => false,
        Err(error) => {
            RAISED.with(|raised| raised.borrow_mut().replace(error));
            true
        }
    }
}

/// What a handler raised, once.
pub(crate) fn raised() -> Option<PyErr> {
    RAISED.with(|raised| raised.borrow_mut().take())
}
