//! Synthetic jobs, as traces: what training asks for, made from a seed.

mod zipf;

use super::{
    Trace, bound,
    random::Random,
    trace::{MAX_REQUESTS, Scores},
};
use crate::{Error, Result, permutation::Permutation};
use zipf::Zipf;

/// A synthetic job, or several.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// What is asked for.
    pub kind: Kind,
    /// How many items there are, all of one size.
    pub items: u32,
    /// How many epochs each job runs.
    pub epochs: u32,
    /// How many epochs at the front only warm the cache.
    pub skip: u32,
    /// What decides every random choice.
    pub seed: u64,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Every item once an epoch, in a fresh random order.
    Uniform,
    /// Selective backpropagation: every item has a fixed score u, uniform in (0, 1), and is asked for in an epoch
    /// with the probability u^β, in a fresh random order.
    Sbp {
        /// How much the score matters: 0 selects everything.
        beta: f64,
    },
    /// Independent requests, the r-th most popular item with a probability as 1/r^α. An epoch is one request an item.
    Zipf {
        /// How unequal items are.
        alpha: f64,
    },
    /// Shards in a fresh random order each epoch, the items of a shard one after the other.
    Shards {
        /// How many items a shard has; the last may have fewer.
        items: u32,
    },
    /// Several jobs at once, each asking for every item once an epoch in an order of its own. Of k jobs the j-th
    /// begins j/k into its first epoch; they take turns with as many requests each as their rates say.
    Jobs {
        /// One rate a job.
        rates: Vec<u32>,
        /// Among how many of the items it planned next a job takes one that is cached first; 0 keeps to the plan.
        window: u32,
    },
}

/// Shards of the usual size for so many items: a thousand items, but at least sixteen shards.
pub fn usual_shard_items(items: u32) -> u32 {
    (items / 16).clamp(1, 1000)
}

/// Each random choice has a stream of its own, so that a workload with more epochs begins as one with fewer.
mod purpose {
    pub(super) const SCORES: u64 = 0;
    pub(super) const SELECTION: u64 = 1;
    pub(super) const REQUESTS: u64 = 2;
}

