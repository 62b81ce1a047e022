//! The flags of `fodder serve`, and how sizes, tiers and layouts are written on a command line.

use clap::Args;
use fodder_core::{
    config::{Medium, Quota, TierConfig},
    layout::Layout,
    size,
};
use fodder_policy::Policy;
use fodder_server::cluster::Way;
use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

const HELP: &str = "\
Flags override the environment (FODDER_CACHE_DIR, FODDER_CACHE_SIZE, FODDER_REST, …), which overrides
the file given with --config, which overrides the defaults. `fodder config show` prints the result.

Examples:
  fodder serve ./data
  fodder serve s3://bucket/prefix --name imagenet --layout files --policy minio \\
      --cache-dir /mnt/nvme/fodder --cache-size 20GiB
  fodder serve s3://public-bucket/laion --anonymous --layout tar --cache-size 20%
  fodder serve gs://bucket/data --tier /dev/shm/fodder:MEM:8GiB --tier /mnt/nvme:SSD:1TiB
  fodder serve ./data --rest 127.0.0.1:0 --grpc 127.0.0.1:0     # free ports; they are printed
  fodder serve --config fodder.yaml
  fodder serve s3://bucket/data --grpc 0.0.0.0:18284 --join 'gpu[01-04]' --token-file /etc/fodder/token

The node prints its settings and addresses, one per line, then `ready`. SIGTERM or Ctrl-C ends it
cleanly; a second one ends it at once. Exit status 3: another node uses the cache directory.";

/// Run a node.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = HELP)]
pub struct ServeArgs {
    /// Where the data is: a URI (s3://, gs://, az://, http://, file://, throttled:…) or a local path. Without one,
    /// the node starts with the datasets of its configuration and those added earlier.
    pub origin: Option<String>,
    /// Name of the dataset. Default: the last path component of the origin.
    #[arg(long, requires = "origin")]
    pub name: Option<String>,
    /// How objects are divided into items: `files`, `blocks`, `blocks:16MiB`, `tar` or `tfrecord`. Default: files.
    #[arg(long, requires = "origin", value_parser = parse_layout)]
    pub layout: Option<Layout>,
    /// What to keep when the cache is full: `minio` (fill, then never evict), `lru`, `lfu`, `sieve`, `s3fifo`, `importance`,
    /// `semantic`, `quiver`, `pending`, `plan`, or `auto`, the best of them; see docs/POLICIES.md. Default: minio.
    #[arg(long, requires = "origin", value_parser = parse_policy)]
    pub policy: Option<Policy>,
    /// How often to check the origin for changes, such as `10m`. Default: only on `fodder index`.
    #[arg(long, requires = "origin", value_name = "DURATION", value_parser = parse_duration)]
    pub refresh: Option<Duration>,
    /// Read a public bucket without credentials.
    #[arg(long, requires = "origin")]
    pub anonymous: bool,
    /// How the origin is listed.
    #[command(flatten)]
    pub listing: super::listing::ListingArgs,

    /// The cache directory. Default: ~/.cache/fodder, for root /var/cache/fodder.
    #[arg(long, value_name = "DIR", env = "FODDER_CACHE_DIR", help_heading = "Cache")]
    pub cache_dir: Option<PathBuf>,
    /// Size of the cache on disk: `20GiB`, `500MB`, or `20%` of the dataset. Default: 80 % of the free disk.
    #[arg(long, value_name = "SIZE", env = "FODDER_CACHE_SIZE", help_heading = "Cache")]
    pub cache_size: Option<Quota>,
    /// Store cached data here instead of in the cache directory. May be repeated; tiers are used in the order MEM, SSD, HDD.
    #[arg(
        long = "tier",
        value_name = "PATH:MEDIUM:SIZE",
        env = "FODDER_TIERS",
        value_delimiter = ',',
        help_heading = "Cache"
    )]
    pub tiers: Vec<TierArg>,

    /// Record every read in this file, for `fodder sim --trace`.
    #[arg(long, value_name = "FILE", env = "FODDER_RECORD", help_heading = "Cache")]
    pub record: Option<PathBuf>,

    /// Address of REST and metrics; port 0 picks a free one. Default: 127.0.0.1:18283.
    #[arg(long, value_name = "ADDR", env = "FODDER_REST", value_parser = parse_socket_addr, help_heading = "Addresses")]
    pub rest: Option<SocketAddr>,
    /// Address of gRPC and frames; port 0 picks a free one. Default: 127.0.0.1:18284.
    #[arg(long, value_name = "ADDR", env = "FODDER_GRPC", value_parser = parse_socket_addr, help_heading = "Addresses")]
    pub grpc: Option<SocketAddr>,
    /// Path of the Unix socket. Default: fodder.sock in the cache directory.
    #[arg(long, value_name = "PATH", env = "FODDER_SOCKET", help_heading = "Addresses")]
    pub socket: Option<PathBuf>,

    /// The nodes it shares its cache with.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Mount the datasets on this directory too; several datasets each in a directory of its name.
    #[arg(long, value_name = "DIR")]
    pub mount: Option<PathBuf>,
    /// Read settings from this YAML file, Fodder's own or iCache's.
    #[arg(long, value_name = "FILE", env = "FODDER_CONFIG")]
    pub config: Option<PathBuf>,
    /// Stop when no client has been connected for 10s, or for the DURATION given.
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10s",
        value_parser = parse_duration
    )]
    pub until_idle: Option<Duration>,
}

