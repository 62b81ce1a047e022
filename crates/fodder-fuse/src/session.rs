//! A mounted dataset from its first moment to its last: mounting, the threads around it, news for the kernel, unmounting.

use crate::{
    Error, Result, Revive,
    fs::{FileSystem, Settings},
    kernel::{Device, Handler},
    mode::Policy,
    node::{Node, Remote},
    point,
    transport::{Greeted, Serving, Transport},
    wire::greeting::{Greeting, Tuning},
};
use fodder_api::Address;
use parking_lot::{Condvar, Mutex};
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

/// How often the node is asked whether the dataset has changed, and what is not needed is given back.
const LOOK: Duration = Duration::from_secs(1);

/// How long the end of a mount waits for the watcher, which may be waiting for a slow node. Then it is left to itself.
const WATCHER_END: Duration = Duration::from_secs(2);

/// Inodes the kernel may know: about 150 bytes each here, and several times that in the kernel.
const MAX_INODES: usize = 1 << 20;

/// Files that are kept open, if this process may have as many: as many as a node leases on one connection.
const MAX_FILES: usize = 65_536;

/// How far the kernel reads ahead where everything is read through it.
const AHEAD_KB: u32 = 1024;

/// And where only a file that is mapped and not whole in the cache is: so much comes around each page that is touched, and
/// most of it may be for nothing. Who reads on has the next part read ahead by this process.
const AROUND_KB: u32 = 32;

/// What a user may choose about a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// Other users than the one who mounts may use it.
    pub allow_other: bool,
    /// The files never change and fit into memory: the kernel keeps them and does not even tell of opens.
    pub immutable: bool,
    /// Let the kernel read cache files itself, if it can.
    pub passthrough: bool,
    /// Which way requests and answers go.
    pub transport: Transport,
    /// Requests the kernel may have under way that nobody waits for.
    pub max_background: u16,
    /// From so many of them on it begins no more.
    pub congestion_threshold: u16,
    /// How far the kernel reads ahead, where it keeps what it reads. None: little if it reads cache files itself, and only
    /// the pages of what is not whole there come from here.
    pub read_ahead_kb: Option<u32>,
    /// Objects up to this many bytes are fetched whole when they are opened.
    pub whole_bytes: u64,
    /// How long requests wait for a node that is away or hangs.
    pub patience: Duration,
    /// Cache files that are kept open from one open to the next; None: three quarters of what this process may open, divided
    /// among its mounts.
    pub open_files: Option<usize>,
    /// Mounts of this process, which share what it may open.
    pub mounts: usize,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            allow_other: false,
            immutable: false,
            passthrough: true,
            transport: Transport::Auto,
            max_background: 64,
            congestion_threshold: 48,
            read_ahead_kb: None,
            whole_bytes: 8 << 20,
            patience: Duration::from_secs(60),
            open_files: None,
            mounts: 1,
        }
    }
}

/// A mounted dataset. Unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    /// The threads that answer; None once it was unmounted.
    serving: Option<Serving>,
    path: PathBuf,
    /// The device number of the mount, by which it is known from another on the same directory.
    device: Option<String>,
    watcher: Option<JoinHandle<()>>,
    stop: Arc<Stop>,
    slower: Option<String>,
    transport: Transport,
}

/// Tells the watcher to end.
#[derive(Debug, Default)]
struct Stop {
    state: Mutex<StopState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct StopState {
    stopped: bool,
    /// The watcher has ended.
    ended: bool,
}

impl Stop {
    /// Runs `round` once a second until the mount ends. A panic ends that round only: leases must be reported and verified for
    /// as long as the mount is there.
    fn watch(&self, mut round: impl FnMut()) {
        let mut state = self.state.lock();
        while !state.stopped {
            parking_lot::MutexGuard::unlocked(&mut state, || {
                if catch_unwind(AssertUnwindSafe(&mut round)).is_err() {
                    tracing::error!("the watcher of a mount panicked; it goes on");
                }
            });
            if !state.stopped {
                self.changed.wait_for(&mut state, LOOK);
            }
        }
        state.ended = true;
        self.changed.notify_all();
    }

