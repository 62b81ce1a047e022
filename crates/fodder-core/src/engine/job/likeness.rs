//! Which items are alike: neighbours among embeddings, and what follows from them for each item.
//!
//! Runs in the background over points that no longer change. docs/decisions/0010 says why the graph is usearch's, and
//! what a distance is.

use super::embedding::Points;
use crate::{Error, Result};
use fodder_policy::residency::semantic::{Settings, semantic_score, similarity};
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

/// What the neighbours of each row say.
#[derive(Debug, PartialEq)]
pub(super) struct Likeness {
    /// How much there is to learn from it, by row.
    pub(super) scores: Vec<f32>,
    /// The row that may answer for it: itself if it answers for others, None if no other is like it. By row.
    pub(super) keys: Vec<Option<u32>>,
}

/// Looks for the neighbours of every point. None if `goes_on` says no more.
pub(super) fn find(
    points: &Points,
    settings: &Settings,
    label: impl Fn(usize) -> Option<u32>,
    goes_on: impl Fn() -> bool,
) -> Result<Option<Likeness>> {
    let graph = Graph::new(points, settings)?;
    for row in 0..points.len() {
        if !goes_on() {
            return Ok(None);
        }
        graph.index.add(row as u64, points.row(row)).map_err(broken)?;
    }
    let (mut scores, mut alike) = (Vec::with_capacity(points.len()), Vec::with_capacity(points.len()));
    for row in 0..points.len() {
        if !goes_on() {
            return Ok(None);
        }
        let near = graph.neighbours(row)?;
        let same = near.iter().filter(|other| label(**other as usize) == label(row)).count() as u32;
        scores.push(semantic_score(same, near.len() as u32 - same, settings.k));
        alike.push(same);
    }
    let keys = choose_keys(&alike, |row| {
        let near = if goes_on() { graph.neighbours(row)? } else { Vec::new() };
        Ok(near.into_iter().filter(|other| label(*other as usize) == label(row)).collect())
    })?;
    Ok(goes_on().then_some(Likeness { scores, keys }))
}

/// Lets those that are like the most others answer for them, each for those that no other answers for yet.
fn choose_keys(alike: &[u32], mut near: impl FnMut(usize) -> Result<Vec<u32>>) -> Result<Vec<Option<u32>>> {
    let mut keys = vec![None; alike.len()];
    let mut order: Vec<u32> = (0..alike.len() as u32).filter(|row| alike[*row as usize] > 0).collect();
    order.sort_by_key(|row| std::cmp::Reverse(alike[*row as usize]));
    for row in order {
        if keys[row as usize].is_some() {
            continue;
        }
        let free: Vec<u32> = near(row as usize)?.into_iter().filter(|other| keys[*other as usize].is_none()).collect();
        if !free.is_empty() {
            keys[row as usize] = Some(row);
            free.into_iter().for_each(|other| keys[other as usize] = Some(row));
        }
    }
    Ok(keys)
}

/// The graph of neighbours.
struct Graph<'a> {
    points: &'a Points,
    index: Index,
    settings: Settings,
}

impl<'a> Graph<'a> {
    fn new(points: &'a Points, settings: &Settings) -> Result<Self> {
        let options = IndexOptions {
            dimensions: points.dimension as usize,
            metric: MetricKind::L2sq,
            quantization: ScalarKind::F32,
            connectivity: settings.m.max(2) as usize,
            expansion_add: settings.ef as usize,
            expansion_search: settings.ef.max(settings.k) as usize,
            multi: false,
        };
        let index = Index::new(&options).map_err(broken)?;
        index.reserve(points.len()).map_err(broken)?;
        Ok(Self { points, index, settings: *settings })
    }

    /// The rows that are like a row, itself aside.
    fn neighbours(&self, row: usize) -> Result<Vec<u32>> {
        let found = self.index.search(self.points.row(row), self.settings.k as usize + 1).map_err(broken)?;
        let least = f64::from(self.settings.similarity);
        let near = found.keys.iter().zip(&found.distances);
        let near = near.filter(|(_, distance)| f64::from(similarity(**distance)) >= least);
        Ok(near.map(|(key, _)| *key as u32).filter(|other| *other as usize != row).collect())
    }
}

fn broken(error: impl std::fmt::Display) -> Error {
    Error::Internal(format!("the graph of neighbours: {error}"))
}

#[cfg(test)]
mod tests;
