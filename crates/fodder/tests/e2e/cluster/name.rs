//! What nodes are called, and so what each owns. Over a few thousand objects shares differ by some percent, as chance has it;
//! a test that fills caches to the brim needs names with which they do not. How even shares are with any names is tested
//! with placement itself, over a million ranges.

use super::Fleet;
use fodder_core::{
    Engine,
    config::{DatasetConfig, EngineConfig, Medium, TierConfig},
    id::FileKey,
};
use fodder_policy::placement::{Member, Parcel, Placement};
use fodder_server::cluster::membership::{Identity, Incarnation, NodeId};
use std::{collections::HashMap, fs};

/// Names the nodes of a fleet that has not started, so that nobody owns over so many percent of the mean.
pub(super) fn evenly(fleet: &Fleet, most_percent: usize) {
    let (keys, count) = (keys(fleet), fleet.shape.nodes);
    let most = keys.len() * most_percent / (100 * count);
    let names = |seed: u128| -> Vec<u128> { (1..=count as u128).map(|n| seed * 1000 + n).collect() };
    let is_even = |names: &Vec<u128>| {
        let capacity = (fleet.shape.cache_bytes as u64 >> 10) << 10;
        let placement = Placement::new(names.iter().map(|name| Member { key: fold(*name), capacity, zone: 0 }));
        let mut counts = HashMap::<u64, usize>::new();
        keys.iter().all(|key| {
            let parcel = Parcel { object: u128::from_be_bytes(key.0), number: 0 };
            let owned = counts.entry(placement.owner(parcel).unwrap().key).or_default();
            *owned += 1;
            *owned <= most
        })
    };
    let found = (1..10_000).map(names).find(is_even).expect("some names are even");
    for (n, name) in found.into_iter().enumerate() {
        let dir = fleet.dir.path().join(format!("cache-{n}"));
        fs::create_dir(&dir).unwrap();
        let identity = Identity { id: NodeId(name), incarnation: Incarnation(0) };
        fs::write(dir.join("identity.json"), serde_json::to_vec(&identity).unwrap()).unwrap();
    }
}

/// What placement calls the objects, which depends on the dataset's name and origin and on the objects' versions.
fn keys(fleet: &Fleet) -> Vec<FileKey> {
    fleet.runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let tier = TierConfig { path: dir.path().join("tier"), medium: Medium::Ssd, quota_bytes: 16 << 20 };
        let config = EngineConfig { cache_dir: dir.path().to_owned(), tiers: vec![tier], ..EngineConfig::default() };
        let engine = Engine::open(config).await.unwrap();
        let config = DatasetConfig { anonymous: true, ..DatasetConfig::new("world", fleet.origin()) };
        let dataset = engine.add_dataset(config).await.unwrap();
        let objects = dataset.objects();
        let keys = dataset.snapshot().objects().map(|object| objects.key(object)).collect();
        engine.shutdown().await;
        keys
    })
}

fn fold(id: u128) -> u64 {
    (id >> 64) as u64 ^ id as u64
}
