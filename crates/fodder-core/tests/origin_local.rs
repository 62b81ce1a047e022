//! A local directory as an origin.
#![allow(clippy::unwrap_used)]

use fodder_core::{
    Error,
    config::{FollowLinks, ListingConfig},
    id::Version,
    origin::{ObjectEntry, Origin, OriginOptions},
};
use fodder_testing::skip;
use futures::{StreamExt, TryStreamExt};
use std::{
    fs,
    io::Write,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

async fn open(path: &Path) -> Origin {
    Origin::open(path.to_str().unwrap(), &OriginOptions::default()).await.unwrap()
}

/// An origin that is listed with other settings than the default ones.
async fn open_with(path: &Path, listing: ListingConfig) -> Origin {
    let options = OriginOptions { listing, ..OriginOptions::default() };
    Origin::open(path.to_str().unwrap(), &options).await.unwrap()
}

fn following(follow_links: FollowLinks) -> ListingConfig {
    ListingConfig { follow_links, ..ListingConfig::default() }
}

async fn list(origin: &Origin) -> Vec<ObjectEntry> {
    let mut entries: Vec<_> = origin.list().try_collect().await.unwrap();
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    entries
}

async fn read(origin: &Origin, entry: &ObjectEntry, range: std::ops::Range<u64>) -> Result<Vec<u8>, Error> {
    let chunks: Vec<_> = origin.get(&entry.path, &entry.version, range).await?.try_collect().await?;
    Ok(chunks.concat())
}

#[tokio::test]
async fn every_readable_file_is_listed_and_read_by_the_name_listed() {
    let dir = tempfile::tempdir().unwrap();
    let names = [
        "a",
        "sub/b",
        "new\nline",
        "tab\t",
        "100%",
        "a#12",
        "q?x=1",
        "ünï",
        "sp ace",
        "%2e%2e",
        "\u{F8FA}0a",
        "...",
        "-",
    ];
    for name in names {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name.repeat(3)).unwrap();
    }
    fs::write(dir.path().join("empty"), "").unwrap();
    let long = "n".repeat(255);
    fs::write(dir.path().join(&long), "long").unwrap();

    let origin = open(dir.path()).await;
    let entries = list(&origin).await;
    let mut expected: Vec<_> = names.into_iter().chain(["empty", &long]).map(String::from).collect();
    expected.sort();
    assert_eq!(entries.iter().map(|entry| entry.path.clone()).collect::<Vec<_>>(), expected);
    for entry in &entries {
        let bytes = fs::read(dir.path().join(&entry.path)).unwrap();
        assert_eq!(entry.size, bytes.len() as u64);
        assert_eq!(read(&origin, entry, 0..entry.size).await.unwrap(), bytes, "{:?}", entry.path);
        assert_eq!(&origin.head(&entry.path).await.unwrap(), entry);
    }
    assert_eq!(origin.skipped(), 0);
}

#[tokio::test]
async fn links_are_followed_and_special_files_left_out() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("far"), "far").unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("near"), "near").unwrap();
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
    link(outside.path(), "elsewhere");
    link(Path::new("near"), "alias");
    link(dir.path(), "loop");
    link(Path::new("nothing"), "broken");
    link(Path::new("itself"), "itself");
    link(Path::new("near/by"), "through a file");
    link(Path::new(&"n".repeat(256)), "longer than a name can be");
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();

    let origin = open_with(dir.path(), following(FollowLinks::All)).await;
    let entries = list(&origin).await;
    assert_eq!(entries.iter().map(|entry| &*entry.path).collect::<Vec<_>>(), ["alias", "elsewhere/far", "near"]);
    assert_eq!(origin.skipped(), 0);
    assert_eq!(read(&origin, &entries[1], 0..3).await.unwrap(), b"far");
    assert!(matches!(origin.head("socket").await, Err(Error::NotFound(_))));
}

