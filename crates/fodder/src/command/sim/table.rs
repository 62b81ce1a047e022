//! The table for people: policies down, cache sizes across.

use super::race::Outcome;
use std::time::Duration;

/// Widths of the columns.
const NAME: usize = 12;
const CELL: usize = 8;

/// Hit ratios by requests and, where items differ in size, by bytes; with what no policy can exceed below.
pub(super) fn table(title: &str, outcomes: &[Outcome]) -> String {
    let policies: Vec<&[Outcome]> = outcomes.chunk_by(|a, b| a.contender == b.contender).collect();
    let Some(&sizes) = policies.first() else { return String::new() };
    let mut lines = vec![title.to_owned(), String::new()];
    let heading = |what: &str| row(what, sizes.iter().map(|outcome| percent(outcome.cached)));
    lines.push(heading("hits at") + "   M requests/s");
    for policy in &policies {
        let ratios = policy.iter().map(|outcome| format!("{:.3}", outcome.tally.hit_ratio()));
        lines.push(row(policy[0].contender.name(), ratios) + &format!("{:>15.1}", rate(policy) / 1e6));
    }
    lines.push(row("bound", sizes.iter().map(|outcome| format!("{:.3}", outcome.bound))));
    if sizes[0].sized {
        lines.extend([String::new(), heading("by bytes")]);
        for policy in &policies {
            let ratios = policy.iter().map(|outcome| format!("{:.3}", outcome.tally.byte_hit_ratio()));
            lines.push(row(policy[0].contender.name(), ratios));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn row(start: &str, cells: impl Iterator<Item = String>) -> String {
    cells.fold(format!("{start:<NAME$}"), |line, cell| line + &format!("{cell:>CELL$}"))
}

/// A share as people write it, with as many digits as it needs.
pub(super) fn percent(share: f64) -> String {
    let rounded = (share * 1e5).round() / 1e3;
    format!("{rounded} %")
}

/// Requests a second on one core, over all sizes.
fn rate(outcomes: &[Outcome]) -> f64 {
    let requests: usize = outcomes.iter().map(|outcome| outcome.requests).sum();
    let time: Duration = outcomes.iter().map(|outcome| outcome.time).sum();
    requests as f64 / time.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fodder_policy::{Policy, sim::Tally, sim::study::Contender};

    fn outcome(contender: Contender, cached: f64, hits: u64, sized: bool) -> Outcome {
        let tally = Tally { requests: 100, hits, bytes: 1_000, hit_bytes: hits * 5 };
        let time = Duration::from_micros(4);
        Outcome { contender, cached, tally, bound: cached, sized, requests: 100, time }
    }

    #[test]
    fn policies_go_down_and_sizes_across() {
        let lru = Contender::Policy(Policy::Lru);
        let outcomes = |sized| {
            [(lru, 0.125, 2), (lru, 0.4, 9), (Contender::Belady, 0.125, 12), (Contender::Belady, 0.4, 40)]
                .map(|(contender, cached, hits)| outcome(contender, cached, hits, sized))
        };
        let expected = "\
title

hits at       12.5 %    40 %   M requests/s
lru            0.020   0.090           25.0
belady         0.120   0.400           25.0
bound          0.125   0.400
";
        assert_eq!(table("title", &outcomes(false)), expected);
        let by_bytes = "
by bytes      12.5 %    40 %
lru            0.010   0.045
belady         0.060   0.200
";
        assert_eq!(table("title", &outcomes(true)), format!("{expected}{by_bytes}"));
    }
}
