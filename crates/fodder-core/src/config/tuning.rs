//! What can be set about a dataset's policies and jobs. Nobody has to.

use super::human_duration;
use fodder_policy::{fetching::Strategy, job, residency};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What can be set about a dataset's policies and jobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tuning {
    /// How often scores that jobs report take effect. None: at the end of the epoch in which they were reported.
    #[serde(with = "human_duration::option")]
    pub update_interval: Option<Duration>,
    /// What is brought in before it is asked for. None: what goes with the policy.
    pub fetching: Option<Strategy>,
    /// About the policy `importance`.
    pub importance: residency::importance::Settings,
    /// About the policy `semantic`.
    pub semantic: residency::semantic::Settings,
}

impl Tuning {
    /// What it says about residency.
    pub fn residency(&self) -> residency::Settings {
        residency::Settings { importance: self.importance, semantic: self.semantic }
    }

    /// What it says about jobs.
    pub fn jobs(&self) -> job::Settings {
        job::Settings { update_interval: self.update_interval, ..job::Settings::default() }
    }
}
