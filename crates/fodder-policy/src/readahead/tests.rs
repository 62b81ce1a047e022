//! Patterns of reading, and what is proposed for them.
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4 * MIB;
const SIZE: u64 = 1 << 40;

fn machine() -> Readahead {
    Readahead::new(BLOCK, 64 * MIB, MIB)
}

fn access(handle: u64, range: Range<u64>, waits: bool) -> Access {
    Access { reader: ReaderId { object: 3, handle }, range, object_bytes: SIZE, waits }
}

fn nothing(pattern: Pattern) -> Advice {
    Advice { pattern, ahead: vec![], beyond_bytes: 0 }
}

/// Reads `count` times `length` bytes from `start` on; what was proposed.
fn run(machine: &mut Readahead, start: u64, length: u64, count: u64, waits: bool) -> Vec<Range<u64>> {
    let range = |n: u64| start + n * length..start + (n + 1) * length;
    (0..count).flat_map(|n| machine.read(&access(1, range(n), waits)).ahead).collect()
}

#[test]
fn the_second_of_two_reads_from_the_beginning_makes_a_stream() {
    let mut machine = machine();
    let read = MIB / 4;
    let first = machine.read(&access(1, 0..read, true));
    assert_eq!(first, nothing(Pattern::Start));
    let second = machine.read(&access(1, read..2 * read, true));
    assert_eq!(second.pattern, Pattern::Sequential);
    let ahead = 2 * read..3 * BLOCK;
    assert_eq!(second.ahead, vec![ahead], "from where it is to a block's end, sixteen times what it read");
}

#[test]
fn one_large_read_at_the_beginning_makes_a_stream_and_one_anywhere_else_does_not() {
    let mut machine = machine();
    let first = machine.read(&access(1, 0..MIB, true));
    let ahead = MIB..17 * BLOCK;
    assert_eq!((first.pattern, first.ahead), (Pattern::Sequential, vec![ahead]));
    assert_eq!(machine.read(&access(2, MIB..2 * MIB, true)), nothing(Pattern::Jump));
}

#[test]
fn who_does_not_wait_for_its_first_large_read_has_four_blocks() {
    let mut machine = machine();
    let first = machine.read(&access(2, 0..MIB, false));
    assert_eq!(first.ahead, vec![MIB..5 * BLOCK]);
    let mut reached = 0;
    for n in 1..20 {
        let advice = machine.read(&access(2, n * MIB..(n + 1) * MIB, false));
        reached = advice.ahead.last().map_or(reached, |range| range.end);
    }
    assert_eq!(reached, (20 * MIB + 4 * BLOCK).next_multiple_of(BLOCK));
}

#[test]
fn who_has_read_little_is_not_trusted_with_much() {
    let mut machine = machine();
    assert!(run(&mut machine, 0, 4096, 15, true).is_empty());
    let proposed = run(&mut machine, 15 * 4096, 4096, 1, true);
    assert_eq!((proposed.len(), proposed[0].clone()), (1, 16 * 4096..BLOCK));
}

#[test]
fn a_small_record_that_is_read_page_by_page_is_a_jump() {
    let mut machine = machine();
    for record in 1..50 {
        for page in 0..4 {
            let start = scattered(record) % (SIZE / 8192) * 8192 + page * 4096;
            let advice = machine.read(&access(1, start..start + 4096, true));
            assert_eq!(advice, nothing(Pattern::Jump));
        }
    }
}

#[test]
fn in_the_middle_it_takes_three() {
    let mut machine = machine();
    assert!(run(&mut machine, 100 * MIB, MIB, 2, true).is_empty());
    assert!(!run(&mut machine, 102 * MIB, MIB, 1, true).is_empty());
}

#[test]
fn a_reader_who_need_not_wait_has_four_blocks_ahead_and_one_who_waits_gets_more() {
    let mut machine = machine();
    let proposed = run(&mut machine, 0, MIB, 100, false);
    assert_eq!(proposed.last().unwrap().end, (100 * MIB + 4 * BLOCK).next_multiple_of(BLOCK));
    assert!(proposed.windows(2).all(|pair| pair[0].end == pair[1].start), "without gaps and without repeats");
    assert!(proposed.iter().skip(1).all(|range| range.start % BLOCK == 0), "in whole blocks");
    let more = machine.read(&access(1, 100 * MIB..101 * MIB, true)).ahead;
    assert_eq!(more.last().unwrap().end, (101 * MIB + 16 * BLOCK).next_multiple_of(BLOCK));
    let most = run(&mut machine, 101 * MIB, MIB, 100, true).last().unwrap().end;
    assert_eq!(most, (201 * MIB + 64 * MIB).next_multiple_of(BLOCK), "and no more than the bound");
}

