//! Reads the URI of an origin: which kind of store, where in it, with which settings. Opens nothing.

use super::{
    redact::{is_secret, scrub},
    suggest::{closest, did_you_mean},
    throttle::Throttling,
};
use crate::{Error, Result};
use std::path::PathBuf;
use url::Url;

/// The schemes that are always there, and those that need the Cargo feature `all-origins`.
const SCHEMES: [&str; 10] = ["file", "local", "s3", "gs", "gcs", "az", "abfs", "abfss", "http", "https"];
const TAIL: [&str; 6] = ["hdfs", "webhdfs", "oss", "cos", "obs", "hf"];

/// What a URI says.
#[derive(Debug)]
pub(super) struct Address {
    /// What `throttled:` asks for, with its spelling.
    pub(super) throttling: Option<(Throttling, String)>,
    pub(super) place: Place,
}

/// A kind of store, and where in it an origin begins.
#[derive(Debug)]
pub(super) enum Place {
    Local(PathBuf),
    S3(Bucket),
    Gcs(Bucket),
    Azure(Bucket),
    Http(Url),
    /// Reached through crates that the feature `all-origins` brings.
    #[cfg_attr(not(feature = "all-origins"), allow(dead_code, reason = "only read with the feature"))]
    Tail {
        scheme: String,
        bucket: Bucket,
    },
}

/// A bucket or container, a prefix in it, and the settings behind the `?`.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    /// For Azure `container` or `container@account.host`.
    pub(super) name: String,
    /// Without slashes at its ends.
    pub(super) prefix: String,
    pub(super) endpoint: Option<String>,
    pub(super) region: Option<String>,
}

impl Address {
    pub(super) fn parse(uri: &str) -> Result<Self> {
        let Some(rest) = uri.strip_prefix("throttled:") else {
            return Ok(Self { throttling: None, place: Place::parse(uri)? });
        };
        let (spelling, inner) = rest.split_once(':').ok_or_else(|| {
            invalid(
                uri,
                "write throttled:latency=20ms,bandwidth=500MB/s:ORIGIN, with an origin behind the second colon",
            )
        })?;
        if inner.starts_with("throttled:") {
            return Err(invalid(uri, "one throttled: is enough"));
        }
        let throttling = Throttling::parse(spelling)?;
        Ok(Self { throttling: Some((throttling, spelling.into())), place: Place::parse(inner)? })
    }
}

impl Place {
    fn parse(uri: &str) -> Result<Self> {
        if uri.is_empty() {
            return Err(Error::Invalid("the origin is empty: give a path, or a URI such as s3://bucket/prefix".into()));
        }
        let Some((scheme, rest)) = uri.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
            let path = uri.strip_prefix("file:").unwrap_or(uri);
            return match path.split_once(':') {
                Some((scheme, rest)) if is_known(scheme) && !std::path::Path::new(path).exists() => {
                    Err(Error::Invalid(format!(
                        "cannot open the origin: did you mean {}?",
                        scrub(&format!("{scheme}://{rest}"))
                    )))
                }
                _ => Ok(Place::Local(path.into())),
            };
        };
        match &*scheme.to_ascii_lowercase() {
            "local" => Ok(Place::Local(rest.into())),
            "file" => Url::parse(uri)
                .ok()
                .and_then(|url| url.to_file_path().ok())
                .map(Place::Local)
                .ok_or_else(|| invalid(uri, "write file:///absolute/path, or just the path")),
            "s3" => Bucket::parse(uri, rest, &["endpoint", "region"]).map(Place::S3),
            "gs" | "gcs" => Bucket::parse(uri, rest, &["endpoint"]).map(Place::Gcs),
            "az" | "abfs" | "abfss" => Bucket::parse(uri, rest, &["endpoint"]).map(Place::Azure),
            "http" | "https" => Url::parse(uri)
                .map(Place::Http)
                .map_err(|error| invalid(uri, &format!("it is not a valid URL: {error}"))),
            tail if TAIL.contains(&tail) => {
                let bucket = Bucket::parse(uri, rest, &["endpoint"])?;
                Ok(Place::Tail { scheme: tail.into(), bucket })
            }
            unknown => {
                let all = || SCHEMES.into_iter().chain(TAIL).chain(["throttled"]);
                let text = format!("unknown scheme {unknown:?}{}", did_you_mean(unknown, all()));
                Err(invalid(uri, &format!("{text}; use a path, or one of {}", all().collect::<Vec<_>>().join(", "))))
            }
        }
    }
}

