//! How the kernel's requests come and how the answers go: through the device, or through rings that it shares with us.
//!
//! The device is always listened to: the kernel greets there, and tells there what it has forgotten. Knows neither files
//! nor nodes: what was taken is given to `kernel::Handler`.

mod cpu;
mod device;
mod ring;

pub(crate) use cpu::roam;

use crate::{
    Error, Result,
    kernel::{Device, Handler},
    node::Node,
    wire::{
        answer,
        greeting::{Greeting, Tuning},
        request::{self, Head},
    },
};
use std::{
    fmt,
    io::IoSlice,
    os::fd::AsFd,
    str::FromStr,
    sync::Arc,
    thread::{self, JoinHandle},
};

/// Which way requests and answers go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transport {
    /// Through io_uring if the kernel offers it, else through the device.
    #[default]
    Auto,
    /// Through `/dev/fuse`: a system call for each request and one for each answer.
    Device,
    /// Through io_uring; refused where the kernel does not offer it.
    Ring,
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "device" => Ok(Self::Device),
            "uring" => Ok(Self::Ring),
            _ => Err("use auto, device or uring".into()),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Device => "device",
            Self::Ring => "uring",
        })
    }
}

/// What is told to a user who wants io_uring and cannot have it.
const HOW_TO_ALLOW: &str = "Linux 6.14 or newer is needed, and root enables it with `echo Y > /sys/module/fuse/parameters/enable_uring` before mounting";

/// A mount whose kernel was greeted: what it can do, and the way that was chosen.
pub(crate) struct Greeted {
    pub(crate) kernel: Greeting,
    /// The rings, made and not yet known to the kernel.
    rings: Option<ring::Prepared>,
    /// Why it is the device, if that was not asked for.
    pub(crate) why_device: Option<String>,
}

impl Greeted {
    /// Takes the kernel's greeting on a fresh device, chooses, and answers.
    pub(crate) fn new(device: &Device, wanted: Transport, tuning: Tuning) -> Result<Self> {
        let failed = |error: rustix::io::Errno| Error::io("greet the kernel", &error.into());
        loop {
            let (head, kernel) = greeting(device).map_err(failed)?;
            if kernel.is_too_old() {
                return Err(Error::Unsupported("this kernel's FUSE is too old: Linux 5.4 or newer is needed".into()));
            }
            if kernel.is_later() {
                answer(device, head, &Greeting::version_only()).map_err(failed)?;
                continue;
            }
            let (rings, why_device) = match rings(&kernel, wanted) {
                Ok(rings) => (rings, None),
                Err(why) if wanted == Transport::Ring => {
                    return Err(Error::Unsupported(format!("--transport uring is not available: {why}")));
                }
                Err(why) => (None, Some(why)),
            };
            answer(device, head, &kernel.answer(tuning, rings.is_some())).map_err(failed)?;
            return Ok(Self { kernel, rings, why_device });
        }
    }
}

/// The rings, if they are wanted; why they cannot be had.
fn rings(kernel: &Greeting, wanted: Transport) -> Result<Option<ring::Prepared>, String> {
    match wanted {
        Transport::Device => Ok(None),
        _ if !kernel.has_ring() => Err(format!("the kernel does not offer FUSE over io_uring: {HOW_TO_ALLOW}")),
        _ => match ring::Prepared::new() {
            Ok(rings) => Ok(Some(rings)),
            Err(error) => Err(format!("io_uring cannot be used here ({error})")),
        },
    }
}

fn greeting(device: &Device) -> rustix::io::Result<(Head, Greeting)> {
    let mut buffer = vec![0; device::BUFFER_BYTES];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(device, &mut *buffer))?;
    match Head::of(&buffer[..length]) {
        Some(head) if head.opcode == request::INIT => Ok((head, Greeting::of(&buffer[request::HEAD_BYTES..length]))),
        _ => Err(rustix::io::Errno::PROTO),
    }
}

fn answer(device: &Device, to: Head, body: &[u8]) -> rustix::io::Result<()> {
    let head = answer::head(to.unique, 0, body.len());
    rustix::io::writev(device.as_fd(), &[IoSlice::new(&head), IoSlice::new(body)]).map(drop)
}

/// The threads that take the kernel's requests. They end when it is unmounted and nobody uses it any more.
#[derive(Debug)]
pub(crate) struct Serving {
    threads: Vec<JoinHandle<()>>,
    /// The way that is used.
    pub(crate) transport: Transport,
}

impl Serving {
    /// Begins to answer.
    pub(crate) fn start<N: Node>(
        greeted: Greeted,
        device: &Arc<Device>,
        handler: Handler<N>,
    ) -> Result<(Self, Option<String>)> {
        let failed = |error: std::io::Error| Error::io("start the mount's threads", &error);
        let handler = Arc::new(handler);
        let threads = device::start(device, &handler).map_err(failed)?;
        let (transport, why) = match greeted.rings.map(|rings| rings.start(device, &handler)) {
            None => (Transport::Device, greeted.why_device),
            Some(Ok(())) => (Transport::Ring, None),
            // The kernel then goes on with the device.
            Some(Err(error)) => (Transport::Device, Some(format!("the kernel refuses its io_uring ({error})"))),
        };
        Ok((Self { threads, transport }, why))
    }

    /// Whether nothing is to be answered any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

/// A thread with a name.
fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_does_not_offer_the_ring_is_answered_through_the_device_or_refused() {
        let old = Greeting::of(&[7, 0, 0, 0, 31, 0, 0, 0]);
        assert!(matches!(rings(&old, Transport::Device), Ok(None)));
        let why = rings(&old, Transport::Auto).err();
        assert!(why.is_some_and(|why| why.contains("enable_uring")));
        for way in ["auto", "device", "uring"] {
            assert_eq!(way.parse::<Transport>().map(|parsed| parsed.to_string()), Ok(way.to_owned()));
        }
        assert!("ring".parse::<Transport>().is_err());
    }
}