#[test]
fn parts_of_large_reads_may_come_in_any_order() {
    let mut machine = machine();
    let mut proposed = Vec::new();
    for group in 0..20u64 {
        for part in [2, 0, 3, 1] {
            let start = (group * 4 + part) * MIB;
            proposed.extend(machine.read(&access(1, start..start + MIB, true)).ahead);
        }
    }
    assert!(proposed.windows(2).all(|pair| pair[0].end <= pair[1].start), "nothing is proposed twice: {proposed:?}");
    assert!(proposed.last().unwrap().end > 80 * MIB + 4 * BLOCK);
}

#[test]
fn threads_that_share_a_file_are_told_apart() {
    let mut machine = machine();
    let mut ends = [0; 3];
    for n in 0..10 {
        for thread in 0..3u64 {
            let start = thread * (SIZE / 4) + n * MIB;
            let advice = machine.read(&access(1, start..start + MIB, true));
            ends[thread as usize] = advice.ahead.last().map_or(ends[thread as usize], |range| range.end);
        }
    }
    for thread in 0..3u64 {
        assert!(ends[thread as usize] > thread * (SIZE / 4) + 10 * MIB, "{ends:?}");
    }
}

#[test]
fn reads_at_equal_distances_are_strided() {
    let mut machine = machine();
    let stride = 100 * MIB;
    let patterns: Vec<_> =
        (1..6u64).map(|n| machine.read(&access(1, n * stride + 5..n * stride + 5 + MIB, true))).collect();
    assert_eq!(patterns[1].pattern, Pattern::Jump);
    assert_eq!(patterns[2].pattern, Pattern::Strided);
    let starts: Vec<_> = patterns[2].ahead.iter().map(|range| range.start).collect();
    assert_eq!(starts, [4, 5, 6, 7].map(|n| n * stride + 5));
    assert!(patterns[2].ahead.iter().all(|range| range.end - range.start == MIB));
    let next: Vec<_> = patterns[3].ahead.iter().map(|range| range.start).collect();
    assert_eq!(next, [8, 9, 10, 11, 12].map(|n| n * stride + 5), "it waited, and looks further ahead");
}

#[test]
fn small_reads_at_equal_distances_are_jumps() {
    let mut machine = machine();
    for n in 1..20u64 {
        let advice = machine.read(&access(1, n * 10 * MIB..n * 10 * MIB + 8192, true));
        assert_eq!(advice, nothing(Pattern::Jump));
    }
}

#[test]
fn a_strided_reader_of_several_reads_each_gets_no_more_than_it_reads() {
    let mut machine = machine();
    let mut proposed = Vec::new();
    for n in 0..10u64 {
        for part in 0..4 {
            let start = n * 1000 * MIB + part * MIB;
            proposed.extend(machine.read(&access(1, start..start + MIB, true)).ahead);
        }
    }
    let strided = proposed.iter().filter(|range| range.start % (1000 * MIB) == 0);
    assert!(strided.clone().count() >= 9, "{proposed:?}");
    assert!(strided.clone().all(|range| range.end - range.start == 4 * MIB), "{proposed:?}");
    assert!(proposed.iter().all(|range| range.start % (1000 * MIB) == 0 || range.start < 3000 * MIB), "{proposed:?}");
}

#[test]
fn what_a_reader_has_passed_is_not_wanted_any_more() {
    let mut machine = machine();
    let reader = ReaderId { object: 3, handle: 1 };
    let proposed = run(&mut machine, 0, MIB, 4, true).pop().unwrap();
    assert!(machine.wants(reader, &proposed));
    run(&mut machine, 4 * MIB, MIB, 80, true);
    assert!(!machine.wants(reader, &proposed));
    assert!(!machine.wants(ReaderId { object: 3, handle: 2 }, &proposed));
}

#[test]
fn nothing_is_proposed_past_the_end() {
    let mut machine = machine();
    for n in 0..9 {
        let access = Access { object_bytes: 9 * MIB + 7, ..access(1, n * MIB..(n + 1) * MIB, true) };
        assert!(machine.read(&access).ahead.iter().all(|range| range.end <= 9 * MIB + 7 && !range.is_empty()));
    }
}

