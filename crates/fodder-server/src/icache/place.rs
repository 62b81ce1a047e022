//! Where a dataset lies, in the words of iCache's client: a directory that has `train` in it. Pure.

use std::path::Path;

/// The origin without what only a node understands: `throttled:` in front, the scheme of a local path.
pub(super) fn data_path(origin: &str) -> String {
    let inner = match origin.strip_prefix("throttled:") {
        Some(rest) => rest.split_once(':').map_or(rest, |(_, inner)| inner),
        None => origin,
    };
    let local = inner.strip_prefix("file://").or_else(|| inner.strip_prefix("local://")).unwrap_or(inner);
    let trimmed = local.trim_end_matches('/');
    if trimmed.contains("://") {
        return trimmed.to_owned();
    }
    let path = if trimmed.is_empty() { Path::new("/") } else { Path::new(trimmed) };
    std::path::absolute(path).map_or_else(|_| trimmed.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// What holds the dataset: iCache's client is given this, and looks for `train` and `val` in it.
pub(super) fn parent(data_path: &str) -> &str {
    match data_path.trim_end_matches('/').rsplit_once('/') {
        Some((parent, _)) if !parent.is_empty() && !parent.ends_with('/') => parent,
        Some((_, _)) if data_path.contains("://") => data_path,
        Some(_) => "/",
        None => data_path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_origin_is_shown_as_the_directory_that_holds_it() {
        for (origin, path, holder) in [
            ("/data/imagenet/train", "/data/imagenet/train", "/data/imagenet"),
            ("/data/imagenet/train/", "/data/imagenet/train", "/data/imagenet"),
            ("file:///data/train", "/data/train", "/data"),
            ("local:///train", "/train", "/"),
            ("/", "/", "/"),
            ("throttled:latency=20ms,seed=7:/data/train", "/data/train", "/data"),
            ("throttled:latency=20ms:s3://bucket/a/train", "s3://bucket/a/train", "s3://bucket/a"),
            ("s3://bucket/train", "s3://bucket/train", "s3://bucket"),
            ("s3://bucket", "s3://bucket", "s3://bucket"),
        ] {
            assert_eq!(data_path(origin), path, "{origin}");
            assert_eq!(parent(path), holder, "{origin}");
        }
    }
}
