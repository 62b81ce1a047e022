//! One job at several nodes, told step by step. Random schedules of the same are in `tests/nodes`.

use super::*;
use crate::job::{Heeded, Telling, Word};
use proptest::prelude::*;

const OTHER: Snapshot = Snapshot { fingerprint: 8, items: 120 };

fn node(salt: u64) -> Jobs {
    Jobs::new(SNAPSHOT, Settings::default(), salt)
}

/// Everything that one node knows, heeded by another, over bytes.
fn tell(from: &mut Jobs, to: &mut Jobs) -> Vec<Heeded> {
    let words = from.words(Telling::All, NOW);
    words.iter().map(|word| to.heed(Word::decode(&word.encode(), &to.settings).unwrap(), &[SNAPSHOT], NOW)).collect()
}

#[test]
fn a_job_at_one_node_is_known_at_the_others_with_its_plan_and_ledger() {
    let (mut a, mut b) = (node(1), node(2));
    let job = started(&mut a, "train", 2);
    consume(&mut a, job, 0, 0..2);
    let heeded = tell(&mut a, &mut b).remove(0);
    assert_eq!((heeded.was, heeded.refused, &heeded.opened[..]), (None, 0, &[(0, SNAPSHOT)][..]));
    let there = b.find("train").unwrap();
    assert_eq!(heeded.job, Some(there));
    assert_eq!(b.audit(there, 0), a.audit(job, 0));
    assert_eq!(b.checkpoint(there), a.checkpoint(job));
    // What the other rank will take is all that anybody needs there.
    assert_eq!((0..100).filter(|id| b.pending(7, *id) == 1).count(), 80);
    assert!(matches!(&heeded.effects[0].1[0], Effect::Planned(needed) if needed.len() == 80));
    // Heard again, it is no news.
    let again = tell(&mut a, &mut b).remove(0);
    assert!(again.effects.iter().all(|(_, effects)| effects.is_empty()), "{again:?}");
    // What was consumed since is told item by item.
    let items = consume(&mut a, job, 1, 0..1);
    let more = tell(&mut a, &mut b).remove(0).effects;
    let consumed: Vec<u32> =
        more.iter().flat_map(|(_, effects)| effects).flat_map(|effect| plan_of(effect).1).collect();
    assert_eq!(consumed.len(), 10);
    assert!(items.iter().all(|id| consumed.contains(id)));
}

#[test]
fn ranks_at_different_nodes_close_an_epoch_together() {
    let (mut a, mut b) = (node(1), node(2));
    let here = introduce(&mut a, Introduction { world: 2, ..Introduction::new("train") });
    a.begin(here, 0, 0, Order::Seed(5), NOW).unwrap();
    tell(&mut a, &mut b);
    let there = introduce(&mut b, Introduction { world: 2, ..Introduction::new("train") });
    assert!(text(b.begin(there, 1, 0, Order::Seed(6), NOW)).contains("planned epoch 0 otherwise"));
    b.begin(there, 1, 0, Order::Seed(5), NOW).unwrap();
    consume(&mut a, here, 0, 0..5);
    consume(&mut b, there, 1, 0..5);
    tell(&mut b, &mut a);
    assert!(a.audit(here, 0).unwrap().is_exact());
    a.begin(here, 0, 1, Order::Seed(5), NOW).unwrap();
    tell(&mut a, &mut b);
    // The last to leave the epoch is told how it went, though it was elsewhere for half of it.
    let begun = b.begin(there, 1, 1, Order::Seed(5), NOW).unwrap();
    assert!(begun.audit.unwrap().is_exact());
    tell(&mut b, &mut a);
    assert!(a.status(NOW)[0].last.unwrap().is_exact());
}

