//! The time a node has to end in, which holds even if a thread hangs in a system call.

use std::{
    process::{self, ExitCode},
    thread,
    time::{Duration, Instant},
};

/// What the engine has at least for closing its tiers, however long the connections took.
const MIN_CLOSE: Duration = Duration::from_secs(2);

/// How much later than planned the process ends by force: the log may be on the disk that hangs.
const FORCE_AFTER: Duration = Duration::from_secs(1);

/// The status of a node that ended although something hung.
const EXIT_HUNG: u8 = 1;

/// The end of a node, from the moment it was told to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    deadline: Instant,
}

impl Ending {
    /// Begins to end. The process exits soon after `drain`, whatever hangs.
    pub(super) fn begin(drain: Duration) -> Self {
        // Three quarters and two seconds are the connections' (`Node::shutdown`).
        let total = drain.max(drain / 4 * 3 + MIN_CLOSE + MIN_CLOSE);
        let ending = Self { deadline: Instant::now() + total };
        let forced = move || {
            thread::sleep(total + FORCE_AFTER);
            process::exit(EXIT_HUNG.into());
        };
        if let Err(error) = thread::Builder::new().name("end".into()).spawn(forced) {
            tracing::warn!(%error, "cannot start the thread that bounds how long the node takes to end");
        }
        ending
    }

    /// What is left of the time.
    pub(super) fn left(self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()).max(MIN_CLOSE)
    }

    /// The exit status. If something hangs, the process exits here: to give back what it holds would hang, too.
    pub(super) fn code(self, left: &[String]) -> ExitCode {
        if left.is_empty() {
            return ExitCode::SUCCESS;
        }
        tracing::error!(
            "ended without waiting for {}, because the disk or the origin does not answer; what was not committed will be \
             fetched again",
            left.join(", ")
        );
        process::exit(EXIT_HUNG.into());
    }
}
