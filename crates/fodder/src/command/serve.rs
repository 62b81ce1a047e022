//! `fodder serve`: a node from its first line to its drained end.

mod ending;
mod meet;
mod mount;
mod reload;
mod run_time;

use crate::{
    cli::{LogArgs, ServeArgs},
    command::{EXIT_HELD, print_line, with_flags},
    config::{Config, Effective, remember_auto_size},
    join::{self, Note},
    log,
    remembered::Remembered,
    signal::Signals,
};
use anyhow::{Context, Result};
use ending::Ending;
use fodder_core::{Engine, config::DatasetConfig, size};
use fodder_server::{
    Node,
    cluster::{Patience, Peering, Trust},
};
use mount::Mounting;
use run_time::{Clients, Memory, idle};
use std::{
    path::Path,
    process::ExitCode,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};

pub(super) fn run(args: &ServeArgs, log_args: &LogArgs) -> Result<ExitCode> {
    fodder_core::allocator::share_arenas();
    let Effective { config, notes, auto_bytes } = Effective::new(args)?;
    log::start(&with_flags(config.log.clone(), log_args))?;
    for note in &notes {
        tracing::warn!("{note}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(serve(config, auto_bytes, args))?;
    // A thread that is stuck in a system call must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(code)
}

async fn serve(config: Config, auto_bytes: Option<u64>, args: &ServeArgs) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    if let Some(warning) = join::open_to_others(&config.engine.cache_dir) {
        tracing::warn!("{warning}");
    }
    let opened = tokio::select! {
        opened = Engine::open(config.engine.clone()) => opened,
        // A tier whose disk hangs must not keep a node that is told to end.
        () = signals.first() => return Ok(ExitCode::SUCCESS),
    };
    let engine = match opened {
        Ok(engine) => engine,
        Err(fodder_core::Error::Conflict(message)) => {
            crate::output::error(held(&config, args, &message));
            return Ok(ExitCode::from(EXIT_HELD));
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(bytes) = auto_bytes {
        remember_auto_size(&config.engine.cache_dir, bytes);
    }
    // A node for passing users serves what they bring, and leaves no list behind.
    let remembered = match args.until_idle {
        None => Remembered::open(&config.engine.cache_dir)?,
        Some(_) => Remembered::nothing(),
    };
    print_settings(&config);
    engine.expect(config.datasets.iter().chain(remembered.datasets()).map(|dataset| dataset.name.clone()));
    // Also of a node that joins nobody: whoever names a token or certificates does not want other machines to be answered.
    let trust = config.cluster.trust()?;
    let node = Node::start_secure(config.node.clone(), engine.clone(), trust.clone()).await?;
    announce(&engine, &node);
    follow_certificates(&trust)?;
    join_cluster(&config, &engine, &node, trust).await?;

    let drain = config.node.drain;
    let started = async {
        add_datasets(&engine, &config.datasets, &remembered).await?;
        engine.expect([]);
        meet::take_up_service(&engine, &node).await;
        node.info().state.set_ready();
        let mounting = mount(&engine, &node, args.mount.as_deref()).await?;
        print_line("ready");
        anyhow::Ok(mounting)
    };
    let outcome = tokio::select! {
        outcome = started => outcome,
        () = signals.first() => return end(node, &engine, signals, Ending::begin(drain)).await,
    };
    let mut mounting = match outcome {
        Ok(mounting) => mounting,
        Err(error) => {
            end(node, &engine, signals, Ending::begin(drain)).await?;
            return Err(error);
        }
    };
    let memory = Arc::new(Mutex::new(Memory::new(config.datasets.clone(), remembered)));
    let kept = Arc::clone(&memory);
    engine.watch(move |datasets| kept.lock().expect("nobody panics over it").keep(datasets)).await?;
    node.info().state.reload_by(reload::by(args, config, Arc::clone(&engine), memory));
    tokio::select! {
        () = signals.first() => tracing::info!("draining; a second signal ends the node at once"),
        () = idle(|| clients(&node), || !engine.datasets().is_empty(), args.until_idle) => {
            tracing::info!("no client is connected any more: ending");
        }
        () = watch(&mut mounting) => {}
    }
    let ending = Ending::begin(drain);
    if let Some(mounting) = mounting {
        mounting.end().await;
    }
    end(node, &engine, signals, ending).await
}

/// Takes up new certificates when their files change, and on SIGHUP.
fn follow_certificates(trust: &Trust) -> Result<()> {
    let Some(tls) = trust.tls.clone() else { return Ok(()) };
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(Arc::clone(&tls).follow());
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            if let Err(error) = tls.reload() {
                tracing::warn!(%error, "the new certificates cannot be used; the old ones stay in use");
            }
        }
    });
    Ok(())
}

