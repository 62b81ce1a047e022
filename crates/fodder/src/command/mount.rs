//! `fodder mount` and `fodder unmount`: datasets as directories.

mod background;

use crate::{
    cli::{LogArgs, MountArgs, NodeArgs, UnmountArgs},
    command::{block_on, print, print_line, with_flags},
    config::LogConfig,
    join::{self, Wanted},
    log,
    signal::Signals,
};
use anyhow::{Context, Result, ensure};
use fodder_api::{Address, Client};
use fodder_fuse::{Mount, MountOptions, Transport, point};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// How often a mount looks whether somebody has unmounted it.
const LOOK: Duration = Duration::from_millis(100);

/// Unmounts.
pub(super) fn unmount(args: &UnmountArgs) -> Result<ExitCode> {
    let gone = if args.lazy { point::detach_all(&args.dir)? } else { point::unmount(&args.dir)? };
    let lines: String = gone.iter().map(|mount| format!("unmounted {}\n", mount.point.display())).collect();
    print(&lines)
}

/// Mounts, and stays until it is unmounted; in the background unless told otherwise.
pub(super) fn run(args: &MountArgs, log_args: &LogArgs) -> Result<ExitCode> {
    // What is wrong with this machine or the directory is said before a node is started.
    point::check_fuse()?;
    if args.sources.len() == 1 {
        point::prepare(&args.dir)?;
    }
    if !args.foreground {
        return background::run(args);
    }
    log::start(&with_flags(LogConfig::default(), log_args))?;
    let node = NodeArgs { cache_size: args.cache_size, ..args.node.clone() };
    let mounted = Mounted::new(&MountArgs { node, ..args.clone() })?;
    for mount in &mounted.mounts {
        if let Some(why) = mount.slower() {
            tracing::warn!("{why}");
            print_line(&format!("slower {why}"));
        }
        let way = match mount.transport() {
            Transport::Ring => "io_uring",
            Transport::Auto | Transport::Device => "/dev/fuse",
        };
        print_line(&format!("mounted {} over {way}", mount.path().display()));
    }
    print_line("ready");
    block_on(async {
        let mut signals = Signals::new()?;
        let ended = async {
            while !mounted.mounts.iter().all(Mount::has_ended) {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = signals.first() => tracing::info!("unmounting"),
            () = ended => tracing::info!("unmounted by somebody else"),
        }
        Ok(())
    })?;
    mounted.unmount()?;
    Ok(ExitCode::SUCCESS)
}

/// Mounted datasets, and the directories that were made for them.
struct Mounted {
    mounts: Vec<Mount>,
    made: Vec<PathBuf>,
}

impl Mounted {
    fn new(args: &MountArgs) -> Result<Self> {
        let mut mounted = Self { mounts: Vec::new(), made: Vec::new() };
        for source in &args.sources {
            // The client is kept until the mount has connected, so that the node does not end in between.
            let (_client, address, dataset) = block_on(open(source, args))?;
            let dir = match args.sources.len() {
                1 => args.dir.clone(),
                _ => mounted.directory(&args.dir, &dataset)?,
            };
            let mount = Mount::new(address, &dataset, &dir, &options(args), revive(source, args));
            mounted.mounts.push(mount.with_context(|| format!("cannot mount {dataset}"))?);
        }
        Ok(mounted)
    }

    /// The directory of one of several datasets.
    fn directory(&mut self, parent: &Path, dataset: &str) -> Result<PathBuf> {
        ensure!(parent.is_dir(), "{} does not exist or is no directory: make it with `mkdir -p {0}`", parent.display());
        let dir = parent.join(dataset);
        match fs::create_dir(&dir) {
            Ok(()) => self.made.push(dir.clone()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot make {}", dir.display())),
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

/// The node that has what is to be mounted: its client, its Unix socket, the dataset's name.
async fn open(source: &str, args: &MountArgs) -> Result<(Client, Address, String)> {
    let (client, dataset) = join::open(source, &args.node, &wanted(args)).await?;
    let addresses = client.status().await?.addresses.unwrap_or_default();
    ensure!(
        !addresses.socket.is_empty() && Path::new(&addresses.socket).exists(),
        "the node at {} has no Unix socket on this host, and a mount needs one: start a node here with `fodder serve`",
        client.address()
    );
    let datasets = client.list_datasets().await?;
    let names: Vec<_> = datasets.iter().filter_map(|status| status.config.as_ref()).map(|c| c.name.as_str()).collect();
    ensure!(
        names.contains(&dataset.as_str()),
        "the node has no dataset {dataset:?}; it has: {}. An origin is written as a URI, or as a path that begins with / or ./",
        names.join(", ")
    );
    let address = Address::unix(addresses.socket)?;
    Ok((client, address, dataset))
}

/// How a dataset should be that the node does not have yet.
fn wanted(args: &MountArgs) -> Wanted {
    Wanted { refresh: args.refresh, ..Wanted::default() }
}

fn options(args: &MountArgs) -> MountOptions {
    MountOptions {
        allow_other: args.allow_other,
        immutable: args.immutable,
        passthrough: !args.no_passthrough,
        transport: args.transport,
        max_background: args.max_background,
        congestion_threshold: args.congestion_threshold,
        read_ahead_kb: u32::try_from(args.read_ahead >> 10).unwrap_or(u32::MAX),
        patience: args.patience,
        open_files: args.open_files,
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
            tracing::warn!("the node cannot be started again: {error:#}");
        }
    })
}
