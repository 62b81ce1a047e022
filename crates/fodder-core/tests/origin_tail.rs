//! The origins behind the Cargo feature `all-origins`: without it the error names it, with it they open.
#![allow(clippy::unwrap_used)]

use fodder_core::origin::{Origin, OriginOptions};

const URIS: [&str; 6] = [
    "hdfs://127.0.0.1:9000/data",
    "webhdfs://127.0.0.1:9870/data",
    "oss://bucket/p?endpoint=http://127.0.0.1:9",
    "cos://bucket/p?endpoint=http://127.0.0.1:9",
    "obs://bucket/p?endpoint=http://127.0.0.1:9",
    "hf://datasets/owner/name@main/p",
];

#[cfg(not(feature = "all-origins"))]
#[tokio::test]
async fn a_scheme_that_is_not_built_in_names_the_feature() {
    for uri in URIS {
        let error = Origin::open(uri, &OriginOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("all-origins"), "{error}");
    }
}

#[cfg(feature = "all-origins")]
#[tokio::test]
async fn every_scheme_of_the_tail_opens_without_asking_anybody() {
    let options = OriginOptions { anonymous: true, ..OriginOptions::default() };
    for uri in URIS {
        let origin = Origin::open(uri, &options).await.unwrap();
        assert_eq!(origin.identity(), uri);
    }
    for uri in ["hf://datasets/owner", "oss://", "hdfs:///data"] {
        assert!(Origin::open(uri, &options).await.is_err(), "{uri}");
    }
}