/// Joins the cluster, if the node is to be in one, and shares what is cached with it.
async fn join_cluster(config: &Config, engine: &Arc<Engine>, node: &Node, trust: Trust) -> Result<()> {
    if config.cluster.is_in_vain() {
        tracing::warn!(
            "the settings of the cluster have no effect, because the node joins no other node: give --join HOSTS"
        );
    }
    if config.cluster.gossips_in_vain() {
        tracing::warn!("the gossip address has no effect: give --membership gossip to use it");
    }
    if !config.cluster.is_in_use() {
        return Ok(());
    }
    let capacity = config.engine.tiers.iter().map(|tier| tier.quota_bytes).sum();
    let joined =
        config.cluster.join(&config.engine.cache_dir, node.addresses().grpc, capacity, trust.tls.as_ref()).await?;
    let members = joined.membership.members().borrow().clone();
    print_line(&format!("member {} {}", members.me().id, members.me().address));
    if let Some(gossip) = joined.gossip {
        print_line(&format!("gossip {gossip}"));
    }
    let patience = Patience::with_first_word(config.cluster.patience);
    let peering = Peering::new(members.me().id.0, config.cluster.replicas as usize, trust, patience);
    engine.join(Arc::clone(&peering) as _);
    node.info().state.share(Arc::clone(&peering));
    tokio::spawn(Arc::clone(&peering).spread_jobs(Arc::downgrade(engine)));
    tokio::spawn(Arc::clone(&peering).spread_reports(Arc::downgrade(engine)));
    tokio::spawn(Arc::clone(&peering).pull_what_lacks(Arc::downgrade(engine)));
    tokio::spawn(Arc::clone(&peering).follow(Arc::clone(engine), joined.membership.members()));
    node.info().state.join(joined);
    meet::hear_of_others(engine, node, config.cluster.membership).await;
    Ok(())
}

/// Mounts the node's datasets, if that is wanted.
async fn mount(engine: &Engine, node: &Node, dir: Option<&Path>) -> Result<Option<Mounting>> {
    let Some(dir) = dir else { return Ok(None) };
    let socket = node.addresses().socket.as_ref().context("--mount needs the Unix socket of the node")?;
    let datasets: Vec<_> = engine.datasets().iter().map(|dataset| dataset.config().name.clone()).collect();
    Mounting::start(dir, &datasets, socket).await.map(Some)
}

/// Looks after the mount for as long as the node serves.
async fn watch(mounting: &mut Option<Mounting>) {
    if let Some(mounting) = mounting {
        mounting.watch().await;
    }
    std::future::pending().await
}

/// Drains and closes, within the drain time; a second signal ends the process at once.
async fn end(node: Node, engine: &Arc<Engine>, mut signals: Signals, ending: Ending) -> Result<ExitCode> {
    let drain = async {
        if let Some(cluster) = node.info().state.cluster() {
            cluster.membership.leave().await;
        }
        node.shutdown().await;
        engine.shutdown_within(ending.left()).await
    };
    tokio::select! {
        left = drain => Ok(ending.code(&left)),
        () = signals.first() => {
            tracing::warn!("ended by a second signal before draining was complete");
            std::process::exit(130);
        }
    }
}

