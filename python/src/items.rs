//! What a node says of datasets and items, as Python's values.

use crate::connection::Connection;
use fodder_api::{Client, Result, frames::MAX_ENTRIES, v1};
use pyo3::{prelude::*, types::PyDict};

/// What is known of all items of a snapshot, packed.
#[derive(Debug, Default)]
pub(crate) struct All {
    /// The label and 1, or 0; 32 bits each.
    pub(crate) labels: Vec<u8>,
    /// 64 bits each.
    pub(crate) sizes: Vec<u8>,
    pub(crate) names: Vec<String>,
    pub(crate) classes: Vec<String>,
}

pub(crate) async fn collect(client: &Client, request: v1::ListItemsRequest) -> Result<All> {
    let mut pages = client.list_items(request).await?;
    let mut all = All::default();
    while let Some(page) = pages.next().await? {
        all.labels.extend(page.labels.iter().flat_map(|label| label.to_ne_bytes()));
        all.sizes.extend(page.sizes.iter().flat_map(|size| size.to_ne_bytes()));
        all.names.extend(page.names);
        if all.classes.is_empty() {
            all.classes = page.classes;
        }
    }
    Ok(all)
}

/// An entry of a directory: name, whether it is a directory, size, time in nanoseconds since 1970 if known, and what tells
/// this version from others.
pub(crate) type Listed = (String, bool, u64, Option<i64>, String);

fn listed(entry: &fodder_api::frames::Entry<'_>) -> Listed {
    let (size, modified) = entry.object.map_or((0, None), |object| (object.size, object.modified_ns));
    let tag = entry.object.map(|object| format!("{:032x}", u128::from_be_bytes(object.id.key)));
    (entry.name.to_owned(), entry.object.is_none(), size, modified, tag.unwrap_or_default())
}

pub(crate) fn lookup(connection: &mut Connection, dataset: &str, path: &str) -> Result<Listed> {
    let handle = connection.handle(dataset, "")?;
    let page = connection.client.lookup(handle, path)?;
    page.iter()
        .next()
        .map(|entry| listed(&entry))
        .ok_or_else(|| fodder_api::Error::NotFound(format!("there is no {path:?} in dataset {dataset:?}")))
}

/// All entries of a directory.
pub(crate) fn list(connection: &mut Connection, dataset: &str, path: &str) -> Result<Vec<Listed>> {
    let handle = connection.handle(dataset, "")?;
    let (mut all, mut from, mut snapshot) = (Vec::new(), (0, String::new()), None);
    loop {
        let page = connection.client.list(handle, path, snapshot, (from.0, &from.1), MAX_ENTRIES as u32)?;
        all.extend(page.iter().map(|entry| listed(&entry)));
        let Some(last) = page.iter().last().filter(|_| !page.end) else { return Ok(all) };
        let slash = if last.object.is_none() { "/" } else { "" };
        (from, snapshot) = ((last.next, format!("{}{slash}", last.name)), Some(page.snapshot));
    }
}

/// How a dataset stands.
pub(crate) fn dataset<'py>(py: Python<'py>, status: &v1::DatasetStatus) -> PyResult<Bound<'py, PyDict>> {
    let said = PyDict::new(py);
    let config = status.config.clone().unwrap_or_default();
    said.set_item("name", config.name)?;
    said.set_item("origin", config.origin)?;
    said.set_item("layout", config.layout)?;
    said.set_item("policy", config.policy)?;
    said.set_item("snapshot", &status.snapshot)?;
    said.set_item("items", status.items)?;
    said.set_item("objects", status.objects)?;
    said.set_item("total_bytes", status.total_bytes)?;
    said.set_item("cached_bytes", status.cached_bytes)?;
    said.set_item("cached_pieces", status.cached_pieces)?;
    said.set_item("pieces", status.pieces)?;
    said.set_item("explanation", &status.explanation)?;
    said.set_item("problems", &status.problems)?;
    let stats = status.stats.unwrap_or_default();
    let v1::DatasetStats { hits_mem, hits_ssd, hits_hdd, joined, origin, bypass, failed, .. } = stats;
    for (name, count) in [
        ("hits_mem", hits_mem),
        ("hits_ssd", hits_ssd),
        ("hits_hdd", hits_hdd),
        ("prefetched", stats.prefetched),
        ("substituted", stats.substituted),
        ("joined", joined),
        ("from_peers", stats.peer),
        ("from_origin", origin),
        ("bypass", bypass),
        ("failed", failed),
        ("bytes_served", stats.bytes_served),
        ("bytes_from_origin", stats.bytes_from_origin),
        ("bytes_from_peers", stats.bytes_from_peers),
        ("bytes_to_peers", stats.bytes_to_peers),
        ("origin_requests", stats.origin_requests),
        ("evicted_pieces", stats.evicted_pieces),
        ("fetched_ahead", stats.fetched_ahead),
    ] {
        said.set_item(name, count)?;
    }
    Ok(said)
}

/// How far a warming is.
pub(crate) fn warm<'py>(py: Python<'py>, progress: &v1::WarmProgress) -> PyResult<Bound<'py, PyDict>> {
    let said = PyDict::new(py);
    for (name, count) in [
        ("files", progress.files),
        ("bytes", progress.bytes),
        ("files_there", progress.files_there),
        ("bytes_there", progress.bytes_there),
        ("files_skipped", progress.files_skipped),
        ("bytes_skipped", progress.bytes_skipped),
        ("bytes_fetched", progress.bytes_fetched),
        ("files_too_large", progress.files_too_large),
        ("files_declined", progress.files_declined),
        ("files_failed", progress.files_failed),
        ("files_outdated", progress.files_outdated),
        ("files_evicted", progress.files_evicted),
    ] {
        said.set_item(name, count)?;
    }
    said.set_item("declined_because", &progress.declined_because)?;
    said.set_item("bytes_per_second", progress.bytes_per_second)?;
    said.set_item("finished", progress.finished)?;
    said.set_item("complete", progress.complete)?;
    let problems: Vec<_> = progress.problems.iter().map(|problem| (&problem.path, &problem.message)).collect();
    said.set_item("problems", problems)?;
    Ok(said)
}

/// What an eviction freed, and what remains.
pub(crate) fn evicted(py: Python<'_>, reply: v1::EvictReply) -> PyResult<Bound<'_, PyDict>> {
    let (said, left) = (PyDict::new(py), reply.remainder.unwrap_or_default());
    for (name, count) in [
        ("bytes", reply.bytes),
        ("pieces", reply.pieces),
        ("leased_files", left.leased_files),
        ("leased_bytes", left.leased_bytes),
        ("staged_pieces", left.staged_pieces),
        ("staged_bytes", left.staged_bytes),
        ("fetching_pieces", left.fetching_pieces),
        ("fetching_bytes", left.fetching_bytes),
    ] {
        said.set_item(name, count)?;
    }
    said.set_item("jobs", left.jobs)?;
    Ok(said)
}
