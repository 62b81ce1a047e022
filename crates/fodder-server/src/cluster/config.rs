//! What a user may say about the cluster a node is in, checked and turned into a membership.

#[cfg(test)]
mod tests;

use super::{
    membership::{
        Identity, Joined, Member, Patience, Seal, Seed, State, Terms, VERSIONS, check_address, check_zone,
        etcd::{self, Etcd, EtcdConfig},
        fixed::Fixed,
        gossip::{self, Gossip},
    },
    tls::{Tls, TlsConfig},
    token::Token,
    trust::Trust,
};
use fodder_core::{Error, Result};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The cluster a node is in. Without anything in `join` it is in none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterConfig {
    /// Where to look for other nodes: hosts, with or without a port, names with many addresses, lists as Slurm writes them.
    pub join: Vec<String>,
    /// How nodes know of each other.
    pub membership: Way,
    /// Where others reach this node's gRPC: host:port. None: where it listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// Where the node stands; members of one zone are near each other.
    pub zone: String,
    /// How many nodes keep each range of bytes.
    pub replicas: u32,
    /// How often a node tells others that it lives.
    #[serde(with = "crate::node::human_duration")]
    pub heartbeat: Duration,
    /// How long a node may be silent before the others go on without it.
    #[serde(with = "crate::node::human_duration")]
    pub unreachable_after: Duration,
    /// How long another node may take to say a first word when it is asked for bytes; then the origin is asked.
    #[serde(with = "crate::node::human_duration")]
    pub patience: Duration,
    /// Where it gossips. None: port 18282 where its gRPC listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gossip: Option<SocketAddr>,
    /// What the keys of members at etcd begin with.
    pub etcd_prefix: String,
    /// How etcd is reached.
    #[serde(skip_serializing_if = "is_default")]
    pub etcd: EtcdConfig,
    /// The file with the word that all nodes of the cluster share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The node's certificate, and who vouches for those of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsConfig>,
}

/// How nodes know of each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Each asks each, beginning with a list of addresses.
    #[default]
    Fixed,
    /// Each tells a few others what it heard.
    Gossip,
    /// Each keeps a lease at etcd, whose addresses are then those in `join`.
    Etcd,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            join: Vec::new(),
            membership: Way::default(),
            advertise: None,
            zone: String::new(),
            replicas: 1,
            heartbeat: Duration::from_secs(1),
            unreachable_after: Duration::from_secs(5),
            patience: super::Patience::default().first_word,
            gossip: None,
            etcd_prefix: "/fodder/members/".into(),
            etcd: EtcdConfig::default(),
            token_file: None,
            tls: None,
        }
    }
}

fn is_default(config: &EtcdConfig) -> bool {
    *config == EtcdConfig::default()
}

/// The most nodes that may keep the same bytes.
const MAX_REPLICAS: u32 = 16;

/// How many names are looked up at a time.
const LOOK_UPS: usize = 16;

/// Any machine is that slow at times.
const MIN_PATIENCE: Duration = Duration::from_millis(100);

/// The shortest time between two heartbeats.
const MIN_HEARTBEAT: Duration = Duration::from_millis(20);

/// So many heartbeats are lost before anybody is called silent.
const HEARTBEATS_LOST: u32 = 3;

impl ClusterConfig {
    /// Whether the node is in a cluster at all.
    pub fn is_in_use(&self) -> bool {
        !self.join.is_empty()
    }

    /// Whether something is set about how nodes find each other, of a node that looks for none.
    pub fn is_in_vain(&self) -> bool {
        !self.is_in_use() && (self.membership != Way::default() || self.advertise.is_some())
    }

    /// Whether it is said where to gossip, of a node that knows of others in another way.
    pub fn gossips_in_vain(&self) -> bool {
        self.gossip.is_some() && self.membership != Way::Gossip
    }

