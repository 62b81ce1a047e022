//! What the jobs that introduced themselves at `/mjob` write down about themselves: a small table that forgets. Pure; time
//! and names are passed in. The jobs themselves are the dataset's, under the same uuid as their name.

use serde::Serialize;
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A job as iCache's client reads it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Job {
    pub(super) job_id: u64,
    pub(super) job_uuid: String,
    pub(super) job_name: String,
    pub(super) job_args: String,
    /// Date, time and nanoseconds since 1970, as iCache writes it.
    pub(super) job_starttime: String,
    /// Empty until the job is over.
    pub(super) job_endtime: String,
}

#[derive(Debug)]
struct Entry {
    job: Job,
    touched: SystemTime,
}

/// The jobs by uuid; at most [`JobTable::MAX_JOBS`].
#[derive(Debug, Default)]
pub(super) struct JobTable {
    jobs: BTreeMap<String, Entry>,
    last_id: u64,
}

impl JobTable {
    /// The most jobs that are remembered; one more, and the one that was silent longest is forgotten.
    pub(super) const MAX_JOBS: usize = 256;
    /// The longest name.
    pub(super) const MAX_NAME_BYTES: usize = 1 << 10;
    /// The longest command line.
    pub(super) const MAX_ARGS_BYTES: usize = 1 << 20;
    /// The most bytes of all command lines; beyond it those of the jobs that were silent longest are dropped.
    pub(super) const MAX_ALL_ARGS_BYTES: usize = 16 << 20;
    /// The longest uuid that a client may bring itself.
    pub(super) const MAX_UUID_BYTES: usize = 128;
    /// How long a job that is over is remembered.
    const KEEP_FINISHED: Duration = Duration::from_secs(60 * 60);
    /// How long a job is remembered that says nothing any more.
    pub(super) const KEEP_SILENT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    /// A new job, and the one that had to be forgotten for it.
    pub(super) fn init(&mut self, uuid: String, now: SystemTime) -> (Job, Option<String>) {
        self.expire(now);
        let is_full = self.jobs.len() >= Self::MAX_JOBS;
        let silent = self.jobs.iter().filter(|_| is_full).min_by_key(|(_, entry)| entry.touched);
        let silent = silent.map(|(uuid, _)| uuid.clone());
        silent.as_ref().and_then(|uuid| self.jobs.remove(uuid));
        self.last_id += 1;
        let job = Job { job_id: self.last_id, job_uuid: uuid.clone(), job_starttime: timestamp(now), ..Job::default() };
        self.jobs.insert(uuid, Entry { job: job.clone(), touched: now });
        (job, silent)
    }

    /// A job by uuid.
    pub(super) fn get(&mut self, uuid: &str, now: SystemTime) -> Option<&Job> {
        self.expire(now);
        self.jobs.get(uuid).map(|entry| &entry.job)
    }

    /// All jobs by uuid.
    pub(super) fn all(&mut self, now: SystemTime) -> BTreeMap<String, Job> {
        self.expire(now);
        self.jobs.iter().map(|(uuid, entry)| (uuid.clone(), entry.job.clone())).collect()
    }

    /// Writes down what a job is called and how it was started; false if there is no such job.
    pub(super) fn update(&mut self, uuid: &str, name: String, args: String, now: SystemTime) -> bool {
        self.expire(now);
        let Some(entry) = self.jobs.get_mut(uuid) else { return false };
        entry.touched = now;
        entry.job.job_name = name;
        entry.job.job_args = args;
        self.bound_args(uuid);
        true
    }

    /// Drops command lines until all of them fit, those of the jobs that were silent longest first.
    fn bound_args(&mut self, newest: &str) {
        let mut total: usize = self.jobs.values().map(|entry| entry.job.job_args.len()).sum();
        while total > Self::MAX_ALL_ARGS_BYTES {
            let others = self.jobs.values_mut().filter(|entry| entry.job.job_uuid != newest);
            let with_args = others.filter(|entry| !entry.job.job_args.is_empty());
            let Some(silent) = with_args.min_by_key(|entry| entry.touched) else { return };
            total -= std::mem::take(&mut silent.job.job_args).len();
        }
    }

