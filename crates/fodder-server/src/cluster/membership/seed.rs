//! Where to look for other members, as people write it: `host:port`, a host alone, a name that stands for many addresses,
//! or a list of hosts as Slurm writes them, such as `gpu[01-04,07]`.

use futures::{StreamExt, future::BoxFuture, stream};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;

/// The port of a node's gRPC where none is given.
const PORT: u16 = 18284;

/// The most hosts that one list may stand for.
const MAX_HOSTS: usize = 4096;

/// How long a name may take to be looked up before that is told.
const DEADLINE: Duration = Duration::from_secs(3);

/// How many names are looked up at a time: each takes a thread, for as long as the resolver likes.
const LOOK_UPS: usize = 16;

/// How soon names are looked up anew.
const AGAIN: Duration = Duration::from_secs(10);

/// How long whoever begins waits for the first of them. Addresses need not be looked up, and are there at once.
pub(super) const FIRST: Duration = Duration::from_millis(100);

/// A host and a port to look for members at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seed {
    host: String,
    port: u16,
}

impl Seed {
    /// All that a text stands for; or, in a sentence, why it stands for nothing. `port` is meant where none is written.
    pub fn parse(text: &str, port: Option<u16>) -> Result<Vec<Self>, String> {
        let port = port.unwrap_or(PORT);
        let mut seeds = Vec::new();
        for part in split(text)? {
            let part = part.trim();
            if part.is_empty() {
                return Err(format!("{text:?} has an empty entry: write HOST or HOST:PORT, separated by commas"));
            }
            let (hosts, port) = with_port(part, port)?;
            for host in expand(hosts)? {
                check_host(&host)?;
                seeds.push(Self { host, port });
            }
            if seeds.len() > MAX_HOSTS {
                return Err(format!("{text:?} stands for more than {MAX_HOSTS} hosts"));
            }
        }
        Ok(seeds)
    }

    /// Whether it is the name of the machine of a node that listens at this port, as far as names tell: many a machine calls
    /// itself by a loopback address, where the node need not listen.
    pub(super) fn may_name(&self, addresses: &BTreeSet<SocketAddr>, port: u16) -> bool {
        let is_name = self.host.parse::<IpAddr>().is_err() && self.host != "localhost";
        is_name && self.port == port && addresses.iter().all(|address| address.ip().is_loopback())
    }

    /// Whether it is this machine, whatever it is called.
    pub fn is_here(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    }

    /// All addresses that it stands for now; or why there are none, within a short time.
    pub(crate) async fn addresses(&self) -> Found {
        tokio::time::timeout(DEADLINE, resolve(self)).await.unwrap_or_else(|_| Err(late()))
    }
}

/// The addresses of a seed, or why it has none.
pub type Found = Result<BTreeSet<SocketAddr>, String>;

/// How the addresses of a seed are found.
pub type LookUp = Arc<dyn Fn(&Seed) -> BoxFuture<'static, Found> + Send + Sync>;

/// Asks the machine's resolver, as long as that takes.
pub(super) fn resolve(seed: &Seed) -> BoxFuture<'static, Found> {
    let Seed { host, port } = seed.clone();
    Box::pin(async move {
        let found = tokio::net::lookup_host((host.as_str(), port)).await;
        found.map(Iterator::collect).map_err(|error| error.to_string())
    })
}

fn late() -> String {
    format!("not looked up within {} s", DEADLINE.as_secs())
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Splits at commas that stand outside of brackets.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0u32);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1).ok_or_else(|| format!("unmatched ] in {text:?}"))?,
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(format!("unmatched [ in {text:?}"));
    }
    parts.push(&text[begin..]);
    Ok(parts)
}

/// A part's hosts and its port.
fn with_port(part: &str, port: u16) -> Result<(&str, u16), String> {
    // An IPv6 address without brackets has no port.
    if part.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok((part, port));
    }
    match part.rsplit_once(':') {
        Some((hosts, digits)) if !digits.contains(']') => match digits.parse() {
            Ok(port) if port > 0 => Ok((hosts, port)),
            _ => Err(format!("{digits:?} in {part:?} is not a port between 1 and 65535")),
        },
        _ => Ok((part, port)),
    }
}

/// The hosts that a name with lists in brackets stands for, in the order written, as `scontrol show hostnames` has them.
fn expand(hosts: &str) -> Result<Vec<String>, String> {
    if let Some(address) = hosts.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
        && address.contains(':')
    {
        return Ok(vec![address.to_owned()]);
    }
    let Some((before, rest)) = hosts.split_once('[') else { return Ok(vec![hosts.to_owned()]) };
    let (list, after) = rest.split_once(']').ok_or_else(|| format!("unmatched [ in {hosts:?}"))?;
    let tails = expand(after)?;
    let mut all = Vec::new();
    for item in list.split(',') {
        for number in numbers(item).ok_or_else(|| wrong_list(hosts, item))? {
            all.extend(tails.iter().map(|tail| format!("{before}{number}{tail}")));
            if all.len() > MAX_HOSTS {
                return Err(format!("{hosts:?} stands for more than {MAX_HOSTS} hosts"));
            }
        }
    }
    Ok(all)
}

fn wrong_list(hosts: &str, item: &str) -> String {
    format!("{item:?} in {hosts:?} is neither a number nor a range of them: write a list such as gpu[01-04,07]")
}

/// A number or a range of them, as wide as the first is written.
fn numbers(item: &str) -> Option<impl Iterator<Item = String>> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.len() <= 9 && text.bytes().all(|c| c.is_ascii_digit());
        digits.then(|| text.parse::<u32>().ok()).flatten()
    };
    let (first, last) = item.split_once('-').unwrap_or((item, item));
    let (width, first, last) = (first.len(), number(first)?, number(last)?);
    (first <= last).then(|| (first..=last).map(move |number| format!("{number:0width$}")))
}

