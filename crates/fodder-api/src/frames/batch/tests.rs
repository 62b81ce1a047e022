#![allow(clippy::unwrap_used)]
use super::*;
use crate::{Delivery, frames::Flags};
use proptest::prelude::*;
use std::{io::Write, os::unix::net::UnixStream};

fn frame(request: u32, kind: Kind, body: &[&[u8]]) -> Vec<u8> {
    let (source, status, body) = (Source::TierMem, ErrorCode::Unspecified, body.concat());
    let status = if kind == Kind::Error { ErrorCode::Closed } else { status };
    let body_bytes = body.len() as u32;
    let head = ReplyHead { body_bytes, request, kind, source, status, flags: Flags::default(), index: 0 };
    [&head.encode()[..], &body].concat()
}

/// Gives what it has, as many bytes at a time as it is told, again and again.
struct Drip<'a>(&'a [u8], std::iter::Cycle<std::slice::Iter<'a, usize>>);

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let step = *self.1.next().unwrap();
        let step = step.min(buffer.len());
        self.0.read(&mut buffer[..step])
    }
}

/// One frame of an item.
fn part(index: u32, size: usize, bytes: &[u8], more: bool, status: ErrorCode) -> Vec<u8> {
    let id = u64::from(index);
    let item = ItemHead { label: 0, delivery: Delivery::Planned, asked: id, served: id, size: size as u64 };
    let (flags, body_bytes) = (Flags { more, ..Flags::default() }, (ItemHead::BYTES + bytes.len()) as u32);
    let (request, kind, source) = (7, Kind::Item, Source::TierMem);
    let head = ReplyHead { body_bytes, request, kind, source, status, flags, index };
    [&head.encode()[..], &item.encode(), bytes].concat()
}

proptest! {
    #[test]
    fn however_items_are_cut_and_arrive_they_are_whole_or_have_failed(
        items in prop::collection::vec((0usize..700_000, 1usize..300_000, any::<Option<prop::sample::Index>>()), 1..6),
        steps in prop::collection::vec(1usize..400_000, 1..8),
    ) {
        let body = |index: usize, size: usize| -> Vec<u8> { (0..size).map(|n| (n / 7 + index * 31) as u8).collect() };
        let mut sent = Vec::new();
        for (index, (size, cut, fails)) in items.iter().enumerate() {
            let bytes = body(index, *size);
            let cuts: Vec<&[u8]> = if bytes.is_empty() { vec![&[]] } else { bytes.chunks(*cut).collect() };
            let fails = fails.map(|at| at.index(cuts.len()));
            let plain = cuts.iter().take(fails.unwrap_or(cuts.len())).enumerate();
            for (number, cut) in plain {
                let more = number + 1 < cuts.len();
                sent.extend(part(index as u32, *size, cut, more, ErrorCode::Unspecified));
            }
            if fails.is_some() {
                sent.extend(part(index as u32, 0, b"gone", false, ErrorCode::NotFound));
            }
        }
        let mut batch = Batch::new();
        batch.receive(&[], &mut Drip(&sent, steps.iter().cycle()), 7, Some(items.len())).unwrap().unwrap();
        prop_assert_eq!(batch.len(), items.len());
        for (index, (size, _, fails)) in items.iter().enumerate() {
            let data = batch.get(index).unwrap().data;
            match fails {
                None => prop_assert!(data.unwrap() == body(index, *size)),
                Some(_) => prop_assert!(data.unwrap_err().to_string().contains("gone")),
            }
        }
    }
}

#[test]
fn the_parts_of_a_large_item_are_received_behind_each_other_and_an_error_between_them_is_heard() {
    let first = part(0, 1 << 20, &[1; 512 << 10], true, ErrorCode::Unspecified);
    let second = part(0, 1 << 20, &[2; 512 << 10], false, ErrorCode::Unspecified);
    let mut batch = Batch::new();
    let whole = [&first[..], &second].concat();
    batch.receive(&[], &mut &whole[..], 7, Some(1)).unwrap().unwrap();
    assert_eq!(batch.filled, ReplyHead::BYTES + ItemHead::BYTES + (1 << 20), "its heads took no room, and no copy");
    let words = [&first[..], &frame(7, Kind::Error, &[b"no"])].concat();
    assert!(batch.receive(&[], &mut &words[..], 7, Some(1)).unwrap().is_err());
    let words = [&first[..], &frame(0, Kind::Error, &[b"bye"])].concat();
    assert!(batch.receive(&[], &mut &words[..], 7, Some(1)).unwrap_err().to_string().contains("bye"));
}

#[test]
fn an_answer_that_comes_with_the_last_words_of_a_node_is_whole_and_the_last() {
    let head = ItemHead { label: 0, delivery: Delivery::Planned, asked: 4, served: 4, size: 3 };
    let answer = frame(7, Kind::Item, &[&head.encode(), b"abc"]);
    let words = frame(0, Kind::Error, &[b"the node closes"]);
    let received = |surplus: &[u8]| {
        let (mut node, mut client) = UnixStream::pair().unwrap();
        node.write_all(&[&answer[..], surplus].concat()).unwrap();
        let mut batch = Batch::new();
        let is_last = batch.receive(&[], &mut client, 7, Some(1));
        is_last.map(|is_last| (is_last.unwrap(), batch.get(0).unwrap().data.unwrap().to_vec()))
    };
    for told in 0..=words.len() {
        assert_eq!(received(&words[..told]).unwrap(), (told > 0, b"abc".to_vec()), "{told} bytes of them");
    }
    assert!(received(&answer).is_err(), "nobody asked for that");
}
