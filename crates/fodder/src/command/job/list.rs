//! Lists of numbers in files, one item a line. Whatever is wrong with a line is said with its number.

use anyhow::{Context, Result, bail, ensure};
use fodder_api::Scores;
use std::{
    io::{self, Read},
    path::Path,
    str::FromStr,
    sync::Arc,
};

/// Lines of an id and numbers, equally many in each.
pub(super) struct Rows {
    /// How many numbers a line has.
    pub(super) width: u32,
    pub(super) ids: Arc<[u32]>,
    /// The numbers of all lines, one behind the other.
    pub(super) values: Arc<[f32]>,
}

/// Ids, one a line.
pub(super) fn ids(path: &Path) -> Result<Arc<[u32]>> {
    let text = read(path)?;
    let ids: Result<_> = lines(&text).map(|(at, line)| number(at, line)).collect();
    ids.with_context(|| shown(path))
}

/// Lines of `id score`, or of one score for every item.
pub(super) fn scores(path: &Path) -> Result<Scores> {
    scores_of(&read(path)?).with_context(|| shown(path))
}

fn scores_of(text: &str) -> Result<Scores> {
    let is_dense = lines(text).next().is_some_and(|(_, line)| line.split_whitespace().count() == 1);
    if is_dense {
        return Ok(Scores::Dense(lines(text).map(|(at, line)| number(at, line)).collect::<Result<_>>()?));
    }
    let Rows { width, ids, values } = rows(text)?;
    ensure!(ids.is_empty() || width == 1, "line 1 has {width} numbers after the id: give one score");
    Ok(Scores::Sparse { ids, values })
}

/// Lines of `id number number …`.
pub(super) fn embeddings(path: &Path) -> Result<Rows> {
    rows(&read(path)?).with_context(|| shown(path))
}

fn rows(text: &str) -> Result<Rows> {
    let (mut dimension, mut ids, mut values) = (None, Vec::new(), Vec::new());
    for (at, line) in lines(text) {
        let mut words = line.split_whitespace();
        ids.push(number(at, words.next().unwrap_or_default())?);
        let before = values.len();
        for word in words {
            values.push(number(at, word)?);
        }
        let width = values.len() - before;
        match *dimension.get_or_insert(width) {
            first if first == width => {}
            first => bail!("line {at} has {width} numbers after the id, but the first line has {first}"),
        }
    }
    Ok(Rows { width: u32::try_from(dimension.unwrap_or(0))?, ids: ids.into(), values: values.into() })
}

/// The lines that are not empty, counted from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())).filter(|(_, line)| !line.is_empty())
}

fn number<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(at: usize, word: &str) -> Result<T> {
    word.parse().with_context(|| format!("line {at}: {word:?} is not a valid number"))
}

/// A file's name for a message.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn read(path: &Path) -> Result<String> {
    let mut text = String::new();
    match path.to_str() {
        Some("-") => io::stdin().read_to_string(&mut text).map(|_| ()),
        _ => std::fs::read_to_string(path).map(|read| text = read),
    }
    .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_equally_long_and_a_wrong_line_is_named() {
        let Rows { width, ids, values } = rows("3 0.5 1\n\n7 2 -1e3\n").unwrap();
        assert_eq!((width, &ids[..], &values[..]), (2, &[3, 7][..], &[0.5, 1.0, 2.0, -1000.0][..]));
        let wrong = |text| rows(text).map(drop).unwrap_err().to_string();
        assert!(wrong("3 0.5\n7 1 2\n").contains("line 2 has 2 numbers"));
        assert!(wrong("3 0.5\n-7 1\n").contains("line 2"));
        assert!(wrong("3 0.5\n7 x\n").contains("\"x\""));
    }
}
