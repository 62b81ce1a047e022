//! Hosts on one machine: network namespaces on one bridge, with links that can be cut in one direction, cut off, or slowed
//! down. Gone when dropped. Needs root and `ip`.
//!
//! A cut link loses what is sent and says nothing, as a broken switch does: the sender's table of neighbours is given an
//! address that no interface has.

use fodder_testing::skip;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::{
    collections::BTreeSet,
    fs::File,
    io::Write,
    net::Ipv4Addr,
    os::fd::AsFd,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
};

/// A host: nodes are 0, 1, 2 …
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    Node(usize),
    /// Where the origin is.
    Origin,
    /// Where etcd is, on the machine of the origin, with an address of its own. Only the way to it can be cut.
    Etcd,
}

impl Host {
    pub(crate) fn ip(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, self.number())
    }

    fn number(self) -> u8 {
        match self {
            Self::Node(n) => n as u8 + 1,
            Self::Origin => 100,
            Self::Etcd => 101,
        }
    }

    /// The address of its interface.
    fn link(self) -> String {
        match self {
            // The same machine.
            Self::Etcd => Self::Origin.link(),
            _ => format!("02:77:00:00:00:{:02x}", self.number()),
        }
    }
}

/// Where what is sent over a cut link goes.
const NOWHERE: &str = "02:77:00:00:00:ff";

/// From whom to whom nothing goes.
pub(crate) type Cuts = BTreeSet<(Host, Host)>;

/// A network of so many nodes, and a hub with everything else.
#[derive(Debug)]
pub(crate) struct Network {
    prefix: String,
    nodes: usize,
    cuts: Cuts,
    slow: BTreeSet<usize>,
}

/// Whether namespaces can be made here; if not, the test is reported as skipped.
pub(crate) fn can_cut_links() -> bool {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let probe = format!("fodder-probe-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let why = if !rustix::process::geteuid().is_root() {
        "network namespaces need root".to_owned()
    } else {
        let made = ip(&["netns", "add", &probe], "")
            .and_then(|()| ip(&["-n", &probe, "link", "add", "hub", "type", "bridge"], ""));
        let _ = ip(&["netns", "delete", &probe], "");
        match made {
            Ok(()) => return true,
            Err(error) => error,
        }
    };
    skip!("{why}");
}

impl Network {
    pub(crate) fn new(nodes: usize) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        sweep();
        let prefix = format!("fodder-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let network = Self { prefix, nodes, cuts: Cuts::new(), slow: BTreeSet::new() };
        let hub = network.space(Host::Origin);
        ip(&["netns", "add", &hub], "").unwrap();
        let lines = format!(
            "link set lo up\nlink add hub address {} type bridge\nlink set hub up\naddress add {}/24 dev hub\n\
             address add {}/24 dev hub\n",
            Host::Origin.link(),
            Host::Origin.ip(),
            Host::Etcd.ip()
        );
        ip(&["-n", &hub, "-batch", "-"], &lines).unwrap();
        for host in network.hosts() {
            let space = network.space(host);
            ip(&["netns", "add", &space], "").unwrap();
            let (port, link) = (format!("port{}", host.number()), host.link());
            let lines = format!(
                "link set lo up\nlink add eth0 address {link} type veth peer name {port} netns {hub}\n\
                 address add {}/24 dev eth0\nlink set eth0 up\n",
                host.ip()
            );
            ip(&["-n", &space, "-batch", "-"], &lines).unwrap();
            ip(&["-n", &hub, "-batch", "-"], &format!("link set {port} master hub\nlink set {port} up\n")).unwrap();
        }
        // Nobody asks who is where, so that cutting a link is a matter of one table.
        let all: Vec<_> = network.hosts().chain([Host::Origin, Host::Etcd]).collect();
        for from in network.hosts().chain([Host::Origin]) {
            let others = all.iter().filter(|to| to.link() != from.link());
            network.tell_neighbours(from, others.map(|to| (*to, to.link())));
        }
        network
    }

