//! The flags of `fodder mount` and `fodder unmount`, and the command line that mount(8) uses.

use super::{NodeArgs, serve};
use clap::{Args, ValueEnum, value_parser};
use fodder_core::config::Quota;
use fodder_fuse::Transport;
use std::{path::PathBuf, time::Duration};

const HELP: &str = "\
The kernel itself reads files that are completely cached. Other files are fetched while they are read; small ones
are fetched whole. Several datasets are mounted side by side, each in a directory of its name. An origin is served
by the node of the cache directory. If none is running, one is started; it ends some seconds after its last client.

Examples:
  fodder mount s3://bucket/imagenet /data --cache-dir /mnt/nvme/fodder --cache-size 500GB
  fodder mount imagenet coco /data                /data/imagenet and /data/coco
  fodder mount ./slow /data --immutable           small files that never change and fit in memory
  fodder unmount /data

In /etc/fstab, if /sbin/mount.fodder is a link to this program:
  s3://bucket/imagenet /data fodder allow_other,refresh=10m,_netdev 0 0";

/// Who has started the process that mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Starter {
    /// A command that ends once it is mounted.
    Leaves,
    /// A node, without which there is nothing to show.
    Stays,
}

/// Mount datasets as a directory.
#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
pub struct MountArgs {
    /// Datasets of the node, or origins (URIs, or paths that begin with `/`, `./` or `../`).
    #[arg(required = true, value_name = "ORIGIN|DATASET")]
    pub sources: Vec<String>,
    /// An empty directory.
    #[arg(required = true)]
    pub dir: PathBuf,
    /// Stay in the foreground, and unmount on Ctrl-C. Default: run in the background.
    #[arg(long)]
    pub foreground: bool,
    /// Which process has started this one, and holds the other end of its standard input.
    #[arg(long, hide = true, value_name = "WHO")]
    pub starter: Option<Starter>,
    /// Let other users access the mount.
    #[arg(long)]
    pub allow_other: bool,
    /// Declare that the files never change: the kernel keeps them in memory and opens them without asking Fodder.
    #[arg(long)]
    pub immutable: bool,
    /// How often to check the origin for changes, such as `10m`. For an origin that is new to the node.
    #[arg(long, value_name = "DURATION", value_parser = serve::parse_duration)]
    pub refresh: Option<Duration>,
    /// Read the origin, a public bucket, without credentials.
    #[arg(long)]
    pub anonymous: bool,
    /// How the origin is listed, if it is new to the node.
    #[command(flatten)]
    pub listing: super::listing::ListingArgs,
    /// How long requests wait for a node that has ended or hangs. A node that is alive but slow is waited for longer.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = serve::parse_duration)]
    pub patience: Duration,
    /// How requests of the kernel are received: `device`, `uring` (faster; root enables it with
    /// `echo Y > /sys/module/fuse/parameters/enable_uring`), or `auto`, which is uring where that is enabled.
    #[arg(long, value_name = "WAY", default_value = "auto", help_heading = "Tuning")]
    pub transport: Transport,
    /// Maximum number of background requests of the kernel, such as those for readahead.
    #[arg(long, value_name = "N", default_value = "64", value_parser = value_parser!(u16).range(1..), help_heading = "Tuning")]
    pub max_background: u16,
    /// Number of background requests at which the kernel considers the mount congested.
    #[arg(long, value_name = "N", default_value = "48", value_parser = value_parser!(u16).range(1..), help_heading = "Tuning")]
    pub congestion_threshold: u16,
    /// How far the kernel reads ahead in files that it caches. Default: 32KiB with passthrough, where this is only for mapped files
    /// that are not completely cached, else 1MiB.
    #[arg(long, value_name = "SIZE", value_parser = serve::parse_bytes, help_heading = "Tuning")]
    pub read_ahead: Option<u64>,
    /// Number of cache files to keep open. Default: three quarters of the limit on open files (`ulimit -n`), at most 65536.
    #[arg(long, value_name = "N", help_heading = "Tuning")]
    pub open_files: Option<usize>,
    /// Do not use FUSE passthrough, with which the kernel reads cache files itself.
    #[arg(long, help_heading = "Tuning")]
    pub no_passthrough: bool,
    /// Size of the cache if a node must be started: `20GiB`, `500MB`, or `50%` of the dataset.
    #[arg(long, value_name = "SIZE", help_heading = "Node")]
    pub cache_size: Option<Quota>,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Unmount datasets.
#[derive(Debug, Clone, Args)]
pub struct UnmountArgs {
    /// The mount point, or the directory in which several datasets are mounted.
    pub dir: PathBuf,
    /// Unmount even if it is in use: programs keep the files that they have open.
    #[arg(long)]
    pub lazy: bool,
}

/// What mount(8) and fstab say to every file system, and mean nothing here.
const PASSED_OVER: [&str; 22] = [
    "defaults", "ro", "rw", "auto", "noauto", "user", "users", "nouser", "owner", "group", "nofail", "_netdev", "dev",
    "nodev", "suid", "nosuid", "exec", "noexec", "atime", "noatime", "relatime", "sync",
];

/// The command line that `mount.fodder SOURCE DIR [-sfnv] [-o OPTIONS]` stands for, without the program's name.
pub fn from_mount_helper(args: impl IntoIterator<Item = String>) -> Result<Vec<String>, String> {
    let (mut places, mut flags, mut args) = (Vec::new(), Vec::new(), args.into_iter());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-o" => {
                let options = args.next().ok_or("-o needs a list of options")?;
                for option in options.split(',').filter(|option| !option.is_empty()) {
                    flags.extend(option_flag(option)?);
                }
            }
            // The type, as `fuse.fodder` or `fodder`, and a namespace: each has a word behind it.
            "-t" | "-N" => drop(args.next()),
            flag if flag.starts_with('-') => {}
            _ => places.push(arg),
        }
    }
    if places.len() != 2 {
        return Err("usage: mount.fodder ORIGIN|DATASET DIR [-o OPTIONS]".into());
    }
    Ok(["mount".to_owned()].into_iter().chain(flags).chain(["--".to_owned()]).chain(places).collect())
}

