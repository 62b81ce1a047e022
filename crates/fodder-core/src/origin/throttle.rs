//! `throttled:` makes any store as slow and as unreliable as asked, for tests, demos and benchmarks.

mod shaper;
mod spelling;

pub(super) use spelling::Throttling;

use super::read_only::unsupported;
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore},
    path::Path,
};
use shaper::{Fault, Shaper};
use std::{fmt, sync::Arc};

const STORE: &str = "throttled";

/// A store behind a slow and faulty line.
pub(super) struct Throttled {
    inner: Arc<dyn ObjectStore>,
    pages: Option<Arc<dyn PaginatedListStore>>,
    shaper: Arc<Shaper>,
}

impl Throttled {
    pub(super) fn new(
        inner: Arc<dyn ObjectStore>,
        pages: Option<Arc<dyn PaginatedListStore>>,
        throttling: &Throttling,
    ) -> Self {
        Self { inner, pages, shaper: Arc::new(Shaper::new(throttling)) }
    }
}

impl fmt::Display for Throttled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Throttled({})", self.inner)
    }
}

impl fmt::Debug for Throttled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttled").field("inner", &self.inner).field("shaper", &self.shaper).finish_non_exhaustive()
    }
}

#[async_trait]
impl ObjectStore for Throttled {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let fault = self.shaper.request().await;
        if matches!(fault, Some(Fault::Refused)) {
            return Err(injected("the request was refused"));
        }
        let head = options.head;
        let answer = self.inner.get_opts(location, options).await?;
        if head {
            return Ok(answer);
        }
        let (meta, range, attributes) = (answer.meta.clone(), answer.range.clone(), answer.attributes.clone());
        let cut = match fault {
            Some(Fault::Cut(share)) => Some(((range.end - range.start) as f64 * share) as u64),
            _ => None,
        };
        let body = shaped(answer.into_stream(), Arc::clone(&self.shaper), cut);
        let payload = GetResultPayload::Stream(body);
        Ok(GetResult { payload, meta, range, attributes, extensions: Default::default() })
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let shaper = Arc::clone(&self.shaper);
        let entries = self.inner.list(prefix);
        stream::once(async move { shaper.latency().await }).flat_map(move |()| stream::empty()).chain(entries).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(unsupported("listing one level", STORE))
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(unsupported("writing", STORE))
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(unsupported("writing", STORE))
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::once(async { Err(unsupported("deleting", STORE)) }).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(unsupported("copying", STORE))
    }
}

#[async_trait]
impl PaginatedListStore for Throttled {
    async fn list_paginated(&self, prefix: Option<&str>, options: PaginatedListOptions) -> Result<PaginatedListResult> {
        if matches!(self.shaper.request().await, Some(Fault::Refused | Fault::Cut(_))) {
            return Err(injected("the request was refused"));
        }
        let pages = self.pages.as_ref().ok_or_else(|| unsupported("listing by pages", STORE))?;
        pages.list_paginated(prefix, options).await
    }
}

fn injected(what: &str) -> Error {
    Error::Generic { store: STORE, source: format!("{what} (a fault that throttled: was asked for)").into() }
}

/// A body whose bytes come no faster than the line allows, broken off after `cut` bytes.
fn shaped(
    body: BoxStream<'static, Result<Bytes>>,
    shaper: Arc<Shaper>,
    cut: Option<u64>,
) -> BoxStream<'static, Result<Bytes>> {
    let line = shaper.open();
    let state = (body, line, Bytes::new(), cut);
    stream::try_unfold(state, |(mut body, line, mut rest, mut cut)| async move {
        while rest.is_empty() {
            match body.next().await.transpose()? {
                Some(bytes) => rest = bytes,
                None => return Ok(None),
            }
        }
        let mut slice = rest.split_to(rest.len().min(line.slice_bytes()));
        if let Some(left) = &mut cut {
            if *left == 0 {
                return Err(injected("the body was cut"));
            }
            slice.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= slice.len() as u64;
        }
        line.send(slice.len()).await;
        Ok(Some((slice, (body, line, rest, cut))))
    })
    .boxed()
}
