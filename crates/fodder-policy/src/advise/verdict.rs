//! The verdict: what the job waits for, what would help most, and the table that shows it.

use super::{
    Measured,
    meter::{ENOUGH_SECONDS, TooLittle},
    speed::{sane, storage_share},
};
use crate::Policy;
use std::fmt;

/// What changes by less than this share is no change.
const NOTICED: f64 = 0.02;
/// What is said of everything cached where the cache is large enough.
const ROOM: &str = " (there is room: it comes with the first epoch, or with fodder warm)";

/// What a job waits for most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Items to come from the origin.
    Storage,
    /// Its own work: preprocessing or the GPU, which cannot be told apart.
    Own,
    /// Items to be made into batches.
    Preprocessing,
    /// The GPU: data is always ready.
    Gpu,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Storage => "storage",
            Self::Own => "preprocessing or the GPU",
            Self::Preprocessing => "preprocessing",
            Self::Gpu => "the GPU",
        })
    }
}

/// How the job would do under one change.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Row {
    /// What is changed.
    pub what: String,
    /// The share of bytes that need not come from the origin.
    pub hit_ratio: f64,
    /// Items a second that the job takes. None where it cannot be told.
    pub items_per_second: Option<f64>,
    /// The same in terms of what it takes now.
    pub speed: Option<f64>,
}

/// What to do, and why.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Advice {
    /// What the job waits for most. None where its time was not measured.
    pub limit: Option<Limit>,
    /// The share of its readers' time that they wait for storage.
    pub storage_share: f64,
    /// How it is, and what to do.
    pub sentences: [String; 2],
    /// As it is now, then each change; nothing where nothing was measured.
    pub rows: Vec<Row>,
    /// The policy that hits most. None where too little was seen to tell.
    pub policy: Option<Policy>,
}

/// A change, as reckoned.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) what: String,
    pub(super) hit_ratio: f64,
    pub(super) items_per_second: Option<f64>,
}

impl Advice {
    /// `now` is how the job should do as things are, which need not be what was measured: changes are told as multiples.
    pub(super) fn new(measured: &Measured, now: Case, changes: Vec<Case>, policy: Option<Policy>) -> Self {
        let taken = sane(measured.items_per_second);
        let expected = now.items_per_second.filter(|expected| *expected > 0.0);
        let row = |case: Case| {
            let speed = case.items_per_second.zip(expected).map(|(then, now)| then / now);
            let speed = speed.filter(|speed| (speed + taken * speed).is_finite());
            Row {
                what: case.what,
                hit_ratio: case.hit_ratio,
                items_per_second: speed.map(|speed| taken * speed),
                speed,
            }
        };
        let rows: Vec<Row> = [now].into_iter().chain(changes).map(row).collect();
        let (limit, storage_share) = limit(measured);
        let sentences = [how_it_is(measured, limit, storage_share), what_to_do(measured, &rows, limit)];
        Self { limit, storage_share, sentences, rows, policy }
    }

    /// No verdict: too little was observed.
    pub fn too_little(dataset: &str, observed: &TooLittle) -> Self {
        let sentences = [
            match observed.seconds {
                0.0 => format!("Nothing of dataset {dataset:?} has been read since the node started."),
                seconds => {
                    format!("Only {seconds:.1} s of reads of dataset {dataset:?} were observed, which is too little.")
                }
            },
            format!("Run the job for {ENOUGH_SECONDS} s or a whole epoch, then run `fodder advise` again."),
        ];
        Self { limit: None, storage_share: 0.0, sentences, rows: Vec::new(), policy: None }
    }
}

