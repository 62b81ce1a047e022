//! A node as Python asks it. Calls are made without Python's lock; each ends by a deadline, or by Ctrl-C.

use crate::{
    batch::Batch,
    buffer::Buffer,
    connection::{Connection, Pool, Wait, Whom},
    error::raise,
    process::{PerProcess, runtime},
    signal,
};
use fodder_api::{Address, Client, Error, Result, Target, Timeouts, frames, v1};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::{future::Future, time::Duration};

/// How often a call that takes long looks for signals.
const LOOK: Duration = Duration::from_millis(100);

/// Labels and sizes, packed; names and classes.
type Listing<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Vec<String>, Vec<String>);

/// A client of one node, or of whichever answers of several in one cluster. Any thread may use it, and so may forked children: each process has connections of its own.
#[pyclass(frozen, weakref, module = "fodder._fodder")]
#[derive(Debug)]
pub(crate) struct Node {
    whom: Whom,
    pool: PerProcess<Pool>,
}

#[pymethods]
impl Node {
    #[new]
    #[pyo3(signature = (addresses, *, timeout = 30.0, patience = 30.0, revive = Vec::new(), others = false))]
    fn new(addresses: Vec<String>, timeout: f64, patience: f64, revive: Vec<String>, others: bool) -> PyResult<Self> {
        let addresses: Result<Vec<Address>> = addresses.iter().map(|address| address.parse()).collect();
        let addresses = addresses.map_err(raise)?;
        if addresses.is_empty() {
            return Err(raise(Error::Invalid("give the address of at least one node".into())));
        }
        let seconds = |value: f64| {
            Duration::try_from_secs_f64(value).map_err(|_| {
                raise(Error::Invalid(format!("{value} is not a valid time to wait: give a number of seconds above 0")))
            })
        };
        let mut timeouts = Timeouts { progress: seconds(timeout)?, ..Timeouts::default() };
        if others || addresses.len() > 1 {
            timeouts = timeouts.among_others();
        }
        let whom = Whom { addresses, timeouts, patience: seconds(patience)?, revive };
        Ok(Self { whom, pool: PerProcess::new() })
    }

    #[getter]
    fn address(&self) -> String {
        let addresses: Vec<_> = self.whom.addresses.iter().map(Address::to_string).collect();
        addresses.join(",")
    }

    /// Asks the node at an address once, without patience: from now on it is the one that is asked first.
    #[pyo3(signature = (at = 0))]
    fn ping(&self, py: Python<'_>, at: usize) -> PyResult<()> {
        let connection = py.detach(|| {
            let mut connection = Connection::new(&self.whom, at)?;
            connection.client.ping().map(|()| connection)
        });
        let connection = connection.map_err(raise)?;
        self.pool().ask(at);
        self.pool().give_back(connection);
        Ok(())
    }

    fn open(&self, py: Python<'_>, dataset: &str, snapshot: &str) -> PyResult<(String, u64, u32)> {
        let known = !snapshot.is_empty();
        let opened = self.frames(py, known, |connection| connection.open(dataset, snapshot))?;
        Ok((opened.snapshot, opened.items, opened.objects))
    }

    fn get(&self, py: Python<'_>, dataset: &str, snapshot: &str, ids: Vec<u64>) -> PyResult<Batch> {
        self.receive(py, |connection, batch| {
            let handle = connection.handle(dataset, snapshot)?;
            connection.client.get_items(handle, &ids, batch)
        })
    }

