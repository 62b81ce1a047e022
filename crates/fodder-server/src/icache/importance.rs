//! The JSON in which iCache's client speaks of samples: losses, and whether a sample is important. Pure.

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use std::{fmt, marker::PhantomData};

/// The most samples one message may speak of.
pub(super) const MAX_SAMPLES: usize = 1 << 20;

/// `{"id": loss, …}` with every id below `samples` and every loss finite: the ids, and their losses in the same order.
pub(super) fn losses(json: &str, samples: u64) -> Result<(Vec<u32>, Vec<f32>), String> {
    let pairs: Pairs<f64> = parse(json, "losses look like {\"12\": 0.75}, with finite numbers")?;
    let checked = pairs.0.into_iter().map(|(id, loss)| {
        let narrow = check_id(id, samples)?;
        if !(loss as f32).is_finite() {
            return Err(format!("the loss of sample {id} is {loss}: only finite numbers are taken"));
        }
        Ok((narrow, loss as f32))
    });
    checked.collect()
}

/// `{"id": 1}` for an important sample, `{"id": 0}` for another one: exactly one, of those below `samples`.
pub(super) fn flagged(json: &str, samples: u64) -> Result<(u32, bool), String> {
    let pairs: Pairs<u64> = parse(json, "a sample looks like {\"12\": 1} if it is important and {\"12\": 0} if not")?;
    let &[(id, flag)] = pairs.0.as_slice() else {
        return Err(format!("imgidx_t must hold exactly one sample, not {}", pairs.0.len()));
    };
    let narrow = check_id(id, samples)?;
    match flag {
        0 | 1 => Ok((narrow, flag == 1)),
        _ => Err(format!("the flag of sample {id} is {flag}: 1 means important and 0 not")),
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str, expected: &str) -> Result<Pairs<T>, String> {
    serde_json::from_str(json).map_err(|error| format!("{error}; {expected}"))
}

fn check_id(id: u64, samples: u64) -> Result<u32, String> {
    let narrow = u32::try_from(id).ok().filter(|_| id < samples);
    narrow.ok_or_else(|| format!("there is no sample {id}: the dataset has {samples}"))
}

/// The entries of a JSON object whose keys are numbers, in the order they came; no map is built.
struct Pairs<T>(Vec<(u64, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of sample numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry::<u64, T>()? {
                    if pairs.len() == MAX_SAMPLES {
                        return Err(A::Error::custom(format!("more than {MAX_SAMPLES} samples in one message")));
                    }
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_taken_as_the_client_writes_them() {
        assert_eq!(losses(r#"{"0": 0.5, "9": 2}"#, 10), Ok((vec![0, 9], vec![0.5, 2.0])));
        assert_eq!(losses("{}", 10), Ok(Default::default()));
    }

    #[test]
    fn junk_losses_are_refused_with_a_reason() {
        for (json, reason) in [
            ("", "losses look like"),
            ("[1]", "losses look like"),
            (r#"{"0": NaN}"#, "losses look like"),
            (r#"{"0": Infinity}"#, "losses look like"),
            (r#"{"0": 1e999}"#, "losses look like"),
            (r#"{"0": 1e300}"#, "only finite numbers"),
            (r#"{"0": "x"}"#, "losses look like"),
            (r#"{"-1": 1}"#, "losses look like"),
            (r#"{"cat": 1}"#, "losses look like"),
            (r#"{"10": 1}"#, "there is no sample 10"),
            (r#"{"0": 1"#, "losses look like"),
        ] {
            let error = losses(json, 10).expect_err(json);
            assert!(error.contains(reason), "{json}: {error}");
        }
    }

    #[test]
    fn one_sample_with_its_flag_is_taken() {
        assert_eq!(flagged(r#"{"3": 1}"#, 10), Ok((3, true)));
        assert_eq!(flagged(r#"{"3": 0}"#, 10), Ok((3, false)));
        for json in [r#"{"3": 2}"#, r#"{"3": 1, "4": 1}"#, "{}", r#"{"10": 1}"#, "3", r#"{"3": null}"#] {
            assert!(flagged(json, 10).is_err(), "{json}");
        }
    }
}
