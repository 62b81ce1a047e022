//! Builds the stores that object_store has itself: s3, gcs, azure, http. Their credentials come from the environment.

use super::{
    OriginOptions,
    address::{Bucket, endpoint, invalid},
    aws::{Chain, Surroundings},
    name::percent_decoded,
    patience::Patience,
    redact::{is_secret, scrub},
    source::Stores,
    wire::{Secret, Wire, client_options, no_retry},
};
use crate::{Error, Result};
use object_store::{
    HeaderValue,
    aws::{AmazonS3Builder, resolve_bucket_region},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::GoogleCloudStorageBuilder,
    http::HttpBuilder,
};
use std::{sync::Arc, time::Duration};
use url::Url;

const DEFAULT_REGION: &str = "us-east-1";

/// S3, or a server that speaks like it.
pub(super) async fn s3(
    bucket: &Bucket,
    options: &OriginOptions,
    patience: &Patience,
    wire: Wire,
) -> Result<(Stores, String)> {
    let uri = bucket.identity("s3", None);
    named(bucket, &uri)?;
    let around = Surroundings::read().await;
    let custom = match bucket.endpoint.clone().or(around.endpoint) {
        Some(text) => Some(endpoint(&uri, &text)?),
        None => None,
    };
    let client = client_options(patience);
    let region = match bucket.region.clone().or(around.region) {
        Some(region) => region,
        None if custom.is_some() => DEFAULT_REGION.into(),
        // Nobody said where it is: the bucket itself knows.
        None => {
            let asked =
                tokio::time::timeout(Duration::from_secs(5), resolve_bucket_region(&bucket.name, &client)).await;
            asked.ok().and_then(Result::ok).unwrap_or_else(|| DEFAULT_REGION.into())
        }
    };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&bucket.name)
        .with_region(&region)
        .with_client_options(client)
        .with_retry(no_retry())
        .with_virtual_hosted_style_request(custom.is_none() && !bucket.name.contains('.'))
        .with_s3_express(custom.is_none() && bucket.name.ends_with("--x-s3"))
        .with_skip_signature(options.anonymous)
        .with_credentials(Arc::new(Chain::new(region, Arc::clone(&wire.expired))))
        .with_http_connector(wire);
    if let Some(custom) = &custom {
        builder = builder.with_endpoint(custom);
    }
    let store = builder.build().map_err(|error| unbuilt(&uri, &error))?;
    Ok((Stores::paged(store), bucket.identity("s3", custom.as_deref())))
}

/// Google Cloud Storage. The credentials are those of object_store: a service account, gcloud's own, the instance's.
pub(super) fn gcs(
    bucket: &Bucket,
    options: &OriginOptions,
    patience: &Patience,
    wire: Wire,
) -> Result<(Stores, String)> {
    let identity = bucket.identity("gs", bucket.endpoint.as_deref());
    named(bucket, &identity)?;
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(&bucket.name)
        .with_client_options(client_options(patience))
        .with_retry(no_retry())
        .with_skip_signature(options.anonymous)
        .with_http_connector(wire);
    if let Some(endpoint) = &bucket.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    let store = builder.build().map_err(|error| unbuilt(&identity, &error))?;
    Ok((Stores::paged(store), identity))
}

/// Azure Blob Storage. Account and credentials come from AZURE_STORAGE_*, the account also from the URI.
pub(super) fn azure(
    bucket: &Bucket,
    options: &OriginOptions,
    patience: &Patience,
    wire: Wire,
) -> Result<(Stores, String)> {
    let uri = bucket.identity("az", bucket.endpoint.as_deref());
    named(bucket, &uri)?;
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_url(format!("abfs://{}/", bucket.name))
        .with_client_options(client_options(patience))
        .with_allow_http(true)
        .with_retry(no_retry())
        .with_skip_signature(options.anonymous)
        .with_http_connector(wire);
    if let Some(endpoint) = &bucket.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    // One spelling for az://container with the account from the environment, and abfss://container@account.host.
    let (container, host) = bucket.name.split_once('@').unwrap_or((&bucket.name, ""));
    let account = match host.split('.').next() {
        Some(account) if !account.is_empty() => account.into(),
        _ => builder.get_config_value(&AzureConfigKey::AccountName).unwrap_or_default(),
    };
    let named = Bucket { name: format!("{container}@{account}"), prefix: bucket.prefix.clone(), ..Bucket::default() };
    let identity = named.identity("az", bucket.endpoint.as_deref());
    let store = builder.build().map_err(|error| unbuilt(&uri, &error))?;
    Ok((Stores::paged(store), identity))
}

/// A web server: one file, or, with a `/` at the end of the URL, a directory of a server that lists (WebDAV).
/// Gives also the name of the one file.
pub(super) fn http(url: &Url, patience: &Patience, wire: Wire) -> Result<(Stores, String, Option<String>)> {
    let mut base = url.clone();
    base.set_fragment(None);
    base.set_query(None);
    // Both fail only for URLs that have no host, and http URLs have one.
    let (_, _) = (base.set_username(""), base.set_password(None));
    let authorization = (!url.username().is_empty()).then(|| basic(url)).transpose()?;
    let query = url.query().map(|query| Secret(query.into()));
    let store = HttpBuilder::new()
        .with_url(base.as_str())
        .with_client_options(client_options(patience))
        .with_retry(no_retry())
        .with_http_connector(Wire { query, authorization, ..wire })
        .build()
        .map_err(|error| unbuilt(base.as_str(), &error))?;
    let signed = url.query_pairs().any(|(key, _)| is_secret(&key));
    let identity = match url.query() {
        // A signed URL differs with every signature; what it names does not.
        Some(query) if !signed => format!("{base}?{query}"),
        _ => base.to_string(),
    };
    let last = base.path_segments().and_then(|mut parts| parts.next_back().map(str::to_owned)).unwrap_or_default();
    let single = (!last.is_empty()).then(|| percent_decoded(&last));
    Ok((Stores::whole(Arc::new(store)), identity, single))
}

/// The header for a user and password in a URL.
fn basic(url: &Url) -> Result<HeaderValue> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let pair = format!("{}:{}", percent_decoded(url.username()), percent_decoded(url.password().unwrap_or_default()));
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(pair)))
        .map_err(|_| invalid(url.as_str(), "its user or password cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn named(bucket: &Bucket, uri: &str) -> Result<()> {
    if bucket.name.is_empty() { Err(invalid(uri, "the bucket's name is missing")) } else { Ok(()) }
}

fn unbuilt(uri: &str, error: &object_store::Error) -> Error {
    Error::Invalid(format!("cannot open {}: {}", scrub(uri), scrub(&error.to_string())))
}
