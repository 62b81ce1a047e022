//! Python's memory for what a node sends: bytes land where Python will read them.

use fodder_api::{Error, Result, frames::Room};
use pyo3::{prelude::*, types::PyByteArray};

/// The largest buffer that is kept to be used again.
const KEPT_BYTES: usize = 64 << 20;

/// How many are kept.
const KEPT: usize = 4;

/// A bytearray that only this side knows as long as it is written.
#[derive(Debug)]
pub(crate) struct Buffer {
    array: Py<PyByteArray>,
    start: *mut u8,
    length: usize,
}

#[allow(unsafe_code, reason = "the pointer is into the bytearray that it owns")]
// SAFETY: nobody else has the bytearray while bytes are received into it.
unsafe impl Send for Buffer {}

impl Buffer {
    fn new(array: Bound<'_, PyByteArray>) -> Self {
        let (start, length) = (array.data(), array.len());
        Self { array: array.unbind(), start, length }
    }

    /// The bytearray, for Python.
    pub(crate) fn into_array(self) -> Py<PyByteArray> {
        self.array
    }
}

impl AsRef<[u8]> for Buffer {
    #[allow(unsafe_code, reason = "the bytes of a bytearray that nobody else has")]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the bytearray is alive, this long, initialised, and changed by `grow` only.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl AsMut<[u8]> for Buffer {
    #[allow(unsafe_code, reason = "the bytes of a bytearray that nobody else has")]
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl Room for Buffer {
    fn grow(&mut self, length: usize) -> Result<()> {
        Python::attach(|py| {
            let array = self.array.bind(py);
            array.resize(length).map_err(|_| Error::Full(format!("cannot allocate {length} bytes")))?;
            let before = self.length;
            (self.start, self.length) = (array.data(), length);
            self.as_mut()[before..].fill(0);
            Ok(())
        })
    }
}

/// Buffers that are used again once Python has let go of everything in them: their memory is warm.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Vec<Py<PyByteArray>>);

impl Shelf {
    /// A buffer that nobody sees.
    pub(crate) fn take(&mut self, py: Python<'_>) -> Buffer {
        let free = self.0.iter().position(|array| is_ours_alone(array, py));
        let array = match free {
            Some(index) => self.0.swap_remove(index).into_bound(py),
            None => PyByteArray::new(py, &[]),
        };
        Buffer::new(array)
    }

    /// Keeps a buffer in mind that Python is given.
    pub(crate) fn keep(&mut self, py: Python<'_>, array: &Py<PyByteArray>) {
        if array.bind(py).len() > KEPT_BYTES {
            return;
        }
        if self.0.len() == KEPT {
            self.0.remove(0);
        }
        self.0.push(array.clone_ref(py));
    }
}

#[allow(unsafe_code, reason = "the count of references is a plain read")]
fn is_ours_alone(array: &Py<PyByteArray>, py: Python<'_>) -> bool {
    // SAFETY: the object is alive, and nobody changes the count while this thread is attached.
    unsafe { pyo3::ffi::Py_REFCNT(array.bind(py).as_ptr()) == 1 }
}
