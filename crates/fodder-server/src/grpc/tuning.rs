//! What is set about a dataset's policies and jobs, as a message and back.

use fodder_api::v1;
use fodder_core::{Error, Result, config::Tuning};
use fodder_policy::residency::{importance, semantic};
use std::time::Duration;

pub(super) fn message(tuning: &Tuning) -> v1::Tuning {
    let Tuning { update_interval, fetching, importance, semantic } = tuning;
    let interval = update_interval.unwrap_or_default();
    v1::Tuning {
        update_interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
        importance_low_region: Some(importance.low_region.into()),
        semantic_m: Some(semantic.m),
        semantic_ef: Some(semantic.ef),
        semantic_k: Some(semantic.k),
        semantic_similarity: Some(semantic.similarity.into()),
        semantic_homophily_region: Some(semantic.homophily_region.into()),
        semantic_use_weight: Some(semantic.use_weight.into()),
        fetching: fetching.and_then(|strategy| serde_json::to_string(&strategy).ok()).unwrap_or_default(),
    }
}

pub(super) fn config(message: v1::Tuning) -> Result<Tuning> {
    let usual = Tuning::default();
    let (importance, semantic) = (usual.importance, usual.semantic);
    let interval = Some(message.update_interval_ms).filter(|ms| *ms > 0).map(Duration::from_millis);
    let fetching = Some(message.fetching).filter(|text| !text.is_empty());
    let fetching = fetching.map(|text| serde_json::from_str(&text)).transpose();
    Ok(Tuning {
        update_interval: interval,
        fetching: fetching.map_err(|error| Error::Invalid(format!("fetching: {error}")))?,
        importance: importance::Settings {
            low_region: share("importance_low_region", message.importance_low_region, importance.low_region)?,
        },
        semantic: semantic::Settings {
            m: message.semantic_m.unwrap_or(semantic.m),
            ef: message.semantic_ef.unwrap_or(semantic.ef),
            k: message.semantic_k.unwrap_or(semantic.k),
            similarity: share("semantic_similarity", message.semantic_similarity, semantic.similarity)?,
            homophily_region: share(
                "semantic_homophily_region",
                message.semantic_homophily_region,
                semantic.homophily_region,
            )?,
            use_weight: share("semantic_use_weight", message.semantic_use_weight, semantic.use_weight)?,
        },
    })
}

/// A share that a message gives, or the usual one.
fn share<S: TryFrom<f64, Error: std::fmt::Display>>(name: &str, given: Option<f64>, usual: S) -> Result<S> {
    match given {
        None => Ok(usual),
        Some(number) => S::try_from(number).map_err(|error| Error::Invalid(format!("{name}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_set_is_the_same_after_the_way_and_what_is_not_is_as_usual() {
        let json = serde_json::json!({
            "update_interval": "90s",
            "fetching": { "chunk": { "over": "plan" } },
            "importance": { "low_region": 0.25 },
            "semantic": { "m": 3, "ef": 4, "k": 5, "similarity": 0.5, "homophily_region": 0.2, "use_weight": 0.75 },
        });
        let tuning: Tuning = serde_json::from_value(json).unwrap();
        assert_eq!(config(message(&tuning)).unwrap(), tuning);
        assert_eq!(config(v1::Tuning::default()).unwrap(), Tuning::default());
    }

    #[test]
    fn what_is_no_share_is_refused_by_its_name() {
        let wrong = v1::Tuning { semantic_similarity: Some(f64::NAN), ..Default::default() };
        let error = config(wrong).unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains("semantic_similarity")), "{error}");
    }
}
