//! What other nodes ask of this one in words: decoded, answered by the cluster's part of the node, and sent.

use super::connection::{Connection, End};
use crate::cluster;
use fodder_api::{
    frames::{Kind, MAX_REPLY_BYTES, ReplyHead},
    v1,
};
use fodder_core::{Error, Result};
use prost::Message;
use std::sync::Arc;

impl Connection {
    pub(super) fn tell(&mut self, request: u32, message: &[u8]) -> Result<Result<(), End>> {
        self.is_of_the_cluster()?;
        let message = v1::PeerMessage::decode(message)
            .map_err(|error| Error::Invalid(format!("not a valid message between nodes: {error}")))?;
        let door = Arc::clone(&self.door);
        let reply = match self.wait_and_say_so(request, cluster::answer(&door.engine, &door.info, message)) {
            Ok(reply) => reply?.encode_to_vec(),
            Err(end) => return Ok(Err(end)),
        };
        if reply.len() > MAX_REPLY_BYTES as usize {
            return Err(Error::Internal(format!("an answer of {} bytes is longer than a frame", reply.len())));
        }
        let head = ReplyHead::new(Kind::Told, request, reply.len());
        Ok(self.output.frame(&mut self.socket, &head, &[&reply]).map_err(End::from))
    }
}