    /// The bytes and the class of an item: from a file that is kept open, else over the socket.
    fn get_one<'py>(
        &self,
        py: Python<'py>,
        dataset: &str,
        snapshot: &str,
        id: u64,
    ) -> PyResult<(Bound<'py, PyBytes>, Option<u32>)> {
        let leases = self.pool().leases();
        if let Some(kept) = leases.obtain(py, &self.whom, dataset, snapshot, id) {
            match kept.read(py) {
                Ok(bytes) => return Ok((bytes, kept.label())),
                // A fault of the cache is a miss.
                Err(_) => leases.discard(dataset, snapshot, id),
            }
        }
        let batch = self.receive(py, |connection, batch| {
            let handle = connection.handle(dataset, snapshot)?;
            connection.client.get_items(handle, &[id], batch)
        })?;
        Ok((batch.bytes(py, 0)?, batch.label(0)))
    }

    /// How many cache files this process keeps open.
    fn held_leases(&self) -> usize {
        self.pool().leases().held()
    }

    /// In a forked child: closes the cache files that its parent keeps open.
    fn close_inherited_leases(&self) {
        if let Some(pool) = self.pool.inherited() {
            pool.leases().close_inherited();
        }
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        dataset: &str,
        snapshot: &str,
        path: &str,
        offset: u64,
        length: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let target = Target::Path(path.to_owned());
        let batch = self.receive(py, |connection, batch| {
            let handle = connection.handle(dataset, snapshot)?;
            connection.client.read(handle, &target, offset, length, batch)
        })?;
        batch.bytes(py, 0)
    }

    fn datasets<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        py.detach(|| self.pool().leases().flush());
        let datasets = self.call(py, async |client| client.list_datasets().await)?;
        datasets.iter().map(|dataset| crate::items::dataset(py, dataset)).collect()
    }

    fn refresh(&self, py: Python<'_>, dataset: &str, confirm_removals: bool) -> PyResult<(String, u64)> {
        let reply = self.call(py, async |client| client.refresh_with(dataset, confirm_removals).await)?;
        Ok((reply.snapshot, reply.items))
    }

    fn evict<'py>(&self, py: Python<'py>, dataset: &str, prefix: &str) -> PyResult<Bound<'py, PyDict>> {
        let reply = self.call(py, async |client| client.evict(dataset, prefix).await)?;
        crate::items::evicted(py, reply)
    }

    /// Labels and 1, sizes, names (if they are wanted) and classes of all items.
    fn list_items<'py>(&self, py: Python<'py>, dataset: &str, snapshot: &str, names: bool) -> PyResult<Listing<'py>> {
        let request =
            v1::ListItemsRequest { dataset: dataset.into(), snapshot: snapshot.into(), names, ..Default::default() };
        let all = self.call(py, async |client| crate::items::collect(client, request.clone()).await)?;
        Ok((PyBytes::new(py, &all.labels), PyBytes::new(py, &all.sizes), all.names, all.classes))
    }

    /// Entries of a directory: name, whether it is a directory, size, time in nanoseconds or none.
    fn list_directory(&self, py: Python<'_>, dataset: &str, path: &str) -> PyResult<Vec<crate::items::Listed>> {
        self.frames(py, true, |connection| crate::items::list(connection, dataset, path))
    }

    fn lookup(&self, py: Python<'_>, dataset: &str, path: &str) -> PyResult<crate::items::Listed> {
        self.frames(py, true, |connection| crate::items::lookup(connection, dataset, path))
    }

    /// Warms, and tells `told` how far it is.
    #[pyo3(signature = (dataset, path, told, *, max_bytes = None, bytes_per_second = 0, workers = 0))]
    #[allow(clippy::too_many_arguments, reason = "as many as the request has")]
    fn warm<'py>(
        &self,
        py: Python<'py>,
        dataset: &str,
        path: &str,
        told: Bound<'py, PyAny>,
        max_bytes: Option<u64>,
        bytes_per_second: u64,
        workers: u32,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (dataset, path) = (dataset.to_owned(), path.to_owned());
        let request = v1::WarmRequest { dataset, path, max_bytes, bytes_per_second, workers, ..Default::default() };
        let mut progress = self.call(py, async |client| client.warm(request.clone()).await)?;
        loop {
            let next = py.detach(|| runtime().block_on(interruptible(progress.next()))).map_err(raise)?;
            let Some(next) = next else {
                return Err(raise(Error::Internal("the warm-up ended without a report".into())));
            };
            let said = crate::items::warm(py, &next)?;
            told.call1((&said,))?;
            if next.finished {
                return Ok(said);
            }
        }
    }

    fn __repr__(&self) -> String {
        format!("Node({:?})", self.address())
    }
}

