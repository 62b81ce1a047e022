//! A node that hangs, and one that is alive and slow: how long programs wait for it.

use super::{Place, Way, attribute, bytes, over_each_transport, wait_until_cached};
use crate::program::wait_for;
use rustix::process::Signal;
use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

over_each_transport! {
    a_node_that_hangs_is_an_error_when_patience_is_over_and_is_used_again_when_it_goes_on,
    a_slow_origin_behind_a_node_that_is_alive_is_waited_for_longer_than_patience,
}

/// What `--patience` says.
const PATIENCE: Duration = Duration::from_secs(3);
/// Within this a request must have failed, also on a busy machine.
const BOUND: Duration = Duration::from_secs(30);

/// A request that needs the node, and what came of it.
type Ask = fn(&Path) -> io::Result<()>;

const ASKS: [(&str, Ask); 4] = [
    ("stat", |mnt| fs::metadata(mnt.join("stat")).map(drop)),
    ("open and read", |mnt| fs::read(mnt.join("small")).map(drop)),
    ("list", |mnt| fs::read_dir(mnt.join("dir")).and_then(|mut entries| entries.next().unwrap().map(drop))),
    ("attribute", |mnt| {
        let value = &mut [0; 64][..];
        rustix::fs::getxattr(mnt.join("known"), "user.fodder.cached", value).map(drop).map_err(Into::into)
    }),
];

/// Makes a request, which must fail soon after patience is over.
fn check_failure(what: &str, ask: impl FnOnce() -> io::Result<()>) {
    let began = Instant::now();
    let errno = ask().unwrap_err().raw_os_error();
    let took = began.elapsed();
    assert_eq!(errno, Some(rustix::io::Errno::IO.raw_os_error()), "{what}");
    assert!(took >= PATIENCE - Duration::from_secs(1) && took < BOUND, "{what} failed after {took:?}");
}

fn a_node_that_hangs_is_an_error_when_patience_is_over_and_is_used_again_when_it_goes_on(way: Way) {
    let place = Place::over(way);
    for name in ["stat", "small", "known", "dir/a"] {
        place.put(name, &bytes(1, 10_000));
    }
    place.put("large", &bytes(2, 20 << 20));
    let node = place.node(&[]);
    let mounted = place.mount(&["--patience", "3s"]);
    let mnt = place.mnt();
    let large = File::open(mnt.join("large")).unwrap();
    large.read_exact_at(&mut [0; 1000], 0).unwrap();
    assert!(fs::read(mnt.join("known")).unwrap() == bytes(1, 10_000));
    wait_until_cached(&mnt.join("known"));
    // From this open on the mount has its cache file.
    assert!(fs::read(mnt.join("known")).unwrap() == bytes(1, 10_000));
    // Known to the kernel, and not yet listed or read.
    assert!(fs::metadata(mnt.join("dir")).unwrap().is_dir() && fs::metadata(mnt.join("small")).unwrap().is_file());
    node.signal(Signal::STOP);
    thread::scope(|scope| {
        for (what, ask) in ASKS {
            let mnt = &mnt;
            scope.spawn(move || check_failure(what, || ask(mnt)));
        }
        check_failure("read", || large.read_exact_at(&mut [0; 1000], 15 << 20));
        // A cached file that is open needs no node.
        assert!(fs::read(mnt.join("known")).unwrap() == bytes(1, 10_000));
    });
    node.signal(Signal::CONT);
    for (what, ask) in ASKS {
        wait_for(what, || ask(&mnt).is_ok());
    }
    let mut found = [0; 1000];
    large.read_exact_at(&mut found, 15 << 20).unwrap();
    assert!(found[..] == bytes(2, 20 << 20)[15 << 20..(15 << 20) + 1000]);
    assert_eq!(attribute(&mnt.join("known"), "user.fodder.cached"), "10000");
    drop(large);
    mounted.unmount();
}

fn a_slow_origin_behind_a_node_that_is_alive_is_waited_for_longer_than_patience(way: Way) {
    let place = Place::over(way);
    place.put("a", &bytes(1, 10_000));
    let origin = format!("throttled:latency=6s:{}", place.origin().display());
    let _node = crate::program::Node::start(&place.cache(), &[&origin, "--name", "data"]);
    let mounted = place.mount(&["--patience", "1s"]);
    let began = Instant::now();
    assert!(fs::read(place.mnt().join("a")).unwrap() == bytes(1, 10_000));
    assert!(began.elapsed() > Duration::from_secs(5), "the origin was not slow: {:?}", began.elapsed());
    mounted.unmount();
}
