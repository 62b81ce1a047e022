//! Tests of the choice among policies: names, messages, configuration.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn every_policy_is_found_again_by_its_name() {
    for policy in Policy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
        assert_eq!(policy.name().to_uppercase().parse(), Ok(policy));
        assert!(policy.build().is_empty());
    }
    assert_eq!(Policy::ALL[0], Policy::default());
}

#[test]
fn an_unknown_name_lists_the_choices_and_the_nearest() {
    let message = |name: &str| name.parse::<Policy>().map_err(|error| error.to_string());
    let all = Policy::ALL.map(Policy::name).join(", ");
    let expected = format!("unknown policy \"lur\": choose one of {all} (did you mean lru?)");
    assert_eq!(message("lur"), Err(expected));
    assert_eq!(message("mino").unwrap_err().split(" (").last(), Some("did you mean minio?)"));
    assert_eq!(message("xyz-9"), Err(format!("unknown policy \"xyz-9\": choose one of {all}")));
}

#[test]
fn a_configuration_writes_it_as_its_name() {
    for policy in Policy::ALL {
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(text, format!("{:?}", policy.name()));
        assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
    }
    let error = serde_json::from_str::<Policy>("\"lrru\"").unwrap_err().to_string();
    assert!(error.contains("did you mean lru?"), "{error}");
}

#[test]
fn settings_default_to_what_the_papers_say_and_refuse_what_is_no_setting() {
    let none: Settings = serde_json::from_str("{}").unwrap();
    assert_eq!(none, Settings::default());
    let text = serde_json::to_value(none).unwrap();
    assert_eq!(text["importance"]["low_region"], 0.1);
    assert_eq!(text["semantic"]["similarity"], 0.98);
    let set: Settings = serde_json::from_str(r#"{"importance": {"low_region": 0.25}}"#).unwrap();
    assert_eq!(f64::from(set.importance.low_region), 0.25);
    for (wrong, expected) in [
        (r#"{"importance": {"low_region": 2}}"#, "2 is not a share from 0 to 1"),
        (r#"{"importance": {"low_region": -0.5}}"#, "-0.5 is not a share"),
        (r#"{"semantic": {"eff": 100}}"#, "unknown field `eff`"),
        (r#"{"lru": {}}"#, "unknown field `lru`"),
    ] {
        let error = serde_json::from_str::<Settings>(wrong).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_signals_said_of_forgotten_ids_is_void() {
    let mut semantic = Policy::Semantic.build();
    semantic.signal(Signal::Neighbours([1, 1, 1].into()));
    semantic.inserted(1, 10);
    assert_eq!((semantic.stand_in(0), semantic.stand_in(2)), (Some(1), Some(1)));
    semantic.forget(&[0]);
    assert_eq!((semantic.stand_in(0), semantic.stand_in(2)), (None, Some(1)));
    semantic.removed(1);
    semantic.forget(&[1]);
    semantic.inserted(1, 10);
    assert_eq!(semantic.stand_in(2), None, "another piece has the number of its key");

    for policy in [Policy::Importance, Policy::Auto] {
        let mut importance = policy.build();
        importance.signal(Signal::Scores([2.0, 5.0].into()));
        importance.inserted(0, 10);
        importance.forget(&[1]);
        if policy == Policy::Importance {
            assert!(!importance.admit(1, 10, false), "it is worth 1, and the resident 2");
        }
        assert_eq!(importance.len(), 1);
    }
}
