//! Items that are alike: embeddings reported by a job, and what stands in for what.

use crate::{
    jobs::introduction,
    world::{World, content},
};
use fodder_core::{
    Dataset, Error,
    job::{Approximation, Embeddings, JobId, Kind, Mode},
};
use fodder_policy::Policy;
use std::{sync::Arc, time::Duration};

const EACH: u32 = 20;

/// Two classes of items; all of a class have nearly the same embedding.
fn world() -> World {
    let mut world = World::new(Policy::Semantic, 64 << 20);
    for class in ["cat", "dog"] {
        for n in 0..EACH {
            let path = format!("{class}/{n:03}.png");
            world.put(&path, content(&path, 0, 4096));
        }
    }
    world
}

async fn report(dataset: &Arc<Dataset>, job: JobId) {
    let ids: Vec<u32> = (0..2 * EACH).collect();
    let values: Vec<f32> = ids.iter().flat_map(|id| [(id / EACH * 100) as f32, (id % EACH) as f32 / 100.0]).collect();
    dataset.jobs().report_embeddings(job, Embeddings { ids: &ids, dimension: 2, values: &values }).unwrap();
    dataset.jobs().apply_scores(job).unwrap();
    let wait = async {
        while dataset.jobs().likenesses_applied() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("neighbours are found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cached_item_stands_in_for_one_of_its_class_that_is_alike() {
    let world = world();
    let (engine, dataset) = world.start().await.unwrap();
    let bounds = Approximation { max_fraction: 1.0, same_class: true, max_repeats: 1000 };
    let job = dataset.jobs().introduce(introduction("alike", Mode::Approx(bounds))).unwrap();
    report(&dataset, job).await;
    let snapshot = dataset.snapshot();
    // All dogs are read once, so that whichever of them stands for the others is cached.
    for id in u64::from(EACH)..u64::from(2 * EACH) {
        let item = snapshot.item(id).unwrap();
        dataset.read(item.object, item.range).await.unwrap();
    }
    let cached = async {
        while dataset.status().cached_pieces < u64::from(EACH) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), cached).await.expect("dogs are cached");
    let (_, cat) = dataset.jobs().ask(job, 3, true).unwrap();
    assert_eq!((cat.served, cat.kind), (3, Kind::Planned), "no cat is cached, and a dog is no cat");
    dataset.evict("dog/005").await.unwrap();
    let (_, dog) = dataset.jobs().ask(job, EACH + 5, true).unwrap();
    assert_eq!((dog.asked, dog.kind), (EACH + 5, Kind::Substituted));
    assert!((EACH..2 * EACH).contains(&dog.served) && dog.served != EACH + 5);
    let (_, itself) = dataset.jobs().ask(job, EACH + 5, false).unwrap();
    assert_eq!(itself.served, EACH + 5, "what matters is not replaced");
    let before = dataset.stats();
    let item = snapshot.item(u64::from(dog.served)).unwrap();
    dataset.read(item.object, item.range).await.unwrap();
    let after = dataset.stats();
    assert_eq!((after.substituted, after.hits_ssd), (before.substituted + 1, before.hits_ssd), "it is no plain hit");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embeddings_that_make_no_sense_are_refused() {
    let world = world();
    let (engine, dataset) = world.start().await.unwrap();
    let job = dataset.jobs().introduce(introduction("alike", Mode::Strict)).unwrap();
    report(&dataset, job).await;
    let wrong = |ids: &'static [u32], dimension, values: &'static [f32]| {
        let error = dataset.jobs().report_embeddings(job, Embeddings { ids, dimension, values }).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    };
    wrong(&[0], 3, &[1.0, 2.0, 3.0]);
    wrong(&[0], 2, &[1.0]);
    wrong(&[2 * EACH], 2, &[1.0, 2.0]);
    wrong(&[0], 2, &[1.0, f32::NAN]);
    let other = dataset.jobs().introduce(introduction("other", Mode::Strict)).unwrap();
    let theirs = Embeddings { ids: &[0], dimension: 2, values: &[1.0, 2.0] };
    assert!(matches!(dataset.jobs().report_embeddings(other, theirs).unwrap_err(), Error::Conflict(_)));
    engine.shutdown().await;
}