#[test]
fn objects_in_the_order_of_names_bring_in_the_next_four_and_more_if_that_is_too_late() {
    let mut machine = machine();
    assert!(machine.open(10, 1000, true).is_empty());
    assert!(machine.open(11, 1000, true).is_empty());
    assert_eq!(machine.open(12, 1000, true), 13..17);
    assert_eq!(machine.open(13, 1000, false), 17..18);
    assert!(machine.wants_object(17) && !machine.wants_object(13));
    assert_eq!(machine.open(14, 1000, true), 18..31, "it had to wait: sixteen");
    (0..10).for_each(|_| assert!(machine.open(14, 1000, true).is_empty(), "again the same"));
    assert_eq!(run_objects(&mut machine, 990..1000).end, 1000, "not past the last");
}

fn run_objects(machine: &mut Readahead, places: Range<u32>) -> Range<u32> {
    places.map(|place| machine.open(place, 1000, true)).filter(|ahead| !ahead.is_empty()).last().unwrap()
}

#[test]
fn eight_workers_that_each_go_through_their_part_are_told_apart() {
    let mut machine = machine();
    let mut proposed = 0;
    for n in 0..20 {
        for worker in 0..8 {
            proposed += machine.open(worker * 100 + n, 1000, false).len();
        }
    }
    assert!(proposed >= 8 * 18, "{proposed}");
}

#[test]
fn readers_that_are_forgotten_are_those_who_were_silent() {
    let mut machine = machine();
    for handle in 1..=2 * MAX_READERS as u64 {
        machine.read(&access(handle, 0..MIB, true));
        machine.read(&access(1, handle * MIB..(handle + 1) * MIB, true));
    }
    assert!(machine.readers.len() <= MAX_READERS);
    assert!(machine.readers.contains_key(&ReaderId { object: 3, handle: 1 }));
}

/// Reads the `number`th of objects of 100 MiB from beginning to end, a MiB at a time, always waiting; what was proposed
/// within it, and of the one behind it.
fn read_object(machine: &mut Readahead, number: u32) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
    let (size, reader) = (100 * MIB, ReaderId { object: number, handle: u64::from(number) + 1 });
    let (mut within, mut next) = (Vec::new(), Vec::new());
    machine.open(number, 1000, true);
    for n in 0..100 {
        let access = Access { reader, range: n * MIB..(n + 1) * MIB, object_bytes: size, waits: true };
        let advice = machine.read(&access);
        within.extend(advice.ahead);
        if advice.beyond_bytes > 0 {
            let bytes = if machine.wants_object(number + 1) { advice.beyond_bytes } else { 0 };
            next.push(machine.expect(reader, number + 1, bytes, size));
        }
    }
    next.retain(|range| !range.is_empty());
    (within, next)
}

#[test]
fn who_reads_object_after_object_looks_past_the_end_of_each() {
    let mut machine = machine();
    let (_, next) = read_object(&mut machine, 0);
    assert!(next.is_empty(), "one object says nothing of the next");
    let (within, next) = read_object(&mut machine, 1);
    assert_eq!(within[0], MIB..68 * MIB, "nothing of it was proposed, but who comes is trusted as it was");
    assert_eq!(next.first().unwrap().start, 0);
    assert!(next.windows(2).all(|pair| pair[0].end == pair[1].start), "without gaps and without repeats: {next:?}");
    let reached = next.last().unwrap().end;
    assert_eq!(reached, 64 * MIB, "as far as within an object");
    let (within, next) = read_object(&mut machine, 2);
    assert_eq!(within[0], reached..68 * MIB, "from its first read on it goes on where the last one's look ended");
    assert_eq!(within.last().unwrap().end, 100 * MIB);
    assert_eq!(next.last().unwrap().end, 64 * MIB);
}

#[test]
fn what_was_proposed_of_the_next_object_is_wanted_until_its_reader_has_passed_it() {
    let mut machine = machine();
    read_object(&mut machine, 0);
    let (_, next) = read_object(&mut machine, 1);
    let (first, last) = (next.first().unwrap(), next.last().unwrap());
    assert!(machine.wants_next(2, first) && machine.wants_next(2, last));
    assert!(!machine.wants_next(3, first), "nobody comes there");
    let reader = ReaderId { object: 2, handle: 9 };
    let access = |n: u64| Access { reader, range: n * MIB..(n + 1) * MIB, object_bytes: 100 * MIB, waits: false };
    (0..8).for_each(|n| drop(machine.read(&access(n))));
    assert!(!machine.wants_next(2, first) && machine.wants_next(2, last));
}

