//! Training jobs at a node, as Python's `fodder.torch` speaks for them.

use crate::{batch::Batch, error::raise, node::Node};
use bytes::Bytes;
use fodder_api::{Error, Scores, v1};
use fodder_policy::{
    job::{BatchRequest, JobId, Start},
    serving::{Approximation, Mode},
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::sync::Arc;

/// Items, the snapshot, how the epoch before went, and a receipt.
type Begun<'py> = (u32, String, Option<Bound<'py, PyDict>>, Bound<'py, PyBytes>);

#[pymethods]
impl Node {
    /// Introduces a job: its number, the newest snapshot, and how many items that has.
    #[pyo3(signature = (dataset, name, *, mode = "strict", window = 0, max_fraction = 0.1, same_class = true,
        max_repeats = 2, world = 1, uneven = "pad", weight = 1.0, in_step = ""))]
    #[allow(clippy::too_many_arguments, reason = "as many as the request has")]
    fn introduce(
        &self,
        py: Python<'_>,
        dataset: &str,
        name: &str,
        mode: &str,
        window: u32,
        max_fraction: f64,
        same_class: bool,
        max_repeats: u32,
        world: u32,
        uneven: &str,
        weight: f32,
        in_step: &str,
    ) -> PyResult<(u64, String, u64)> {
        let mode = match mode {
            "strict" => Mode::Strict,
            "reorder" => Mode::Reorder { window },
            "approx" => Mode::Approx(Approximation { max_fraction, same_class, max_repeats }),
            _ => return Err(raise(Error::Invalid(format!("unknown mode {mode:?}: use strict, reorder or approx")))),
        };
        let request = v1::IntroduceRequest {
            dataset: dataset.into(),
            name: name.into(),
            mode: Some(mode.into()),
            world,
            uneven: v1::Uneven::from(crate::plan::uneven(uneven)?).into(),
            weight: Some(weight),
            lease_ms: 0,
            in_step: in_step.into(),
        };
        let introduced = self.call(py, async |client| client.introduce(request.clone()).await)?;
        Ok((introduced.job.id(), introduced.snapshot, introduced.items))
    }

    /// A rank begins an epoch: how many items it has, the snapshot, how the epoch before went, if that is known, and a
    /// receipt. One that was at another node shows the last receipt it has, and the items that it has consumed since.
    #[pyo3(signature = (dataset, job, rank, epoch, *, seed = None, ids = None, receipt = None, consumed = None))]
    #[allow(clippy::too_many_arguments, reason = "as many as the request has")]
    fn begin_epoch<'py>(
        &self,
        py: Python<'py>,
        dataset: &str,
        job: u64,
        rank: u32,
        epoch: u64,
        seed: Option<u64>,
        ids: Option<&[u8]>,
        receipt: Option<&[u8]>,
        consumed: Option<&[u8]>,
    ) -> PyResult<Begun<'py>> {
        let order = crate::plan::order(seed, ids)?;
        let receipt = Bytes::copy_from_slice(receipt.unwrap_or_default());
        let consumed = unpack(consumed.unwrap_or_default());
        let reply = self.call(py, async |client| {
            let job = client.job(dataset, job);
            job.begin_epoch_behind(rank, epoch, &order, receipt.clone(), consumed.clone()).await
        })?;
        let audit = reply.audit.map(|reply| audit(py, &reply)).transpose()?;
        Ok((reply.items, reply.snapshot, audit, PyBytes::new(py, &reply.receipt)))
    }

    #[allow(clippy::too_many_arguments, reason = "as many as the request has")]
    fn next_batch(
        &self,
        py: Python<'_>,
        dataset: &str,
        snapshot: &str,
        job: u64,
        epoch: u64,
        rank: u32,
        number: u64,
        count: u32,
    ) -> PyResult<Batch> {
        let request = BatchRequest { job: JobId(job), epoch, rank, number, count };
        self.receive(py, |connection, batch| {
            let handle = connection.handle(dataset, snapshot)?;
            connection.client.next_batch(handle, request, &[], batch)
        })
    }

    /// A rank has consumed batches; a receipt of all that it has, if that is wanted. Asked once: a node that is away does not
    /// hold up a training loop.
    #[pyo3(signature = (dataset, job, epoch, rank, numbers, receipt = false))]
    #[allow(clippy::too_many_arguments, reason = "as many as the request has")]
    fn acknowledge<'py>(
        &self,
        py: Python<'py>,
        dataset: &str,
        job: u64,
        epoch: u64,
        rank: u32,
        numbers: Vec<u64>,
        receipt: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let receipt = self.call_once(py, async move |client| {
            let job = client.job(dataset, job);
            match receipt {
                true => job.acknowledge_for_receipt(epoch, rank, numbers).await,
                false => job.acknowledge(epoch, rank, numbers).await.map(|()| Bytes::new()),
            }
        })?;
        Ok(PyBytes::new(py, &receipt))
    }

    /// Items were consumed that were read by id.
    fn consumed(&self, py: Python<'_>, dataset: &str, job: u64, epoch: u64, ids: &[u8]) -> PyResult<()> {
        let ids = unpack(ids);
        self.call_once(py, async move |client| client.job(dataset, job).consumed(epoch, ids).await)
    }

    #[pyo3(signature = (dataset, job, scores, ids = None))]
    fn report_scores(
        &self,
        py: Python<'_>,
        dataset: &str,
        job: u64,
        scores: &[u8],
        ids: Option<&[u8]>,
    ) -> PyResult<u64> {
        let values: Arc<[f32]> = floats(scores).into();
        let scores = match ids {
            None => Scores::Dense(values),
            Some(ids) => Scores::Sparse { ids: unpack(ids).into(), values },
        };
        self.call_once(py, async move |client| client.job(dataset, job).report_scores(scores).await)
    }

    fn report_embeddings(
        &self,
        py: Python<'_>,
        dataset: &str,
        job: u64,
        dimension: u32,
        ids: &[u8],
        values: &[u8],
    ) -> PyResult<u64> {
        let (ids, values): (Arc<[u32]>, Arc<[f32]>) = (unpack(ids).into(), floats(values).into());
        self.call_once(py, async move |client| client.job(dataset, job).report_embeddings(dimension, ids, values).await)
    }

    fn checkpoint<'py>(&self, py: Python<'py>, dataset: &str, job: u64) -> PyResult<Bound<'py, PyBytes>> {
        let checkpoint = self.call(py, async |client| client.job(dataset, job).checkpoint().await)?;
        Ok(PyBytes::new(py, &checkpoint))
    }

    /// Goes on from a checkpoint: the job's new number, its epoch, and how many items are left for all ranks.
    #[pyo3(signature = (dataset, job, checkpoint, world, rank, ids = None, attempt = 0, nonce = 0))]
    #[allow(clippy::too_many_arguments, reason = "as many as the request has")]
    fn resume(
        &self,
        py: Python<'_>,
        dataset: &str,
        job: u64,
        checkpoint: &[u8],
        world: u32,
        rank: u32,
        ids: Option<&[u8]>,
        attempt: u64,
        nonce: u64,
    ) -> PyResult<(u64, u64, u32)> {
        let checkpoint = Bytes::copy_from_slice(checkpoint);
        let ids: Option<Arc<[u32]>> = ids.map(|ids| unpack(ids).into());
        let start = Start { attempt, nonce };
        let (job, reply) = self.call(py, async |client| {
            client.job(dataset, job).resume(checkpoint.clone(), world, Some(rank), ids.clone(), start).await
        })?;
        Ok((job.id(), reply.epoch, reply.left))
    }

    fn renew(&self, py: Python<'_>, dataset: &str, job: u64) -> PyResult<()> {
        self.call_once(py, async move |client| client.job(dataset, job).renew().await)
    }

    /// A rank is done. What the job's last epoch had come to, if all ranks are.
    fn leave<'py>(&self, py: Python<'py>, dataset: &str, job: u64, rank: u32) -> PyResult<Option<Bound<'py, PyDict>>> {
        let reply = self.call_once(py, async move |client| client.job(dataset, job).leave_rank(rank).await)?;
        reply.map(|reply| audit(py, &reply)).transpose()
    }

    /// The jobs of a dataset: number, name, mode, epoch, planned, delivered and consumed items, and the last audit.
    fn jobs<'py>(&self, py: Python<'py>, dataset: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let jobs = self.call(py, async |client| client.list_jobs(Some(dataset)).await)?;
        jobs.iter().map(|job| status(py, job)).collect()
    }
}