    /// Ends the watcher, and waits a moment until it has ended: whether it has.
    fn end(&self) -> bool {
        let mut state = self.state.lock();
        state.stopped = true;
        self.changed.notify_all();
        self.changed.wait_while_for(&mut state, |state| !state.ended, WATCHER_END);
        state.ended
    }
}

impl Mount {
    /// Mounts a dataset of the node at `address`, which must be a Unix socket, on a directory.
    pub fn new(address: Address, dataset: &str, dir: &Path, options: &MountOptions, revive: Revive) -> Result<Self> {
        point::check_fuse()?;
        let path = point::prepare(dir)?;
        let node = Remote::new(address, dataset.to_owned(), options.patience, revive);
        node.newest().map_err(|error| Error::Unavailable(error.to_string()))?;
        let files = kept_files(options);
        let tuning =
            Tuning { max_background: options.max_background, congestion_threshold: options.congestion_threshold };
        let attach = point::Attach {
            source: format!("{}{dataset}", point::SOURCE),
            dir: &path,
            allow_other: options.allow_other,
        };
        let device = Arc::new(Device::new(attach.mount().map_err(|error| refused(&path, &error))?));
        let greeted = Greeted::new(&device, options.transport, tuning).inspect_err(|_| drop(point::detach(&path)))?;
        let can = greeted.kernel;
        let (policy, slower) = policy(&can, options, &device);
        let settings = Settings {
            owner: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
            immutable: options.immutable && can.has_no_open(),
            policy,
            whole_bytes: options.whole_bytes,
            inodes: MAX_INODES,
            files,
        };
        let made = Arc::new(FileSystem::new(node, settings, Arc::clone(&device) as _));
        // How large it is should be known before somebody asks.
        let _ = made.changes();
        let serving = Serving::start(greeted, &device, Handler::new(Arc::clone(&made)));
        let (serving, why) = serving.inspect_err(|_| drop(point::detach(&path)))?;
        let transport = serving.transport;
        match why {
            Some(why) => tracing::info!(path = %path.display(), %transport, "{why}"),
            None => tracing::info!(path = %path.display(), %transport, "the kernel is answered"),
        }
        let entry = point::at(&path)?;
        let read_ahead_kb = match policy {
            Policy::Passthrough => AROUND_KB,
            Policy::KeepCache => AHEAD_KB,
        };
        set_read_ahead(entry.as_ref(), options.read_ahead_kb.unwrap_or(read_ahead_kb));
        let stop = Arc::<Stop>::default();
        let watcher = thread::Builder::new().name("fuse-watch".into()).spawn({
            let stop = Arc::clone(&stop);
            move || watch(&made, &device, &stop)
        });
        let watcher = watcher.map_err(|error| Error::io("start the mount's threads", &error))?;
        let device = entry.map(|entry| entry.device);
        Ok(Self { serving: Some(serving), path, device, watcher: Some(watcher), stop, slower, transport })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why it is slower than it could be, if it is.
    pub fn slower(&self) -> Option<&str> {
        self.slower.as_deref()
    }

    /// Which way requests and answers go.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Whether somebody has unmounted it.
    pub fn has_ended(&self) -> bool {
        self.serving.as_ref().is_none_or(Serving::has_ended)
    }

    /// Unmounts it; in use, it goes away for new users, and those who use it keep what they have open.
    pub fn unmount(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(serving) = self.serving.take() else { return Ok(()) };
        if let Some(watcher) = self.watcher.take()
            && self.stop.end()
        {
            let _ = watcher.join();
        }
        let there = point::at(&self.path)?.map(|entry| entry.device);
        // Somebody else may have mounted something on the directory by now. Threads that serve those who still use the
        // mount end with them, or with the process.
        let mounted = !serving.has_ended() && there == self.device;
        if mounted { point::detach(&self.path) } else { Ok(()) }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(path = %self.path.display(), "{error}");
        }
    }
}

/// What a refused mount means.
fn refused(path: &Path, error: &std::io::Error) -> Error {
    let (shown, text) = (path.display(), error.to_string());
    if text.contains("user_allow_other") {
        return Error::Unsupported(
            "only root may use --allow-other, unless /etc/fuse.conf has the line `user_allow_other`: add it, or leave out the flag"
                .into(),
        );
    }
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => Error::Unsupported(format!(
            "this user may not mount on {shown} ({text}): use a directory that belongs to this user, or mount as root; start a \
             container with --device /dev/fuse --cap-add SYS_ADMIN"
        )),
        _ => Error::Internal(format!("cannot mount on {shown}: {}", text.trim())),
    }
}

