//! Fair rounds: the contestants take turns within one run, so that whatever else the machine does meets all of them.

use anyhow::{Context, Result};

/// One contestant: its name, and one timed round that answers with its speed.
pub(crate) struct Contestant<'a> {
    name: &'a str,
    round: Box<dyn FnMut(u64) -> Result<f64> + 'a>,
}

impl<'a> Contestant<'a> {
    /// A contestant whose `round` is given the round's number, to make the same random choices as the others.
    pub(crate) fn new(name: &'a str, round: impl FnMut(u64) -> Result<f64> + 'a) -> Self {
        Self { name, round: Box::new(round) }
    }
}

/// Lets everyone take turns for `rounds` rounds, after one that warms up and is not counted. The speeds of each.
pub(crate) fn alternate(rounds: u64, contestants: &mut [Contestant<'_>]) -> Result<Vec<Vec<f64>>> {
    let mut speeds = vec![Vec::new(); contestants.len()];
    for round in 0..=rounds {
        for (contestant, speeds) in contestants.iter_mut().zip(&mut speeds) {
            let speed = (contestant.round)(round).with_context(|| format!("{} in round {round}", contestant.name))?;
            if round > 0 {
                speeds.push(speed);
            }
        }
    }
    Ok(speeds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn contestants_take_turns_and_the_first_round_does_not_count() -> Result<()> {
        let log = RefCell::new(Vec::new());
        let contestant = |name, speed: f64| {
            let log = &log;
            Contestant::new(name, move |round| {
                log.borrow_mut().push((name, round));
                Ok(speed + round as f64)
            })
        };
        let speeds = alternate(2, &mut [contestant("a", 10.0), contestant("b", 20.0)])?;
        assert_eq!(speeds, [[11.0, 12.0], [21.0, 22.0]]);
        assert_eq!(*log.borrow(), [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
        Ok(())
    }
}
