//! `fodder sim`: policies on a synthetic job or a trace, at several cache sizes, beside what is possible.
//!
//! Reads, runs, prints. What is simulated and how is in fodder-policy.

mod chart;
mod race;
mod subject;
mod table;

use crate::cli::SimArgs;
use anyhow::{Context, Result, bail};
use fodder_policy::sim::{Study, study::Contender};
use race::{Outcome, race};
use serde_json::{Value, json};
use std::{fs, path::Path, process::ExitCode};

pub(super) fn run(args: &SimArgs) -> Result<ExitCode> {
    // Before minutes of work, not after.
    let picture = args.plot.as_deref().map(Picture::at).transpose()?;
    let subject = subject::read(args)?;
    let outcomes = race(&subject.study, &contenders(args, &subject.study), &sizes(args));
    if let Some(picture) = picture {
        picture.write(&chart::chart(&subject.title, &outcomes))?;
    }
    if args.json {
        return super::print_raw(&format!("{:#}\n", to_json(&outcomes)));
    }
    let note = subject.note.map(|note| format!("\n{note}\n")).unwrap_or_default();
    super::print(&(table::table(&subject.title, &outcomes) + &note))
}

/// The cache sizes in ascending order, each once.
fn sizes(args: &SimArgs) -> Vec<f64> {
    let mut sizes = args.cache.clone();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// Who runs, each once, and Belady last.
fn contenders(args: &SimArgs, study: &Study) -> Vec<Contender> {
    let mut contenders = Vec::new();
    for contender in args.policies.clone().unwrap_or_else(|| study.usual_contenders()) {
        if contender != Contender::Belady && !contenders.contains(&contender) {
            contenders.push(contender);
        }
    }
    contenders.push(Contender::Belady);
    contenders
}

fn to_json(outcomes: &[Outcome]) -> Value {
    let rows = outcomes.iter().map(|outcome| {
        let mut row = json!({
            "policy": outcome.contender.name(),
            "cache": outcome.cached,
            "requests": outcome.tally.requests,
            "hit_ratio": outcome.tally.hit_ratio(),
            "bound": outcome.bound,
        });
        if outcome.sized {
            row["byte_hit_ratio"] = outcome.tally.byte_hit_ratio().into();
        }
        row
    });
    rows.collect()
}

/// A file to draw into.
enum Picture<'a> {
    Svg(&'a Path),
    Png(&'a Path),
}

impl<'a> Picture<'a> {
    fn at(path: &'a Path) -> Result<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(extension) if extension.eq_ignore_ascii_case("svg") => Ok(Self::Svg(path)),
            Some(extension) if extension.eq_ignore_ascii_case("png") => Ok(Self::Png(path)),
            _ => bail!("the name of the file {} must end in .svg or .png", path.display()),
        }
    }

    fn write(&self, drawing: &chart::Drawing) -> Result<()> {
        let (path, bytes) = match self {
            Self::Svg(path) => (path, drawing.to_svg().into_bytes()),
            Self::Png(path) => (path, drawing.to_png()?),
        };
        fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }
}
