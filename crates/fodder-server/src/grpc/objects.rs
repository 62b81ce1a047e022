//! What is known of objects and items, as messages.

use crate::place::Place;
use fodder_api::v1;
use fodder_core::{
    Dataset, Result,
    catalog::Snapshot,
    id::{ItemId, ObjectSlot},
};
use futures::stream::{self, Stream};
use std::{ops::Range, sync::Arc};
use tonic::Status;

/// Objects in one message of a listing.
const PAGE: usize = 1000;

/// Items in one message of a listing, without and with their names.
const ITEMS_PAGE: u64 = 64 << 10;
const NAMED_PAGE: u64 = 8 << 10;

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

/// What is known of items, page by page. There is always a first page, which tells the classes.
pub(super) fn item_pages(
    snapshot: Arc<Snapshot>,
    request: v1::ListItemsRequest,
) -> impl Stream<Item = Result<v1::ItemsPage, Status>> {
    let v1::ListItemsRequest { first, limit, names, .. } = request;
    let end = if limit == 0 { snapshot.len() } else { first.saturating_add(limit).min(snapshot.len()) };
    let page = if names { NAMED_PAGE } else { ITEMS_PAGE };
    stream::unfold(Some(first), move |start| {
        let answer = start.filter(|&start| start < end || start == first).map(|start| {
            let stop = end.min(start.saturating_add(page));
            (items_page(&snapshot, start..stop, names, start == first).map_err(super::refuse), Some(stop))
        });
        async move { answer }
    })
}

fn items_page(snapshot: &Snapshot, ids: Range<ItemId>, names: bool, is_first: bool) -> Result<v1::ItemsPage> {
    let mut page = v1::ItemsPage { snapshot: snapshot.id().to_string(), first: ids.start, ..Default::default() };
    if is_first {
        page.classes = snapshot.classes().to_vec();
    }
    for id in ids {
        let item = snapshot.item(id)?;
        page.labels.push(item.label.map_or(0, |label| label + 1));
        page.sizes.push(item.range.end - item.range.start);
        if names {
            page.names.push(snapshot.item_name(id)?);
        }
    }
    Ok(page)
}