    /// Says in a sentence what is wrong, if something is.
    pub fn check(&self) -> Result<()> {
        self.seeds()?;
        let wrong =
            |setting: &str, why: super::membership::Refused| Error::Invalid(format!("cluster.{setting}: {why}"));
        check_zone(&self.zone).map_err(|why| wrong("zone (--zone)", why))?;
        if let Some(address) = &self.advertise {
            check_address(address).map_err(|why| wrong("advertise (--advertise)", why))?;
            check_reachable(address)?;
        }
        if self.etcd_prefix.is_empty() {
            return Err(Error::Invalid(
                "cluster.etcd_prefix must not be empty: all keys of etcd would be taken for members".into(),
            ));
        }
        if self.heartbeat < MIN_HEARTBEAT || self.unreachable_after < self.heartbeat * HEARTBEATS_LOST {
            return Err(Error::Invalid(format!(
                "cluster.heartbeat must be at least {MIN_HEARTBEAT:?}, and cluster.unreachable_after at least {HEARTBEATS_LOST} \
                 times as long, but they are {:?} and {:?}",
                self.heartbeat, self.unreachable_after
            )));
        }
        self.etcd.check()?;
        if self.tls.is_some() && self.token_file.is_none() {
            self.check_without_token()?;
        }
        if self.patience < MIN_PATIENCE {
            let text = "cluster.patience must be at least 100ms: with less, slow nodes are taken for dead ones";
            return Err(Error::Invalid(text.into()));
        }
        if !(1..=MAX_REPLICAS).contains(&self.replicas) {
            return Err(Error::Invalid(format!(
                "cluster.replicas (--replicas) must be from 1 to {MAX_REPLICAS}, not {}",
                self.replicas
            )));
        }
        Ok(())
    }

    /// Certificates do not cover every way in which nodes hear of others.
    fn check_without_token(&self) -> Result<()> {
        match self.membership {
            Way::Gossip => Err(Error::Invalid(
                "gossip uses UDP, which certificates do not protect: give all nodes a token_file (--token-file) in addition to \
                 their certificates, or use the membership `fixed` or `etcd`"
                    .into(),
            )),
            Way::Etcd if !self.etcd.is_guarded() => Err(Error::Invalid(
                "anyone who can write to etcd could add false members: use TLS with a certificate or a user for etcd \
                 (cluster.etcd), or give all nodes a token_file (--token-file) in addition to their certificates"
                    .into(),
            )),
            Way::Etcd | Way::Fixed => Ok(()),
        }
    }

    /// What etcd's addresses say about how it is reached must be so.
    fn etcd_address<'a>(&self, text: &'a str) -> Result<&'a str> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        match (scheme, self.etcd.ca.is_some()) {
            ("", _) | ("https", true) | ("http", false) => Ok(rest.trim_end_matches('/')),
            ("https", false) => Err(Error::Invalid(format!(
                "{text:?} uses TLS: give the authority of the certificate of etcd in cluster.etcd.ca (--etcd-ca)"
            ))),
            ("http", true) => Err(Error::Invalid(format!(
                "cluster.etcd.ca (--etcd-ca) is given, so etcd uses TLS: write https:// in {text:?}, or leave out http://"
            ))),
            _ => Err(Error::Invalid(format!(
                "{text:?} is not the address of etcd: write HOST:PORT or https://HOST:PORT"
            ))),
        }
    }

    /// Everybody to look for.
    fn seeds(&self) -> Result<Vec<Seed>> {
        let port = match self.membership {
            Way::Fixed => None,
            Way::Gossip => Some(gossip::PORT),
            Way::Etcd => Some(etcd::PORT),
        };
        let mut seeds = Vec::new();
        for text in &self.join {
            let text = match self.membership {
                Way::Etcd => {
                    let parts: Result<Vec<_>> = text.split(',').map(|part| self.etcd_address(part.trim())).collect();
                    parts?.join(",")
                }
                Way::Fixed | Way::Gossip => text.clone(),
            };
            seeds.extend(
                Seed::parse(&text, port).map_err(|why| Error::Invalid(format!("cluster.join (--join): {why}")))?,
            );
        }
        Ok(seeds)
    }

    /// The text of the token, if there is one.
    pub fn token(&self) -> Result<Option<String>> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(|error| Error::io("read the token file", path, &error))?;
        if text.trim().is_empty() {
            return Err(Error::Invalid(format!("the token file {} is empty", path.display())));
        }
        Ok(Some(text))
    }

    /// What other nodes must show and prove.
    pub fn trust(&self) -> Result<Trust> {
        let token = self.token()?.map(|text| Token::new(&text)).transpose()?;
        let tls = self.tls.as_ref().map(Tls::read).transpose()?;
        Ok(Trust { token, tls })
    }

    /// Joins the cluster, in the next life of the node whose cache directory this is; `joining`, until it says otherwise.
    pub async fn join(
        &self,
        cache_dir: &Path,
        grpc: SocketAddr,
        capacity_bytes: u64,
        tls: Option<&Arc<Tls>>,
    ) -> Result<Joined> {
        let seeds = self.seeds()?;
        let token = self.token()?;
        if token.is_none() && tls.is_none() {
            tracing::warn!(
                "the cluster has neither TLS nor a token, so anyone who can reach this node may join: give all nodes certificates \
                 (--cluster-cert) or a token (--token-file)"
            );
        }
        let address = match &self.advertise {
            Some(address) => address.clone(),
            None => advertised(grpc, &seeds, self.membership).await?,
        };
        let dir = cache_dir.to_owned();
        let identity = tokio::task::spawn_blocking(move || Identity::next(&dir)).await;
        let Identity { id, incarnation } =
            identity.map_err(|error| Error::Internal(format!("cannot read the identity: {error}")))??;
        let me = Member {
            id,
            incarnation,
            revision: 0,
            address,
            zone: self.zone.clone(),
            capacity_bytes,
            versions: VERSIONS,
            state: State::Joining,
            rest: Vec::new(),
        };
        let dial = tls.map_or_else(|| Terms::default().dial, Tls::dial);
        let terms = Terms {
            patience: Patience { unreachable_after: self.unreachable_after, ..Patience::default() },
            interval: self.heartbeat,
            seal: Seal::new(token.as_deref().unwrap_or_default()),
            dial,
            ..Terms::default()
        };
        Ok(match self.membership {
            Way::Fixed => Fixed::start(me, seeds, terms),
            Way::Etcd => {
                self.etcd.try_files()?;
                if self.etcd.user.is_some() && self.etcd.ca.is_none() {
                    tracing::warn!("the password for etcd is sent in plain text: use TLS (--etcd-ca)");
                }
                Etcd::start(me, seeds, &self.etcd_prefix, self.etcd.clone(), terms)
            }
            Way::Gossip => {
                let listen = self.gossip.unwrap_or(SocketAddr::new(grpc.ip(), gossip::PORT));
                Gossip::start(me, seeds, listen, terms).await?
            }
        })
    }
}

