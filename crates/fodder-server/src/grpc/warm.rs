//! The gRPC door of warming: takes the order, tells how far it is. The work ends with the call.

use super::{Door, check_path, convert::refuse};
use crate::warm::{self, Unknown, WORKERS, Wanted, Wish};
use fodder_api::v1;
use futures::{Stream, TryStreamExt};
use tonic::{Status, Streaming};

impl Door {
    /// Takes an order and begins.
    pub(super) async fn begin_warming(
        &self,
        mut messages: Streaming<v1::WarmRequest>,
    ) -> Result<impl Stream<Item = Result<v1::WarmProgress, Status>> + use<>, Status> {
        let first = self.uploads.first(&mut messages).await?;
        let dataset = self.dataset(&first.dataset)?;
        let snapshot = dataset.snapshot();
        let mut unknown = Unknown::default();
        let selection = if first.listed {
            let mut slots = self.uploads.list("known paths", snapshot.object_count().into());
            let (mut next, mut place) = (Some(first.paths), 0);
            while let Some(paths) = next {
                for path in paths {
                    match snapshot.lookup(&path) {
                        Some(slot) => slots.extend(&[slot])?,
                        None => unknown.note(place),
                    }
                    place += 1;
                }
                next = self.uploads.next(&mut messages).await?.map(|message| message.paths);
            }
            Wanted::Listed(slots.to_vec())
        } else {
            check_path(&first.path)?;
            Wanted::Below { path: first.path, shown: first.shown }
        };
        let wish = Wish {
            selection,
            unknown,
            max_bytes: first.max_bytes,
            bytes_per_second: Some(first.bytes_per_second).filter(|rate| *rate > 0),
            workers: if first.workers == 0 { WORKERS } else { first.workers as usize },
            this_node: first.this_node,
        };
        Ok(warm::begin(&self.info, &dataset, wish).map_err(refuse)?.map_err(refuse))
    }
}