fn check_host(host: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let named = !host.is_empty() && host.len() <= 253 && host.chars().all(good);
    match named || host.parse::<std::net::Ipv6Addr>().is_ok() {
        true => Ok(()),
        false => Err(format!("{host:?} is not a host: write HOST, HOST:PORT, or a Slurm list such as gpu[01-04,07]")),
    }
}

/// What seeds stand for, as of when they were last looked up: of each its addresses, or why it has none.
#[derive(Debug, Default)]
pub(super) struct Places(pub(super) BTreeMap<Seed, Found>);

impl Places {
    /// Looks all of them up, again and again, until nobody wants to know any more. In a task of its own: a resolver may take
    /// long, and whoever waited for it would be deaf to the others.
    pub(super) fn follow(seeds: Vec<Seed>, look_up: LookUp) -> watch::Receiver<Self> {
        let (sender, receiver) = watch::channel(Self::default());
        tokio::spawn(async move {
            let for_ever = async {
                loop {
                    let one = |seed| Self::look_up(seed, &look_up, &sender);
                    stream::iter(&seeds).for_each_concurrent(LOOK_UPS, one).await;
                    tokio::time::sleep(AGAIN).await;
                }
            };
            tokio::select! {
                () = for_ever => {}
                () = sender.closed() => {}
            }
        });
        receiver
    }

    /// Looks one up. That it takes long is told; it is waited for all the same, since the resolver would not stop.
    async fn look_up(seed: &Seed, look_up: &LookUp, places: &watch::Sender<Self>) {
        let learn = |found| places.send_if_modified(|places| places.learn(seed, found));
        let mut found = look_up(seed);
        match tokio::time::timeout(DEADLINE, &mut found).await {
            Ok(found) => drop(learn(found)),
            Err(_) => {
                learn(Err(late()));
                learn(found.await);
            }
        }
    }

    /// Takes in what was found; says whether that is new. A name that cannot be looked up stands for what it stood for before.
    fn learn(&mut self, seed: &Seed, found: Found) -> bool {
        let before = self.0.get(seed);
        let is_new = before != Some(&found) && !(found.is_err() && before.is_some_and(Result::is_ok));
        if is_new {
            self.0.insert(seed.clone(), found);
        }
        is_new
    }

    /// All addresses; one may be there several times.
    pub(super) fn all(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.values().flatten().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parsed(text: &str) -> Vec<String> {
        Seed::parse(text, None).unwrap().iter().map(Seed::to_string).collect()
    }

    #[test]
    fn hosts_are_written_with_or_without_a_port() {
        assert_eq!(parsed("a"), ["a:18284"]);
        assert_eq!(parsed("a:1, b.example.org ,10.0.0.1:2"), ["a:1", "b.example.org:18284", "10.0.0.1:2"]);
        assert_eq!(parsed("::1,[fe80::1]:7,[::2]"), ["[::1]:18284", "[fe80::1]:7", "[::2]:18284"]);
        assert_eq!(Seed::parse("a", Some(9)).unwrap()[0].to_string(), "a:9");
    }

    #[test]
    fn a_slurm_list_stands_for_its_hosts() {
        assert_eq!(parsed("gpu[01-04,07]:5"), ["gpu01:5", "gpu02:5", "gpu03:5", "gpu04:5", "gpu07:5"]);
        assert_eq!(parsed("gpu[8-11]"), ["gpu8:18284", "gpu9:18284", "gpu10:18284", "gpu11:18284"]);
        assert_eq!(parsed("gpu[098-101]x:1"), ["gpu098x:1", "gpu099x:1", "gpu100x:1", "gpu101x:1"]);
        assert_eq!(parsed("r[1-2]n[1,3]:1,login:1"), ["r1n1:1", "r1n3:1", "r2n1:1", "r2n3:1", "login:1"]);
    }

    #[test]
    fn what_stands_for_no_host_is_explained() {
        for (text, why) in [
            ("", "empty entry"),
            ("a,,b", "empty entry"),
            ("a:0", "not a port"),
            ("a:http", "not a port"),
            ("a b", "not a host"),
            ("http://a:1", "not a host"),
            ("gpu[1-", "unmatched ["),
            ("gpu1-3]", "unmatched ]"),
            ("gpu[3-1]", "neither a number nor a range"),
            ("gpu[a-b]", "neither a number nor a range"),
            ("gpu[]", "neither a number nor a range"),
            ("gpu[0-99999]", "more than 4096"),
            ("gpu[0-99][0-99]", "more than 4096"),
            ("gpu[0-9999999999]", "neither a number nor a range"),
        ] {
            let error = Seed::parse(text, None).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[tokio::test]
    async fn a_name_that_cannot_be_looked_up_leaves_what_was_known() {
        let seeds = Seed::parse("127.0.0.1:1,no-such-host.invalid:2", None).unwrap();
        let mut places = Places::follow(seeds.clone(), Arc::new(resolve));
        let places = places.wait_for(|places| places.0.len() == 2).await.unwrap();
        assert_eq!(places.all().collect::<Vec<_>>(), ["127.0.0.1:1".parse().unwrap()]);
        assert!(places.0[&seeds[1]].is_err());
        let (mut known, found) = (Places::default(), Ok(BTreeSet::from(["10.0.0.9:2".parse().unwrap()])));
        assert!(known.learn(&seeds[1], Err("so".into())) && known.learn(&seeds[1], found.clone()));
        assert!(!known.learn(&seeds[1], found.clone()) && !known.learn(&seeds[1], Err("so".into())));
        assert_eq!(known.0[&seeds[1]], found);
    }
}