impl Node {
    fn pool(&self) -> &Pool {
        self.pool.get(|| Pool::new(&self.whom))
    }

    /// Makes a call over gRPC that may be made again: if the node is away, at another one, until patience ends.
    pub(crate) fn call<T: Send>(&self, py: Python<'_>, call: impl AsyncFn(&Client) -> Result<T> + Sync) -> PyResult<T> {
        let pool = self.pool();
        let outcome = py.detach(|| {
            let mut wait = Wait::new(&self.whom, pool.asked(), true);
            loop {
                match runtime().block_on(interruptible(call(pool.grpc(wait.at)))) {
                    Err(error) => wait.after(error, &self.whom)?,
                    done => {
                        pool.ask(wait.at);
                        return done;
                    }
                }
            }
        });
        outcome.map_err(raise)
    }

    /// Makes a call over gRPC once.
    pub(crate) fn call_once<T: Send>(
        &self,
        py: Python<'_>,
        call: impl AsyncFnOnce(&Client) -> Result<T> + Send,
    ) -> PyResult<T> {
        let pool = self.pool();
        py.detach(|| runtime().block_on(interruptible(call(pool.grpc(pool.asked()))))).map_err(raise)
    }

    /// Receives items over frames.
    pub(crate) fn receive(
        &self,
        py: Python<'_>,
        ask: impl Fn(&mut Connection, &mut frames::Batch<Buffer>) -> Result<()> + Sync,
    ) -> PyResult<Batch> {
        let room = self.pool().shelf().take(py);
        let received =
            self.frames_with(py, true, frames::Batch::with_room(room), |connection, batch| ask(connection, batch))?;
        let batch = Batch::new(received)?;
        self.pool().shelf().keep(py, batch.array());
        Ok(batch)
    }

    fn frames<T: Send>(
        &self,
        py: Python<'_>,
        known: bool,
        ask: impl Fn(&mut Connection) -> Result<T> + Sync,
    ) -> PyResult<T> {
        let answer = self.frames_with(py, known, None, |connection, answer| {
            *answer = Some(ask(connection)?);
            Ok(())
        })?;
        Ok(answer.expect("an answer that is no error is there"))
    }

    /// Asks over a connection of this process. If that is lost, or the node is away, again until patience ends; also if a
    /// dataset that is `known` is not there, which a node that starts does not have yet.
    fn frames_with<A: Send>(
        &self,
        py: Python<'_>,
        known: bool,
        mut answer: A,
        ask: impl Fn(&mut Connection, &mut A) -> Result<()> + Sync,
    ) -> PyResult<A> {
        let pool = self.pool();
        let mut held = pool.take();
        let (whom, ask) = (&self.whom, &ask);
        let (held, outcome) = py.detach(move || {
            let mut wait = Wait::new(whom, pool.asked(), known);
            loop {
                let error = match held.take().map_or_else(|| Connection::new(whom, wait.at), Ok) {
                    Err(error) => error,
                    Ok(mut connection) => match ask(&mut connection, &mut answer) {
                        Err(error) if connection.client.is_broken() || wait.is_early(&error) => error,
                        Err(error) if whom.passes_over(&error) => error,
                        // What this connection has open was removed, and may have been added again.
                        Err(error @ Error::Closed(_)) => error,
                        outcome => {
                            pool.ask(connection.at);
                            return (Some(connection), outcome.map(|()| answer));
                        }
                    },
                };
                if let Err(error) = wait.after(error, whom) {
                    return (None, Err(error));
                }
            }
        });
        match held {
            Some(connection) => pool.give_back(connection),
            None => pool.forget(),
        }
        outcome.map_err(raise)
    }
}

/// A future that Ctrl-C ends.
pub(crate) async fn interruptible<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(LOOK) => {
                if signal::should_end() {
                    return Err(Error::Closed("interrupted".into()));
                }
            }
        }
    }
}
