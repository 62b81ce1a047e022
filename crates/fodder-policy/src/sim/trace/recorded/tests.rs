//! What a recorder wrote is read again, whole or in parts; what it did not write is named.

#![allow(clippy::unwrap_used)]

use super::super::{Choice, Reader, Sizes, Trace};
use super::*;
use crate::{Error, Result};
use proptest::prelude::*;

fn read(bytes: &[u8], part: usize, dataset: Option<&str>) -> Result<Trace> {
    let mut reader = Reader::new(Choice { dataset: dataset.map(Into::into), columns: None });
    for part in bytes.chunks(part) {
        reader.feed(part)?;
    }
    reader.finish()
}

fn two_datasets() -> Vec<u8> {
    let mut recorder = Recorder::default();
    let (cats, dogs) = (recorder.dataset("cats"), recorder.dataset("dogs"));
    recorder.scores(cats, &[0.5, 0.25]);
    recorder.read(cats, 3, 7, 100);
    recorder.read(dogs, 4, 1_000_000, 5);
    recorder.read(cats, 4, 1, 200);
    recorder.read(cats, 9, 7, 100);
    recorder.take()
}

#[test]
fn each_dataset_has_a_trace_of_its_own() {
    let cats = read(&two_datasets(), usize::MAX, Some("cats")).unwrap();
    assert_eq!((cats.requests, cats.items), (vec![0, 1, 0], 2));
    assert!(matches!(cats.sizes, Sizes::Each(sizes) if *sizes == [100, 200]));
    assert_eq!((cats.scores[0].at, &*cats.scores[0].by_id), (0, &[1.0, 0.25][..]));
    let dogs = read(&two_datasets(), usize::MAX, Some("dogs")).unwrap();
    assert_eq!((dogs.requests, dogs.items), (vec![0], 1));
}

#[test]
fn the_dataset_must_be_said_where_there_are_several() {
    let message = |dataset| read(&two_datasets(), usize::MAX, dataset).unwrap_err().to_string();
    assert_eq!(message(None), "the recording has several datasets: choose one of cats, dogs");
    assert_eq!(message(Some("cows")), "the recording has no dataset \"cows\", but cats, dogs");
}

#[test]
fn a_recording_cut_off_anywhere_counts_as_far_as_it_goes() {
    let bytes = two_datasets();
    let mut longest = 0;
    for end in 30..=bytes.len() {
        let trace = read(&bytes[..end], usize::MAX, Some("cats")).unwrap();
        assert!(trace.requests.len() >= longest);
        longest = trace.requests.len();
    }
    assert_eq!(longest, 3);
}

#[test]
fn a_record_that_is_none_is_named() {
    let mut bytes = two_datasets();
    let whole = bytes.len();
    bytes.push(0b111);
    let expected = format!("record 8 (at byte {whole}) is of the kind 7, which does not exist");
    assert_eq!(read(&bytes, 5, Some("cats")).unwrap_err(), Error::Corrupt(expected));
    let mut newer = two_datasets();
    newer[8] = 9;
    assert!(read(&newer, 5, None).unwrap_err().to_string().contains("has version 9"));
}

#[test]
fn a_read_takes_about_five_bytes() {
    let mut recorder = Recorder::default();
    let dataset = recorder.dataset("d");
    (0..10_000u64).for_each(|at| recorder.read(dataset, at, (at * 7_919 % 1_000_000) as u32, 1 << 17));
    assert!(recorder.take().len() <= 50_100);
}

proptest! {
    #[test]
    fn what_was_recorded_is_read_again_in_parts_of_any_length(
        reads in prop::collection::vec((0u32..3, 0u64..100, 0..u32::MAX - 1, any::<u32>()), 0..100),
        part in 1usize..40,
    ) {
        let mut recorder = Recorder::default();
        for name in ["0", "1", "2"] {
            recorder.dataset(name);
        }
        let mut at_ms = 0;
        for &(dataset, wait, id, bytes) in &reads {
            at_ms += wait;
            recorder.read(dataset, at_ms, id, bytes);
        }
        let bytes = recorder.take();
        for number in 0..3 {
            let trace = read(&bytes, part, Some(&number.to_string())).unwrap();
            let mut names = Vec::new();
            let ids = reads.iter().filter(|read| read.0 == number).map(|&(_, _, id, _)| {
                names.iter().position(|&name| name == id).unwrap_or_else(|| {
                    names.push(id);
                    names.len() - 1
                }) as u32
            });
            prop_assert_eq!(&trace.requests, &ids.collect::<Vec<_>>());
            prop_assert_eq!(trace.items as usize, names.len());
        }
    }

    #[test]
    fn junk_is_an_error_and_never_a_panic(junk in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..60) {
        let mut bytes = two_datasets();
        let at = at.min(bytes.len());
        bytes.splice(at.., junk);
        let _ = read(&bytes, 7, Some("cats"));
    }
}
