//! What a running node looks at: whether anybody still uses it, and which datasets it is to remember.

use crate::remembered::Remembered;
use fodder_core::{Dataset, config::DatasetConfig};
use std::{
    collections::BTreeSet,
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// How often a node looks at its clients.
const LOOK: Duration = Duration::from_millis(250);
/// How long a node without a dataset waits for another client: one that has just come may not have said a word yet.
const MOMENT: Duration = Duration::from_millis(500);

/// The clients of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Clients {
    /// Connected now.
    pub(super) open: u64,
    /// Connected at any time.
    pub(super) ever: u64,
}

/// Ends when no client has been connected for `patience`; never, without one. A node that has no dataset when its clients
/// go ends soon: what they wanted could not be opened, perhaps for what is in its environment, and they may come again
/// with another.
pub(super) async fn idle(clients: impl Fn() -> Clients, has_datasets: impl Fn() -> bool, patience: Option<Duration>) {
    let Some(patience) = patience else { return pending().await };
    let (mut last_seen, mut ever) = (Instant::now(), 0);
    while last_seen.elapsed() < patience {
        let clients = clients();
        // Some stay for less than a look.
        if clients.open > 0 || clients.ever != ever {
            (last_seen, ever) = (Instant::now(), clients.ever);
        } else if ever > 0 && !has_datasets() && last_seen.elapsed() > MOMENT {
            return;
        }
        sleep(LOOK.min(patience / 4)).await;
    }
}

/// Keeps the list of datasets that were added while the node ran.
pub(super) struct Memory {
    /// What flags and file name is not remembered.
    named: Vec<DatasetConfig>,
    /// Remembered, not opened at the start, and still wanted unless its name gets taken.
    unopened: Vec<DatasetConfig>,
    /// Names that were said not to be remembered.
    forgotten: BTreeSet<String>,
    remembered: Remembered,
}

impl Memory {
    /// A memory beside what flags and file name.
    pub(super) fn new(named: Vec<DatasetConfig>, remembered: Remembered) -> Self {
        Self { named, unopened: remembered.datasets().to_vec(), forgotten: BTreeSet::new(), remembered }
    }

    /// From now on flags and file name these.
    pub(super) fn named(&mut self, named: Vec<DatasetConfig>) {
        self.named = named;
    }

    /// Writes the list down if it has changed.
    pub(super) fn keep(&mut self, served: &[Arc<Dataset>]) {
        self.unopened.retain(|dataset| !served.iter().any(|other| other.config().name == dataset.name));
        let mut datasets: Vec<DatasetConfig> = served.iter().map(|dataset| dataset.config().clone()).collect();
        datasets.retain(|dataset| !self.named.iter().any(|other| other.name == dataset.name));
        datasets.retain(|dataset| !self.forget(dataset));
        datasets.extend(self.unopened.iter().cloned());
        if let Err(error) = self.remembered.keep(datasets) {
            tracing::warn!("{error:#}");
        }
    }

    /// Whether a dataset's origin holds credentials, which stay out of files; says so once.
    fn forget(&mut self, dataset: &DatasetConfig) -> bool {
        let forget = dataset.origin.contains(fodder_core::origin::REDACTED);
        if forget && self.forgotten.insert(dataset.name.clone()) {
            let name = &dataset.name;
            tracing::warn!(
                "dataset {name} is not restored after a restart, because its origin holds credentials: put it into a configuration file (--config)"
            );
        }
        forget
    }
}