impl Bucket {
    /// Reads what stands behind `scheme://`. A key's prefix is taken literally, as the tools of the clouds do.
    fn parse(uri: &str, rest: &str, settings: &[&str]) -> Result<Self> {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
        let container = uri.starts_with("az") || uri.starts_with("abfs");
        if name.split_once('@').is_some_and(|(user, _)| !container || user.contains(':')) {
            return Err(credentials(uri));
        }
        let prefix = prefix.trim_matches('/');
        if !prefix.is_empty() && super::name::path(prefix).is_none() {
            return Err(invalid(uri, "a prefix cannot have empty parts, `.`, `..` or control characters"));
        }
        let mut bucket = Self { name: name.into(), prefix: prefix.into(), ..Self::default() };
        for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                key if !settings.contains(&key) && is_secret(key) => return Err(credentials(uri)),
                key if !settings.contains(&key) => {
                    let text = format!("unknown setting {key:?}{}", did_you_mean(key, settings.iter().copied()));
                    return Err(invalid(uri, &format!("{text}; known are {}", settings.join(", "))));
                }
                "endpoint" => bucket.endpoint = Some(endpoint(uri, &value)?),
                _ => bucket.region = Some(value.into_owned()),
            }
        }
        Ok(bucket)
    }

    /// `scheme://name/prefix?endpoint=…`: what tells this place from every other.
    pub(super) fn identity(&self, scheme: &str, endpoint: Option<&str>) -> String {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        let endpoint = endpoint.map(|endpoint| format!("?endpoint={endpoint}")).unwrap_or_default();
        format!("{scheme}://{}{slash}{}{endpoint}", self.name, self.prefix)
    }
}

/// The URL of a server, without a slash at its end and without credentials.
pub(super) fn endpoint(uri: &str, text: &str) -> Result<String> {
    let text = text.trim_end_matches('/');
    match Url::parse(text) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => Err(credentials(uri)),
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.query().is_none() => Ok(text.into()),
        _ => Err(invalid(uri, "the endpoint must be a URL such as http://127.0.0.1:9000")),
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

fn is_known(scheme: &str) -> bool {
    SCHEMES.contains(&scheme) || TAIL.contains(&scheme) || closest(scheme, ["throttled"]).is_some()
}

pub(super) fn invalid(uri: &str, why: &str) -> Error {
    Error::Invalid(format!("cannot open {}: {why}", scrub(uri)))
}

fn credentials(uri: &str) -> Error {
    let why = "credentials do not belong in a URI, where logs and process lists would show them; use the environment \
               (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_SAS_KEY …) \
               or a profile in ~/.aws";
    invalid(uri, why)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn error(uri: &str) -> String {
        let error = Address::parse(uri).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)));
        error.to_string()
    }

    #[test]
    fn plain_paths_and_both_local_schemes_are_local() {
        let cases = [
            ("./data", "./data"),
            ("/data", "/data"),
            ("data:v2", "data:v2"),
            ("local:///data/a%20b", "/data/a%20b"),
            ("local://data", "data"),
            ("file:///data/a%20b", "/data/a b"),
            ("file:/data", "/data"),
        ];
        for (uri, path) in cases {
            assert!(matches!(Address::parse(uri).unwrap().place, Place::Local(p) if p == *path), "{uri}");
        }
    }

    #[test]
    fn a_bucket_has_a_literal_prefix_and_settings() {
        let Place::S3(bucket) =
            Address::parse("s3://b/p q/a%20/?endpoint=http://127.0.0.1:9000/&region=eu-west-1").unwrap().place
        else {
            panic!("not s3");
        };
        assert_eq!((&*bucket.name, &*bucket.prefix), ("b", "p q/a%20"));
        assert_eq!(bucket.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(bucket.region.as_deref(), Some("eu-west-1"));
    }

    #[test]
    fn mistakes_are_answered_with_what_was_meant() {
        assert!(error("s4://b").contains("did you mean \"s3\"") && error("s4://b").contains("hdfs"));
        assert!(error("s3:b/p").contains("s3://b/p"));
        assert!(error("s3://b?endpont=x").contains("did you mean \"endpoint\""));
        assert!(error("s3://b?endpoint=9000").contains("http://127.0.0.1:9000"));
        assert!(error("throttled:s3://b").contains("latency"));
        assert!(error("throttled:latncy=1ms:./d").contains("did you mean \"latency\""));
        assert!(error("s3://b/../c").contains("prefix"));
        assert!(error("").contains("empty"));
    }

    #[test]
    fn credentials_in_a_uri_are_refused_and_not_repeated() {
        for uri in [
            "s3://AKIAKEY:hunter2@bucket/p",
            "gs://hunter2@bucket/p",
            "s3://b?secret_access_key=hunter2",
            "az://c?sig=hunter2&sv=1",
            "s3://b?endpoint=http://u:hunter2@h",
        ] {
            let text = error(uri);
            assert!(text.contains("environment") && !text.contains("hunter2") && !text.contains("AKIAKEY"), "{text}");
        }
        assert!(matches!(Address::parse("abfss://c@a.dfs.core.windows.net/p").unwrap().place, Place::Azure(_)));
    }
}
