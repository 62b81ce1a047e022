//! Origins as people type them: what is one, what it means in another directory, what to call it.

use anyhow::{Result, bail};

/// Whether `text` is an origin rather than the name of a dataset: it has a scheme, or begins like a path.
pub fn is_origin(text: &str) -> bool {
    text.contains("://")
        || text.starts_with("throttled:")
        || ["/", "./", "../", "~/"].iter().any(|prefix| text.starts_with(prefix))
        || matches!(text, "." | ".." | "~")
}

/// The same origin, written so that it means the same in every directory: local paths become absolute.
pub fn resolve_origin(text: &str) -> Result<String> {
    if text.is_empty() {
        bail!("the origin is empty: give a URI such as s3://bucket/prefix, or a directory");
    }
    if let Some(wrapped) = text.strip_prefix("throttled:") {
        let Some((options, inner)) = wrapped.split_once(':') else {
            bail!(
                "{text:?} has no origin: write throttled:OPTIONS:ORIGIN, such as throttled:latency=20ms:s3://bucket/x"
            );
        };
        return Ok(format!("throttled:{options}:{}", resolve_origin(inner)?));
    }
    if text.contains("://") {
        return Ok(text.into());
    }
    let path = std::path::absolute(super::expand_home(text.as_ref())?)?;
    match path.to_str() {
        // `absolute` leaves `..` alone, and the name of the dataset should not be that.
        Some(_) if path.components().any(|part| part.as_os_str() == "..") => {
            Ok(std::fs::canonicalize(&path).unwrap_or(path).to_string_lossy().into_owned())
        }
        Some(path) => Ok(path.into()),
        None => bail!("{text:?} is not UTF-8: give an origin whose path is UTF-8"),
    }
}

/// What to call the dataset of an origin: its last path component, in letters that a name may have.
pub fn dataset_name(origin: &str) -> String {
    let origin = origin.split(['?', '#']).next().unwrap_or_default();
    let last = origin.trim_end_matches('/').rsplit(['/', '@']).next().unwrap_or_default();
    let good = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = last.chars().map(good).take(64).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "data".into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_origin_and_a_path_or_uri_is() {
        for origin in ["s3://b/x", "/data", "./data", "../x", ".", "throttled:latency=1ms:/x", "~/data"] {
            assert!(is_origin(origin), "{origin}");
        }
        for name in ["imagenet", "a.b", "x-1_2"] {
            assert!(!is_origin(name), "{name}");
        }
    }

    #[test]
    fn local_paths_become_absolute_also_behind_a_throttle() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(resolve_origin("data").unwrap(), here.join("data").to_str().unwrap());
        let throttled = resolve_origin("throttled:latency=20ms,bandwidth=500MB/s:./data").unwrap();
        assert_eq!(throttled, format!("throttled:latency=20ms,bandwidth=500MB/s:{}", here.join("data").display()));
        assert_eq!(resolve_origin("s3://bucket/./x").unwrap(), "s3://bucket/./x");
    }

    #[test]
    fn a_throttle_without_an_origin_says_how_to_write_it() {
        assert!(resolve_origin("throttled:latency=1ms").unwrap_err().to_string().contains("throttled:OPTIONS:ORIGIN"));
    }

    #[test]
    fn the_last_component_names_the_dataset() {
        for (origin, name) in [
            ("s3://bucket/imagenet/", "imagenet"),
            ("s3://bucket", "bucket"),
            ("https://user:secret@host", "host"),
            ("https://host/a b?sig=secret", "a-b"),
            ("/data/täst", "t-st"),
            ("/", "data"),
            ("throttled:latency=20ms:/x/y", "y"),
        ] {
            assert_eq!(dataset_name(origin), name, "{origin}");
            super::super::check_name(&dataset_name(origin)).unwrap();
        }
    }
}
