//! The index log under torn ends, flipped bits and other versions.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::id::FileKey;
use replay::number;

fn key(n: u8) -> FileKey {
    FileKey([n; 16])
}

fn pieces(n: u8, first: u32, crcs: &[u32]) -> Record {
    Record::Pieces { dataset: 0, key: key(n), size: 1 << 22, first, crcs: crcs.to_vec() }
}

fn group(records: &[Record]) -> Vec<u8> {
    let mut payload = Vec::new();
    records.iter().for_each(|record| record.encode(&mut payload));
    payload
}

fn groups() -> Vec<Vec<u8>> {
    let define = Record::Define { dataset: 0, piece_bytes: 1 << 20, name: "birds".into() };
    vec![
        group(&[Record::Opened, define]),
        group(&[pieces(1, 0, &[10, 11, 12]), pieces(2, 3, &[23])]),
        group(&[Record::DropPiece { dataset: 0, key: key(1), index: 1 }, pieces(3, 0, &[30])]),
        group(&[Record::DropFile { dataset: 0, key: key(2) }, pieces(3, 1, &[31])]),
    ]
}

/// Every (file, piece, checksum) of the only dataset.
fn contents(replay: &Replay) -> Vec<(u128, u32, u32)> {
    let mut all = Vec::new();
    for dataset in &replay.datasets {
        for (&key, found) in &dataset.files {
            found.pieces.for_each(|index, crc| all.push((key, index, crc)));
        }
    }
    all.sort_unstable();
    all
}

/// What the log says after each number of whole groups.
fn expected(count: usize) -> Vec<(u128, u32, u32)> {
    let [one, two, three] = [1, 2, 3].map(|n| number(key(n)));
    match count {
        0 | 1 => vec![],
        2 => vec![(one, 0, 10), (one, 1, 11), (one, 2, 12), (two, 3, 23)],
        3 => vec![(one, 0, 10), (one, 2, 12), (two, 3, 23), (three, 0, 30)],
        _ => vec![(one, 0, 10), (one, 2, 12), (three, 0, 30), (three, 1, 31)],
    }
}

fn written(path: &Path) -> Vec<u64> {
    let (mut log, replay) = Log::open(path, false).unwrap();
    assert!(replay.fresh);
    let mut ends = vec![log.len()];
    for payload in groups() {
        log.append(&payload).unwrap();
        ends.push(log.len());
    }
    ends
}

#[test]
fn a_log_torn_at_any_byte_says_what_its_whole_groups_said_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index.log");
    let ends = written(&path);
    let whole = std::fs::read(&path).unwrap();
    for cut in HEADER..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let (mut log, replay) = Log::open(&path, false).unwrap();
        let count = ends.iter().filter(|&&end| end <= cut as u64).count() - 1;
        assert_eq!(contents(&replay), expected(count), "cut at {cut}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), ends[count]);
        log.append(&group(&[Record::Opened])).unwrap();
        let (_, again) = Log::open(&path, false).unwrap();
        assert_eq!(contents(&again), expected(count), "after going on from {cut}");
    }
}

#[test]
fn a_flipped_bit_ends_the_replay_before_its_group() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index.log");
    let ends = written(&path);
    let whole = std::fs::read(&path).unwrap();
    for at in HEADER..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, &bytes).unwrap();
        let (_, replay) = Log::open(&path, false).unwrap();
        let count = ends.iter().filter(|&&end| end <= at as u64).count() - 1;
        assert_eq!(contents(&replay), expected(count), "flipped at {at}");
    }
}

#[test]
fn a_newer_log_is_refused_and_an_older_or_foreign_one_starts_empty() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index.log");
    written(&path);
    let whole = std::fs::read(&path).unwrap();
    let with_version = |version: u32| {
        let mut bytes = whole.clone();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        Log::open(&path, false)
    };
    let refused = with_version(VERSION + 1).unwrap_err().to_string();
    assert!(refused.contains("newer Fodder") && refused.contains("remove the tier's directory"), "{refused}");
    assert!(with_version(0).unwrap().1.fresh);
    std::fs::write(&path, b"something else entirely, and long enough for a header").unwrap();
    assert!(Log::open(&path, false).unwrap().1.fresh);
    std::fs::write(&path, b"").unwrap();
    assert!(Log::open(&path, false).unwrap().1.fresh);
}

#[test]
fn only_a_log_that_ends_with_closed_is_clean() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index.log");
    written(&path);
    let (mut log, replay) = Log::open(&path, true).unwrap();
    assert!(!replay.clean);
    log.append(&group(&[Record::Closed])).unwrap();
    let (mut log, replay) = Log::open(&path, true).unwrap();
    assert!(replay.clean);
    log.append(&group(&[Record::Opened])).unwrap();
    assert!(!Log::open(&path, true).unwrap().1.clean);
}

#[test]
fn a_run_longer_than_a_record_comes_back_whole() {
    let mut bytes = Vec::new();
    let crcs: Vec<u32> = (0..1000).collect();
    pieces(1, 7, &crcs).encode(&mut bytes);
    let (mut rest, mut seen) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let Some(Record::Pieces { first, crcs, .. }) = Record::decode(&mut rest) else { panic!("not pieces") };
        seen.extend((first..).zip(crcs));
    }
    assert_eq!(seen, (7..1007).zip(0..1000).collect::<Vec<_>>());
}

#[test]
fn more_records_than_fit_into_a_group_are_all_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index.log");
    let (mut log, _) = Log::open(&path, false).unwrap();
    let define = Record::Define { dataset: 0, piece_bytes: 1 << 20, name: "b".repeat(255) };
    let mut groups = log.groups();
    (0..LONGEST_GROUP / 255).for_each(|_| groups.push(&define));
    groups.push(&pieces(1, 0, &[10]));
    groups.finish().unwrap();
    let (_, replay) = Log::open(&path, false).unwrap();
    assert_eq!(contents(&replay), [(number(key(1)), 0, 10)]);
}
