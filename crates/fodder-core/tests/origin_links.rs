//! Symbolic links of a local origin: which are followed, and that no tree of them makes a listing endless.
#![allow(clippy::unwrap_used)]

use fodder_core::{
    Error, Result,
    config::{FollowLinks, ListingConfig},
    origin::{ListingDetails, ObjectEntry, Origin, OriginOptions},
};
use futures::{StreamExt, TryStreamExt};
use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

async fn open(path: &Path, listing: ListingConfig) -> Origin {
    let options = OriginOptions { listing, ..OriginOptions::default() };
    Origin::open(path.to_str().unwrap(), &options).await.unwrap()
}

async fn try_list(path: &Path, listing: ListingConfig) -> Result<(Vec<String>, ListingDetails)> {
    let origin = open(path, listing).await;
    let listed: Vec<ObjectEntry> = origin.list().try_collect().await?;
    let mut paths: Vec<_> = listed.into_iter().map(|entry| entry.path).collect();
    paths.sort();
    Ok((paths, origin.take_details()))
}

async fn list(path: &Path, follow_links: FollowLinks) -> (Vec<String>, ListingDetails) {
    try_list(path, ListingConfig { follow_links, ..ListingConfig::default() }).await.unwrap()
}

/// Directories in a chain, each with two links to the next one: 2^(count - 1) paths to the last.
fn chain(root: &Path, count: usize) {
    for n in 0..count {
        let directory = root.join(format!("d{n:02}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file"), "1234").unwrap();
        for name in ["a", "b"] {
            if n + 1 < count {
                symlink(format!("../d{:02}", n + 1), directory.join(name)).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn links_that_multiply_paths_do_not_multiply_the_listing() {
    let dir = tempfile::tempdir().unwrap();
    chain(dir.path(), 24);
    let (paths, details) = list(dir.path(), FollowLinks::Inside).await;
    for n in 0..24 {
        assert!(paths.contains(&format!("d{n:02}/file")), "every directory is listed by its own path");
    }
    assert!(paths.contains(&"d00/a/b/file".into()), "a few links on one path are followed");
    assert!(paths.len() <= 24 * 257, "{} paths", paths.len());
    assert_eq!(details.links.len(), 46);
    assert!(details.warnings.iter().any(|warning| warning.contains("--max-aliases")), "{:?}", details.warnings);
    assert_eq!(list(dir.path(), FollowLinks::Inside).await.0, paths, "listed again it is the same");
}

#[tokio::test]
async fn a_directory_with_several_names_is_listed_under_each() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("v3/images")).unwrap();
    fs::write(dir.path().join("v3/images/1.png"), "png").unwrap();
    symlink("v3", dir.path().join("latest")).unwrap();
    symlink(dir.path().join("v3"), dir.path().join("stable")).unwrap();
    symlink("..", dir.path().join("v3/loop")).unwrap();
    let (paths, details) = list(dir.path(), FollowLinks::Inside).await;
    assert_eq!(paths, ["latest/images/1.png", "stable/images/1.png", "v3/images/1.png"]);
    assert_eq!(details.warnings, [""; 0]);
    assert_eq!(list(dir.path(), FollowLinks::Never).await.0, ["v3/images/1.png"]);
}

#[tokio::test]
async fn empty_directories_are_listed_and_what_is_left_out_makes_none() {
    let dir = tempfile::tempdir().unwrap();
    for path in ["valid", "deep/er", "full", "new\nline"] {
        fs::create_dir_all(dir.path().join(path)).unwrap();
    }
    fs::write(dir.path().join("full/file"), "f").unwrap();
    symlink("valid", dir.path().join("link")).unwrap();
    fs::create_dir(dir.path().join("dangling")).unwrap();
    symlink("nothing", dir.path().join("dangling/link")).unwrap();
    let (paths, mut details) = list(dir.path(), FollowLinks::Inside).await;
    details.empty_directories.sort();
    assert_eq!(paths, ["full/file"]);
    assert_eq!(details.empty_directories, ["dangling/", "deep/er/", "link/", "new\nline/", "valid/"]);
    assert_eq!(details.links.len(), 1);
    // Beyond the limit a link stays a link, and what cannot be one is left out: it is not empty.
    symlink("full", dir.path().join("relative")).unwrap();
    symlink(dir.path().join("full"), dir.path().join("absolute")).unwrap();
    let none = ListingConfig { max_aliases: 0, ..ListingConfig::default() };
    let (paths, mut details) = try_list(dir.path(), none).await.unwrap();
    details.empty_directories.sort();
    assert_eq!(paths, ["full/file"]);
    assert_eq!(details.empty_directories, ["dangling/", "deep/er/", "link/", "new\nline/", "relative/", "valid/"]);
    assert_eq!(details.links.len(), 2);
    let little = ListingConfig { max_memory_bytes: 600, ..ListingConfig::default() };
    let many = tempfile::tempdir().unwrap();
    (0..100).for_each(|number| fs::create_dir(many.path().join(number.to_string())).unwrap());
    let error = try_list(many.path(), little).await.unwrap_err();
    assert!(error.to_string().contains("--max-list-memory"), "{error}");
}

#[tokio::test]
async fn links_that_lead_outside_are_not_followed_unless_configured() {
    let top = tempfile::tempdir().unwrap();
    let root = top.path().join("data/origin");
    fs::create_dir_all(&root).unwrap();
    fs::create_dir(top.path().join("data/origin-2")).unwrap();
    for secret in ["secret", "data/secret", "data/origin-2/secret"] {
        fs::write(top.path().join(secret), "s").unwrap();
    }
    fs::write(root.join("file"), "f").unwrap();
    symlink("../..", root.join("up")).unwrap();
    symlink("../origin-2", root.join("sibling")).unwrap();
    symlink(top.path().join("secret"), root.join("absolute")).unwrap();
    symlink("up/secret", root.join("through another")).unwrap();
    let (paths, details) = list(&root, FollowLinks::Inside).await;
    assert_eq!(paths, ["file"]);
    assert!(details.links.is_empty());
    let [warning] = &details.warnings[..] else { panic!("{:?}", details.warnings) };
    assert!(warning.contains(": 4, such as") && warning.contains("--follow-links all"), "{warning}");
    let (paths, _) = list(&root, FollowLinks::All).await;
    for path in ["absolute", "file", "sibling/secret", "through another", "up/secret", "up/data/secret"] {
        assert!(paths.contains(&path.into()), "{path} of {paths:?}");
    }
}

#[tokio::test]
async fn the_directory_of_a_process_is_listed_in_bounded_time() {
    // Its entries come and go while they are listed, and some may not be read: only the end of the listing matters.
    let listing = ListingConfig { follow_links: FollowLinks::Inside, ..ListingConfig::default() };
    let origin = open(Path::new("/proc/self"), listing).await;
    let end = origin.list().map(|_| ()).count();
    tokio::time::timeout(Duration::from_secs(120), end).await.expect("the listing ends");
}

#[tokio::test]
async fn a_listing_that_exceeds_a_limit_fails_and_names_the_setting() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b/c/d")).unwrap();
    for limits in [
        (ListingConfig { max_depth: 3, ..ListingConfig::default() }, "--max-depth"),
        (ListingConfig { max_entries: 3, ..ListingConfig::default() }, "--max-entries"),
    ] {
        let error = try_list(dir.path(), limits.0).await.unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains(limits.1)), "{error}");
    }
    let enough = ListingConfig { max_depth: 4, max_entries: 4, ..ListingConfig::default() };
    assert!(try_list(dir.path(), enough).await.unwrap().0.is_empty());
}
