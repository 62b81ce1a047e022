//! The ways in which a kernel's requests come: each test of a mount is run over each of them.

use super::can_mount;
use fodder_testing::skip;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};

/// The fuse module's switch for io_uring.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// A way, as the command line has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Device,
    Uring,
}

impl Way {
    /// The flag of `fodder mount`.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::Device => "--transport=device",
            Self::Uring => "--transport=uring",
        }
    }
}

/// A test for each transport out of functions that take a [`Way`].
macro_rules! over_each_transport {
    ($($name:ident,)*) => {
        mod over_device {
            $(#[test] fn $name() { $crate::mount::transport::run($crate::mount::Way::Device, super::$name) })*
        }
        mod over_uring {
            $(#[test] fn $name() { $crate::mount::transport::run($crate::mount::Way::Uring, super::$name) })*
        }
    };
}
pub(crate) use over_each_transport;

/// Runs a test over a transport, or says why it cannot be.
pub(crate) fn run(way: Way, test: fn(Way)) {
    if !can_mount() {
        return;
    }
    match (way, Allowed::new()) {
        (Way::Uring, Err(why)) => skip!("{why}"),
        // The switch stays on for the others meanwhile; it changes nothing for the device.
        (_, _allowed) => test(way),
    }
}

/// The switch is on while this lives, and is put back by the last who needs it, also among several processes.
struct Allowed {
    users: File,
}

impl Allowed {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join("fodder-test-enable-uring");
        let users = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let users = users.map_err(|error| error.to_string())?;
        flock(&users, FlockOperation::LockShared).map_err(|error| error.to_string())?;
        let now = fs::read_to_string(SWITCH).map_err(|_| "this kernel has no FUSE over io_uring".to_owned())?;
        if now.trim() == "N" {
            // Noted in the file, so that whoever is last knows that it was off.
            users.set_len(1).map_err(|error| error.to_string())?;
        }
        fs::write(SWITCH, "Y").map_err(|_| format!("{SWITCH} is off and cannot be written"))?;
        Ok(Self { users })
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        let last = flock(&self.users, FlockOperation::NonBlockingLockExclusive).is_ok();
        if last && self.users.metadata().is_ok_and(|file| file.len() == 1) {
            let _ = fs::write(SWITCH, "N");
            let _ = self.users.set_len(0);
        }
    }
}
