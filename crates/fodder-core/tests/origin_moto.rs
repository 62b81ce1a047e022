//! S3 as an origin against an implementation that is not ours: moto, from PyPI.
#![allow(clippy::unwrap_used)]

use fodder_core::{
    Error,
    origin::{Origin, OriginOptions},
};
use fodder_testing::skip;
use futures::TryStreamExt;
use object_store::{ObjectStoreExt, aws::AmazonS3Builder, path::Path};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

struct Moto {
    child: Child,
    address: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, in the virtual environment that the tests are given or the repository's own.
fn program() -> Option<PathBuf> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.venv");
    let venv = std::env::var_os("FODDER_TEST_VENV").map_or_else(|| PathBuf::from(own), PathBuf::from);
    Some(venv.join("bin/moto_server")).filter(|program| program.exists())
}

fn start(program: PathBuf) -> Moto {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(program);
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    let moto = Moto { child: command.spawn().unwrap(), address: format!("127.0.0.1:{port}") };
    let begun = Instant::now();
    while TcpStream::connect(&moto.address).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "moto does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    moto
}

/// Makes a bucket, which object_store cannot.
fn make_bucket(address: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "PUT /bucket HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn moto_is_listed_and_read_and_its_changes_are_noticed() {
    if program().is_none() {
        skip!("no moto_server in .venv (pip install 'moto[server]'), or in $FODDER_TEST_VENV");
    }
    // The environment holds the keys, so the test runs in a process of its own: this program again.
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "inner_listing_and_reading_moto"]);
    let keys = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_REGION", "us-east-1")];
    let output = command.envs(keys).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
#[ignore = "a case of the other test"]
async fn inner_listing_and_reading_moto() {
    let program = program().unwrap();
    let moto = start(program);
    make_bucket(&moto.address);
    let endpoint = format!("http://{}", moto.address);
    let writer = AmazonS3Builder::new()
        .with_bucket_name("bucket")
        .with_endpoint(&endpoint)
        .with_allow_http(true)
        .with_access_key_id("k")
        .with_secret_access_key("s")
        .build()
        .unwrap();
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let names = ["a", "dir/b c", "ünï", "100%", "q?x=1", "a+b", "<&>", "~", &"n".repeat(1000)];
    for name in names {
        writer.put(&Path::parse(format!("set/{name}")).unwrap(), bytes.clone().into()).await.unwrap();
    }
    writer.put(&Path::from("settle/x"), "other".into()).await.unwrap();

    let options = OriginOptions::default();
    let origin = Origin::open(&format!("s3://bucket/set?endpoint={endpoint}"), &options).await.unwrap();
    let mut entries: Vec<_> = origin.list().try_collect().await.unwrap();
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let mut expected = names.to_vec();
    expected.sort_unstable();
    assert_eq!(entries.iter().map(|entry| &*entry.path).collect::<Vec<_>>(), expected);
    for entry in &entries {
        assert_eq!(&origin.head(&entry.path).await.unwrap(), entry);
        let body = origin.get(&entry.path, &entry.version, 1000..200_000).await.unwrap();
        assert!(body.try_collect::<Vec<_>>().await.unwrap().concat() == bytes[1000..200_000]);
    }

    let old = entries.iter().find(|entry| entry.path == "a").unwrap();
    writer.put(&Path::from("set/a"), vec![7; 300_000].into()).await.unwrap();
    assert!(matches!(origin.get("a", &old.version, 0..10).await.err(), Some(Error::Stale(_))));
    writer.delete(&Path::from("set/a")).await.unwrap();
    assert!(matches!(origin.get("a", &old.version, 0..10).await.err(), Some(Error::NotFound(_))));

    let missing = Origin::open(&format!("s3://nowhere?endpoint={endpoint}"), &options).await.unwrap();
    let error = missing.list().try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(&error, Error::NotFound(text) if text.contains("s3://nowhere")), "{error}");
}
