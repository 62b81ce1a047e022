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
    let expected = r#"there is no residency policy "lur"; choose one of minio, lru (did you mean lru?)"#;
    assert_eq!(message("lur"), Err(expected.into()));
    assert_eq!(message("mino").unwrap_err().split(" (").last(), Some("did you mean minio?)"));
    assert_eq!(message("quorum-9"), Err(r#"there is no residency policy "quorum-9"; choose one of minio, lru"#.into()));
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
