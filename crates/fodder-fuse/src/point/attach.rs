//! Putting a mount on a directory: by the kernel's call for those who may, by fusermount3 for everybody else.

use rustix::{
    io::Errno,
    mount::MountFlags,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};
use std::{
    ffi::CString,
    fs::File,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::{Command, Stdio},
};

/// What is shown as the type of a mount, behind `fuse.`.
const SUBTYPE: &str = "fodder";

/// A mount to be made.
#[derive(Debug)]
pub(crate) struct Attach<'a> {
    /// What is mounted, as others are shown it.
    pub(crate) source: String,
    /// A full path.
    pub(crate) dir: &'a Path,
    /// Other users than the one who mounts may use it.
    pub(crate) allow_other: bool,
}

impl Attach<'_> {
    /// Mounts; the device by which the kernel asks.
    pub(crate) fn mount(&self) -> io::Result<OwnedFd> {
        match self.by_the_kernel() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.by_fusermount(),
            outcome => outcome,
        }
    }

    fn by_the_kernel(&self) -> io::Result<OwnedFd> {
        let device = OwnedFd::from(File::options().read(true).write(true).open("/dev/fuse")?);
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let other = if self.allow_other { ",allow_other" } else { "" };
        let fd = device.as_raw_fd();
        let options = format!("fd={fd},rootmode=40000,user_id={uid},group_id={gid},default_permissions{other}");
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
        let kind = format!("fuse.{SUBTYPE}");
        rustix::mount::mount(&*self.source, self.dir, &*kind, flags, &*CString::new(options)?)?;
        Ok(device)
    }

    /// fusermount3 is privileged, mounts, and sends the device over a socket that it finds by its number.
    fn by_fusermount(&self) -> io::Result<OwnedFd> {
        let (ours, theirs) = UnixStream::pair()?;
        let other = if self.allow_other { ",allow_other" } else { "" };
        let options =
            format!("ro,nosuid,nodev,noatime,default_permissions,fsname={},subtype={SUBTYPE}{other}", self.source);
        let child = Command::new("fusermount3")
            .args(["-o", &options, "--"])
            .arg(self.dir)
            .env("_FUSE_COMMFD", "0")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    io::Error::new(io::ErrorKind::PermissionDenied, "and there is no fusermount3 (package fuse3)")
                }
                _ => error,
            })?;
        let device = receive(&ours);
        let output = child.wait_with_output()?;
        device?.ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let denied =
                ["user_allow_other", "ermission denied", "not permitted"].iter().any(|words| said.contains(words));
            let kind = if denied { io::ErrorKind::PermissionDenied } else { io::ErrorKind::Other };
            io::Error::new(kind, said)
        })
    }
}

/// The descriptor that comes over a socket; None if it was closed without one.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => continue,
            outcome => outcome?,
        };
        let mut messages = control.drain();
        return Ok(messages.find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        }));
    }
}