    /// Writes down that a job is over, and when; None if there is no such job.
    pub(super) fn finish(&mut self, uuid: &str, now: SystemTime) -> Option<String> {
        self.expire(now);
        let entry = self.jobs.get_mut(uuid)?;
        entry.touched = now;
        entry.job.job_endtime = timestamp(now);
        Some(entry.job.job_endtime.clone())
    }

    /// Forgets one job, or all of them; which they were.
    pub(super) fn remove(&mut self, uuid: Option<&str>) -> Vec<String> {
        match uuid {
            Some(uuid) => self.jobs.remove_entry(uuid).into_iter().map(|(uuid, _)| uuid).collect(),
            None => std::mem::take(&mut self.jobs).into_keys().collect(),
        }
    }

    fn expire(&mut self, now: SystemTime) {
        self.jobs.retain(|_, entry| {
            let keep = if entry.job.job_endtime.is_empty() { Self::KEEP_SILENT } else { Self::KEEP_FINISHED };
            now.duration_since(entry.touched).unwrap_or_default() < keep
        });
    }
}

/// `2026-01-31 12:00:00 1769860800000000000`, in UTC.
fn timestamp(time: SystemTime) -> String {
    let date = humantime::format_rfc3339_seconds(time).to_string().replace('T', " ");
    let nanos = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{} {nanos}", date.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_job_is_remembered_from_its_beginning_to_its_end() {
        let mut table = JobTable::default();
        let (job, _) = table.init("a".into(), at(86_400));
        assert_eq!((job.job_id, job.job_starttime.as_str()), (1, "1970-01-02 00:00:00 86400000000000"));
        assert!(table.update("a", "train.py".into(), "-b 256".into(), at(86_401)));
        assert_eq!(table.finish("a", at(86_402)).as_deref(), Some("1970-01-02 00:00:02 86402000000000"));
        let job = table.get("a", at(86_403)).expect("it was initialised");
        assert_eq!((job.job_name.as_str(), job.job_args.as_str()), ("train.py", "-b 256"));
        assert_eq!(table.init("b".into(), at(86_404)).0.job_id, 2);
    }

    #[test]
    fn a_job_that_nobody_knows_is_not_made_up() {
        let mut table = JobTable::default();
        assert!(!table.update("a", "n".into(), "x".into(), at(1)));
        assert_eq!(table.finish("a", at(1)), None);
        assert_eq!(table.get("a", at(1)), None);
        assert!(table.remove(Some("a")).is_empty());
    }

    #[test]
    fn a_job_that_is_over_is_forgotten_after_an_hour_and_a_running_one_is_not() {
        let mut table = JobTable::default();
        table.init("over".into(), at(0));
        table.init("running".into(), at(0));
        table.finish("over", at(10));
        assert_eq!(table.all(at(3_609)).len(), 2);
        assert_eq!(table.all(at(3_610)).into_keys().collect::<Vec<_>>(), ["running"]);
        assert_eq!(table.all(at(31 * 86_400)).len(), 0);
    }

    #[test]
    fn long_command_lines_are_kept_and_all_of_them_are_bounded() {
        let mut table = JobTable::default();
        let args = "x".repeat(JobTable::MAX_ARGS_BYTES);
        for number in 0..20 {
            let uuid = format!("{number:04}");
            table.init(uuid.clone(), at(number));
            assert!(table.update(&uuid, "n".into(), args.clone(), at(number)));
        }
        let jobs = table.all(at(20));
        let kept: Vec<bool> = jobs.values().map(|job| job.job_args.len() == args.len()).collect();
        assert_eq!(kept, (0..20).map(|number| number >= 4).collect::<Vec<_>>());
    }

    #[test]
    fn the_table_is_bounded_and_forgets_who_was_silent_longest() {
        let mut table = JobTable::default();
        for number in 0..JobTable::MAX_JOBS as u64 + 10 {
            let (_, forgotten) = table.init(format!("{number:04}"), at(number));
            assert_eq!(forgotten.is_some(), number >= JobTable::MAX_JOBS as u64);
            table.update("0000", "n".into(), String::new(), at(number));
        }
        let jobs = table.all(at(1_000));
        assert_eq!(jobs.len(), JobTable::MAX_JOBS);
        assert!(jobs.contains_key("0000") && !jobs.contains_key("0001"));
        assert_eq!(table.remove(None).len(), JobTable::MAX_JOBS);
    }
}
