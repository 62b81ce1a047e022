//! Draws ranks with probabilities as 1/r^α, in O(1) each: Walker's alias method.
//!
//! The probabilities are laid out in columns of one width, each shared by at most two ranks; a draw takes a column
//! and then one of its two.

use crate::sim::random::Random;

/// A table to draw ranks from.
#[derive(Debug)]
pub(super) struct Zipf {
    columns: Vec<Column>,
}

/// The column of one rank.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// The part of the column that is its own rank's.
    own: f64,
    /// Whose the rest is.
    other: u32,
}

impl Zipf {
    /// A table of `ranks` ranks, counted from 0.
    pub(super) fn new(ranks: u32, alpha: f64) -> Self {
        let weight = |rank: u32| f64::from(rank + 1).powf(-alpha);
        let mean = (0..ranks).map(weight).sum::<f64>() / f64::from(ranks);
        let mut columns: Vec<Column> =
            (0..ranks).map(|rank| Column { own: weight(rank) / mean, other: rank }).collect();
        let (mut short, mut long): (Vec<u32>, Vec<u32>) =
            (0..ranks).partition(|&rank| columns[rank as usize].own < 1.0);
        while let (Some(taker), Some(giver)) = (short.pop(), long.pop()) {
            let lacking = 1.0 - columns[taker as usize].own;
            columns[taker as usize].other = giver;
            columns[giver as usize].own -= lacking;
            if columns[giver as usize].own < 1.0 { short.push(giver) } else { long.push(giver) }
        }
        Self { columns }
    }

    /// Draws a rank.
    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        let rank = random.below(self.columns.len() as u64) as u32;
        let column = self.columns[rank as usize];
        if random.share() < column.own { rank } else { column.other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_up_as_their_probabilities_say() {
        for alpha in [0.0, 0.5, 1.0, 2.0] {
            let (zipf, mut random) = (Zipf::new(50, alpha), Random::of(3, 0));
            let draws = 200_000;
            let mut counts = [0u32; 50];
            (0..draws).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
            let weight = |rank: u32| f64::from(rank + 1).powf(-alpha);
            let all: f64 = (0..50).map(weight).sum();
            for rank in 0..50 {
                let expected = weight(rank) / all * f64::from(draws);
                let seen = f64::from(counts[rank as usize]);
                assert!(
                    (seen - expected).abs() <= 5.0 * expected.sqrt() + 1.0,
                    "α {alpha} rank {rank}: {seen}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn one_rank_is_all_there_is_to_draw() {
        assert_eq!(Zipf::new(1, 1.0).draw(&mut Random::of(1, 0)), 0);
    }
}