#[tokio::test]
async fn links_that_stay_in_the_directory_are_told_of_and_others_only_followed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("far"), "far").unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("v2/deep")).unwrap();
    fs::write(dir.path().join("v2/deep/file"), "1234").unwrap();
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
    link(Path::new("v2"), "latest");
    link(Path::new("deep/file"), "v2/short");
    link(Path::new("../latest/short"), "v2/by way of another");
    link(outside.path(), "elsewhere");
    link(&dir.path().join("v2/deep/file"), "absolute");
    link(Path::new(".."), "v2/loop");
    link(Path::new("nothing"), "broken");
    link(Path::new(std::ffi::OsStr::from_bytes(b"v2/deep")), "line\nbreak");

    let origin = open_with(dir.path(), following(FollowLinks::All)).await;
    for _ in 0..2 {
        let entries = list(&origin).await;
        let mut links = origin.take_details().links;
        links.sort();
        let told: Vec<_> = links.iter().map(|link| (link.path.as_str(), link.target.as_str())).collect();
        let expected = [
            ("latest", "v2"),
            ("line\nbreak", "v2/deep"),
            ("v2/by way of another", "../latest/short"),
            ("v2/short", "deep/file"),
        ];
        assert_eq!(told, expected);
        assert!(links.iter().all(|link| link.modified_ns > 1_600_000_000_000_000_000));
        for path in ["absolute", "elsewhere/far", "latest/deep/file", "line\nbreak/file", "v2/by way of another"] {
            assert!(entries.iter().any(|entry| entry.path == path), "{path} is also what it leads to");
        }
        assert!(entries.iter().all(|entry| !entry.path.contains("loop") && entry.path != "broken"));
    }
}

#[tokio::test]
async fn names_that_are_not_text_are_spelled_and_read_by_their_spelling() {
    let dir = tempfile::tempdir().unwrap();
    let names: [&[u8]; 4] = [b"\xff/a\xfe", b"\xe2\x82", "\u{10F7FF}".as_bytes(), b"\xff\n"];
    for name in names {
        let path = dir.path().join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap_or_default();
        let path = if path.is_dir() { path.join("x") } else { path };
        fs::write(path, name).unwrap();
    }
    let origin = open(dir.path()).await;
    let entries = list(&origin).await;
    assert_eq!(entries.len(), 4);
    for entry in &entries {
        let name = fodder_policy::spelling::name(&entry.path);
        assert_eq!(read(&origin, entry, 0..entry.size).await.unwrap(), *name, "{:?}", entry.path);
    }
    // The bytes of a character are no second name for it.
    fs::write(dir.path().join("€"), "euro").unwrap();
    assert!(origin.head("€").await.is_ok());
    let other = origin.head("\u{10F7E2}\u{10F782}\u{10F7AC}").await;
    assert!(matches!(other, Err(Error::NotFound(_))), "{other:?}");
}

#[tokio::test]
async fn no_name_leads_out_of_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("secret"), "s").unwrap();
    fs::create_dir(dir.path().join("data")).unwrap();
    let origin = open(&dir.path().join("data")).await;
    let secret = dir.path().join("secret");
    for name in [
        "../secret",
        "./../secret",
        "/../secret",
        secret.to_str().unwrap(),
        "..",
        ".",
        "",
        "/",
        "a//b",
        "\0",
        &"x".repeat(300),
    ] {
        assert!(matches!(origin.head(name).await, Err(Error::NotFound(_))), "{name:?}");
        let got = origin.get(name, &Version("\"1\"".into()), 0..1).await;
        assert!(matches!(got.err(), Some(Error::NotFound(_))), "{name:?}");
    }
}

#[tokio::test]
async fn ranges_are_exact_and_one_past_the_end_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|n| (n * 7 % 251) as u8).collect();
    fs::write(dir.path().join("big"), &bytes).unwrap();
    let origin = open(dir.path()).await;
    let entry = origin.head("big").await.unwrap();
    for range in [0..0, 0..1, 5..5, 1_048_575..1_048_577, 0..3_000_001, 2_999_999..3_000_001] {
        let got = read(&origin, &entry, range.clone()).await.unwrap();
        assert_eq!(got, &bytes[range.start as usize..range.end as usize], "{range:?}");
    }
    assert!(read(&origin, &entry, 3_000_000..3_000_002).await.is_err());
}

#[tokio::test]
async fn a_changed_file_is_stale_also_when_it_changes_while_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, vec![1; 4 << 20]).unwrap();
    let origin = open(dir.path()).await;
    let entry = origin.head("f").await.unwrap();

    let mut body = origin.get("f", &entry.version, 0..4 << 20).await.unwrap();
    assert!(body.next().await.unwrap().unwrap().iter().all(|byte| *byte == 1));
    fs::OpenOptions::new().write(true).open(&path).unwrap().write_all(&vec![2; 4 << 20]).unwrap();
    let rest: Result<Vec<_>, _> = body.try_collect().await;
    assert!(matches!(rest, Err(Error::Stale(_))), "{rest:?}");
    assert!(matches!(origin.get("f", &entry.version, 0..1).await.err(), Some(Error::Stale(_))));

    fs::remove_file(&path).unwrap();
    assert!(matches!(origin.get("f", &entry.version, 0..1).await.err(), Some(Error::NotFound(_))));
}