#[test]
fn who_jumps_into_an_object_that_was_expected_is_trusted_with_nothing() {
    let mut machine = machine();
    read_object(&mut machine, 0);
    read_object(&mut machine, 1);
    let reader = ReaderId { object: 2, handle: 9 };
    for n in 1..100 {
        let start = scattered(n) % (SIZE / 8192) * 8192;
        let access = Access { reader, range: start..start + 8192, object_bytes: SIZE, waits: true };
        assert_eq!(machine.read(&access), nothing(Pattern::Jump));
    }
}

/// The `number`th object of 100 MiB is opened by who has read those before it, and all of it comes: what was proposed of the next.
fn open_object(machine: &mut Readahead, number: u32) -> Option<Range<u64>> {
    machine.open(number, 1000, true);
    let (reader, beyond_bytes) = machine.open_all(number, 100 * MIB)?;
    let proposed = machine.expect(reader, number + 1, beyond_bytes, 100 * MIB);
    assert!(machine.wants_next(number, &(0..BLOCK)) && machine.wants_next(number, &(96 * MIB..100 * MIB)));
    machine.all_given(number);
    Some(proposed)
}

#[test]
fn who_has_read_an_object_to_its_end_is_given_all_of_the_next_and_looks_past_it_at_once() {
    let mut machine = machine();
    read_object(&mut machine, 0);
    for number in 1..=MAX_UNSEEN {
        assert_eq!(open_object(&mut machine, number), Some(0..64 * MIB), "{number}");
    }
    assert_eq!(open_object(&mut machine, MAX_UNSEEN + 1), None, "now it is seen again");
    let (within, _) = read_object(&mut machine, MAX_UNSEEN + 1);
    assert_eq!(within[0].start, 64 * MIB, "and goes on behind what was proposed");
    assert!(open_object(&mut machine, MAX_UNSEEN + 2).is_some());
}

#[test]
fn who_has_not_come_to_the_end_of_an_object_is_not_given_all_of_the_next() {
    let mut machine = machine();
    let reader = ReaderId { object: 0, handle: 1 };
    let mut beyond_bytes = 0;
    for n in 0..90 {
        let access = Access { reader, range: n * MIB..(n + 1) * MIB, object_bytes: 100 * MIB, waits: true };
        beyond_bytes = machine.read(&access).beyond_bytes.max(beyond_bytes);
    }
    machine.expect(reader, 1, beyond_bytes, 100 * MIB);
    assert_eq!(machine.open_all(1, 100 * MIB), None);
    assert_eq!(machine.open_all(7, 100 * MIB), None, "nor of one that it does not come to");
    // Somebody who reads the file itself is not seen, and is taken to go on.
    machine.all_given(0);
    assert!(machine.open_all(1, 100 * MIB).is_some());
    assert_eq!(machine.open_all(1, 100 * MIB), Some((ReaderId::unseen(1), 0)), "the same for who opens it beside");
}

#[test]
fn reads_that_are_reported_after_the_file_was_leased_do_not_end_readahead() {
    let mut machine = machine();
    let reader = ReaderId { object: 0, handle: 1 };
    let read = |machine: &mut Readahead, n| {
        let access = Access { reader, range: n * MIB..(n + 1) * MIB, object_bytes: 100 * MIB, waits: true };
        let beyond_bytes = machine.read(&access).beyond_bytes;
        machine.expect(reader, 1, beyond_bytes, 100 * MIB);
    };
    (0..70).for_each(|n| read(&mut machine, n));
    // From here on the reader has the file itself, but some of its reads are still under way in other threads.
    machine.all_given(0);
    (70..75).for_each(|n| read(&mut machine, n));
    assert!(machine.open_all(1, 100 * MIB).is_some(), "it goes on to the next object");
    let other = ReaderId { object: 0, handle: 2 };
    let access = Access { reader: other, range: 0..MIB, object_bytes: 100 * MIB, waits: true };
    machine.all_late(1);
    machine.read(&access);
    machine.expect(other, 1, 0, 100 * MIB);
    assert_eq!(machine.open_all(1, 100 * MIB), None, "another reader is seen, and is at the beginning");
}

#[test]
fn who_waited_in_vain_for_all_of_an_object_reads_it_like_any_other() {
    let mut machine = machine();
    read_object(&mut machine, 0);
    assert!(machine.open_all(1, 100 * MIB).is_some());
    machine.all_late(1);
    let (within, _) = read_object(&mut machine, 1);
    assert_eq!(within[0].start, MIB, "nothing of it had been proposed before");
    assert!(open_object(&mut machine, 2).is_some());
}

#[test]
fn objects_that_are_read_from_their_middle_say_nothing_of_the_next() {
    let mut machine = machine();
    for n in 50..100 {
        let access = Access { object_bytes: 100 * MIB, ..access(1, n * MIB..(n + 1) * MIB, true) };
        assert_eq!(machine.read(&access).beyond_bytes, 0);
    }
}

