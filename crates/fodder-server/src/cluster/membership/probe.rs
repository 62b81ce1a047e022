//! Asking other members who they are and whether they live: one small gRPC call with a deadline.

use super::{
    Member, NodeId, Seal, Seed,
    board::Board,
    search::{Cause, Fault},
    seed::{Found, Places},
    word::{OTHERS_TOLD, opened, sealed},
};
use fodder_api::v1::cluster_client::ClusterClient;
use fodder_core::{Error, Result};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::task::TaskTracker;
use tonic::transport::{Channel, Endpoint};

/// How another node's gRPC is connected to; it connects at its first use.
pub type Dial = Arc<dyn Fn(&str) -> Result<Channel> + Send + Sync>;

/// How long a member may take to answer.
const DEADLINE: Duration = Duration::from_secs(2);

/// The largest answer.
const MAX_BYTES: usize = 64 << 10;

/// Connects without TLS.
pub fn plain(address: &str) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| Error::Invalid(format!("{address:?} is not an address: {error}")))?;
    Ok(endpoint.connect_timeout(DEADLINE).tcp_nodelay(true).connect_lazy())
}

/// One address that is asked again and again.
struct Line {
    client: ClusterClient<Channel>,
    /// Who answered there last.
    who: Option<NodeId>,
    under_way: bool,
}

/// Asks members, one call at a time for each address.
pub(super) struct Prober {
    board: Arc<Board>,
    seal: Seal,
    dial: Dial,
    lines: Mutex<BTreeMap<String, Line>>,
    /// Why nobody answered last at an address.
    faults: Mutex<BTreeMap<String, Fault>>,
}

impl Prober {
    pub(super) fn new(board: Arc<Board>, seal: Seal, dial: Dial) -> Arc<Self> {
        Arc::new(Self { board, seal, dial, lines: Mutex::default(), faults: Mutex::default() })
    }

    /// Asks everybody at these addresses and everybody known, without waiting for the answers.
    pub(super) fn ask_all(self: &Arc<Self>, seeds: &BTreeSet<String>, tasks: &TaskTracker) {
        for address in self.addresses(seeds) {
            let Some(client) = self.begin(&address) else { continue };
            let prober = Arc::clone(self);
            tasks.spawn(async move {
                prober.ask(&address, client, None).await;
            });
        }
    }

    /// Tells the member at an address what is known of it, since it has forgotten that.
    pub(super) fn remind(self: &Arc<Self>, address: String, reminder: Member) {
        let Some(client) = self.begin(&address) else { return };
        let prober = Arc::clone(self);
        tokio::spawn(async move {
            prober.ask(&address, client, Some(reminder)).await;
        });
    }

    /// Asks the member at an address whether it lives; `silent` is done if it does not answer.
    pub(super) fn ask_one(self: &Arc<Self>, id: NodeId, address: String, silent: impl FnOnce() + Send + 'static) {
        let Some(client) = self.begin(&address) else { return };
        let prober = Arc::clone(self);
        tokio::spawn(async move {
            if prober.ask(&address, client, None).await != Some(id) {
                silent();
            }
        });
    }

    /// Tells everybody known, and waits until they have answered or are late.
    pub(super) async fn tell_all(&self, within: Duration) {
        let known = self.addresses(&BTreeSet::new());
        let calls = known.iter().filter_map(|address| {
            let client = self.begin(address)?;
            Some(self.ask(address, client, None))
        });
        let _ = tokio::time::timeout(within, futures::future::join_all(calls)).await;
    }

