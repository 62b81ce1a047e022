//! The long tail, behind the Cargo feature `all-origins`: HDFS by hdfs-native; Alibaba OSS, Tencent COS, Huawei OBS,
//! WebHDFS and Hugging Face by OpenDAL. Their credentials come from the environment, each as its own tools read it.

use super::{
    OriginOptions,
    address::{Bucket, invalid},
    name::Naming,
    redact::scrub,
    source::Stores,
};
use crate::{Error, Result};
use hdfs_native_object_store::HdfsObjectStoreBuilder;
use object_store_opendal::OpendalStore;
use opendal::{Operator, services};
use std::sync::Arc;

/// An opened store of the tail, and where in it the origin begins.
pub(super) struct Opened {
    pub(super) stores: Stores,
    pub(super) naming: Naming,
    pub(super) identity: String,
    pub(super) prefix: String,
}

/// Opens a store of the tail.
pub(super) fn open(scheme: &str, bucket: &Bucket, options: &OriginOptions) -> Result<Opened> {
    let identity = bucket.identity(scheme, bucket.endpoint.as_deref());
    if bucket.name.is_empty() {
        return Err(invalid(
            &identity,
            "the name after :// is missing: a bucket, a host, or for hf datasets/OWNER/NAME",
        ));
    }
    if scheme == "hdfs" {
        let store = HdfsObjectStoreBuilder::new().with_url(format!("hdfs://{}", bucket.name)).build();
        let store = store.map_err(|error| unopened(&identity, &error))?;
        let prefix = bucket.prefix.clone();
        return Ok(Opened { stores: Stores::whole(Arc::new(store)), naming: Naming::Plain, identity, prefix });
    }
    opendal::install_default();
    let (operator, prefix) = match scheme {
        "hf" => hugging_face(bucket, &identity)?,
        _ => (cloud(scheme, bucket, options), bucket.prefix.clone()),
    };
    let operator = operator.map_err(|error| unopened(&identity, &error))?;
    // OpenDAL's store decodes the percent signs of a location.
    let stores = Stores::whole(Arc::new(OpendalStore::new(operator)));
    Ok(Opened { stores, naming: Naming::Encoded, identity, prefix })
}

fn cloud(scheme: &str, bucket: &Bucket, options: &OriginOptions) -> opendal::Result<Operator> {
    let (name, endpoint) = (&*bucket.name, bucket.endpoint.as_deref());
    let variable = |names: [&str; 2]| names.iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
    match scheme {
        "oss" => {
            let asked = variable(["OSS_ENDPOINT", "ALIBABA_CLOUD_OSS_ENDPOINT"]);
            let builder = services::Oss::default().bucket(name).endpoint(endpoint.unwrap_or(&asked));
            Operator::new(if options.anonymous { builder.skip_signature() } else { builder })
        }
        "cos" => {
            let asked = variable(["COS_ENDPOINT", "TENCENTCLOUD_COS_ENDPOINT"]);
            Operator::new(services::Cos::default().bucket(name).endpoint(endpoint.unwrap_or(&asked)))
        }
        "obs" => {
            let asked = variable(["OBS_ENDPOINT", "HUAWEICLOUD_OBS_ENDPOINT"]);
            let (key, secret) = (
                variable(["OBS_ACCESS_KEY_ID", "HUAWEI_CLOUD_ACCESS_KEY_ID"]),
                variable(["OBS_SECRET_ACCESS_KEY", "HUAWEI_CLOUD_SECRET_ACCESS_KEY"]),
            );
            let builder = services::Obs::default().bucket(name).endpoint(endpoint.unwrap_or(&asked));
            let anonymous = options.anonymous || key.is_empty();
            Operator::new(if anonymous { builder } else { builder.access_key_id(&key).secret_access_key(&secret) })
        }
        _ => {
            let server = format!("http://{name}");
            let builder = services::Webhdfs::default().root("/").endpoint(endpoint.unwrap_or(&server));
            let (user, delegation) =
                (variable(["HADOOP_USER_NAME", "USER"]), variable(["HADOOP_TOKEN", "WEBHDFS_DELEGATION"]));
            Operator::new(if delegation.is_empty() {
                builder.user_name(&user)
            } else {
                builder.delegation(&delegation)
            })
        }
    }
}

/// `hf://datasets/OWNER/NAME[@REVISION]/PREFIX`, as huggingface_hub spells it; without `datasets/` it is a model.
fn hugging_face(bucket: &Bucket, identity: &str) -> Result<(opendal::Result<Operator>, String)> {
    let whole = format!("{}/{}", bucket.name, bucket.prefix);
    let (kind, rest) = match whole.split_once('/') {
        Some(("datasets", rest)) => ("dataset", rest),
        Some(("spaces", rest)) => ("space", rest),
        Some(("models", rest)) => ("model", rest),
        _ => ("model", &*whole),
    };
    let mut parts = rest.splitn(3, '/');
    let (owner, name) = match (parts.next(), parts.next()) {
        (Some(owner), Some(name)) if !owner.is_empty() && !name.is_empty() => (owner, name),
        _ => return Err(invalid(identity, "write hf://datasets/OWNER/NAME or hf://datasets/OWNER/NAME/PREFIX")),
    };
    let (name, revision) = name.split_once('@').unwrap_or((name, "main"));
    let mut builder = services::Hf::default().repo_type(kind).repo_id(&format!("{owner}/{name}")).revision(revision);
    if let Some(token) = std::env::var("HF_TOKEN").ok().filter(|token| !token.is_empty()) {
        builder = builder.token(&token);
    }
    if let Some(endpoint) = &bucket.endpoint {
        builder = builder.endpoint(endpoint);
    }
    Ok((Operator::new(builder), parts.next().unwrap_or_default().into()))
}

fn unopened(uri: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Invalid(format!("cannot open {}: {}", scrub(uri), scrub(&error.to_string())))
}
