//! What is known of objects and items, as messages.

use crate::place::Place;
use fodder_api::v1;
use fodder_core::{Dataset, Result, catalog::Snapshot, id::ObjectSlot};
use futures::stream::{self, Stream};
use std::sync::Arc;
use tonic::Status;

/// Objects in one message of a listing.
const PAGE: usize = 1000;

/// What is known of a place.
pub(super) fn stat(dataset: &Dataset, snapshot: &Snapshot, place: &Place) -> Result<v1::StatReply> {
    let item = match place.item {
        None => None,
        Some(id) => Some(v1::ItemEntry {
            id,
            name: snapshot.item_name(id)?,
            offset: place.range.start,
            size_bytes: place.size(),
            label: place.label,
            class: place.label.and_then(|label| snapshot.classes().get(label as usize).cloned()).unwrap_or_default(),
        }),
    };
    let object = Some(entry(dataset, snapshot, place.object));
    Ok(v1::StatReply { snapshot: snapshot.id().to_string(), object, item })
}

fn entry(dataset: &Dataset, snapshot: &Snapshot, object: ObjectSlot) -> v1::ObjectEntry {
    let objects = dataset.objects();
    let items = snapshot.items_of(object);
    v1::ObjectEntry {
        path: objects.path(object),
        size_bytes: objects.size(object),
        version: objects.version(object).to_string(),
        first_item: items.start,
        items: items.end - items.start,
    }
}

/// A listing, page by page, each made when the client has taken the one before.
pub(super) fn pages(
    dataset: Arc<Dataset>,
    snapshot: Arc<Snapshot>,
    request: v1::ListRequest,
) -> impl Stream<Item = Result<v1::ListPage, Status>> {
    let after = Some(request.after).filter(|after| !after.is_empty());
    let left = if request.limit == 0 { u64::MAX } else { request.limit };
    let prefix = request.prefix;
    stream::unfold((after, left), move |(after, left)| {
        let limit = left.min(PAGE as u64) as usize;
        let slots = snapshot.list(&prefix, after.as_deref(), limit);
        let objects: Vec<_> = slots.into_iter().map(|object| entry(&dataset, &snapshot, object)).collect();
        let next = objects.last().map(|last| (Some(last.path.clone()), left - objects.len() as u64));
        let page = v1::ListPage { snapshot: snapshot.id().to_string(), objects };
        async move { next.map(|next| (Ok(page), next)) }
    })
}