fn status<'py>(py: Python<'py>, job: &v1::JobStatus) -> PyResult<Bound<'py, PyDict>> {
    let said = PyDict::new(py);
    said.set_item("job", job.job)?;
    said.set_item("name", &job.name)?;
    said.set_item("mode", Mode::from(job.mode.unwrap_or_default()).name())?;
    said.set_item("world", job.world)?;
    said.set_item("epoch", job.epoch)?;
    said.set_item("planned", job.planned)?;
    said.set_item("delivered", job.delivered)?;
    said.set_item("consumed", job.consumed)?;
    said.set_item("rate", job.rate)?;
    said.set_item("last", job.last.map(|last| audit(py, &last)).transpose()?)?;
    Ok(said)
}

pub(crate) fn audit<'py>(py: Python<'py>, audit: &v1::Audit) -> PyResult<Bound<'py, PyDict>> {
    let said = PyDict::new(py);
    for (name, count) in [
        ("planned", audit.planned),
        ("consumed", audit.consumed),
        ("duplicates", audit.duplicates),
        ("omissions", audit.omissions),
        ("pads", audit.pads),
        ("dropped", audit.dropped),
        ("substitutions", audit.substitutions),
        ("displacement_max", audit.displacement_max),
    ] {
        said.set_item(name, count)?;
    }
    said.set_item("displacement_mean", audit.displacement_mean)?;
    Ok(said)
}

/// Numbers of 32 bits as Python packs them.
pub(crate) fn unpack(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|chunk| u32::from_ne_bytes(*chunk)).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|chunk| f32::from_ne_bytes(*chunk)).collect()
}
