//! What a job may not say: each is refused with a reason, and no other job notices.

use super::world::{Door, NAME, Rank, World, client, introduction};
use fodder_api::{Error, MAX_ACKNOWLEDGED, Scores, v1};
use fodder_policy::{
    job::Start,
    plan::Order,
    serving::{Approximation, Mode},
};
use std::sync::Arc;

const ITEMS: u32 = 50;

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(told: fodder_api::Result<T>, reason: &str) {
    let error = told.expect_err(reason);
    assert!(!matches!(error, Error::Internal(_) | Error::Unavailable(_)), "{error}");
    assert!(error.to_string().contains(reason), "{error:?} does not say {reason:?}");
}

fn sparse(ids: &[u32], values: &[f32]) -> Scores {
    Scores::Sparse { ids: ids.into(), values: values.into() }
}

#[test]
fn what_a_job_may_not_say_is_refused_and_other_jobs_go_on() {
    let world = World::new(ITEMS);
    let node = world.start("importance", 0.5);
    let mut other = Rank::introduce(&node, Door::Frames, introduction("other", Mode::Strict, 1), 0).unwrap();
    other.begin(0, &Order::Seed(1)).unwrap();
    let mut bad = Rank::introduce(&node, Door::Grpc, introduction("bad", Mode::Strict, 2), 0).unwrap();

    // Plans.
    let begin = |ids: &[u32]| bad.begin(0, &Order::Ids(ids.into()));
    assert_refused(begin(&[1, 2, 1]), "item 1");
    assert_refused(begin(&[0, ITEMS]), "item 50");
    assert_refused(begin(&(0..=ITEMS).collect::<Vec<_>>()), "more than 50");
    assert_refused(bad.next(0, 0, 10, &[]), "epoch");
    bad.begin(0, &Order::Seed(2)).unwrap();
    assert_refused(bad.call(async |job| job.begin_epoch(1, 0, &Order::Seed(3)).await), "");
    assert_refused(bad.call(async |job| job.begin_epoch(2, 0, &Order::Seed(2)).await), "rank");

    // Batches and acknowledgements.
    assert_refused(bad.next(7, 0, 10, &[]), "epoch");
    assert_refused(bad.next(0, 0, 70_000, &[]), "65536");
    assert_refused(bad.next(0, 0, 10, &vec![0; MAX_ACKNOWLEDGED + 1]), "1024");
    assert_refused(bad.call(async |job| job.consumed(0, vec![ITEMS]).await), "50");

    // Scores.
    let report = |scores: Scores| bad.call(async |job| job.report_scores(scores).await);
    assert_refused(report(sparse(&[0], &[f32::NAN])), "finite");
    assert_refused(report(sparse(&[0, 1], &[1.0, f32::INFINITY])), "finite");
    assert_refused(report(sparse(&[ITEMS], &[1.0])), "50");
    assert_refused(report(sparse(&[0, 1], &[1.0])), "1 scores for 2 items");
    assert_refused(report(Scores::Dense(vec![1.0; ITEMS as usize - 1].into())), "49");
    assert_refused(report(Scores::Dense(vec![1.0; ITEMS as usize + 1].into())), "50");
    assert_eq!(report(Scores::Dense(vec![1.0; ITEMS as usize].into())).unwrap(), u64::from(ITEMS));

    // Checkpoints.
    let resume = |bytes: &[u8]| {
        let bytes = bytes.to_vec().into();
        bad.call(async |job| job.resume(bytes, 1, None, None, Start::default()).await.map(|_| ()))
    };
    assert_refused(resume(b""), "");
    assert_refused(resume(&[7; 300]), "");
    let mut checkpoint = bad.call(async |job| job.checkpoint().await).unwrap().to_vec();
    let middle = checkpoint.len() / 2;
    checkpoint[middle] ^= 1;
    assert_refused(resume(&checkpoint), "");

    // The other job has noticed nothing.
    assert_eq!(other.rest(0, 0, 7).len(), ITEMS as usize);
    assert!(other.begin(1, &Order::Seed(1)).unwrap().audit.unwrap().is_exact());
}