#[test]
fn a_resume_at_one_node_ends_the_run_at_the_others() {
    let (mut a, mut b) = (node(1), node(2));
    let here = started(&mut a, "train", 2);
    consume(&mut a, here, 0, 0..2);
    tell(&mut a, &mut b);
    let there = b.find("train").unwrap();
    let checkpoint = a.checkpoint(here).unwrap();
    let resume = |job, rank| Resume {
        job,
        rank: Some(rank),
        world: 3,
        start: Start::default(),
        checkpoint: &checkpoint,
        ids: None,
    };
    let first = a.resume(resume(here, 0), NOW).unwrap();
    let heeded = tell(&mut a, &mut b).remove(0);
    assert_ne!(heeded.was, heeded.job);
    assert!(text(ask(&mut b, there, 1, 0, 1)).contains("belongs to the run before"));
    // A rank that says the same there joins it, and its slice is of the same deal.
    let second = b.resume(resume(there, 1), NOW).unwrap();
    assert_eq!((second.job, second.left, first.left), (b.find("train").unwrap(), 80, 80));
    b.begin(second.job, 1, 0, Order::Seed(5), NOW).unwrap();
    consume(&mut b, second.job, 1, 0..3);
    (0..3).filter(|rank| *rank != 1).for_each(|rank| drop(consume(&mut a, first.job, rank, 0..3)));
    tell(&mut b, &mut a);
    let audit = a.audit(first.job, 0).unwrap();
    assert!(audit.is_exact() && audit.consumed == 100, "{audit:?}");
    // Words of the run before change nothing any more.
    let mut late = node(3);
    started(&mut late, "train", 2);
    tell(&mut late, &mut a);
    assert_eq!(a.audit(first.job, 0).unwrap(), audit);
}

#[test]
fn two_that_resume_at_once_are_one_run() {
    let (mut a, mut b) = (node(1), node(2));
    let here = started(&mut a, "train", 2);
    tell(&mut a, &mut b);
    let (there, checkpoint) = (b.find("train").unwrap(), a.checkpoint(here).unwrap());
    let resume = |job, rank| Resume {
        job,
        rank: Some(rank),
        world: 2,
        start: Start::default(),
        checkpoint: &checkpoint,
        ids: None,
    };
    let first = a.resume(resume(here, 0), NOW).unwrap().job;
    let second = b.resume(resume(there, 1), NOW).unwrap().job;
    tell(&mut a, &mut b);
    tell(&mut b, &mut a);
    assert_eq!((a.find("train"), b.find("train")), (Some(first), Some(second)));
    // One that has resumed at two nodes, unknown to each other, has started again: nothing of it counts.
    let third = b.resume(resume(second, 0), NOW).unwrap().job;
    assert_ne!(third, second);
}

#[test]
fn an_epoch_on_a_snapshot_that_is_not_here_is_refused_with_what_to_do() {
    let (mut a, mut b) = (Jobs::new(OTHER, Settings::default(), 1), node(2));
    started(&mut a, "train", 2);
    let heeded = tell(&mut a, &mut b).remove(0);
    assert_eq!((b.without_snapshots(&[SNAPSHOT]), heeded.opened.len()), (vec![("train".into(), OTHER)], 0));
    let there = b.find("train").unwrap();
    assert_eq!(b.begun_on(there, 0), Some(OTHER));
    let plan = Arc::new(Plan::new(SNAPSHOT, 0, Order::Seed(5)).unwrap());
    assert!(text(b.begin_with(there, 1, plan, NOW)).contains("refresh the dataset here"));
    // Once it is here, the epoch is.
    let word = a.words(Telling::All, NOW).remove(0);
    assert_eq!(b.without_snapshots(&[SNAPSHOT, OTHER]), []);
    assert_eq!(b.heed(word, &[SNAPSHOT, OTHER], NOW).opened, [(0, OTHER)]);
    assert_eq!(b.without_snapshots(&[SNAPSHOT]), []);
    assert_eq!(b.begin(there, 1, 0, Order::Seed(5), NOW).unwrap().items, 60);
}

