//! One connection to etcd: a lease that is kept, this node's key under it, and what is seen of the others' keys.

use super::access::{Access, DEADLINE, EtcdConfig};
use crate::cluster::membership::{
    Incarnation, Member, NodeId, Seal, Terms,
    board::Board,
    probe::Prober,
    word::{opened, sealed},
};
use fodder_api::{
    etcd::{
        KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, PutRequest, RangeRequest,
        WatchCreateRequest, WatchRequest, event::EventType, kv_client::KvClient, lease_client::LeaseClient,
        watch_client::WatchClient, watch_request::RequestUnion,
    },
    v1::HelloMessage,
};
use prost::Message;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// The most keys that are read.
const MAX_KEYS: i64 = 4096;

/// A session at etcd.
#[derive(Debug, Clone)]
pub(super) struct Session {
    access: Access,
    prefix: String,
    lease: i64,
    ttl: Duration,
    /// The revision of etcd at which all keys were read.
    revision: i64,
    seal: Seal,
    board: Arc<Board>,
    /// Whose keys are there.
    living: BTreeMap<Vec<u8>, (NodeId, Incarnation)>,
    /// Whose keys were there: they are asked directly.
    doubted: BTreeMap<NodeId, Incarnation>,
    /// Under which keys something older stands than is known of their members: where these are, and what they are told of
    /// themselves.
    reminded: BTreeMap<Vec<u8>, (String, Member)>,
    /// What stands under this node's key.
    said: Member,
    prober: Arc<Prober>,
    interval: Duration,
}

impl Session {
    /// Connects, takes a lease, writes this node's key and reads those of the others; or says why not.
    pub(super) async fn open(
        server: &str,
        (prefix, access): (&str, &EtcdConfig),
        terms: &Terms,
        board: Arc<Board>,
        prober: Arc<Prober>,
    ) -> Result<Self, String> {
        let access = Access::open(access, server).await?;
        // As long as silence may last, and at least what etcd grants.
        let ttl = terms.patience.unreachable_after.max(Duration::from_secs(2));
        let request = LeaseGrantRequest { ttl: ttl.as_secs().try_into().unwrap_or(i64::MAX) };
        let grant = |channel, request| async { LeaseClient::new(channel).lease_grant(request).await };
        let lease = access.call(request, grant).await?;
        let mut session = Self {
            access,
            prefix: prefix.to_owned(),
            lease: lease.id,
            ttl: Duration::from_secs(lease.ttl.try_into().unwrap_or(1)),
            revision: 0,
            seal: terms.seal.clone(),
            said: board.me(),
            board,
            living: BTreeMap::new(),
            doubted: BTreeMap::new(),
            reminded: BTreeMap::new(),
            prober,
            interval: terms.interval,
        };
        session.put().await?;
        session.read().await?;
        // Who was known and has no key now may be cut off from etcd.
        let living: BTreeSet<_> = session.living.values().map(|(id, _)| *id).collect();
        let known = session.board.members().borrow().clone();
        let doubted = known.others().filter(|seen| !living.contains(&seen.member.id));
        session.doubted = doubted.map(|seen| (seen.member.id, seen.member.incarnation)).collect();
        Ok(session)
    }

    /// Keeps the lease, says what is new, and hears the others, until something fails: then it says what.
    pub(super) async fn keep(&mut self, news: &Notify) -> String {
        match self.try_keep(news).await {
            Ok(()) => "etcd ended the connection".into(),
            Err(error) => error,
        }
    }

    async fn try_keep(&mut self, news: &Notify) -> Result<(), String> {
        let (ask, asked) = mpsc::channel(4);
        ask.send(LeaseKeepAliveRequest { id: self.lease }).await.map_err(|error| error.to_string())?;
        let mut client = LeaseClient::new(self.access.channel());
        let asked = self.access.request(ReceiverStream::new(asked));
        let mut kept = within(client.lease_keep_alive(asked)).await?;
        let (watch, watched) = mpsc::channel(1);
        let create = WatchCreateRequest {
            key: self.prefix.clone().into(),
            range_end: end_of(&self.prefix).into(),
            start_revision: self.revision + 1,
        };
        let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        watch.send(request).await.map_err(|error| error.to_string())?;
        let watched = self.access.request(ReceiverStream::new(watched));
        let mut events = within(WatchClient::new(self.access.channel()).watch(watched)).await?;
        let mut renew = tokio::time::interval(self.ttl / 3);
        let mut ticks = tokio::time::interval(self.interval);
        let mut last_kept = tokio::time::Instant::now();
        loop {
            tokio::select! {
                answer = kept.message() => match answer.map_err(said)? {
                    Some(answer) if answer.ttl > 0 => last_kept = tokio::time::Instant::now(),
                    _ => return Err("the lease ran out".into()),
                },
                answer = events.message() => match answer.map_err(said)? {
                    Some(answer) if !answer.canceled => {
                        for event in answer.events {
                            let gone = event.r#type() == EventType::Delete;
                            if let Some(kv) = event.kv {
                                if gone { self.miss(&kv) } else { self.hear(&kv) }
                            }
                        }
                    }
                    _ => return Err("the watch was ended".into()),
                },
                _ = renew.tick() => {
                    if last_kept.elapsed() > self.ttl {
                        return Err("the lease was not renewed in time".into());
                    }
                    let _ = ask.try_send(LeaseKeepAliveRequest { id: self.lease });
                }
                _ = ticks.tick() => {
                    // etcd tells when a lease runs out; as long as it answers, a key that is there is a sign of life.
                    if last_kept.elapsed() <= self.ttl {
                        self.board.vouch(self.living.values().copied());
                    }
                    self.ask_doubted();
                    self.remind();
                    self.board.pass();
                    // It was told that it has said something newer before, and says it in another life.
                    if !self.board.me().says_the_same(&self.said) {
                        self.put().await?;
                    }
                }
                () = news.notified() => self.put().await?,
            }
        }
    }

