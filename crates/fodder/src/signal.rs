//! Signals that end a process in order.

use anyhow::Result;
use std::fs;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, from the first moment on.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Option<Signal>,
}

impl Signals {
    pub(crate) fn new() -> Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hang_up: None })
    }

    /// The same and SIGHUP, which comes when the terminal is closed; not where somebody has it ignored, as nohup does.
    pub(crate) fn with_hang_up() -> Result<Self> {
        let kind = SignalKind::hangup();
        // Whoever listens to a signal does not ignore it any more, so this is looked at first.
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hang_up = (!ignores(&status, kind.as_raw_value())).then(|| signal(kind)).transpose()?;
        Ok(Self { hang_up, ..Self::new()? })
    }

    /// The next of them.
    pub(crate) async fn first(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hang_up => {}
        }
    }
}

/// Whether a process ignores a signal, as its status under /proc says.
fn ignores(status: &str, number: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_ignored_is_known_by_its_bit() {
        let status = "Name:\tcat\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, 1) && ignores(status, 13));
        assert!(!ignores(status, 2) && !ignores("", 1));
    }
}