fn option_flag(option: &str) -> Result<Option<String>, String> {
    let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
    if PASSED_OVER.contains(&name) || name.starts_with("x-") || name == "comment" {
        return Ok(None);
    }
    let flag = name.replace('_', "-");
    match (flag.as_str(), value) {
        ("allow-other" | "immutable" | "anonymous" | "no-passthrough" | "foreground", None) => {
            Ok(Some(format!("--{flag}")))
        }
        (
            "refresh"
            | "follow-links"
            | "max-aliases"
            | "max-entries"
            | "max-depth"
            | "max-list-memory"
            | "list-timeout"
            | "max-removed"
            | "removed-grace"
            | "patience"
            | "transport"
            | "max-background"
            | "congestion-threshold"
            | "read-ahead"
            | "open-files"
            | "addr"
            | "cache-dir"
            | "cache-size"
            | "log-level"
            | "log-file"
            | "log-format",
            Some(value),
        ) => Ok(Some(format!("--{flag}={value}"))),
        _ => Err(format!(
            "unknown mount option {option:?}: the options are the flags of `fodder mount --help`, with _ for -"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper(args: &[&str]) -> Result<Vec<String>, String> {
        from_mount_helper(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn a_line_of_fstab_becomes_a_command() {
        let args = helper(&["s3://b/x", "/data", "-s", "-o", "rw,allow_other,refresh=10m,_netdev,x-systemd.automount"]);
        assert_eq!(args.unwrap().join(" "), "mount --allow-other --refresh=10m -- s3://b/x /data");
        let args = helper(&["imagenet", "/data", "-t", "fuse.fodder", "-o", "cache_dir=/mnt/a,anonymous"]).unwrap();
        assert_eq!(args.join(" "), "mount --cache-dir=/mnt/a --anonymous -- imagenet /data");
    }

    #[test]
    fn an_option_that_is_none_is_named() {
        assert!(helper(&["a", "/b", "-o", "alow_other"]).unwrap_err().contains("alow_other"));
        assert!(helper(&["a", "/b", "-o", "refresh"]).unwrap_err().contains("refresh"));
        assert!(helper(&["a"]).unwrap_err().contains("usage"));
    }
}
