//! The choice among strategies.

#![allow(clippy::unwrap_used)]

use super::*;
use conformance::World;

const ALL: [Strategy; 6] = [
    Strategy::Demand,
    Strategy::Plan,
    Strategy::Chunk { over: chunk::Over::Ids },
    Strategy::Chunk { over: chunk::Over::Plan },
    Strategy::Pending,
    Strategy::Pack,
];

const BOUNDS: Bounds = Bounds { cache_bytes: 40 << 20, ahead_bytes: 10 << 20 };

#[test]
fn every_strategy_keeps_what_every_one_promises() {
    for strategy in ALL {
        conformance::check(&|| strategy.build(BOUNDS, 1));
    }
}

#[test]
fn a_configuration_writes_each_strategy_by_its_name() {
    for strategy in ALL {
        let text = serde_json::to_string(&strategy).unwrap();
        assert!(text.contains(strategy.name()), "{text}");
        assert_eq!(serde_json::from_str::<Strategy>(&text).unwrap(), strategy);
    }
    assert_eq!(serde_json::to_string(&ALL[3]).unwrap(), r#"{"chunk":{"over":"plan"}}"#);
    assert!(serde_json::from_str::<Strategy>(r#""guess""#).is_err());
}

#[test]
fn on_demand_nothing_is_brought_in_unasked() {
    let mut world = World::new(10, 1);
    world.plan((0..10).collect(), 1);
    assert_eq!(Strategy::Demand.build(BOUNDS, 1).next(&world, u64::MAX), Next::Nothing);
}
