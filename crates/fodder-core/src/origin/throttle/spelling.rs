//! Reads what stands between `throttled:` and the next colon.

use crate::{Error, Result, origin::suggest::did_you_mean};
use std::time::Duration;

const KEYS: [&str; 4] = ["latency", "bandwidth", "faults", "seed"];

/// How slow and how faulty.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::origin) struct Throttling {
    /// What each request waits for.
    pub(super) latency: Duration,
    /// Bytes per second for all requests together.
    pub(super) bandwidth: Option<f64>,
    /// The share of requests with which something goes wrong.
    pub(super) faults: f64,
    /// Where the dice begin.
    pub(super) seed: u64,
}

impl Throttling {
    /// Reads `latency=20ms,bandwidth=500MB/s,faults=0.01,seed=7`, each of them once or not at all.
    pub(in crate::origin) fn parse(text: &str) -> Result<Self> {
        let mut throttling = Self::default();
        for setting in text.split(',') {
            let (key, value) = setting.split_once('=').ok_or_else(|| {
                invalid(&format!("{setting:?} is not KEY=VALUE; write latency=20ms,bandwidth=500MB/s:ORIGIN"))
            })?;
            let (key, value) = (key.trim(), value.trim());
            let wrong =
                |example: &str| invalid(&format!("invalid value in {key}={value}; write it like {key}={example}"));
            match key {
                "latency" => throttling.latency = humantime::parse_duration(value).map_err(|_| wrong("20ms"))?,
                "bandwidth" => throttling.bandwidth = Some(bandwidth(value).ok_or_else(|| wrong("500MB/s"))?),
                "faults" => {
                    let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                    throttling.faults = share.ok_or_else(|| wrong("0.01 (a share from 0 to 1)"))?;
                }
                "seed" => throttling.seed = value.parse().map_err(|_| wrong("7"))?,
                _ => {
                    let meant = did_you_mean(key, KEYS);
                    return Err(invalid(&format!("unknown setting {key:?}{meant}; known are {}", KEYS.join(", "))));
                }
            }
        }
        Ok(throttling)
    }
}

/// Bytes per second from `500MB/s`, `2GiB/s`, `10Gbit/s`, `1000000`.
fn bandwidth(text: &str) -> Option<f64> {
    let text = text.strip_suffix("/s").or_else(|| text.strip_suffix("ps")).unwrap_or(text);
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = match &*unit.trim().to_ascii_lowercase() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "kbit" => 1e3 / 8.0,
        "mbit" => 1e6 / 8.0,
        "gbit" => 1e9 / 8.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * scale).filter(|rate| *rate >= 1.0)
}

fn invalid(why: &str) -> Error {
    Error::Invalid(format!("throttled: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_setting_is_read() {
        let throttling = Throttling::parse("latency=20ms,bandwidth=500MB/s,faults=0.01,seed=7").unwrap();
        let expected = Throttling { latency: Duration::from_millis(20), bandwidth: Some(5e8), faults: 0.01, seed: 7 };
        assert_eq!(throttling, expected);
        for (text, rate) in
            [("1GiB/s", 1_073_741_824.0), ("8Gbit/s", 1e9), ("10kBps", 1e4), ("1000", 1e3), ("1.5MB", 1.5e6)]
        {
            assert_eq!(bandwidth(text), Some(rate), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_with_an_example() {
        let cases = [
            ("latency=20", "latency=20ms"),
            ("bandwidth=fast", "bandwidth=500MB/s"),
            ("bandwidth=0", "bandwidth=500MB/s"),
            ("faults=2", "from 0 to 1"),
            ("seed=-1", "seed=7"),
            ("bandwith=1MB/s", "did you mean \"bandwidth\""),
            ("latency", "KEY=VALUE"),
        ];
        for (text, hint) in cases {
            let error = Throttling::parse(text).unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
