//! How each door is asked for a batch. All reuse their buffers from batch to batch.

use super::{Kind, redis_key};
use crate::{buffer::Buffer, fixture::NAME, redis};
use anyhow::Result;
use fodder_api::frames::{Batch, FrameClient, LeaseCache, Leased};
use memmap2::{Mmap, MmapOptions};
use std::{
    collections::{HashMap, hash_map::Entry},
    hint::black_box,
    io::{Read, Write},
    net::TcpStream,
    ops::Range,
    os::unix::net::UnixStream,
};

/// A connection through one door.
pub(super) trait Reader {
    /// Brings the items into this process's memory and shows each of them, in the order asked.
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// Connects.
pub(super) fn open(kind: Kind, address: &str) -> Result<Box<dyn Reader>> {
    Ok(match kind {
        Kind::RedisUnix => Box::new(Redis::new(UnixStream::connect(address)?)?),
        Kind::RedisTcp => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Box::new(Redis::new(stream)?)
        }
        Kind::GrpcTcp => Box::new(Grpc::connect(address)?),
        Kind::FramesUnix | Kind::FramesTcp => Box::new(Frames::connect(address)?),
        Kind::LeasesUnix => Box::new(Leases::connect(address)?),
        Kind::KeptLeasesUnix => Box::new(KeptLeases::connect(address)?),
    })
}

struct Redis<S> {
    client: redis::Client<S>,
    buffer: Buffer,
    values: Vec<Range<usize>>,
}

impl<S: Read + Write> Redis<S> {
    fn new(stream: S) -> Result<Self> {
        Ok(Self { client: redis::Client::new(stream), buffer: Buffer::new()?, values: Vec::new() })
    }
}

impl<S: Read + Write> Reader for Redis<S> {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let keys: Vec<String> = ids.iter().map(|&id| redis_key(id)).collect();
        self.client.mget(keys.iter().map(String::as_str), &mut self.buffer, &mut self.values)?;
        self.values.iter().for_each(|value| each(&self.buffer[value.clone()]));
        Ok(())
    }
}

struct Frames {
    client: FrameClient,
    handle: u32,
    batch: Batch,
}

impl Frames {
    fn connect(address: &str) -> Result<Self> {
        let mut client = FrameClient::connect(&address.parse()?)?;
        let handle = client.open(NAME, None)?.handle;
        Ok(Self { client, handle, batch: Batch::new() })
    }
}

impl Reader for Frames {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.client.get_items(self.handle, ids, &mut self.batch)?;
        for item in self.batch.iter() {
            each(item.data?);
        }
        Ok(())
    }
}

/// Leases taken anew for each batch, and the files read into one buffer.
struct Leases {
    client: FrameClient,
    handle: u32,
    buffer: Buffer,
}

impl Leases {
    fn connect(address: &str) -> Result<Self> {
        let mut client = FrameClient::connect(&address.parse()?)?;
        let handle = client.open(NAME, None)?.handle;
        Ok(Self { client, handle, buffer: Buffer::new()? })
    }
}

impl Reader for Leases {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let leases = self.client.get_leases(self.handle, ids)?;
        let leases = leases.into_iter().collect::<fodder_api::Result<Vec<_>>>()?;
        let len = leases.iter().map(|leased| leased.length as usize).sum();
        let mut rest = self.buffer.front(len)?;
        for leased in &leases {
            let (item, behind) = rest.split_at_mut(leased.length as usize);
            leased.read_into(item)?;
            each(item);
            rest = behind;
        }
        Ok(())
    }
}

/// Leases kept from batch to batch, as a loader keeps them from epoch to epoch. The files stay mapped, and every byte is
/// looked at where it is.
struct KeptLeases {
    client: FrameClient,
    leases: LeaseCache,
    maps: HashMap<u64, Mmap>,
}

impl KeptLeases {
    fn connect(address: &str) -> Result<Self> {
        let mut client = FrameClient::connect(&address.parse()?)?;
        let opened = client.open(NAME, None)?;
        let leases = LeaseCache::new(opened.handle, opened.items as usize);
        Ok(Self { client, leases, maps: HashMap::new() })
    }
}

impl Reader for KeptLeases {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(&[u8])) -> Result<()> {
        for leased in self.leases.get(&mut self.client, ids)? {
            let leased = leased?;
            let map = match self.maps.entry(leased.asked) {
                Entry::Occupied(kept) => kept.into_mut(),
                Entry::Vacant(free) => free.insert(map(&leased)?),
            };
            black_box(sum(map));
            each(map);
        }
        Ok(())
    }
}

#[allow(unsafe_code, reason = "a leased file is read in place only by mapping it")]
fn map(leased: &Leased) -> Result<Mmap> {
    let mut options = MmapOptions::new();
    options.offset(leased.offset).len(leased.length as usize).populate();
    // SAFETY: a leased file is sealed: nobody writes, punches or truncates it any more, not even after an eviction.
    Ok(unsafe { options.map(leased.lease.file()) }?)
}

/// Looks at every byte.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    rest.iter().fold(words, |sum, &byte| sum.wrapping_add(u64::from(byte)))
}

struct Grpc {
    runtime: tokio::runtime::Runtime,
    client: fodder_api::Client,
}

impl Grpc {
    fn connect(address: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(fodder_api::Client::connect(&address.parse()?))?;
        Ok(Self { runtime, client })
    }
}

impl Reader for Grpc {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.runtime.block_on(async {
            let mut items = self.client.get_items(NAME, None, ids.to_vec()).await?;
            while let Some(item) = items.next().await? {
                each(&item.data?);
            }
            Ok(())
        })
    }
}