#[test]
fn embeddings_that_make_no_sense_are_refused() {
    let world = World::new(ITEMS);
    let node = world.start("semantic", 0.5);
    let job = Rank::introduce(&node, Door::Grpc, introduction("job", Mode::Strict, 1), 0).unwrap();
    let embed = |dimension, ids: &[u32], values: &[f32]| {
        let (ids, values): (Arc<[u32]>, Arc<[f32]>) = (ids.into(), values.into());
        job.call(async |job| job.report_embeddings(dimension, ids, values).await)
    };
    assert_refused(embed(3, &[0, 1], &[0.0; 5]), "5 numbers");
    assert_refused(embed(0, &[0], &[]), "0 numbers");
    assert_refused(embed(2, &[], &[]), "no embeddings");
    assert_refused(embed(2, &[0], &[0.0, f32::NAN]), "NaN");
    assert_refused(embed(2, &[ITEMS], &[0.0, 1.0]), "50");
    assert_eq!(embed(2, &[0, 1], &[0.0, 1.0, 1.0, 0.0]).unwrap(), 2);
    let other = Rank::introduce(&node, Door::Grpc, introduction("other", Mode::Strict, 1), 0).unwrap();
    let (ids, values): (Arc<[u32]>, Arc<[f32]>) = ([2].into(), [0.0, 1.0, 2.0].into());
    assert_refused(other.call(async |job| job.report_embeddings(3, ids, values).await), "two models");
}

#[test]
fn a_stranger_is_not_taken_for_a_job() {
    let world = World::new(ITEMS);
    let node = world.start("minio", 0.5);
    let job = Rank::introduce(&node, Door::Grpc, introduction("job", Mode::Strict, 1), 0).unwrap();
    let stranger = job.job.id() ^ 1;
    for door in [Door::Grpc, Door::Frames] {
        let mut rank = Rank::join(node.line("socket"), door, stranger, 0);
        assert_refused(rank.next(0, 0, 10, &[]), "job");
        assert_refused(rank.begin(0, &Order::Seed(1)), "job");
        assert_refused(rank.call(async |job| job.report_scores(sparse(&[0], &[1.0])).await), "job");
        assert_refused(rank.call(async |job| job.leave().await), "job");
        assert_refused(rank.call(async |job| job.checkpoint().await), "job");
    }
    let (runtime, client) = client(node.line("socket"));
    let elsewhere = client.job("nowhere", job.job.id());
    assert_refused(runtime.block_on(elsewhere.renew()), NAME);
    job.call(async |job| job.renew().await).unwrap();
}

#[test]
fn an_introduction_that_means_nothing_is_refused() {
    let world = World::new(ITEMS);
    let node = world.start("minio", 0.5);
    let (runtime, client) = client(node.line("socket"));
    let approx =
        |max_fraction, max_repeats| Mode::Approx(Approximation { max_fraction, same_class: true, max_repeats });
    let ok = introduction("job", Mode::Strict, 1);
    for (request, reason) in [
        (v1::IntroduceRequest { dataset: "nowhere".into(), ..ok.clone() }, NAME),
        (v1::IntroduceRequest { name: String::new(), ..ok.clone() }, "name"),
        (v1::IntroduceRequest { name: "x".repeat(300), ..ok.clone() }, "256"),
        (v1::IntroduceRequest { in_step: "x".repeat(300), ..ok.clone() }, "256"),
        (v1::IntroduceRequest { world: u32::MAX, ..ok.clone() }, "ranks"),
        (v1::IntroduceRequest { uneven: 99, ..ok.clone() }, "99"),
        (v1::IntroduceRequest { weight: Some(f32::NAN), ..ok.clone() }, "weight"),
        (v1::IntroduceRequest { weight: Some(-1.0), ..ok.clone() }, "weight"),
        (introduction("job", approx(1.5, 2), 1), "max_fraction"),
        (introduction("job", approx(f64::NAN, 2), 1), "max_fraction"),
        (introduction("job", approx(0.1, 0), 1), "max_repeats"),
    ] {
        assert_refused(runtime.block_on(client.introduce(request)), reason);
    }
    let job = runtime.block_on(client.introduce(ok.clone())).unwrap().job;
    let other = runtime.block_on(client.introduce(v1::IntroduceRequest { world: 2, ..ok }));
    assert!(matches!(other, Err(Error::Conflict(_))), "{other:?}");
    runtime.block_on(job.leave()).unwrap();
}

#[test]
fn ten_thousand_jobs_are_bounded_and_the_others_go_on() {
    let world = World::new(ITEMS);
    let node = world.start("minio", 0.5);
    let mut first = Rank::introduce(&node, Door::Frames, introduction("first", Mode::Strict, 1), 0).unwrap();
    first.begin(0, &Order::Seed(1)).unwrap();
    let (runtime, client) = client(node.line("socket"));
    let refused = runtime.block_on(async {
        let mut refused = 0;
        for number in 0..10_000 {
            match client.introduce(introduction(&format!("job-{number}"), Mode::Strict, 1)).await {
                Ok(_) => {}
                Err(Error::Full(reason)) => {
                    assert!(reason.contains("jobs"), "{reason}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        refused
    });
    let jobs = runtime.block_on(client.list_jobs(Some(NAME))).unwrap();
    assert_eq!(jobs.len() + refused, 10_001);
    assert!(refused > 5_000, "only {refused} were refused");
    assert_eq!(first.rest(0, 0, 7).len(), ITEMS as usize);
}
