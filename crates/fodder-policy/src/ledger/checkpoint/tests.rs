//! Checkpoints come back as they were written, are small, and survive any bytes.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn plan(items: u32, order: Order) -> Plan {
    Plan::new(Snapshot { fingerprint: 9, items }, 3, order).unwrap()
}

fn checkpoint(plan: &Plan, consumed: impl IntoIterator<Item = u32>) -> Checkpoint {
    let mut account = Account::new(plan.len());
    for position in consumed {
        account.consumed.insert(position);
    }
    Checkpoint::new(plan, account, Base::default())
}

fn arbitrary() -> impl Strategy<Value = Checkpoint> {
    let consumed = prop_oneof![
        prop::collection::btree_set(0u32..1_000, 0..900),
        (0u32..1_000).prop_map(|end| (0..end).collect::<BTreeSet<_>>()),
        Just((0..1_000).filter(|position| position % 2 == 1).collect()),
    ];
    let tally = || {
        any::<[u64; 6]>().prop_map(|[a, b, c, d, e, f]| Tally {
            deliveries: a,
            duplicates: b,
            pads: c,
            substitutions: d,
            displacement_sum: e,
            displacement_max: f,
        })
    };
    let stood_in = prop::collection::btree_map(0u32..1_000, any::<u32>(), 0..20);
    (consumed, tally(), tally(), stood_in).prop_map(|(consumed, tally, before, stood_in)| {
        let mut checkpoint = checkpoint(&plan(1_000, Order::Seed(5)), consumed);
        checkpoint.account.tally = tally;
        checkpoint.account.stood_in = stood_in;
        checkpoint.base = Base { consumed: checkpoint.consumed() / 2, tally: before };
        checkpoint
    })
}

/// Puts a right sum behind bytes whose sum is wrong, so that what lies behind the sum is tested too.
fn summed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(&bytes[..bytes.len().saturating_sub(8)]);
    out.finish()
}

proptest! {
    #[test]
    fn it_is_read_as_it_was_written(checkpoint in arbitrary()) {
        prop_assert_eq!(Checkpoint::decode(&checkpoint.encode(), checkpoint.snapshot), Ok(checkpoint));
    }

    #[test]
    fn changed_bytes_are_refused(checkpoint in arbitrary(), at: prop::sample::Index, change in 1u8..) {
        let mut bytes = checkpoint.encode();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(Checkpoint::decode(&bytes, checkpoint.snapshot).is_err());
    }

    #[test]
    fn cut_off_bytes_are_refused(checkpoint in arbitrary(), at: prop::sample::Index) {
        let bytes = checkpoint.encode();
        prop_assert!(Checkpoint::decode(&bytes[..at.index(bytes.len())], checkpoint.snapshot).is_err());
    }

    #[test]
    fn hostile_bytes_with_a_right_sum_do_no_harm(
        checkpoint in arbitrary(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = checkpoint.encode();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(read) = Checkpoint::decode(&summed(&bytes), checkpoint.snapshot) {
            prop_assert_eq!(read.rest().len(), read.planned() - read.consumed());
            let mut merged = read.clone();
            prop_assert_eq!(merged.merge(&read), Ok(()));
        }
    }

    #[test]
    fn any_bytes_do_no_harm(mut bytes: Vec<u8>) {
        bytes.splice(..0, *b"FODC\x01");
        let snapshot = Snapshot { fingerprint: 9, items: 1_000 };
        prop_assert!(Checkpoint::decode(&bytes, snapshot).is_err());
        drop(Checkpoint::decode(&summed(&bytes), snapshot));
    }
}

#[test]
fn a_prefix_of_any_length_takes_less_than_a_hundred_bytes() {
    let plan = plan(10_000_000, Order::Seed(u64::MAX));
    for end in [0, 1, 4_999_999, 10_000_000] {
        let len = checkpoint(&plan, 0..end).encode().len();
        assert!(len < 100, "{len} bytes");
    }
}

#[test]
fn ranks_that_are_a_little_apart_take_little() {
    let plan = plan(10_000_000, Order::Seed(1));
    // Eight ranks, of which one is two batches of 64 behind.
    let consumed = (0..5_000_000).filter(|position| position % 8 != 3 || *position < 5_000_000 - 8 * 128);
    let len = checkpoint(&plan, consumed).encode().len();
    assert!(len < 400, "{len} bytes");
}

#[test]
fn scattered_items_take_a_bit_each() {
    let plan = plan(1_000_000, Order::Seed(1));
    let len = checkpoint(&plan, (0..1_000_000).filter(|position| position % 3 != 0)).encode().len();
    assert!(len < 1_000_000 / 8 + 100, "{len} bytes");
}

#[test]
fn another_snapshot_is_refused() {
    let bytes = checkpoint(&plan(10, Order::Seed(1)), 0..4).encode();
    for other in [Snapshot { fingerprint: 9, items: 11 }, Snapshot { fingerprint: 8, items: 10 }] {
        let error = Checkpoint::decode(&bytes, other).unwrap_err();
        assert!(matches!(&error, Error::Conflict(text) if text.contains("begin the next epoch")), "{error}");
    }
}

#[test]
fn bytes_of_another_kind_or_format_are_told_apart() {
    let snapshot = Snapshot { fingerprint: 9, items: 10 };
    let message = |bytes: &[u8]| Checkpoint::decode(bytes, snapshot).unwrap_err().to_string();
    assert!(message(b"").contains("not a checkpoint of Fodder"));
    assert!(message(b"PK\x03\x04").contains("not a checkpoint of Fodder"));
    assert!(message(b"FODC\x02rest").contains("has format 2, and this version of Fodder reads format 1"));
    assert!(message(b"FODC").contains("damaged"));
}

#[test]
fn a_list_must_be_sent_again_and_be_the_same() {
    let ids: Arc<[u32]> = [4, 2, 8].into();
    let plan = plan(10, Order::Ids(Arc::clone(&ids)));
    let bytes = checkpoint(&plan, 0..2).encode();
    let checkpoint = Checkpoint::decode(&bytes, plan.snapshot()).unwrap();
    assert_eq!(checkpoint.plan(Some(ids)), Ok(plan));
    assert!(matches!(checkpoint.plan(None), Err(Error::Invalid(_))));
    for other in [&[4u32, 8, 2][..], &[4, 2], &[]] {
        assert!(matches!(checkpoint.plan(Some(other.into())), Err(Error::Conflict(_))), "{other:?}");
    }
}