#[tokio::test]
async fn a_missing_directory_is_said_to_be_missing_and_one_file_is_an_origin_too() {
    let dir = tempfile::tempdir().unwrap();
    let gone = dir.path().join("gone");
    let error = Origin::open(gone.to_str().unwrap(), &OriginOptions::default()).await.unwrap_err();
    assert!(matches!(&error, Error::NotFound(text) if text.contains("gone")), "{error}");

    fs::write(dir.path().join("one.tar"), "one").unwrap();
    fs::write(dir.path().join("other.tar"), "other").unwrap();
    let origin = open(&dir.path().join("one.tar")).await;
    let entries = list(&origin).await;
    assert_eq!(entries.len(), 1);
    assert_eq!((&*entries[0].path, entries[0].size), ("one.tar", 3));
    assert_eq!(read(&origin, &entries[0], 0..3).await.unwrap(), b"one");
    let empty = tempfile::tempdir().unwrap();
    let origin = open(empty.path()).await;
    assert!(list(&origin).await.is_empty());
    drop(empty);
    assert!(matches!(origin.list().try_collect::<Vec<_>>().await, Err(Error::NotFound(_))));
}

#[tokio::test]
async fn every_spelling_of_a_directory_is_one_identity() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let path = dir.path().display();
    let mut identities = Vec::new();
    for uri in [
        format!("{path}/d"),
        format!("{path}/d/"),
        format!("{path}/./d/../d"),
        format!("file://{path}/d"),
        format!("local://{path}/d"),
    ] {
        let origin = Origin::open(&uri, &OriginOptions::default()).await.unwrap();
        identities.push(origin.identity().to_owned());
    }
    identities.dedup();
    assert_eq!(identities.len(), 1, "{identities:?}");
}

#[tokio::test]
async fn a_version_tells_when_a_file_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = fs::File::create(dir.path().join("a")).unwrap();
    let written = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1_600_000_000_123_456_789);
    file.set_modified(written).unwrap();
    let origin = open(dir.path()).await;
    assert_eq!(origin.modified_ns(&list(&origin).await[0].version), Some(1_600_000_000_123_456_789));
    assert_eq!(origin.modified_ns(&Version("mtime:1600000000123-7".into())), Some(1_600_000_000_123_000_000));
    assert_eq!(origin.modified_ns(&Version("mtime:-2000-7".into())), Some(-2_000_000_000));
    file.set_modified(std::time::SystemTime::UNIX_EPOCH - std::time::Duration::from_nanos(1_500_000_000)).unwrap();
    assert_eq!(origin.modified_ns(&list(&origin).await[0].version), Some(-1_500_000_000));
    assert_eq!(origin.modified_ns(&Version("\"d41d8cd98f00b204\"".into())), None);
}

/// A file system whose server is gone, as one of a network may be. Unmounted when the test ends, however it ends.
struct DeadMount(PathBuf);

impl DeadMount {
    fn at(dir: PathBuf) -> Option<Self> {
        fs::create_dir(&dir).unwrap();
        // The shell is its server, and ends.
        let mount = "exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none \"$0\"";
        let mounted = Command::new("sh").args(["-c", mount]).arg(&dir).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(Self(dir))
    }
}

impl Drop for DeadMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn what_cannot_be_looked_at_fails_a_listing_and_is_not_taken_for_gone() {
    let [dir, linking] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for dir in [&dir, &linking] {
        fs::write(dir.path().join("a"), "a").unwrap();
    }
    let Some(dead) = DeadMount::at(dir.path().join("dead")) else {
        skip!("mounting a file system needs root");
    };
    std::os::unix::fs::symlink(&dead.0, linking.path().join("link")).unwrap();
    for (dir, name) in [(&dir, "dead"), (&linking, "link")] {
        let origin = open_with(dir.path(), following(FollowLinks::All)).await;
        let listed: Result<Vec<_>, _> = origin.list().try_collect().await;
        let error = listed.expect_err("the listing is not whole");
        assert!(matches!(error, Error::Unavailable(_)) && error.to_string().contains(name), "{error}");
    }
}
