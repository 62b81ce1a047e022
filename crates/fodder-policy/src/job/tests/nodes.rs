//! One job at several nodes, told step by step. Random schedules of the same are in `tests/nodes`.

use super::*;
use crate::job::{Heeded, Pages, Place, Telling, Word};
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
    assert!(text(b.begin(there, 1, 0, Order::Seed(6), NOW)).contains("begun epoch 0 with another plan"));
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
    assert!(text(ask(&mut b, there, 1, 0, 1)).contains("belongs to the earlier run"));
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
    assert!(text(ask(&mut a, here, 0, 0, 1)).contains("begun differently on another node"));
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
    assert!(text(b.begin(there, 1, 0, Order::Ids((0..50).collect()), NOW)).contains("begun epoch 0 with another plan"));
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
fn a_job_that_has_left_stays_so_for_as_long_as_a_node_that_is_cut_off_remembers_it() {
    let hours = |count: u64| NOW + Duration::from_secs(count * 3_600);
    let long = Introduction { lease: Some(Duration::from_secs(24 * 3_600)), ..Introduction::new("train") };
    // The one it leaves at, and the one that is told.
    for leaves_here in [true, false] {
        let (mut a, mut b, mut cut_off) = (node(1), node(2), node(3));
        let job = introduce(&mut a, long.clone());
        a.begin(job, 0, 5, Order::Seed(5), NOW).unwrap();
        tell(&mut a, &mut b);
        tell(&mut a, &mut cut_off);
        a.leave(job, NOW).unwrap();
        tell(&mut a, &mut b);
        let there = if leaves_here { &mut a } else { &mut b };
        // It is looked through now and then.
        there.words(Telling::All, hours(2));
        let again = there.introduce(long.clone(), hours(3)).unwrap();
        there.begin(again, 0, 0, Order::Seed(5), hours(3)).unwrap();
        for word in cut_off.words(Telling::All, hours(4)) {
            there.heed(word, &[SNAPSHOT], hours(4));
        }
        assert_eq!(there.status(hours(4))[0].epoch, Some(0), "it goes on where it is");
        // Graves are not kept for ever.
        there.words(Telling::All, hours(30));
        assert!(there.gone.is_empty());
    }
}

#[test]
fn the_lease_of_a_job_that_is_another_now_is_that_ones() {
    let (mut a, mut b) = (node(1), node(2));
    let job = started(&mut a, "train", 1);
    tell(&mut a, &mut b);
    a.leave(job, NOW).unwrap();
    introduce(&mut a, Introduction { lease: Some(Duration::from_secs(3_600)), ..Introduction::new("train") });
    tell(&mut a, &mut b);
    assert!(b.expire(NOW + Duration::from_secs(1_000)).is_empty());
    assert_eq!(b.expire(NOW + Duration::from_secs(4_000)).len(), 1);
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
fn a_word_that_names_ranks_which_the_job_has_not_is_refused() {
    let mut a = node(1);
    let job = started(&mut a, "train", 3);
    a.leave_rank(job, 1, NOW).unwrap();
    let word = a.words(Telling::All, NOW).remove(0);
    let is_read = |word: &Word| Word::decode(&word.encode(), &Settings::default()).is_ok();
    for (rank, may_resume, may_be_done) in
        [(0, true, true), (2, true, true), (3, false, false), (70_000, false, false), (u32::MAX, true, false)]
    {
        let (mut resumed, mut done) = (word.clone(), word.clone());
        resumed.told.iter_mut().for_each(|told| told.said.extend([(rank, 7)]));
        let left = word.told.as_ref().unwrap().done[&1];
        done.told.iter_mut().for_each(|told| told.done.extend([(rank, left)]));
        assert_eq!((is_read(&resumed), is_read(&done)), (may_resume, may_be_done), "rank {rank}");
    }
}

/// Pages of words, each asked for with what the one before said.
fn page_by_page(from: &mut Jobs, most_bytes: usize, mut meanwhile: impl FnMut(&mut Jobs)) -> Vec<Vec<Word>> {
    let (mut all, mut place) = (Vec::new(), None);
    loop {
        let mut pages = Pages::new(from.words(Telling::All, NOW), place, most_bytes);
        all.extend(pages.next());
        assert!(pages.left_out().is_empty());
        let Some(next) = pages.place() else { return all };
        place = Some(Place::decode(&next.encode()).unwrap());
        meanwhile(from);
    }
}

#[test]
fn words_that_are_too_long_for_a_frame_are_said_in_pages() {
    let (mut a, mut b, mut c) = (node(1), node(2), node(3));
    let job = started(&mut a, "train", 50);
    started(&mut a, "another", 20);
    let gone = introduce(&mut a, Introduction::new("gone"));
    a.leave(gone, NOW).unwrap();
    (0..50).for_each(|rank| drop(consume(&mut a, job, rank, 0..1)));
    let words = a.words(Telling::All, NOW);
    let most_bytes = words.iter().map(|word| word.encode().len()).sum::<usize>() / 4;
    let whole: Vec<_> = Pages::new(words, None, most_bytes).collect();
    assert!(whole.len() > 4);
    for page in whole.iter().rev() {
        assert!(page.iter().map(|word| word.encode().len()).sum::<usize>() <= most_bytes);
        page.iter().for_each(|word| drop(b.heed(word.clone(), &[SNAPSHOT], NOW)));
    }
    assert_eq!(
        page_by_page(&mut a, most_bytes, |_| {}),
        whole,
        "whoever asks for one after the other is told the same"
    );
    let known = a.audit(job, 0);
    assert_eq!(b.audit(b.find("train").unwrap(), 0), known);
    assert_eq!((b.members.len(), b.gone.len()), (2, 1));

    // Whatever comes and goes while they are asked for.
    let mut number = 0;
    let pages = page_by_page(&mut a, most_bytes, |a| {
        number += 1;
        started(a, &format!("a new one {number}"), 3);
        a.find("another").map(|another| a.leave(another, NOW).unwrap());
    });
    pages.concat().into_iter().for_each(|word| drop(c.heed(word, &[SNAPSHOT], NOW)));
    assert_eq!(c.audit(c.find("train").unwrap(), 0), known);
}

#[test]
fn what_alone_is_longer_than_a_page_is_left_out_and_named_and_the_rest_is_said() {
    let (mut a, mut b) = (node(1), node(2));
    let job = introduce(&mut a, Introduction { world: 3, ..Introduction::new("train") });
    (0..3).for_each(|rank| drop(a.begin(job, rank, 0, Order::Seed(5), NOW).unwrap()));
    consume(&mut a, job, 2, 0..1);
    let mut word = a.words(Telling::All, NOW).remove(0);
    word.told.as_mut().unwrap().chapters[0].slips[1].state = vec![0; 1_000].into();
    for most_bytes in [300, 900] {
        let mut pages = Pages::new(vec![word.clone()], None, most_bytes);
        pages.by_ref().flatten().for_each(|word| drop(b.heed(word, &[SNAPSHOT], NOW)));
        assert_eq!((pages.left_out(), pages.place()), (&["train".to_owned()][..], None));
        assert_eq!(b.audit(b.find("train").unwrap(), 0), a.audit(job, 0));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_word_or_refused(bytes: Vec<u8>, cut: prop::sample::Index, change in 1u8..) {
        let _ = Word::decode(&bytes, &Settings::default());
        let _ = Place::decode(&bytes);
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
