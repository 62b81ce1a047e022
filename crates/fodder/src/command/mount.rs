//! `fodder mount` and `fodder unmount`: datasets as directories.

mod background;
mod starter;

use crate::{
    cli::{LogArgs, MountArgs, NodeArgs, Starter, UnmountArgs},
    command::{block_on, print, print_line, with_flags},
    config::LogConfig,
    join::{self, Wanted},
    log,
    signal::Signals,
};
use anyhow::{Context, Result, bail, ensure};
use fodder_api::{Address, Client, v1::TierStatus};
use fodder_core::size;
use fodder_fuse::{
    Mount, MountOptions, Transport,
    point::{self, Entry},
};
use starter::Tie;
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

/// How often a mount looks whether somebody has unmounted it.
const LOOK: Duration = Duration::from_millis(100);

/// How long directories that may be about to be removed are waited for.
const TIDYING: Duration = Duration::from_secs(1);

/// Unmounts.
pub(super) fn unmount(args: &UnmountArgs) -> Result<ExitCode> {
    let dir = std::path::absolute(&args.dir)?;
    // What this process itself would keep in use: the current directory, if that is in the mount.
    let _ = std::env::set_current_dir("/");
    let gone = if args.lazy { point::detach_all(&dir)? } else { point::unmount(&dir)? };
    // The directories of several datasets are made when they are mounted, and removed by the same process.
    let dir = fs::canonicalize(&dir).unwrap_or(dir);
    let made: Vec<_> = gone.iter().map(|mount| &mount.point).filter(|point| **point != dir).collect();
    let deadline = Instant::now() + TIDYING;
    while made.iter().any(|dir| dir.exists()) && Instant::now() < deadline {
        thread::sleep(LOOK / 10);
    }
    let lines: String = gone.iter().map(|mount| format!("unmounted {}\n", mount.point.display())).collect();
    print(&lines)
}

/// Mounts, and stays until it is unmounted; in the background unless told otherwise.
pub(super) fn run(args: &MountArgs, log_args: &LogArgs) -> Result<ExitCode> {
    // What is wrong with this machine or the directory is said before a node is started.
    point::check_fuse()?;
    if args.sources.len() == 1 {
        point::prepare(&args.dir)?;
    } else if let Some(entry) = point::at(&fs::canonicalize(&args.dir).unwrap_or_default())?.filter(Entry::is_ours) {
        let (source, dir) = (entry.source, args.dir.display());
        bail!("{source} is already mounted on {dir}: `fodder unmount {dir}` first, or choose another directory");
    }
    if !args.foreground {
        return background::run(args, log_args);
    }
    fodder_core::allocator::share_arenas();
    log::start(&with_flags(LogConfig::default(), log_args))?;
    let node = NodeArgs { cache_size: args.cache_size, ..args.node.clone() };
    block_on(stay(&MountArgs { node, ..args.clone() }))
}

/// Mounts, and unmounts when it is told to: from its first moment on, since listing an origin may take long.
async fn stay(args: &MountArgs) -> Result<ExitCode> {
    let mut signals = Signals::with_hang_up()?;
    let mut tie = Tie::new(args.starter).context("cannot read from the process that started the mount")?;
    let mut mounted = Mounted::default();
    let mounting = tokio::select! {
        outcome = mounted.add_all(args) => outcome.map(|()| None)?,
        () = signals.first() => Some("a signal came before everything was mounted"),
        () = tie.gone() => Some("the command that started the mount ended before everything was mounted"),
    };
    let why = match mounting {
        Some(why) => why,
        None => {
            if args.starter == Some(Starter::Leaves) {
                background::leave();
            }
            let heard = mounted.announce(args);
            tokio::select! {
                () = signals.first() => "a signal came",
                () = mounted.ended() => "the file system was unmounted",
                () = tie.gone(), if args.starter == Some(Starter::Stays) => "the node has ended",
                () = async {}, if args.starter.is_some() && heard.is_err() => "the command that started the mount has ended",
            }
        }
    };
    tracing::info!("unmounting: {why}");
    mounted.unmount()?;
    Ok(ExitCode::SUCCESS)
}

/// Mounted datasets, and the directories that were made for them.
#[derive(Default)]
struct Mounted {
    mounts: Vec<Mount>,
    /// Where the nodes keep what they cache, one line each.
    caches: Vec<String>,
    made: Vec<PathBuf>,
}

impl Mounted {
    async fn add_all(&mut self, args: &MountArgs) -> Result<()> {
        for source in &args.sources {
            // The client is kept until the mount has connected, so that the node does not end in between.
            let Opened { _client, address, dataset, caches } = open(source, args).await?;
            self.caches.extend(caches.into_iter().filter(|line| !self.caches.contains(line)).collect::<Vec<_>>());
            let dir = match args.sources.len() {
                1 => args.dir.clone(),
                _ => self.directory(&args.dir, &dataset)?,
            };
            let mount = Mount::new(address, &dataset, &dir, &options(args), revive(source, args));
            self.mounts.push(mount.with_context(|| format!("cannot mount {dataset}"))?);
        }
        Ok(())
    }