#[test]
fn objects_that_are_expected_are_bounded() {
    let mut machine = machine();
    read_object(&mut machine, 0);
    let reader = ReaderId { object: 0, handle: 1 };
    for object in 1..10_000 {
        assert_eq!(machine.expect(reader, object, MIB, 100 * MIB), 0..BLOCK);
    }
    assert!(!machine.wants_next(1, &(0..BLOCK)) && machine.wants_next(9_999, &(0..BLOCK)));
}

/// A number that follows from another, with no order in it.
fn scattered(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 13
}

#[test]
fn reads_that_jump_bring_in_nothing() {
    let mut machine = machine();
    let size = 10 << 30;
    for n in 1..50_000 {
        let start = scattered(n) % (size / 8192) * 8192;
        let access = Access { object_bytes: size, ..access(1, start..start + 8192, true) };
        let advice = machine.read(&access);
        assert!(advice.ahead.is_empty(), "read {n}: {advice:?}");
    }
}

/// Reads 4 MiB at random so often, as a mount passes it on: in parts of a MiB. What was proposed.
fn large_reads_at_random(machine: &mut Readahead, count: u64, handle: impl Fn(u64) -> u64) -> u64 {
    let mut proposed = 0;
    for n in 1..=count {
        let start = scattered(n) % (SIZE / 4096) * 4096;
        for part in 0..4 {
            let advice = machine.read(&access(handle(n), start + part * MIB..start + (part + 1) * MIB, true));
            proposed += advice.ahead.iter().map(|range| range.end - range.start).sum::<u64>();
        }
    }
    proposed
}

#[test]
fn large_reads_that_jump_bring_in_next_to_nothing() {
    let proposed = large_reads_at_random(&mut machine(), 1000, |_| 1);
    assert!(proposed <= 2 * BLOCK, "{proposed}");
    let of_many = large_reads_at_random(&mut machine(), 1000, |n| n);
    assert!(of_many <= 1000 * BLOCK, "no more than is read, where each read has a file of its own: {of_many}");
}

#[test]
fn who_stops_jumping_and_goes_on_is_believed_again() {
    let mut machine = machine();
    large_reads_at_random(&mut machine, 100, |_| 1);
    let proposed = run(&mut machine, SIZE / 2, MIB, 64, true);
    assert!(proposed.first().unwrap().start <= SIZE / 2 + 6 * MIB, "{proposed:?}");
    assert!(proposed.last().unwrap().end >= SIZE / 2 + 128 * MIB - BLOCK, "{proposed:?}");
    assert!(!run(&mut machine, SIZE / 4, MIB, 4, true).is_empty(), "and its next jump at once");
}

#[test]
fn objects_at_random_bring_in_next_to_nothing() {
    let mut machine = machine();
    let opened = 20_000u64;
    let proposed: usize = (0..opened).map(|n| machine.open((scattered(n) % 100_000) as u32, 100_000, true).len()).sum();
    assert!(proposed < opened as usize / 1000, "{proposed} of {opened}");
}

proptest! {
    #[test]
    fn any_reads_propose_what_is_ahead_and_within_bounds(
        reads in prop::collection::vec((1u64..4, 0u64..64, 1u64..9, any::<bool>()), 1..300),
    ) {
        let mut machine = machine();
        let size = 64 * MIB + 12_345;
        for (handle, start, length, waits) in reads {
            let range = start * MIB..((start + length) * MIB).min(size);
            let access = Access { object_bytes: size, ..access(handle, range.clone(), waits) };
            for ahead in machine.read(&access).ahead {
                prop_assert!(!ahead.is_empty() && ahead.end <= size);
                prop_assert!(ahead.end <= range.end + 64 * MIB + 16 * BLOCK);
                prop_assert!(machine.wants(access.reader, &ahead), "what is proposed is wanted");
            }
        }
    }

    #[test]
    fn a_sequential_reader_of_any_read_size_finds_everything_proposed_once(
        length in 4096u64..(3 * MIB), waits in any::<bool>(),
    ) {
        let mut machine = machine();
        let proposed = run(&mut machine, 0, length, 200, waits);
        prop_assert!(proposed.windows(2).all(|pair| pair[0].end == pair[1].start));
        let ahead = proposed.last().unwrap().end - 200 * length;
        prop_assert!(ahead <= 64 * MIB + BLOCK);
        prop_assert!(ahead >= BLOCK.min(200 * length), "{}", ahead);
    }
}
