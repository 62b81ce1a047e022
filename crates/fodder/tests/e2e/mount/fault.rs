//! An S3 server that misbehaves, seen through a mount: readers get the right bytes or an error, in bounded time.

use super::{Place, bytes, can_mount};
use crate::program::Node;
use fodder_s3_server::{Fault, Server};
use std::{
    fs,
    time::{Duration, Instant},
};

/// Longer than a node tries, on a busy machine.
const BOUND: Duration = Duration::from_secs(180);
/// One that is read whole when it is opened, and one that is read in parts.
const SIZES: [usize; 2] = [200_000, (9 << 20) + 7];

struct World {
    place: Place,
    server: Server,
    _runtime: tokio::runtime::Runtime,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let server = runtime.block_on(Server::start("127.0.0.1:0")).unwrap();
        Self { place: Place::new(), server, _runtime: runtime }
    }

    fn node(&self) -> Node {
        let origin = format!("s3://bucket?endpoint={}", self.server.endpoint());
        Node::start(&self.place.cache(), &[&origin, "--name", "data", "--anonymous", "--cache-size", "256MiB"])
    }
}

#[test]
fn refusals_breaks_short_bodies_and_silence_of_the_origin_give_the_right_bytes() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let faults = [
        ("refused", Fault::Status(503, "SlowDown")),
        ("broken", Fault::Status(500, "InternalError")),
        ("reset", Fault::Reset),
        ("cut", Fault::Cut(100_000)),
        ("short", Fault::Short(100_000)),
        ("narrow", Fault::Narrow),
        ("silent", Fault::Stall(100_000)),
        ("late", Fault::Late(Duration::from_secs(1))),
    ];
    let name = |fault: &str, size: usize| format!("{fault}-{size}");
    for (fault, _) in &faults {
        SIZES.iter().for_each(|size| world.server.put(&name(fault, *size), bytes(*size as u64, *size)));
    }
    let _node = world.node();
    let mounted = world.place.mount(&[]);
    for (fault, what) in &faults {
        // Some requests in a row go wrong, then one is answered.
        let times = if *fault == "silent" { 1 } else { 2 };
        SIZES.iter().for_each(|size| world.server.faults(&name(fault, *size), vec![what.clone(); times]));
    }
    std::thread::scope(|scope| {
        for (fault, _) in &faults {
            for size in SIZES {
                let path = world.place.mnt().join(name(fault, size));
                scope.spawn(move || {
                    let began = Instant::now();
                    let found = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                    assert!(found == bytes(size as u64, size), "{}", path.display());
                    assert!(began.elapsed() < BOUND, "{} took {:?}", path.display(), began.elapsed());
                });
            }
        }
    });
    mounted.unmount();
}

#[test]
fn an_origin_that_refuses_for_good_is_an_error_and_not_a_hang() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    for size in SIZES {
        world.server.put(&size.to_string(), bytes(1, size));
    }
    world.server.put("good", bytes(2, 100_000));
    let _node = world.node();
    let mounted = world.place.mount(&[]);
    for size in SIZES {
        world.server.faults(&size.to_string(), vec![Fault::Status(503, "SlowDown"); 1000]);
    }
    std::thread::scope(|scope| {
        for size in SIZES {
            let path = world.place.mnt().join(size.to_string());
            scope.spawn(move || {
                let began = Instant::now();
                let error = fs::read(&path).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{error}");
                assert!(began.elapsed() < BOUND, "took {:?}", began.elapsed());
            });
        }
        // Others go on meanwhile.
        assert!(fs::read(world.place.mnt().join("good")).unwrap() == bytes(2, 100_000));
    });
    mounted.unmount();
}