/// What takes most of the job's time, and the share that storage takes.
fn limit(measured: &Measured) -> (Option<Limit>, f64) {
    let Some(storage_share) = storage_share(measured) else { return (None, 0.0) };
    let waits = measured.waits;
    let times = [
        (waits.storage, Limit::Storage),
        (waits.own, Limit::Own),
        (waits.preprocessing, Limit::Preprocessing),
        (waits.gpu, Limit::Gpu),
    ];
    let most = times.into_iter().max_by(|(a, _), (b, _)| sane(*a).total_cmp(&sane(*b)));
    (most.map(|(_, limit)| limit), storage_share)
}

fn how_it_is(measured: &Measured, limit: Option<Limit>, storage_share: f64) -> String {
    let now = sane(measured.items_per_second);
    let speed = match measured.cached_items_per_second.map(|cached| sane(cached).max(now)) {
        Some(cached) => format!("{} items/s of the {} it takes with everything cached", rate(now), rate(cached)),
        None => format!("{} items/s; its speed with everything cached is not known yet", rate(now)),
    };
    let percent = storage_share * 100.0;
    match limit {
        None => format!("The job takes {speed}."),
        Some(Limit::Storage) => format!("The job waits for storage {percent:.0} % of its time, and takes {speed}."),
        Some(Limit::Own) => format!(
            "The job spends {percent:.0} % of its time waiting for storage and the rest in preprocessing or on the GPU, \
             which the node cannot tell apart. It takes {speed}."
        ),
        Some(other) => {
            format!("The job waits for {other}, and for storage only {percent:.0} % of its time: it takes {speed}.")
        }
    }
}

fn what_to_do(measured: &Measured, rows: &[Row], limit: Option<Limit>) -> String {
    let is_more = |row: &Row| row.what != super::HALF_THE_CACHE;
    let gain = |row: &Row| row.speed.filter(|speed| *speed > 1.0 + NOTICED && is_more(row));
    let mut helps: Vec<(f64, &str)> = rows.iter().filter_map(|row| Some((gain(row)?, row.what.as_str()))).collect();
    helps.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let most = if measured.cached_items_per_second.is_some() { "" } else { "up to " };
    let said = helps.iter().map(|(speed, what)| match *what {
        super::ALL_CACHED => format!("{most}{speed:.2} times as fast with {what}{ROOM}"),
        what => format!("{most}{speed:.2} times as fast with {what}"),
    });
    let said: Vec<String> = said.collect();
    match said.as_slice() {
        [] => format!("Neither more cache nor more bandwidth would make it faster{}.", half_the_cache(rows)),
        [one] => format!("It would be {one}{}.", aside(limit)),
        [first @ .., last] => format!("It would be {}, and {last}{}.", first.join(", "), aside(limit)),
    }
}

/// What half the cache would do, where more would do nothing.
fn half_the_cache(rows: &[Row]) -> &'static str {
    match rows.iter().find(|row| row.what == super::HALF_THE_CACHE).and_then(|half| half.speed) {
        Some(speed) if speed > 1.0 - NOTICED => ", and half the cache would do",
        Some(_) => ", but half the cache would make it slower",
        None => "; the effect of less cache is not known before the first miss",
    }
}

/// What to bear in mind where storage is not what the job waits for.
fn aside(limit: Option<Limit>) -> &'static str {
    match limit {
        Some(Limit::Preprocessing) => "; more preprocessing workers would help first",
        _ => "",
    }
}

/// Items a second, to three places or so.
fn rate(items_per_second: f64) -> String {
    if items_per_second < 10.0 { format!("{items_per_second:.1}") } else { format!("{items_per_second:.0}") }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}", self.sentences[0], self.sentences[1])?;
        if self.rows.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{:<22}{:>8}{:>12}{:>9}", "", "hits", "items/s", "speed")?;
        for Row { what, hit_ratio, items_per_second, speed } in &self.rows {
            let items = items_per_second.map_or("?".into(), rate);
            let speed = speed.map_or("?".into(), |speed| format!("{speed:.2}×"));
            writeln!(f, "{what:<22}{hit_ratio:>8.3}{items:>12}{speed:>9}")?;
        }
        Ok(())
    }
}
