//! Reports and what becomes of them.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn snapshot(items: u32) -> Snapshot {
    Snapshot { fingerprint: 1, items }
}

fn report(book: &mut Book, items: u32, scores: Scores<'_>) {
    book.collect(Report::new(items, scores).unwrap());
}

fn book(items: u32, scores: Scores<'_>) -> Book {
    let mut book = Book::default();
    report(&mut book, items, scores);
    book.settle();
    book
}

fn combine(items: u32, books: &[(f32, &Book)]) -> Vec<f32> {
    Reported::new(snapshot(items), books.iter().copied()).combine().to_vec()
}

fn message(items: u32, scores: Scores<'_>) -> String {
    Report::new(items, scores).unwrap_err().to_string()
}

#[test]
fn wrong_reports_say_what_is_wrong() {
    let sparse = |ids: &[u32], values: &[f32]| message(3, Scores::Sparse { ids, values });
    assert!(sparse(&[0, 1], &[1.0, f32::NAN]).contains("the score of item 1 is NaN"));
    assert!(sparse(&[2], &[f32::NEG_INFINITY]).contains("the score of item 2 is -inf"));
    assert!(sparse(&[1, 3], &[1.0, 1.0]).contains("item 3, but the snapshot has 3 items"));
    assert!(sparse(&[1], &[]).contains("0 scores were reported for 1 items"));
    assert!(message(3, Scores::Dense(&[1.0])).contains("1 scores were reported for 3 items"));
    assert!(message(0, Scores::Dense(&[1.0])).contains("1 scores were reported for 0 items"));
    assert!(message(2, Scores::Dense(&[1.0, f32::INFINITY])).contains("the score of item 1 is inf"));
}

#[test]
fn a_report_takes_effect_when_it_is_settled_and_not_before() {
    let mut book = book(2, Scores::Dense(&[1.0, 2.0]));
    report(&mut book, 2, Scores::Dense(&[2.0, 1.0]));
    assert_eq!(combine(2, &[(1.0, &book)]), [0.5, 1.0]);
    assert!(book.settle());
    assert!(!book.settle());
    assert_eq!(combine(2, &[(1.0, &book)]), [1.0, 0.5]);
}

#[test]
fn what_was_taken_does_not_change_with_later_reports() {
    let mut book = book(2, Scores::Dense(&[1.0, 2.0]));
    let taken = Reported::new(snapshot(2), [(1.0, &book)].into_iter());
    report(&mut book, 2, Scores::Dense(&[2.0, 1.0]));
    book.settle();
    assert_eq!(*taken.combine(), [0.5, 1.0]);
}

#[test]
fn jobs_are_combined_by_rank_and_weight_and_none_overwrites_another() {
    // One job's losses are a thousand times the other's; only ranks count.
    let large = book(4, Scores::Dense(&[1_000.0, 2_000.0, 3_000.0, 4_000.0]));
    let small = book(4, Scores::Sparse { ids: &[0, 1], values: &[0.2, 0.1] });
    assert_eq!(combine(4, &[(1.0, &large), (1.0, &small)]), [0.625, 0.5, 0.75, 1.0]);
    assert_eq!(combine(4, &[(3.0, &large), (1.0, &small)]), [0.4375, 0.5, 0.75, 1.0]);
}

#[test]
fn what_nobody_scored_is_worth_as_much_as_before_the_first_report() {
    assert_eq!(combine(3, &[]), [UNSCORED; 3]);
    let book = book(3, Scores::Sparse { ids: &[1, 2], values: &[-5.0, 5.0] });
    assert_eq!(combine(3, &[(1.0, &book)]), [UNSCORED, 0.5, 1.0]);
}

#[test]
fn few_scores_of_many_items_take_little_memory() {
    let book = book(100_000_000, Scores::Sparse { ids: &[0, 99_999_999], values: &[1.0, 2.0] });
    assert!(book.heap_bytes() < 4_000_000, "{}", book.heap_bytes());
}

proptest! {
    #[test]
    fn a_single_job_keeps_its_order(values in prop::collection::vec(-3i8..3, 1..50)) {
        let values: Vec<f32> = values.into_iter().map(f32::from).collect();
        let items = values.len() as u32;
        let combined = combine(items, &[(0.3, &book(items, Scores::Dense(&values)))]);
        for (a, x) in values.iter().zip(&combined) {
            prop_assert!(*x > 0.0 && *x <= 1.0 + f32::EPSILON);
            for (b, y) in values.iter().zip(&combined) {
                prop_assert_eq!(a.partial_cmp(b), x.partial_cmp(y));
            }
        }
    }

    #[test]
    fn reports_in_parts_are_as_one_of_the_last_values(
        parts in prop::collection::vec(prop::collection::vec((0u32..3_000, any::<i16>()), 0..20), 0..6)
    ) {
        let (mut parted, mut last) = (Book::default(), BTreeMap::new());
        for part in parts {
            let ids: Vec<u32> = part.iter().map(|&(id, _)| id).collect();
            let values: Vec<f32> = part.iter().map(|&(_, value)| value.into()).collect();
            report(&mut parted, 3_000, Scores::Sparse { ids: &ids, values: &values });
            last.extend(ids.into_iter().zip(values));
        }
        parted.settle();
        let (ids, values): (Vec<u32>, Vec<f32>) = last.into_iter().unzip();
        let whole = book(3_000, Scores::Sparse { ids: &ids, values: &values });
        prop_assert_eq!(combine(3_000, &[(1.0, &parted)]), combine(3_000, &[(1.0, &whole)]));
    }
}

#[test]
fn a_report_in_parts_is_the_same_report() {
    let ids: Vec<u32> = (0..5_000).rev().collect();
    let values: Vec<f32> = ids.iter().map(|id| (id * 7 % 1_000) as f32).collect();
    let scores = Scores::Sparse { ids: &ids, values: &values };
    let parts = Report::new(5_000, scores).unwrap().in_parts(1_999);
    assert_eq!(parts.len(), 3);
    let mut in_parts = Book::default();
    parts.into_iter().for_each(|part| in_parts.collect(part));
    in_parts.settle();
    assert_eq!(combine(5_000, &[(1.0, &in_parts)]), combine(5_000, &[(1.0, &book(5_000, scores))]));
    assert_eq!(Report::new(2, Scores::Dense(&[1.0, 2.0])).unwrap().in_parts(1).len(), 1);
}