impl Workload {
    /// Says what is wrong with the numbers, if anything is.
    pub fn check(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::Invalid(message));
        if self.items == 0 || self.epochs == 0 {
            return invalid("a workload has at least one item and one epoch".into());
        }
        if self.skip >= self.epochs {
            return invalid(format!("skipping {} of {} epochs leaves nothing to count", self.skip, self.epochs));
        }
        let requests = u128::from(self.items) * u128::from(self.epochs) * self.jobs() as u128;
        if requests > u128::from(MAX_REQUESTS) {
            return invalid(format!("{requests} requests are more than {MAX_REQUESTS}: use fewer items or epochs"));
        }
        match &self.kind {
            Kind::Sbp { beta } if !(0.0..=100.0).contains(beta) => {
                invalid(format!("beta must be between 0 and 100, not {beta}"))
            }
            Kind::Zipf { alpha } if !(0.0..=10.0).contains(alpha) => {
                invalid(format!("alpha must be between 0 and 10, not {alpha}"))
            }
            Kind::Shards { items: 0 } => invalid("a shard has at least one item".into()),
            Kind::Jobs { rates, .. } if rates.is_empty() || rates.iter().any(|rate| !(1..=1000).contains(rate)) => {
                invalid("each job has a rate between 1 and 1000".into())
            }
            _ => Ok(()),
        }
    }

    /// How many jobs there are.
    pub fn jobs(&self) -> usize {
        match &self.kind {
            Kind::Jobs { rates, .. } => rates.len(),
            _ => 1,
        }
    }

    /// All requests, where each job keeps to its plan.
    pub fn trace(&self) -> Trace {
        match &self.kind {
            Kind::Uniform => self.epoch_by_epoch(|epoch| self.order(0, epoch)),
            Kind::Sbp { beta } => self.selected(*beta),
            Kind::Zipf { alpha } => self.independent(*alpha),
            Kind::Shards { items } => self.epoch_by_epoch(|epoch| self.sharded(*items, epoch)),
            Kind::Jobs { rates, .. } => self.interleaved(rates),
        }
    }

    /// The seed of a job's plans.
    pub(super) fn seed_of(&self, job: u32) -> u64 {
        self.seed.wrapping_add(u64::from(job))
    }

    /// What a job plans for an epoch: the order that a real job with its seed has.
    pub fn order(&self, job: u32, epoch: u32) -> impl Iterator<Item = u32> + use<> {
        let order = Permutation::new(self.items, self.seed_of(job), u64::from(epoch));
        (0..self.items).map_while(move |position| order.at(position))
    }

    /// What no policy can exceed in a cache of the share `cached` of all items, where counting gives it.
    pub fn bound(&self, cached: f64, trace: &Trace) -> Option<f64> {
        match &self.kind {
            Kind::Uniform | Kind::Sbp { .. } | Kind::Shards { .. } => {
                let counted = (trace.requests.len() - trace.skip) as f64;
                let an_epoch = counted / f64::from(self.epochs - self.skip);
                Some(bound::one_job(trace.capacity_bytes(cached) as f64, an_epoch))
            }
            Kind::Jobs { rates, .. } => Some(bound::jobs(cached, rates)),
            Kind::Zipf { .. } => None,
        }
    }

    /// A trace of one job, whose epochs are made one by one.
    fn epoch_by_epoch<I: Iterator<Item = u32>>(&self, mut epoch: impl FnMut(u32) -> I) -> Trace {
        let mut trace = Trace { items: self.items, ..Trace::default() };
        for number in 0..self.epochs {
            trace.epochs.push(trace.requests.len());
            trace.requests.extend(epoch(number));
        }
        trace.skip = trace.epochs[self.skip as usize];
        trace
    }

    fn selected(&self, beta: f64) -> Trace {
        let mut random = Random::of(self.seed, purpose::SCORES);
        let scores: Vec<f64> = (0..self.items).map(|_| random.share()).collect();
        let chances: Vec<f64> = scores.iter().map(|score| score.powf(beta)).collect();
        let mut random = Random::of(self.seed, purpose::SELECTION);
        let trace = self.epoch_by_epoch(|epoch| {
            let selected = |id: &u32| random.share() < chances[*id as usize];
            self.order(0, epoch).filter(selected).collect::<Vec<_>>().into_iter()
        });
        let by_id = scores.iter().map(|&score| score as f32).collect();
        Trace { scores: vec![Scores { at: 0, by_id }], ..trace }
    }

    fn sharded(&self, shard_items: u32, epoch: u32) -> impl Iterator<Item = u32> + use<> {
        let (items, shards) = (self.items, self.items.div_ceil(shard_items));
        let order = Permutation::new(shards, self.seed, u64::from(epoch));
        (0..shards)
            .map_while(move |position| order.at(position))
            .flat_map(move |shard| shard * shard_items..((shard + 1) * shard_items).min(items))
    }

    fn independent(&self, alpha: f64) -> Trace {
        let zipf = Zipf::new(self.items, alpha);
        // Who is popular has nothing to do with its id.
        let ids: Vec<u32> = self.order(0, 0).collect();
        let mut random = Random::of(self.seed, purpose::REQUESTS);
        let count = self.items as usize * self.epochs as usize;
        Trace {
            requests: (0..count).map(|_| ids[zipf.draw(&mut random) as usize]).collect(),
            items: self.items,
            skip: self.items as usize * self.skip as usize,
            ..Trace::default()
        }
    }

    fn interleaved(&self, rates: &[u32]) -> Trace {
        let mut plans: Vec<_> = (0..rates.len() as u32)
            .map(|job| (0..).flat_map(move |epoch| self.order(job, epoch)).skip(self.head_start(job)))
            .collect();
        let requests = self.turns().map(|job| plans[job].next().expect("a job's epochs never end")).collect();
        Trace { requests, items: self.items, skip: self.skipped(), ..Trace::default() }
    }

    /// How many requests of all jobs together are not counted.
    pub(super) fn skipped(&self) -> usize {
        self.items as usize * self.jobs() * self.skip as usize
    }

    /// How much of its first epoch a job has behind it when it begins.
    pub(super) fn head_start(&self, job: u32) -> usize {
        (u64::from(job) * u64::from(self.items) / self.jobs() as u64) as usize
    }

    /// Whose turn it is, request by request.
    pub(super) fn turns(&self) -> impl Iterator<Item = usize> + use<> {
        let rates = match &self.kind {
            Kind::Jobs { rates, .. } => rates.clone(),
            _ => vec![1],
        };
        let requests = self.items as usize * self.epochs as usize * rates.len();
        let round: Vec<usize> =
            rates.iter().enumerate().flat_map(|(job, &rate)| std::iter::repeat_n(job, rate as usize)).collect();
        round.into_iter().cycle().take(requests)
    }
}

#[cfg(test)]
mod tests;
