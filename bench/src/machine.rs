//! On what a result was measured.

use serde::Serialize;
use std::{fmt, fs, thread, time::SystemTime};

/// The machine and the moment of a measurement.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    /// The day, as YYYY-MM-DD (UTC).
    pub(crate) date: String,
    /// Cores this process may use.
    pub(crate) cores: usize,
    /// The processor's name.
    pub(crate) processor: String,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// Memory in GiB.
    pub(crate) memory_gib: u64,
}

impl Machine {
    /// This machine, now.
    pub(crate) fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let memory_kib = field(&read("/proc/meminfo"), "MemTotal").split(' ').next().and_then(|kib| kib.parse().ok());
        Self {
            date: today(),
            cores: thread::available_parallelism().map_or(0, Into::into),
            processor: field(&read("/proc/cpuinfo"), "model name"),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_gib: memory_kib.unwrap_or(0u64) >> 20,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { date, cores, processor, kernel, memory_gib } = self;
        write!(f, "{date}, {cores} cores {processor}, {memory_gib} GiB, Linux {kernel}")
    }
}

/// Takes so much memory and gives it back. A virtual machine returns to its host what it does not use, and whoever is the first to
/// use it again waits for the host: writing new files then has a quarter of its speed.
pub(crate) fn touch_memory(bytes: usize) {
    drop(std::hint::black_box(vec![1u8; bytes]));
}

/// Today's date.
fn today() -> String {
    let seconds = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// The date of a day counted from 1970-01-01, in years that begin in March, so that a leap day is a year's last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_088), (2024, 12, 31));
        assert_eq!(civil(20_089), (2025, 1, 1));
    }
}
