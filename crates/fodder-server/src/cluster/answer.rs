//! Answers what other nodes ask in words. Each message of `peer.proto` has its arm here and its work elsewhere.

use super::{
    job,
    operate::{evict_here, evicted, reload_here},
    snapshot,
    status::standing,
};
use crate::NodeInfo;
use fodder_api::v1::{PeerMessage, PeerReply, peer_message, peer_reply};
use fodder_core::{Engine, Error, Result};
use std::sync::Arc;

/// Answers one message of a node that belongs to this one's cluster.
pub(crate) async fn answer(engine: &Arc<Engine>, info: &Arc<NodeInfo>, message: PeerMessage) -> Result<PeerReply> {
    // One that a newer program sends: its sender must live with nodes that do not know it.
    let unknown = || Error::Invalid("the version of this node does not know that message".into());
    let reply = match message.message.ok_or_else(unknown)? {
        peer_message::Message::Standing(_) => peer_reply::Reply::Standing(standing(engine, info)),
        peer_message::Message::Evict(request) => {
            peer_reply::Reply::Evicted(evicted(evict_here(engine, &request).await?))
        }
        peer_message::Message::Reload(_) => peer_reply::Reply::Reloaded(reload_here(info).await),
        peer_message::Message::Jobs(said) => peer_reply::Reply::Jobs(job::answer(engine, info, &said)?),
        peer_message::Message::Scores(said) => peer_reply::Reply::Scored(job::score::answer(engine, said).await?),
        peer_message::Message::Embeddings(said) => {
            peer_reply::Reply::Embedded(job::embedding::answer(engine, said).await?)
        }
        peer_message::Message::ScoresFrom(asked) => peer_reply::Reply::ScoresPage(job::lack::answer(engine, &asked)?),
        peer_message::Message::ListFrom(asked) => peer_reply::Reply::ListPage(job::list::answer(engine, &asked)?),
        peer_message::Message::EmbeddingsFrom(asked) => {
            peer_reply::Reply::EmbeddingsPage(job::embedding::answer_from(engine, &asked)?)
        }
        peer_message::Message::SnapshotFrom(asked) => {
            peer_reply::Reply::SnapshotPage(snapshot::answer(engine, asked).await?)
        }
        peer_message::Message::Warm(order) => peer_reply::Reply::Warm(info.state.orders.begin(engine, order).await?),
        peer_message::Message::Warmed(question) => peer_reply::Reply::Warm(info.state.orders.answer(&question)?),
    };
    Ok(PeerReply { reply: Some(reply) })
}
