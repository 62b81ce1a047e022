//! What one command does on all nodes: dropping what is cached, reading the configuration again. Each node is named with what
//! it did, or why it did nothing.

use super::{Failure, Told};
use crate::NodeInfo;
use fodder_api::v1::{
    EvictRemainder, EvictReply, EvictRequest, NodeEviction, NodeReload, PeerMessage, ReloadReply, ReloadRequest,
    peer_message, peer_reply,
};
use fodder_core::{Engine, Error, Result, engine::EvictReport};

/// Drops what is cached of a dataset: here, and unless it is to be here alone, on every other node.
pub(crate) async fn evict(engine: &Engine, info: &NodeInfo, request: EvictRequest) -> Result<EvictReply> {
    let mine = evicted(evict_here(engine, &request).await?);
    let mut reply =
        EvictReply { pieces: mine.pieces, bytes: mine.bytes, nodes: Vec::new(), remainder: mine.remainder.clone() };
    if request.this_node || !is_with_others(info) {
        return Ok(reply);
    }
    let told = ask_members(info, peer_message::Message::Evict(EvictRequest { this_node: true, ..request })).await;
    let others = told.into_iter().map(|told| {
        let done = match told.answer.map(|reply| reply.reply) {
            Ok(Some(peer_reply::Reply::Evicted(done))) => done,
            other => NodeEviction { error: why(other), ..Default::default() },
        };
        NodeEviction { id: hex(told.id), address: told.address, ..done }
    });
    reply.nodes = others.collect();
    reply.pieces += reply.nodes.iter().map(|node| node.pieces).sum::<u64>();
    reply.bytes += reply.nodes.iter().map(|node| node.bytes).sum::<u64>();
    let (id, address) = me(info);
    reply.nodes.push(NodeEviction { id, address, ..mine });
    reply.remainder = Some(sum(reply.nodes.iter().filter_map(|node| node.remainder.as_ref())));
    reply.nodes.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    Ok(reply)
}

/// Drops what is cached of a dataset on this node.
pub(super) async fn evict_here(engine: &Engine, request: &EvictRequest) -> Result<EvictReport> {
    let dataset = engine.dataset(&request.dataset)?;
    if request.exact { dataset.evict_path(&request.prefix).await } else { dataset.evict(&request.prefix).await }
}

/// What this node evicted, as it is told.
pub(super) fn evicted(report: EvictReport) -> NodeEviction {
    let left = report.remainder;
    let remainder = EvictRemainder {
        leased_files: left.leased_files,
        leased_bytes: left.leased_bytes,
        staged_pieces: left.staged_pieces,
        staged_bytes: left.staged_bytes,
        fetching_pieces: left.fetching_pieces,
        fetching_bytes: left.fetching_bytes,
        jobs: left.jobs,
    };
    NodeEviction { pieces: report.pieces, bytes: report.bytes, remainder: Some(remainder), ..Default::default() }
}

/// What remains on several nodes together. A job is named once: every node of a cluster has it.
fn sum<'a>(remainders: impl Iterator<Item = &'a EvictRemainder>) -> EvictRemainder {
    let mut total = EvictRemainder::default();
    for left in remainders {
        total.leased_files += left.leased_files;
        total.leased_bytes += left.leased_bytes;
        total.staged_pieces += left.staged_pieces;
        total.staged_bytes += left.staged_bytes;
        total.fetching_pieces += left.fetching_pieces;
        total.fetching_bytes += left.fetching_bytes;
        total.jobs.extend(left.jobs.iter().cloned());
    }
    total.jobs.sort_unstable();
    total.jobs.dedup();
    total
}

/// Reads the configuration again: here, and if that is wanted on every other node.
pub(crate) async fn reload(info: &NodeInfo, cluster: bool) -> ReloadReply {
    let mut nodes = vec![reload_here(info).await];
    if cluster && is_with_others(info) {
        let told = ask_members(info, peer_message::Message::Reload(ReloadRequest { cluster: false })).await;
        nodes.extend(told.into_iter().map(|told| {
            let done = match told.answer.map(|reply| reply.reply) {
                Ok(Some(peer_reply::Reply::Reloaded(done))) => done,
                other => NodeReload { error: why(other), ..Default::default() },
            };
            NodeReload { id: hex(told.id), address: told.address, ..done }
        }));
        nodes.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    }
    ReloadReply { nodes }
}

/// Reads this node's configuration and certificates again.
pub(super) async fn reload_here(info: &NodeInfo) -> NodeReload {
    let (id, address) = me(info);
    let certificates = info.state.tls().map_or(Ok(()), |tls| tls.reload());
    let done = match info.state.reloading() {
        Some(reloading) => reloading.run().await,
        None => Err(Error::Unavailable("this node is still starting: try again in a moment".into())),
    };
    match certificates.and(done) {
        Ok(done) => NodeReload { id, address, ..done },
        Err(error) => NodeReload { id, address, error: error.to_string(), ..Default::default() },
    }
}

/// Tells every other member, and names those that cannot be told.
async fn ask_members(info: &NodeInfo, message: peer_message::Message) -> Vec<Told> {
    let Some(peering) = info.state.peering() else { return Vec::new() };
    let mut told = peering.tell_all(&PeerMessage { message: Some(message) }).await;
    let members = info.state.cluster().map(|joined| joined.membership.members().borrow().clone());
    for seen in members.iter().flat_map(|members| members.others()) {
        let (id, address) = (seen.member.id.0, seen.member.address.clone());
        if !told.iter().any(|told| told.id == id) {
            told.push(Told { id, address, answer: Err(Failure::Silent("it is unreachable".into())) });
        }
    }
    told
}

fn is_with_others(info: &NodeInfo) -> bool {
    let members = info.state.cluster().map(|joined| joined.membership.members().borrow().clone());
    let others = members.is_some_and(|members| members.others().next().is_some());
    others || info.state.peering().is_some_and(|peering| !peering.is_alone())
}

/// Who this node is, and where it is reached.
fn me(info: &NodeInfo) -> (String, String) {
    let id = info.state.peering().map_or_else(String::new, |peering| hex(peering.me()));
    let address = match info.state.cluster() {
        Some(joined) => joined.membership.members().borrow().me().address.clone(),
        None => info.addresses.grpc.to_string(),
    };
    (id, address)
}

fn hex(id: u128) -> String {
    format!("{id:032x}")
}

fn why<T>(answer: Result<T, Failure>) -> String {
    answer.err().map_or_else(|| "it sent an unexpected reply".into(), |failure| failure.to_string())
}
