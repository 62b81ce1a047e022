//! What nodes are called, and so what each owns: at random, from a seed that is printed. `FODDER_SEED` repeats it.

use super::Fleet;
use fodder_server::cluster::membership::{Identity, Incarnation, NodeId};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::fs;

/// Names the nodes of a fleet that has not started.
pub(super) fn at_random(fleet: &Fleet) {
    let seed = std::env::var("FODDER_SEED").map_or_else(|_| rand::random::<u32>().into(), |text| text.parse().unwrap());
    println!("names of nodes: FODDER_SEED={seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    for n in 0..fleet.shape.nodes {
        let dir = fleet.dir.path().join(format!("cache-{n}"));
        fs::create_dir(&dir).unwrap();
        let identity = Identity { id: NodeId(rng.random()), incarnation: Incarnation(0) };
        fs::write(dir.join("identity.json"), serde_json::to_vec(&identity).unwrap()).unwrap();
    }
}
