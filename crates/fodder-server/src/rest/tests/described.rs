//! The OpenAPI description, held against what is really answered.

use super::*;
use crate::{metrics::tests::status, rest::describe::Description};
use fodder_policy::advise::TooLittle;
use std::collections::BTreeSet;
use utoipa::OpenApi;

fn description() -> Value {
    serde_json::to_value(Description::openapi()).unwrap()
}

#[tokio::test]
async fn every_route_is_described_and_every_description_is_routed() {
    let fixture = Fixture::empty(Default::default()).await;
    let mut answered = BTreeSet::new();
    for (path, _) in routes() {
        let described = path.replace("{*", "{");
        let uri = described.replace("{name}", "x").replace("{path}", "x").replace("{id}", "0").replace("{job}", "0");
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let answer = ask(&fixture, method, &uri, &[], Body::empty()).await;
            if answer.status != StatusCode::METHOD_NOT_ALLOWED {
                answered.insert((described.clone(), method.to_lowercase()));
            }
        }
    }
    let described: BTreeSet<_> = description()["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())))
        .collect();
    assert_eq!(answered, described);
    assert_eq!(get(&fixture, "/api/v1/openapi.json").await.json(), description());
}

#[test]
fn what_the_engine_answers_looks_as_it_is_described() {
    use fodder_core::{
        catalog::RefreshReport,
        engine::{Advice, AdviceRow, VerifyReport},
    };
    let engine = status();
    let row = AdviceRow { what: String::new(), hit_ratio: 0.0, items_per_second: None, speed: None };
    let value = |value: &dyn erased::Serialize| value.value();
    for (name, value) in [
        ("DatasetStatus", value(&engine.datasets[0])),
        ("DatasetConfig", value(&engine.datasets[0].config)),
        ("Tuning", value(&engine.datasets[0].config.tuning)),
        ("ListingConfig", value(&engine.datasets[0].config.listing)),
        ("ImportanceTuning", value(&engine.datasets[0].config.tuning.importance)),
        ("SemanticTuning", value(&engine.datasets[0].config.tuning.semantic)),
        ("DatasetStats", value(&engine.datasets[0].stats)),
        ("TierStatus", value(&engine.tiers[0])),
        ("RefreshReport", value(&RefreshReport::default())),
        ("EvictReport", value(&fodder_api::v1::EvictReply::default())),
        ("EvictRemainder", value(&fodder_api::v1::EvictRemainder::default())),
        ("NodeEviction", value(&fodder_api::v1::NodeEviction::default())),
        ("ReloadReply", value(&fodder_api::v1::ReloadReply::default())),
        ("NodeReload", value(&fodder_api::v1::NodeReload::default())),
        ("VerifyReport", value(&VerifyReport::default())),
        ("Advice", value(&Advice::too_little("pets", &TooLittle { seconds: 0.0 }))),
        ("AdviceRow", value(&row)),
        ("WarmProblem", value(&fodder_api::v1::WarmProblem::default())),
        ("WarmNode", value(&fodder_api::v1::WarmNode::default())),
    ] {
        assert_eq!(fields(&value), properties(name), "{name}");
    }
    let mut warm = properties("WarmLine");
    assert!(warm.remove("event"), "the event is not described");
    assert_eq!(fields(&value(&fodder_api::v1::WarmProgress::default())), warm);
    let mut node = properties("NodeStatus");
    for itself in ["version", "pid", "started_at_ms", "addresses", "ready"] {
        assert!(node.remove(itself), "{itself} is not described");
    }
    assert_eq!(fields(&value(&engine)), node);
}

/// Serialisable values of several types in one list.
mod erased {
    pub(super) trait Serialize {
        fn value(&self) -> serde_json::Value;
    }

    impl<T: serde::Serialize> Serialize for T {
        fn value(&self) -> serde_json::Value {
            serde_json::to_value(self).expect("the engine's types are plain data")
        }
    }
}

fn fields(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

fn properties(schema: &str) -> BTreeSet<String> {
    let description = description();
    fields(&description["components"]["schemas"][schema]["properties"])
}

#[test]
fn every_policy_is_described() {
    let description = description();
    let described = &description["components"]["schemas"]["Policy"]["enum"];
    assert_eq!(*described, json!(fodder_policy::Policy::ALL.map(|policy| policy.name())));
}