/// Whether an address stands for one machine: all of a machine's addresses together are to others their own machine.
fn check_reachable(address: &str) -> Result<()> {
    match address.parse::<SocketAddr>() {
        Ok(any) if any.ip().to_canonical().is_unspecified() => Err(Error::Invalid(format!(
            "other nodes cannot reach this one at {address}, because they would connect to themselves: give --advertise the \
             address or the name of this machine, or leave it out to have an address found"
        ))),
        _ => Ok(()),
    }
}

/// Where others reach a node that listens at an address.
async fn advertised(grpc: SocketAddr, seeds: &[Seed], way: Way) -> Result<String> {
    let is_all_here = seeds.iter().all(Seed::is_here);
    if grpc.ip().is_loopback() && !is_all_here {
        return Err(Error::Invalid(format!(
            "the node listens at {grpc}, which other machines cannot reach: give --grpc 0.0.0.0:{}, or --advertise HOST:PORT \
             if a proxy forwards their connections",
            grpc.port()
        )));
    }
    if !grpc.ip().is_unspecified() {
        return Ok(grpc.to_string());
    }
    // Many a machine calls itself by a loopback address, which is to others their own machine; and that etcd is here says
    // nothing about where the nodes are.
    let are_nodes_here = is_all_here && way != Way::Etcd;
    let is_heard_at = |ip: &IpAddr| grpc.is_ipv6() || ip.is_ipv4();
    let mut routes = stream::iter(seeds).map(routes_to).buffered(LOOK_UPS);
    while let Some(routes) = routes.next().await {
        let ip = routes.into_iter().filter(is_heard_at).find(|ip| are_nodes_here || !ip.is_loopback());
        if let Some(ip) = ip {
            return Ok(SocketAddr::new(ip, grpc.port()).to_string());
        }
    }
    Err(Error::Invalid(
        "cannot find the address at which other nodes reach this one, because none of those in --join is on another machine: \
         give --advertise HOST:PORT"
            .into(),
    ))
}

/// The addresses from which this machine would talk to another. Nothing is sent.
async fn routes_to(seed: &Seed) -> Vec<IpAddr> {
    let route_to = |target: SocketAddr| async move {
        let any: SocketAddr = if target.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = tokio::net::UdpSocket::bind(any).await.ok()?;
        socket.connect(target).await.ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    };
    let targets = seed.addresses().await.unwrap_or_default();
    stream::iter(targets).filter_map(route_to).collect().await
}
