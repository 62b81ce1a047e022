//! Directories that other programs mount from the same S3 server: rclone and s3fs as Debian has them, and Mountpoint for Amazon
//! S3 where it was built (`bench/mountpoint`).

use anyhow::{Context, Result, bail};
use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The bucket's name. The server takes any.
pub(crate) const BUCKET: &str = "bucket";
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that mounts S3 buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// `rclone mount`, with its cache of whole files.
    Rclone,
    /// `s3fs`, with its cache of files, kept by the kernel too.
    S3fs,
    /// Mountpoint for Amazon S3, with its cache on disk.
    Mountpoint,
}

/// A peer's mount; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mounted {
    child: Child,
    dir: PathBuf,
}

impl Peer {
    /// Every peer that is here.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let mut all = vec![Self::Rclone, Self::S3fs];
        if mountpoint_program()?.exists() {
            all.push(Self::Mountpoint);
        } else {
            eprintln!("  mountpoint-s3-fs is left out: `make bench` builds it");
        }
        Ok(all)
    }

    /// How it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rclone => "rclone",
            Self::S3fs => "s3fs",
            Self::Mountpoint => "mountpoint",
        }
    }

    /// Mounts the bucket of a server at `dir`, with its cache below `cache`.
    pub(crate) fn mount(self, endpoint: &str, dir: &Path, cache: &Path) -> Result<Mounted> {
        fs::create_dir_all(dir)?;
        fs::create_dir_all(cache)?;
        let mut command = match self {
            Self::Rclone => rclone(endpoint, dir, cache),
            Self::S3fs => s3fs(endpoint, dir, cache)?,
            Self::Mountpoint => {
                let mut command = Command::new(mountpoint_program()?);
                command.args([BUCKET, endpoint]).arg(dir).arg(cache);
                command
            }
        };
        // What is set for other tools of S3 on this machine is not meant for a server on loopback.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"AWS_")) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let mut mounted = Mounted { child, dir: dir.into() };
        mounted.wait().with_context(|| format!("{} did not mount", self.name()))?;
        Ok(mounted)
    }
}

/// Built into a directory of its own, beside that of this program.
fn mountpoint_program() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let target = here.ancestors().nth(2).context("a program is built below a directory")?;
    Ok(target.join("mountpoint/release/fodder-bench-mountpoint"))
}

fn rclone(endpoint: &str, dir: &Path, cache: &Path) -> Command {
    let mut command = rclone_from(endpoint, "mount", dir);
    command.arg("--cache-dir").arg(cache).args(["--vfs-cache-mode", "full", "--read-only"]);
    // No new look at the directory while it is measured.
    command.args(["--dir-cache-time", "1h", "--vfs-read-chunk-size", "64M"]);
    command
}

/// A command of rclone's from the bucket to a directory, with no configuration of the user's.
fn rclone_from(endpoint: &str, verb: &str, dir: &Path) -> Command {
    let mut command = Command::new("rclone");
    // With a bundle of certificates of the user's, rclone makes no connection without TLS.
    command.env_remove("AWS_CA_BUNDLE");
    command.arg(verb).arg(format!(":s3:{BUCKET}")).arg(dir);
    command.args(["--s3-provider", "Other", "--s3-endpoint", endpoint, "--s3-access-key-id", "k"]);
    command.args(["--s3-secret-access-key", "s", "--log-level", "ERROR", "--config", "/dev/null"]);
    command
}

/// Copies the bucket of a server to a directory, as many files and parts at a time as `fodder warm` has requests.
pub(crate) fn copy_with_rclone(endpoint: &str, dir: &Path, options: &[&str]) -> Result<()> {
    let mut command = rclone_from(endpoint, "copy", dir);
    command.args(["--transfers", "32", "--multi-thread-streams", "4"]).args(options);
    crate::program::finish(&mut command).map(drop)
}

fn s3fs(endpoint: &str, dir: &Path, cache: &Path) -> Result<Command> {
    let keys = cache.join("keys");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&keys)?;
    writeln!(file, "k:s")?;
    let mut command = Command::new("s3fs");
    command.arg(BUCKET).arg(dir).args(["-f", "-o", "use_path_request_style,kernel_cache,ro,dbglevel=crit"]);
    command.arg("-o").arg(format!("url={endpoint}"));
    command.arg("-o").arg(format!("passwd_file={}", keys.display()));
    command.arg("-o").arg(format!("use_cache={}", cache.join("files").display()));
    Ok(command)
}

impl Mounted {
    /// Where.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Waits until something is mounted there.
    fn wait(&mut self) -> Result<()> {
        let began = Instant::now();
        let above = fs::metadata(self.dir.parent().context("it is below another")?)?.dev();
        while fs::metadata(&self.dir)?.dev() == above {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status}");
            }
            if began.elapsed() > PATIENCE {
                bail!("it takes too long");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = Command::new("fusermount3").arg("-uz").arg(&self.dir).stderr(Stdio::null()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
