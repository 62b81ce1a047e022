//! Advice on the wire and in `fodder-policy`, each way.

use crate::v1;
use fodder_policy::advise::{Advice, Limit, Row};

impl From<Advice> for v1::AdviseReply {
    fn from(advice: Advice) -> Self {
        let Advice { limit, storage_share, sentences, rows, policy } = advice;
        let limit = match limit {
            None => v1::Limit::Unspecified,
            Some(Limit::Storage) => v1::Limit::Storage,
            Some(Limit::Own) => v1::Limit::Own,
            Some(Limit::Preprocessing) => v1::Limit::Preprocessing,
            Some(Limit::Gpu) => v1::Limit::Gpu,
        };
        Self {
            limit: limit.into(),
            storage_share,
            sentences: sentences.into(),
            rows: rows.into_iter().map(Into::into).collect(),
            policy: policy.map(|policy| policy.to_string()).unwrap_or_default(),
        }
    }
}

impl From<v1::AdviseReply> for Advice {
    fn from(reply: v1::AdviseReply) -> Self {
        let limit = match reply.limit() {
            v1::Limit::Unspecified => None,
            v1::Limit::Storage => Some(Limit::Storage),
            v1::Limit::Own => Some(Limit::Own),
            v1::Limit::Preprocessing => Some(Limit::Preprocessing),
            v1::Limit::Gpu => Some(Limit::Gpu),
        };
        let v1::AdviseReply { storage_share, sentences, rows, policy, .. } = reply;
        let mut sentences = sentences.into_iter();
        let mut sentence = || sentences.next().unwrap_or_default();
        Self {
            limit,
            storage_share,
            sentences: [sentence(), sentence()],
            rows: rows.into_iter().map(Into::into).collect(),
            // A newer node may know more policies.
            policy: policy.parse().ok(),
        }
    }
}

impl From<Row> for v1::AdviceRow {
    fn from(Row { what, hit_ratio, items_per_second, speed }: Row) -> Self {
        Self { what, hit_ratio, items_per_second, speed }
    }
}

impl From<v1::AdviceRow> for Row {
    fn from(v1::AdviceRow { what, hit_ratio, items_per_second, speed }: v1::AdviceRow) -> Self {
        Self { what, hit_ratio, items_per_second, speed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fodder_policy::Policy;

    #[test]
    fn advice_arrives_as_it_was_given() {
        let row = Row { what: "now".into(), hit_ratio: 0.2, items_per_second: Some(10.0), speed: None };
        for limit in [None, Some(Limit::Storage), Some(Limit::Own), Some(Limit::Preprocessing), Some(Limit::Gpu)] {
            let advice = Advice {
                limit,
                storage_share: 0.5,
                sentences: ["It is so.".into(), "Do that.".into()],
                rows: vec![row.clone()],
                policy: Some(Policy::S3Fifo),
            };
            assert_eq!(Advice::from(v1::AdviseReply::from(advice.clone())), advice);
        }
    }
}