    /// Gives the lease back, and with it the key.
    pub(super) async fn end(&self) {
        let request = LeaseRevokeRequest { id: self.lease };
        let revoke = |channel, request| async { LeaseClient::new(channel).lease_revoke(request).await };
        let _ = self.access.call(request, revoke).await;
    }

    /// Writes this node's word.
    async fn put(&mut self) -> Result<(), String> {
        let words = self.board.tell(0);
        self.said.clone_from(&words[0]);
        let key = self.key(words[0].id);
        // Sealed, so that whoever may write to etcd cannot make up members.
        let value = sealed(words, &self.seal).encode_to_vec();
        let request = PutRequest { key: key.into(), value: value.into(), lease: self.lease };
        let put = |channel, request| async { KvClient::new(channel).put(request).await };
        self.access.call(request, put).await.map(drop)
    }

    /// Reads all words.
    async fn read(&mut self) -> Result<(), String> {
        let (key, range_end) = (self.prefix.clone().into(), end_of(&self.prefix).into());
        let request = RangeRequest { key, range_end, limit: MAX_KEYS };
        let range = |channel, request| async { KvClient::new(channel).range(request).await };
        let answer = self.access.call(request, range).await?;
        self.revision = answer.header.map_or(0, |header| header.revision);
        answer.kvs.iter().for_each(|kv| self.hear(kv));
        Ok(())
    }

    /// Takes in what stands under a key.
    fn hear(&mut self, kv: &KeyValue) {
        let message = HelloMessage::decode(kv.value.clone()).ok();
        let words = message.and_then(|message| opened(&message, &self.seal).ok()).unwrap_or_default();
        let Some(member) = words.into_iter().next().filter(|member| kv.key == self.key(member.id).as_bytes()) else {
            tracing::debug!(key = ?kv.key, "ignoring a key at etcd that does not belong to this cluster");
            return;
        };
        if self.living.len() >= MAX_KEYS as usize {
            return;
        }
        let life = (member.id, member.incarnation);
        self.living.insert(kv.key.to_vec(), life);
        self.doubted.remove(&life.0);
        self.board.told(vec![member.clone()]);
        self.board.vouch([life]);
        self.reminded.remove(kv.key.as_ref());
        if let Some(reminder) = self.board.reminder(&member) {
            self.reminded.insert(kv.key.to_vec(), (member.address, reminder));
            self.remind();
        }
    }

    /// Tells those directly who have forgotten what they said before; they write another key then.
    fn remind(&self) {
        for (address, reminder) in self.reminded.values() {
            self.prober.remind(address.clone(), reminder.clone());
        }
    }

    /// A key is gone: its lease ran out, or was given back. Its member is asked before it is called silent.
    fn miss(&mut self, kv: &KeyValue) {
        self.reminded.remove(kv.key.as_ref());
        if let Some((id, incarnation)) = self.living.remove(kv.key.as_ref()) {
            self.doubted.insert(id, incarnation);
            self.ask_doubted();
        }
    }

    /// Asks those who have no key any more whether they live. That others may see them otherwise costs a fetch too many.
    fn ask_doubted(&mut self) {
        let members = self.board.members().borrow().clone();
        self.doubted.retain(|id, _| members.get(*id).is_some());
        for (id, incarnation) in self.doubted.clone() {
            let Some(seen) = members.get(id) else { continue };
            let board = Arc::clone(&self.board);
            self.prober.ask_one(id, seen.member.address.clone(), move || board.miss(id, incarnation));
        }
    }

    fn key(&self, id: NodeId) -> String {
        format!("{}{id}", self.prefix)
    }
}

async fn within<T>(call: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, String> {
    let answer = tokio::time::timeout(DEADLINE, call).await.map_err(|_| "etcd does not answer".to_owned())?;
    answer.map(tonic::Response::into_inner).map_err(said)
}

fn said(status: Status) -> String {
    status.message().to_owned()
}

/// The first key behind all that begin with a prefix.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}