    /// Whom to ask: the known where they say they are, and addresses where somebody else may be.
    fn addresses(&self, seeds: &BTreeSet<String>) -> BTreeSet<String> {
        let members = self.board.members().borrow().clone();
        let mut addresses: BTreeSet<_> = members.others().map(|seen| seen.member.address.clone()).collect();
        let mut lines = self.lines.lock();
        lines.retain(|address, line| line.under_way || seeds.contains(address) || addresses.contains(address));
        let answers_elsewhere = |address: &String| {
            let who = lines.get(address).and_then(|line| line.who);
            who.and_then(|id| members.get(id)).is_some_and(|seen| !seen.unreachable)
        };
        addresses.extend(seeds.iter().filter(|address| !answers_elsewhere(address)).cloned());
        addresses.remove(&members.me().address);
        self.faults.lock().retain(|address, _| addresses.contains(address));
        addresses
    }

    /// The seeds at which nobody is found, neither another node nor this one, and why.
    pub(super) fn lacking(&self, places: &Places) -> BTreeMap<Seed, Fault> {
        let members = self.board.members().borrow().clone();
        let (lines, faults) = (self.lines.lock(), self.faults.lock());
        let known: BTreeSet<_> = members.all().iter().map(|seen| seen.member.address.as_str()).collect();
        let own_port = members.me().address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let fault = |(seed, addresses): (&Seed, &Found)| {
            let found = match addresses {
                Err(why) => return Some((seed.clone(), Fault::new(Cause::Name, why))),
                Ok(found) => found,
            };
            let texts: Vec<_> = found.iter().map(SocketAddr::to_string).collect();
            let answers = |address: &String| lines.get(address).is_some_and(|line| line.who.is_some());
            let is_found = texts.iter().any(|address| known.contains(address.as_str()) || answers(address))
                || known.contains(seed.to_string().as_str())
                || own_port.is_some_and(|port| seed.may_name(found, port));
            let fault = texts.iter().find_map(|address| faults.get(address)).filter(|_| !is_found)?;
            Some((seed.clone(), fault.clone()))
        };
        places.0.iter().filter_map(fault).collect()
    }

    /// The client of an address where no call is under way.
    fn begin(&self, address: &str) -> Option<ClusterClient<Channel>> {
        let mut lines = self.lines.lock();
        if !lines.contains_key(address) {
            let channel = (self.dial)(address)
                .inspect_err(|error| tracing::warn!(address, %error, "cannot poll a member"))
                .ok()?;
            let client = ClusterClient::new(channel).max_decoding_message_size(MAX_BYTES);
            lines.insert(address.to_owned(), Line { client, who: None, under_way: false });
        }
        let line = lines.get_mut(address)?;
        (!std::mem::replace(&mut line.under_way, true)).then(|| line.client.clone())
    }

    /// Asks, and says who answered.
    async fn ask(&self, address: &str, mut client: ClusterClient<Channel>, reminder: Option<Member>) -> Option<NodeId> {
        let asked = Instant::now();
        let words = self.board.tell(OTHERS_TOLD).into_iter().chain(reminder).collect();
        let message = sealed(words, &self.seal);
        let answer = tokio::time::timeout(DEADLINE, client.hello(message)).await;
        let words = match answer {
            Ok(Ok(answer)) => {
                opened(answer.get_ref(), &self.seal).map_err(|error| Fault::new(Cause::Refusal, error.to_string()))
            }
            Ok(Err(status)) => Err(Fault::of_call(&status)),
            Err(_) => Err(Fault::new(Cause::Silence, format!("no answer within {} s", DEADLINE.as_secs()))),
        };
        match words {
            Ok(words) => {
                let who = words.first().map(|member: &Member| member.id);
                if let Some(line) = self.lines.lock().get_mut(address) {
                    line.under_way = false;
                    line.who = who;
                }
                self.faults.lock().remove(address);
                self.board.answered(words, asked.elapsed());
                who
            }
            Err(fault) => {
                // The next call gets a new connection: one whose link was cut for long wakes up long after it is healed.
                self.lines.lock().remove(address);
                tracing::debug!(address, why = fault.why, "a member did not answer");
                self.faults.lock().insert(address.to_owned(), fault);
                None
            }
        }
    }
}

impl std::fmt::Debug for Prober {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prober").field("board", &self.board).finish_non_exhaustive()
    }
}
