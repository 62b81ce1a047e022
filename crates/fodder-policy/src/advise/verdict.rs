//! The verdict: what the job waits for, what would help most, and the table that shows it.

use super::{Measured, speed::sane};
use crate::Policy;
use std::fmt;

/// What changes by less than this share is no change.
const NOTICED: f64 = 0.02;

/// What a job waits for most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Items to come from the origin.
    Storage,
    /// Items to be made into batches.
    Preprocessing,
    /// The GPU: data is always ready.
    Gpu,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Storage => "storage",
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
    /// The share of bytes that hits.
    pub hit_ratio: f64,
    /// Items a second that the job takes.
    pub items_per_second: f64,
    /// The same in terms of what it takes now.
    pub speed: f64,
}

/// What to do, and why.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Advice {
    /// What the job waits for most. None where its time was not measured.
    pub limit: Option<Limit>,
    /// The share of its time that it waits for storage.
    pub storage_share: f64,
    /// How it is, and what to do.
    pub sentences: [String; 2],
    /// As it is now, then each change.
    pub rows: Vec<Row>,
    /// The policy that hits most. None where too little was seen to tell.
    pub policy: Option<Policy>,
}

/// A change, as reckoned.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) what: String,
    pub(super) hit_ratio: f64,
    pub(super) items_per_second: f64,
}

impl Advice {
    /// `now` is how the job should do as things are, which need not be what was measured: changes are told as multiples.
    pub(super) fn new(measured: &Measured, now: Case, changes: Vec<Case>, policy: Option<Policy>) -> Self {
        let taken = sane(measured.items_per_second);
        let row = |case: Case| {
            let speed = if now.items_per_second > 0.0 { case.items_per_second / now.items_per_second } else { 1.0 };
            Row { what: case.what, hit_ratio: case.hit_ratio, items_per_second: taken * speed, speed }
        };
        let rows: Vec<Row> = [now.clone()].into_iter().chain(changes).map(row).collect();
        let (limit, storage_share) = limit(measured);
        let sentences = [how_it_is(measured, limit, storage_share), what_to_do(&rows, limit)];
        Self { limit, storage_share, sentences, rows, policy }
    }
}

/// What takes most of the job's time, and the share that storage takes.
fn limit(measured: &Measured) -> (Option<Limit>, f64) {
    let waits = measured.waits;
    let shares = [
        (sane(waits.storage), Limit::Storage),
        (sane(waits.preprocessing), Limit::Preprocessing),
        (sane(waits.gpu), Limit::Gpu),
    ];
    let all: f64 = shares.iter().map(|(seconds, _)| seconds).sum();
    if all <= 0.0 {
        return (None, 0.0);
    }
    let most = shares.iter().max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, limit)| *limit);
    (most, shares[0].0 / all)
}

fn how_it_is(measured: &Measured, limit: Option<Limit>, storage_share: f64) -> String {
    let (now, cached) = (sane(measured.items_per_second), sane(measured.cached_items_per_second));
    let speed = format!("{now:.0} items/s of the {:.0} it takes with everything cached", cached.max(now));
    let percent = storage_share * 100.0;
    match limit {
        None => format!("The job takes {speed}."),
        Some(Limit::Storage) => format!("The job waits for storage {percent:.0} % of its time, and takes {speed}."),
        Some(other) => {
            format!("The job waits for {other}, and for storage only {percent:.0} % of its time: it takes {speed}.")
        }
    }
}

fn what_to_do(rows: &[Row], limit: Option<Limit>) -> String {
    let helps = rows.iter().skip(1).filter(|row| row.speed > 1.0 + NOTICED);
    let mut helps: Vec<&Row> = helps.collect();
    helps.sort_by(|a, b| b.speed.total_cmp(&a.speed));
    let said: Vec<String> =
        helps.iter().map(|row| format!("{:.2} times as fast with {}", row.speed, row.what)).collect();
    let half = rows.iter().find(|row| row.what == super::HALF_THE_CACHE);
    let still = half.is_some_and(|half| half.speed > 1.0 - NOTICED);
    match said.as_slice() {
        [] if still => {
            "Neither more cache nor more bandwidth would make it faster, and half the cache would do.".into()
        }
        [] => "Neither more cache nor more bandwidth would make it faster, but half the cache would make it slower."
            .into(),
        [one] => format!("It would be {one}{}.", aside(limit)),
        [first @ .., last] => format!("It would be {}, and {last}{}.", first.join(", "), aside(limit)),
    }
}

/// What to bear in mind where storage is not what the job waits for.
fn aside(limit: Option<Limit>) -> String {
    match limit {
        Some(Limit::Preprocessing) => "; more preprocessing workers would help first".into(),
        _ => String::new(),
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n", self.sentences[0], self.sentences[1])?;
        writeln!(f, "{:<22}{:>8}{:>12}{:>9}", "", "hits", "items/s", "speed")?;
        for row in &self.rows {
            let Row { what, hit_ratio, items_per_second, speed } = row;
            writeln!(f, "{what:<22}{hit_ratio:>8.3}{items_per_second:>12.0}{:>8.2}×", speed)?;
        }
        Ok(())
    }
}