#[test]
fn two_snapshots_for_one_epoch_become_one() {
    let (mut a, mut b) = (Jobs::new(OTHER, Settings::default(), 1), node(2));
    let (here, there) = (started(&mut a, "train", 2), started(&mut b, "train", 2));
    let both = [SNAPSHOT, OTHER];
    for _ in 0..2 {
        b.words(Telling::All, NOW).into_iter().for_each(|word| drop(a.heed(word, &both, NOW)));
        a.words(Telling::All, NOW).into_iter().for_each(|word| drop(b.heed(word, &both, NOW)));
    }
    assert_eq!(b.find("train"), Some(there), "the smaller counts");
    assert!(text(ask(&mut a, here, 0, 0, 1)).contains("begun otherwise on another node"));
    assert_eq!(a.begun_on(a.find("train").unwrap(), 0), Some(SNAPSHOT));
}

#[test]
fn a_listed_plan_is_there_when_a_rank_brings_it() {
    let (mut a, mut b) = (node(1), node(2));
    let ids: Arc<[u32]> = (0..50).rev().collect();
    let introduction = Introduction { world: 2, ..Introduction::new("train") };
    let (here, there) = (introduce(&mut a, introduction.clone()), introduce(&mut b, introduction));
    a.begin(here, 0, 0, Order::Ids(Arc::clone(&ids)), NOW).unwrap();
    consume(&mut a, here, 0, 0..2);
    assert!(tell(&mut a, &mut b).remove(0).opened.is_empty());
    assert!(text(b.begin(there, 1, 0, Order::Ids((0..50).collect()), NOW)).contains("planned epoch 0 otherwise"));
    b.begin(there, 1, 0, Order::Ids(ids), NOW).unwrap();
    tell(&mut a, &mut b);
    assert_eq!(b.audit(there, 0).unwrap().consumed, 20);
}

#[test]
fn a_job_that_has_left_stays_away_until_it_is_introduced_again() {
    let (mut a, mut b) = (node(1), node(2));
    let here = started(&mut a, "train", 1);
    tell(&mut a, &mut b);
    let mut late = node(3);
    tell(&mut a, &mut late);
    a.leave(here, NOW).unwrap();
    assert!(tell(&mut a, &mut b).remove(0).gone.is_some());
    assert!(tell(&mut late, &mut b).remove(0) == Heeded::default() && b.find("train").is_none());
    // The next of that name is another.
    let next = introduce(&mut b, Introduction::new("train"));
    tell(&mut b, &mut late);
    tell(&mut late, &mut b);
    assert_eq!(b.status(NOW)[0].epoch, None, "nothing of the one before is left");
    assert_eq!(b.find("train"), Some(next));
    // Graves are not kept for ever.
    b.words(Telling::All, NOW + Duration::from_secs(10_000));
    assert!(b.gone.is_empty());
}

#[test]
fn ranks_that_leave_at_different_nodes_end_the_job() {
    let (mut a, mut b) = (node(1), node(2));
    let here = started(&mut a, "train", 2);
    tell(&mut a, &mut b);
    let there = b.find("train").unwrap();
    b.begin(there, 1, 1, Order::Seed(5), NOW).unwrap();
    assert_eq!(a.leave_rank(here, 0, NOW).unwrap(), None);
    assert_eq!(b.leave_rank(there, 1, NOW).unwrap(), None);
    assert!(tell(&mut a, &mut b).remove(0).gone.is_some());
    assert!(tell(&mut b, &mut a).remove(0).gone.is_some());
}

#[test]
fn a_node_that_has_forgotten_takes_a_rank_that_is_an_epoch_behind() {
    let mut a = node(1);
    let here = introduce(&mut a, Introduction { world: 2, ..Introduction::new("train") });
    a.begin(here, 0, 4, Order::Seed(5), NOW).unwrap();
    a.begin(here, 1, 3, Order::Seed(5), NOW).unwrap();
    assert!(matches!(a.begin(here, 1, 4, Order::Seed(5), NOW).unwrap().audit, Some(audit) if audit.omissions == 100));
    assert!(text(a.begin(here, 1, 3, Order::Seed(5), NOW)).contains("is over"));
}