/// The nodes that a node shares its cache with.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterArgs {
    /// Share the cache with the nodes at these addresses: HOST or HOST:PORT, a name with several addresses, or a Slurm node
    /// list such as `gpu[01-04,07]`; several separated by commas. The node itself may be among them.
    #[arg(long, value_name = "ADDR[,ADDR…]", env = "FODDER_JOIN", help_heading = "Cluster")]
    pub join: Vec<String>,
    /// How nodes discover each other: `fixed` (every node polls every other), `gossip` (--join then names gossip addresses) or
    /// `etcd` (--join then names the addresses of etcd). Default: fixed.
    #[arg(long, value_name = "WAY", env = "FODDER_MEMBERSHIP", value_parser = parse_way, help_heading = "Cluster")]
    pub membership: Option<Way>,
    /// Address at which other nodes reach the gRPC of this one. Default: the address it listens at.
    #[arg(long, value_name = "HOST:PORT", env = "FODDER_ADVERTISE", help_heading = "Cluster")]
    pub advertise: Option<String>,
    /// The location of the node, such as a rack; nodes of one zone are close to each other.
    #[arg(long, value_name = "NAME", env = "FODDER_ZONE", help_heading = "Cluster")]
    pub zone: Option<String>,
    /// Number of nodes that keep each range of bytes. Default: 1.
    #[arg(long, value_name = "N", env = "FODDER_REPLICAS", help_heading = "Cluster")]
    pub replicas: Option<u32>,
    /// UDP address for gossip. Default: port 18282 at the address of gRPC.
    #[arg(long, value_name = "ADDR", env = "FODDER_GOSSIP", value_parser = parse_socket_addr, help_heading = "Cluster")]
    pub gossip: Option<SocketAddr>,
    /// File that contains the shared secret of the cluster. Clients on other machines are then refused.
    #[arg(long, value_name = "FILE", env = "FODDER_TOKEN_FILE", help_heading = "Cluster")]
    pub token_file: Option<PathBuf>,
    /// File with the certificate of this node (PEM). Nodes then use TLS only. The files are read again when they change.
    #[arg(
        long,
        value_name = "FILE",
        env = "FODDER_CLUSTER_CERT",
        requires_all = ["cluster_key", "cluster_ca"],
        help_heading = "Cluster"
    )]
    pub cluster_cert: Option<PathBuf>,
    /// File with the private key of the certificate.
    #[arg(long, value_name = "FILE", env = "FODDER_CLUSTER_KEY", requires = "cluster_cert", help_heading = "Cluster")]
    pub cluster_key: Option<PathBuf>,
    /// File with the certificates of the authorities that sign the certificates of nodes.
    #[arg(long, value_name = "FILE", env = "FODDER_CLUSTER_CA", requires = "cluster_cert", help_heading = "Cluster")]
    pub cluster_ca: Option<PathBuf>,

    /// How etcd is reached, if nodes discover each other through it.
    #[command(flatten)]
    pub etcd: EtcdArgs,
}

