//! Items as Python gets them: views into one buffer, and what the node said of each.

use crate::{buffer::Buffer, error::raise};
use fodder_api::{Delivery, Source, frames};
use pyo3::{
    exceptions::PyIndexError,
    prelude::*,
    types::{PyByteArray, PyBytes, PyList, PyMemoryView, PySlice},
};
use std::ops::Range;

/// The items of one answer, in the order asked.
#[pyclass(frozen, module = "fodder", sequence)]
#[derive(Debug)]
pub(crate) struct Batch {
    array: Py<PyByteArray>,
    items: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    range: Range<usize>,
    asked: u64,
    served: u64,
    label: Option<u32>,
    source: Source,
    delivery: Delivery,
}

impl Batch {
    /// What was received. The first item that failed is the error of all.
    pub(crate) fn new(received: frames::Batch<Buffer>) -> PyResult<Self> {
        let mut items = Vec::with_capacity(received.len());
        for (index, item) in received.iter().enumerate() {
            item.data.map_err(raise)?;
            let range = received.range(index).unwrap_or_default();
            let (asked, served, label) = (item.asked, item.served, item.label);
            items.push(Entry { range, asked, served, label, source: item.source, delivery: item.delivery });
        }
        Ok(Self { array: received.into_room().into_array(), items })
    }

    pub(crate) fn array(&self) -> &Py<PyByteArray> {
        &self.array
    }

    /// A copy of the one item.
    pub(crate) fn bytes<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyBytes>> {
        let range = self.items.get(index).map(|item| item.range.clone()).unwrap_or_default();
        let array = self.array.bind(py);
        PyBytes::new_with(py, range.len(), |bytes| {
            #[allow(unsafe_code, reason = "a copy out of a bytearray while this thread is attached")]
            // SAFETY: nothing runs in between that could change the bytearray.
            bytes.copy_from_slice(&unsafe { array.as_bytes() }[range]);
            Ok(())
        })
    }

    /// The class of the one item.
    pub(crate) fn label(&self, index: usize) -> Option<u32> {
        self.items.get(index).and_then(|item| item.label)
    }

    fn view<'py>(&self, py: Python<'py>, item: &Entry) -> PyResult<Bound<'py, PyAny>> {
        let Range { start, end } = item.range;
        PyMemoryView::from(self.array.bind(py))?.get_item(PySlice::new(py, start as isize, end as isize, 1))
    }
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.items.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        let length = self.items.len();
        let place = if index < 0 { index + length as isize } else { index };
        match usize::try_from(place).ok().and_then(|place| self.items.get(place)) {
            Some(item) => self.view(py, item),
            None => {
                Err(PyIndexError::new_err(format!("no item {index}: the batch has {length} items, numbered from 0")))
            }
        }
    }

    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let views: PyResult<Vec<_>> = self.items.iter().map(|item| self.view(py, item)).collect();
        PyList::new(py, views?)
    }

    #[getter]
    fn ids(&self) -> Vec<u64> {
        self.items.iter().map(|item| item.served).collect()
    }

    #[getter]
    fn asked(&self) -> Vec<u64> {
        self.items.iter().map(|item| item.asked).collect()
    }

    #[getter]
    fn labels(&self) -> Vec<Option<u32>> {
        self.items.iter().map(|item| item.label).collect()
    }

    #[getter]
    fn sources(&self) -> Vec<&'static str> {
        self.items.iter().map(|item| source(item.source)).collect()
    }

    #[getter]
    fn deliveries(&self) -> Vec<&'static str> {
        self.items.iter().map(|item| delivery(item.delivery)).collect()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.items.iter().map(|item| item.range.len()).sum()
    }

    fn __repr__(&self) -> String {
        format!("Batch({} items, {} bytes)", self.items.len(), self.nbytes())
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Unspecified => "",
        Source::TierMem => "mem",
        Source::TierSsd => "ssd",
        Source::TierHdd => "hdd",
        Source::Joined => "joined",
        Source::Origin => "origin",
        Source::Bypass => "bypass",
        Source::Prefetched => "prefetched",
        Source::Substituted => "substituted",
        Source::Peer => "peer",
    }
}

fn delivery(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::Unspecified => "",
        Delivery::Planned => "planned",
        Delivery::Reordered => "reordered",
        Delivery::Substituted => "substituted",
        Delivery::Pad => "pad",
    }
}