/// Connections that are open, at any door.
fn clients(node: &Node) -> Clients {
    let all = &node.info().state.connections;
    let open = [&all.rest, &all.grpc, &all.frames].iter().map(|count| count.load(Ordering::Relaxed)).sum();
    Clients { open, ever: all.ever.load(Ordering::Relaxed) }
}

/// Opens what flags and file name, which must work, then what was added earlier, which may fail.
async fn add_datasets(engine: &Arc<Engine>, named: &[DatasetConfig], remembered: &Remembered) -> Result<()> {
    let is_named = |dataset: &&DatasetConfig| !named.iter().any(|other| other.name == dataset.name);
    for dataset in named {
        let added =
            engine.add_dataset(dataset.clone()).await.with_context(|| format!("cannot serve {}", dataset.name))?;
        if let Some(warning) = added.status().warning {
            tracing::warn!("{warning}");
        }
    }
    for dataset in remembered.datasets().iter().filter(is_named) {
        if let Err(error) = engine.add_dataset(dataset.clone()).await {
            tracing::warn!(dataset = dataset.name, "cannot serve a dataset that was added earlier: {error}");
        }
    }
    Ok(())
}

fn print_settings(config: &Config) {
    print_line(&format!("cache-dir {}", config.engine.cache_dir.display()));
    for tier in &config.engine.tiers {
        let size = size::human(tier.quota_bytes);
        print_line(&match tier.path.parent() == Some(&config.engine.cache_dir) && config.engine.tiers.len() == 1 {
            true => format!("cache-size {size}"),
            false => format!("tier {}:{:?}:{size}", tier.path.display(), tier.medium),
        });
    }
    for dataset in &config.datasets {
        let DatasetConfig { name, layout, policy, .. } = dataset;
        if let Some(quota) = dataset.quota {
            print_line(&format!("quota {quota} for {name}"));
        }
        print_line(&format!("policy {policy}"));
        print_line(&format!("dataset {name} {layout} {}", fodder_core::origin::redacted(&dataset.origin)));
    }
}

/// Prints the addresses, and leaves them in the lock for those who want to join.
fn announce(engine: &Engine, node: &Node) {
    let addresses = node.addresses();
    print_line(&format!("rest http://{}", addresses.rest));
    print_line(&format!("grpc {}", addresses.grpc));
    if let Some(socket) = &addresses.socket {
        print_line(&format!("socket {}", socket.display()));
    }
    let note = Note {
        pid: std::process::id(),
        rest: Some(addresses.rest.to_string()),
        grpc: Some(addresses.grpc.to_string()),
        socket: addresses.socket.clone(),
    };
    let text = serde_json::to_string(&note).expect("a note is plain data");
    if let Err(error) = engine.announce(&text) {
        tracing::warn!("cannot write the addresses to the cache directory: {error}");
    }
}

/// What to do when another node holds the directory.
fn held(config: &Config, args: &ServeArgs, message: &str) -> String {
    let dir = &config.engine.cache_dir;
    let Some(note) = Note::read(dir) else { return message.into() };
    let socket = note.socket.unwrap_or_else(|| dir.join("fodder.sock"));
    let socket = socket.display();
    let pid = note.pid;
    let mut text = format!("the cache directory {} is in use by the node with pid {pid} on {socket}", dir.display());
    match &args.origin {
        Some(origin) => {
            let origin = fodder_core::origin::redacted(origin);
            let name = args.name.as_ref().map_or(String::new(), |name| format!(" --name {name}"));
            text += &format!(".\nTo serve this too, run:\n  fodder datasets add {origin}{name} --addr {socket}");
        }
        None => text += ".",
    }
    text + "\nFor a node of its own, give another --cache-dir."
}