    /// Tells whoever started this process what is mounted, and how.
    fn announce(&self, args: &MountArgs) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for mount in &self.mounts {
            if let Some(why) = mount.slower() {
                tracing::warn!("{why}");
                writeln!(out, "slower {why}")?;
            }
            let way = match mount.transport() {
                Transport::Ring => "io_uring",
                Transport::Auto | Transport::Device => "/dev/fuse",
            };
            writeln!(out, "mounted {} over {way}", mount.path().display())?;
        }
        // A node that mounts has said all this of itself.
        if args.starter != Some(Starter::Stays) {
            self.caches.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        if args.starter.is_none() {
            writeln!(out, "unmount with: Ctrl-C, or fodder unmount {}", args.dir.display())?;
        }
        writeln!(out, "ready")?;
        out.flush()
    }

    /// Waits until somebody has unmounted all of them.
    async fn ended(&self) {
        while !self.mounts.iter().all(Mount::has_ended) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The directory of one of several datasets.
    fn directory(&mut self, parent: &Path, dataset: &str) -> Result<PathBuf> {
        ensure!(
            parent.is_dir(),
            "{} does not exist or is not a directory: create it with `mkdir -p {0}`",
            parent.display()
        );
        let dir = parent.join(dataset);
        match fs::create_dir(&dir) {
            Ok(()) => self.made.push(dir.clone()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot create {}", dir.display())),
        }
        Ok(dir)
    }

    fn unmount(mut self) -> Result<()> {
        let outcomes: Vec<_> = self.mounts.drain(..).map(Mount::unmount).collect();
        outcomes.into_iter().collect::<Result<(), _>>().map_err(Into::into)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.mounts.clear();
        for dir in &self.made {
            // Somebody may use it for something else by now.
            let _ = fs::remove_dir(dir);
        }
    }
}

/// The node that has what is to be mounted.
struct Opened {
    _client: Client,
    /// Its Unix socket.
    address: Address,
    dataset: String,
    /// Its cache directory and its size.
    caches: Vec<String>,
}

async fn open(source: &str, args: &MountArgs) -> Result<Opened> {
    let (client, dataset) = join::open(source, &args.node, &wanted(args)).await?;
    let mut status = client.status().await?;
    let addresses = status.addresses.take().unwrap_or_default();
    ensure!(
        !addresses.socket.is_empty() && Path::new(&addresses.socket).exists(),
        "the node at {} has no Unix socket on this machine, which a mount needs: start a node here with `fodder serve`",
        client.address()
    );
    let datasets = client.list_datasets().await?;
    let names: Vec<_> = datasets.iter().filter_map(|status| status.config.as_ref()).map(|c| c.name.as_str()).collect();
    ensure!(
        names.contains(&dataset.as_str()),
        "there is no dataset {dataset:?}; this node has: {} (an origin is written as a URI, or as a path that begins with / or ./)",
        names.join(", ")
    );
    if datasets.iter().any(|status| status.objects == 0 && status.config.as_ref().is_some_and(|c| c.name == dataset)) {
        let empty = format!("dataset {dataset} has no files: check the spelling of its origin");
        tracing::warn!("{empty}");
        print_line(&format!("empty {empty}"));
    }
    let caches = caches(Path::new(&addresses.socket), &status.tiers);
    let address = Address::unix(addresses.socket)?;
    Ok(Opened { _client: client, address, dataset, caches })
}

/// The cache directory of a node and its size, as `fodder serve` prints them.
fn caches(socket: &Path, tiers: &[TierStatus]) -> Vec<String> {
    // A socket that was not put elsewhere is in the cache directory, which has a note that names it.
    let is_noted =
        |dir: &&Path| join::Note::read(dir).and_then(|note| note.socket).is_some_and(|noted| noted == socket);
    let dir = socket.parent().filter(is_noted);
    let mut lines: Vec<_> = dir.map(|dir| format!("cache-dir {}", dir.display())).into_iter().collect();
    match tiers {
        [tier] if dir.is_some() && Path::new(&tier.path).parent() == dir => {
            lines.push(format!("cache-size {}", size::human(tier.quota_bytes)));
        }
        tiers => lines.extend(tiers.iter().map(|tier| {
            let TierStatus { path, medium, quota_bytes, .. } = tier;
            format!("tier {path}:{medium}:{}", size::human(*quota_bytes))
        })),
    }
    lines
}

/// How a dataset should be that the node does not have yet.
fn wanted(args: &MountArgs) -> Wanted {
    let (refresh, anonymous, listing) = (args.refresh, args.anonymous, args.listing.config());
    Wanted { refresh, anonymous, listing, files_only: true, ..Wanted::default() }
}

fn options(args: &MountArgs) -> MountOptions {
    MountOptions {
        allow_other: args.allow_other,
        immutable: args.immutable,
        passthrough: !args.no_passthrough,
        transport: args.transport,
        max_background: args.max_background,
        congestion_threshold: args.congestion_threshold,
        read_ahead_kb: args.read_ahead.map(|bytes| u32::try_from(bytes >> 10).unwrap_or(u32::MAX)),
        patience: args.patience,
        open_files: args.open_files,
        mounts: args.sources.len(),
        ..MountOptions::default()
    }
}

/// Has a node again that ended: one that this user started for an origin. Others come back by whoever runs them.
fn revive(source: &str, args: &MountArgs) -> fodder_fuse::Revive {
    let (source, wanted) = (source.to_owned(), wanted(args));
    let node = args.node.clone();
    Box::new(move || {
        if node.addr.is_some() || !crate::config::is_origin(&source) {
            return;
        }
        if let Err(error) = block_on(join::open(&source, &node, &wanted)) {
            tracing::warn!("cannot start the node again: {error:#}");
        }
    })
}
