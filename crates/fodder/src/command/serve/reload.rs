//! Reading the configuration of a running node again: datasets come and go as it says; what else has changed is named, and
//! waits for a restart.

use super::run_time::Memory;
use crate::{
    cli::ServeArgs,
    config::{Config, Effective},
};
use fodder_api::v1::NodeReload;
use fodder_core::{Engine, Error, config::DatasetConfig};
use fodder_server::Reloading;
use std::sync::{Arc, Mutex};

/// How a node that was started with these flags, and so configured, reads its configuration again.
pub(super) fn by(args: &ServeArgs, config: Config, engine: Arc<Engine>, memory: Arc<Mutex<Memory>>) -> Reloading {
    let (args, running) = (Arc::new(args.clone()), Arc::new(tokio::sync::Mutex::new(config)));
    Reloading::new(move || {
        let (args, running) = (Arc::clone(&args), Arc::clone(&running));
        let (engine, memory) = (Arc::clone(&engine), Arc::clone(&memory));
        async move {
            // One at a time.
            let mut running = running.lock().await;
            let read = tokio::task::spawn_blocking(move || Effective::new(&args)).await;
            let read = read.map_err(|error| Error::Internal(error.to_string()))?;
            let Effective { mut config, auto_bytes, .. } =
                read.map_err(|error| Error::Invalid(format!("{error:#}")))?;
            if auto_bytes.is_some() {
                // Chosen by the free disk at the start.
                config.engine.tiers.clone_from(&running.engine.tiers);
            }
            Ok(apply(&engine, &memory, &mut running, config).await)
        }
    })
}

async fn apply(engine: &Arc<Engine>, memory: &Mutex<Memory>, running: &mut Config, config: Config) -> NodeReload {
    let mut done = NodeReload { needs_restart: needs_restart(running, &config), ..Default::default() };
    let mut errors = Vec::new();
    let name = |dataset: &DatasetConfig| dataset.name.clone();
    // Before anything is added: what the file names is not to be remembered beside it.
    memory.lock().expect("nobody panics over it").named(config.datasets.clone());
    for dataset in running.datasets.clone() {
        if config.datasets.iter().any(|other| other.name == dataset.name) {
            continue;
        }
        match engine.remove_dataset(&dataset.name).await {
            Ok(()) => done.removed.push(name(&dataset)),
            // Somebody was faster.
            Err(Error::NotFound(_)) => {}
            Err(error) => errors.push(format!("{} is still served: {error}", dataset.name)),
        }
        running.datasets.retain(|other| other.name != dataset.name);
    }
    for dataset in config.datasets {
        match running.datasets.iter().find(|other| other.name == dataset.name) {
            Some(same) if *same == dataset => {}
            Some(_) => done.needs_restart.push(format!("dataset {}", dataset.name)),
            None => match engine.add_dataset(dataset.clone()).await {
                Ok(_) => {
                    done.added.push(name(&dataset));
                    running.datasets.push(dataset);
                }
                Err(error) => errors.push(format!("cannot serve {}: {error}", dataset.name)),
            },
        }
    }
    done.error = errors.join("; ");
    done
}

/// The parts of the configuration that a node looks at only when it starts, and that are not as they were.
fn needs_restart(running: &Config, config: &Config) -> Vec<String> {
    let parts = [
        ("engine", running.engine == config.engine),
        ("node", running.node == config.node),
        ("cluster", running.cluster == config.cluster),
        ("log", running.log == config.log),
    ];
    parts.into_iter().filter(|(_, same)| !same).map(|(part, _)| part.to_owned()).collect()
}