/// What files can be, and why not more.
fn policy(can: &Greeting, options: &MountOptions, device: &Device) -> (Policy, Option<String>) {
    use crate::backing::Registrar;
    let slower = |why: &str| {
        let text = format!("{why}; reads go through the mount process, and files are cached twice in memory");
        (Policy::KeepCache, Some(text))
    };
    if options.immutable || !options.passthrough {
        return (Policy::KeepCache, None);
    }
    if !can.has_passthrough() {
        return slower("the kernel has no FUSE passthrough (Linux 6.9 or newer is needed)");
    }
    // Asked with a file that is always allowed, if any is.
    let probe = rustix::fs::memfd_create("fodder-probe", rustix::fs::MemfdFlags::CLOEXEC).map(fs::File::from);
    match probe.map_err(std::io::Error::from).and_then(|file| device.register(&file)) {
        Ok(id) => {
            device.release(id);
            (Policy::Passthrough, None)
        }
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            slower("FUSE passthrough needs CAP_SYS_ADMIN, and this process does not have it")
        }
        Err(error) => slower(&format!("the kernel refuses FUSE passthrough ({error})")),
    }
}

/// Raises the limit of open files as far as this process may; how many of them a mount keeps.
fn kept_files(options: &MountOptions) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    let limit = limit.current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    share_of(limit, options)
}

/// Of so many files that the process may open.
fn share_of(limit: usize, options: &MountOptions) -> usize {
    let share = limit / 4 * 3 / options.mounts.max(1);
    options.open_files.unwrap_or(MAX_FILES).min(share).min(MAX_FILES)
}

/// Reading ahead is set where the kernel keeps it; its own protocol allows no more than 128 KiB.
fn set_read_ahead(entry: Option<&point::Entry>, kib: u32) {
    let Some(entry) = entry else { return };
    let file = format!("/sys/class/bdi/{}/read_ahead_kb", entry.device);
    if let Err(error) = fs::write(&file, kib.to_string()) {
        tracing::debug!(file, %error, "cannot set the readahead of the kernel; using its default");
    }
}

/// Looks at the node and the kernel again and again until the mount ends.
fn watch<N: Node>(fs: &FileSystem<N>, device: &Device, stop: &Stop) {
    stop.watch(|| {
        if let Some(changes) = fs.changes() {
            changes.entries.iter().for_each(|(parent, name)| device.expire(*parent, name));
            changes.directories.iter().for_each(|ino| device.forget_listing(*ino));
        }
        fs.renew_leases();
        fs.tell_touched();
        fs.tidy().iter().for_each(|(parent, name)| device.forget(*parent, name));
        let (inodes, handles, files) = fs.counts();
        tracing::trace!(inodes, handles, files, "the mount");
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, time::Instant};

    #[test]
    fn the_watcher_goes_on_behind_a_panic_and_delays_no_end() {
        let (stop, (sender, receiver)) = (Arc::new(Stop::default()), mpsc::channel());
        let (release, released) = mpsc::channel::<()>();
        let watcher = thread::spawn({
            let stop = Arc::clone(&stop);
            let mut rounds = 0;
            move || {
                stop.watch(|| {
                    rounds += 1;
                    let _ = sender.send(rounds);
                    assert!(rounds > 1, "planted");
                    // As a node does that is slow.
                    let _ = released.recv();
                });
            }
        });
        let limit = Duration::from_secs(20);
        assert_eq!((receiver.recv_timeout(limit), receiver.recv_timeout(limit)), (Ok(1), Ok(2)));
        let began = Instant::now();
        assert!(!stop.end(), "it waits for the node");
        assert!(began.elapsed() < limit);
        drop(release);
        assert!(watcher.join().is_ok());
        assert!(stop.end());
    }

    #[test]
    fn mounts_of_one_process_share_what_it_may_open() {
        let options = |mounts, open_files| MountOptions { mounts, open_files, ..MountOptions::default() };
        assert_eq!(share_of(4096, &options(1, None)), 3072);
        assert_eq!(share_of(4096, &options(3, None)), 1024);
        assert_eq!(share_of(4096, &options(3, Some(5000))), 1024);
        assert_eq!(share_of(4096, &options(3, Some(10))), 10);
        assert_eq!(share_of(usize::MAX, &options(1, None)), MAX_FILES);
    }
}