#[test]
fn a_job_lives_as_long_as_its_ranks_speak_anywhere() {
    let (mut a, mut b) = (node(1), node(2));
    let here = started(&mut a, "train", 1);
    tell(&mut a, &mut b);
    let later = NOW + Duration::from_secs(500);
    a.renew(here, later).unwrap();
    for word in a.words(Telling::All, later + Duration::from_secs(50)) {
        b.heed(word, &[SNAPSHOT], later + Duration::from_secs(70));
    }
    assert!(b.expire(later + Duration::from_secs(600)).is_empty());
    assert_eq!(b.expire(later + Duration::from_secs(630)).len(), 1);
    // One that everybody has forgotten does not come back.
    let word = a.words(Telling::All, later + Duration::from_secs(700)).remove(0);
    assert_eq!(b.heed(word, &[SNAPSHOT], later + Duration::from_secs(700)).job, None);
}

#[test]
fn what_others_say_is_bounded() {
    let settings = Settings { max_jobs: 4, max_memory_bytes: 1 << 20, ..Settings::default() };
    let mut b = Jobs::new(SNAPSHOT, settings, 2);
    for number in 0..100u64 {
        let mut a = node(number);
        started(&mut a, &format!("job {number}"), 1_000);
        tell(&mut a, &mut b);
        let gone = introduce(&mut a, Introduction::new(format!("gone {number}")));
        a.leave(gone, NOW).unwrap();
        tell(&mut a, &mut b);
    }
    assert_eq!((b.members.len(), b.gone.len()), (4, 4));
    assert!(b.memory_bytes() <= (1 << 20) + 4 * 1_000 * 300, "{}", b.memory_bytes());
}

#[test]
fn a_word_that_is_too_long_for_a_frame_is_said_in_parts() {
    let (mut a, mut b) = (node(1), node(2));
    let job = started(&mut a, "train", 50);
    (0..50).for_each(|rank| drop(consume(&mut a, job, rank, 0..1)));
    let word = a.words(Telling::All, NOW).remove(0);
    let whole = word.encode().len();
    let (parts, left_out) = word.split(whole / 4);
    assert!(parts.len() > 4 && left_out == 0);
    for part in parts.into_iter().rev() {
        assert!(part.encode().len() <= whole / 4);
        b.heed(part, &[SNAPSHOT], NOW);
    }
    assert_eq!(b.audit(b.find("train").unwrap(), 0), a.audit(job, 0));
}

proptest! {
    #[test]
    fn any_bytes_are_a_word_or_refused(bytes: Vec<u8>, cut: prop::sample::Index, change in 1u8..) {
        let _ = Word::decode(&bytes, &Settings::default());
        let (mut a, mut b) = (node(1), node(2));
        let job = started(&mut a, "train", 3);
        consume(&mut a, job, 1, 0..2);
        let mut good = a.words(Telling::All, NOW).remove(0).encode();
        // Behind a right sum, so that what lies behind the sum is tested too.
        let at = cut.index(good.len() - 8);
        good[at] ^= change;
        let body = good.len() - 8;
        let sum = crate::ledger::checkpoint::sum(&good[..body]);
        good[body..].copy_from_slice(&sum.to_le_bytes());
        if let Ok(word) = Word::decode(&good, &Settings::default()) {
            b.heed(word, &[SNAPSHOT, OTHER], NOW);
            for status in b.status(NOW) {
                prop_assert!(status.consumed <= status.planned);
                let _ = b.checkpoint(status.job);
            }
            prop_assert!(b.memory_bytes() < 64 << 20);
        }
    }
}