/// How etcd is reached.
#[derive(Debug, Clone, Default, Args)]
pub struct EtcdArgs {
    /// File with the certificates of the authorities that sign that of etcd. etcd is then reached over TLS.
    #[arg(long, value_name = "FILE", env = "FODDER_ETCD_CA", help_heading = "Cluster")]
    pub etcd_ca: Option<PathBuf>,
    /// File with the client certificate for etcd.
    #[arg(long, value_name = "FILE", env = "FODDER_ETCD_CERT", help_heading = "Cluster")]
    pub etcd_cert: Option<PathBuf>,
    /// File with the private key of the client certificate for etcd.
    #[arg(long, value_name = "FILE", env = "FODDER_ETCD_KEY", help_heading = "Cluster")]
    pub etcd_key: Option<PathBuf>,
    /// User name at etcd.
    #[arg(long, value_name = "NAME", env = "FODDER_ETCD_USER", help_heading = "Cluster")]
    pub etcd_user: Option<String>,
    /// File with the password of that user.
    #[arg(long, value_name = "FILE", env = "FODDER_ETCD_PASSWORD_FILE", help_heading = "Cluster")]
    pub etcd_password_file: Option<PathBuf>,
}

/// A way of knowing other nodes by its name.
fn parse_way(text: &str) -> Result<Way, String> {
    serde_yaml_ng::from_str(text).map_err(|_| "known are `fixed`, `gossip` and `etcd`".into())
}

/// One `--tier`: where, of what, how much.
#[derive(Debug, Clone, PartialEq)]
pub struct TierArg(pub TierConfig);

impl FromStr for TierArg {
    type Err = String;

    /// From the right, since a path may hold colons.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write PATH:MEDIUM:SIZE, such as /mnt/nvme/fodder:SSD:1TiB";
        let (rest, quota) = text.rsplit_once(':').ok_or(form)?;
        let (path, medium) = rest.rsplit_once(':').ok_or(form)?;
        if path.is_empty() {
            return Err(form.into());
        }
        let medium = match medium.to_ascii_uppercase().as_str() {
            "MEM" => Medium::Mem,
            "SSD" => Medium::Ssd,
            "HDD" => Medium::Hdd,
            _ => return Err(format!("unknown medium {medium:?}: use MEM, SSD or HDD; {form}")),
        };
        let quota_bytes = parse_bytes(quota)?;
        Ok(Self(TierConfig { path: path.into(), medium, quota_bytes }))
    }
}

/// A number of bytes, as people write it.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    size::parse(text).map_err(|error| error.to_string())
}

/// A duration, as people write it.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write a duration such as 30s, 5m or 1h".into())
}

/// A layout by its name.
pub(super) fn parse_layout(text: &str) -> Result<Layout, String> {
    text.parse().map_err(|error: fodder_core::Error| error.to_string())
}

/// A residency policy by its name.
pub(super) fn parse_policy(text: &str) -> Result<Policy, String> {
    text.parse().map_err(|error: fodder_policy::residency::UnknownPolicy| error.to_string())
}

/// A socket address, with a hint at what is most often wrong with one.
fn parse_socket_addr(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim_start_matches("http://").trim_end_matches('/');
    let with_host = text.replace("localhost:", "127.0.0.1:");
    with_host.parse().map_err(|_| match with_host.parse::<u16>() {
        Ok(port) => format!("give an IP address too, such as 127.0.0.1:{port}"),
        Err(_) if with_host.starts_with(':') => format!("give an IP address too, such as 127.0.0.1{with_host}"),
        Err(_) => "write IP:PORT, such as 127.0.0.1:18283 or 0.0.0.0:18283".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_read_from_the_right_so_that_its_path_may_hold_colons() {
        let TierArg(tier) = "/mnt/a:b:ssd:1GiB".parse().unwrap();
        assert_eq!(tier.path, PathBuf::from("/mnt/a:b"));
        assert_eq!(tier.medium, Medium::Ssd);
        assert_eq!(tier.quota_bytes, 1 << 30);
    }

    #[test]
    fn a_wrong_tier_says_how_to_write_one() {
        for wrong in ["", "/mnt", "/mnt:SSD", ":SSD:1GiB", "/mnt:TAPE:1GiB"] {
            let error = wrong.parse::<TierArg>().unwrap_err();
            assert!(error.contains("PATH:MEDIUM:SIZE"), "{wrong}: {error}");
        }
    }

    #[test]
    fn an_address_without_a_host_says_what_to_write() {
        assert!(parse_socket_addr("18283").unwrap_err().contains("127.0.0.1:18283"));
        assert!(parse_socket_addr(":18283").unwrap_err().contains("127.0.0.1:18283"));
        assert_eq!(parse_socket_addr("localhost:80").unwrap(), "127.0.0.1:80".parse().unwrap());
        assert_eq!(parse_socket_addr("[::1]:80").unwrap(), "[::1]:80".parse().unwrap());
    }
}