    fn hosts(&self) -> impl Iterator<Item = Host> + use<> {
        (0..self.nodes).map(Host::Node)
    }

    /// The name of a host's namespace.
    fn space(&self, host: Host) -> String {
        match host {
            Host::Node(n) => format!("{}-{n}", self.prefix),
            Host::Origin | Host::Etcd => format!("{}-hub", self.prefix),
        }
    }

    /// Does something on a host: sockets made and processes started there are there.
    pub(crate) fn on<T: Send>(&self, host: Host, act: impl FnOnce() -> T + Send) -> T {
        let space = File::open(Path::new("/run/netns").join(self.space(host))).unwrap();
        let done = thread::scope(|scope| {
            let inside = scope.spawn(move || {
                move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                act()
            });
            inside.join()
        });
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// From now on exactly these links are cut.
    pub(crate) fn cut(&mut self, cuts: Cuts) {
        assert!(cuts.iter().all(|(from, _)| matches!(from, Host::Node(_))), "what the hub sends is for all");
        let healed: Vec<_> = self.cuts.difference(&cuts).map(|(from, to)| (*from, *to, to.link())).collect();
        let cut = cuts.difference(&self.cuts).map(|(from, to)| (*from, *to, NOWHERE.to_owned()));
        let changes: Vec<_> = cut.chain(healed).collect();
        let senders: BTreeSet<_> = changes.iter().map(|(from, ..)| *from).collect();
        for sender in senders {
            let of = changes.iter().filter(|(from, ..)| *from == sender);
            self.tell_neighbours(sender, of.map(|(_, to, link)| (*to, link.clone())));
        }
        self.cuts = cuts;
    }

    /// The links between these and those, in both directions.
    pub(crate) fn between(one: &[Host], other: &[Host]) -> Cuts {
        let pairs = one.iter().flat_map(|a| other.iter().flat_map(move |b| [(*a, *b), (*b, *a)]));
        pairs.filter(|(from, to)| from != to).collect()
    }

    /// From now on these nodes send slowly, and lose what they send too fast. False, if the kernel cannot do that.
    pub(crate) fn slow(&mut self, slow: BTreeSet<usize>) -> bool {
        let tc = |n: usize, how: &[&str]| {
            let mut command = Command::new("tc");
            command.args(["-n", &self.space(Host::Node(n)), "qdisc"]).args(how).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let rate = ["replace", "dev", "eth0", "root", "tbf", "rate", "16mbit", "burst", "16kb", "latency", "200ms"];
        let slowed = slow.difference(&self.slow).all(|n| tc(*n, &rate));
        let healed = self.slow.difference(&slow).all(|n| tc(*n, &["delete", "dev", "eth0", "root"]));
        self.slow = slow;
        slowed && healed
    }

    fn tell_neighbours(&self, from: Host, to: impl Iterator<Item = (Host, String)>) {
        let device = if matches!(from, Host::Node(_)) { "eth0" } else { "hub" };
        let line = |(to, link): (Host, String)| {
            format!("neighbour replace {} lladdr {link} dev {device} nud permanent\n", to.ip())
        };
        let lines: String = to.map(line).collect();
        ip(&["-n", &self.space(from), "-batch", "-"], &lines).unwrap();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in self.hosts().chain([Host::Origin]) {
            let _ = ip(&["netns", "delete", &self.space(host)], "");
        }
    }
}

/// Removes what a test that was killed has left.
fn sweep() {
    let Ok(names) = std::fs::read_dir("/run/netns") else { return };
    for name in names.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let pid = name.strip_prefix("fodder-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = ip(&["netns", "delete", &name], "");
        }
    }
}

/// Runs `ip` with some lines at its standard input.
fn ip(arguments: &[&str], lines: &str) -> Result<(), String> {
    let mut command = Command::new("ip");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot run ip: {error}"))?;
    child.stdin.take().unwrap().write_all(lines.as_bytes()).map_err(|error| error.to_string())?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("ip {}: {}", arguments.join(" "), said.trim()))
}
