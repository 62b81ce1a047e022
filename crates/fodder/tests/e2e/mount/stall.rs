//! Many readers of an origin that does not answer, and what other programs may do with the mount meanwhile.

use super::{Mounted, Place, Way, bytes, over_each_transport};
use crate::program::{Node, wait_for};
use fodder_s3_server::{Fault, Server};
use std::{
    fs,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

over_each_transport! {
    readers_of_a_stalled_origin_do_not_delay_the_use_of_cached_files,
}

/// More than the threads of the mount that may wait for an origin.
const READERS: usize = 100;
/// A file that is read whole when it is opened, and one that is read in parts.
const SIZES: [usize; 2] = [200_000, (9 << 20) + 7];

fn readers_of_a_stalled_origin_do_not_delay_the_use_of_cached_files(way: Way) {
    let place = Place::over(way);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start("127.0.0.1:0")).unwrap();
    let cold = |number: usize| format!("cold/{number}");
    for number in 0..READERS {
        server.put(&cold(number), vec![1; SIZES[number % 2]]);
        server.faults(&cold(number), vec![Fault::Late(Duration::from_secs(3600)); 1000]);
    }
    for size in SIZES {
        server.put(&format!("warm/{size}"), bytes(size as u64, size));
    }
    let origin = format!("s3://bucket?endpoint={}", server.endpoint());
    let mut node = Node::start(&place.cache(), &[&origin, "--name", "data", "--anonymous", "--cache-size", "64MiB"]);
    node.client(&["warm", "data/warm"]).good();
    let mounted = Mounted::new(&place.cache(), &["data"], &place.mnt(), &[way.flag(), "--patience", "1s"]);
    let (mnt, ended) = (place.mnt(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let (announce, announced) = mpsc::channel();
        for number in 0..READERS {
            let (path, announce, ended) = (mnt.join(cold(number)), announce.clone(), &ended);
            scope.spawn(move || {
                announce.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
                let _ = fs::read(path);
                ended.fetch_add(1, Relaxed);
            });
        }
        let stuck: Vec<_> = announced.iter().take(READERS).collect();
        let waits = |thread: &_| {
            let place = fs::read_to_string(format!("/proc/self/task/{thread}/wchan")).unwrap_or_default();
            place.contains("request_wait")
        };
        wait_for("every reader to wait for the mount", || stuck.iter().all(waits));
        assert_eq!(fs::read_dir(mnt.join("warm")).unwrap().count(), SIZES.len());
        for size in SIZES {
            let path = mnt.join(format!("warm/{size}"));
            assert_eq!(fs::metadata(&path).unwrap().len(), size as u64);
            assert!(fs::read(&path).unwrap() == bytes(size as u64, size), "{size}");
        }
        assert!(!mnt.join("missing").exists());
        assert_eq!(fs::read_dir(mnt.join("cold")).unwrap().count(), READERS);
        assert_eq!(ended.load(Relaxed), 0, "the readers still wait for the origin");
        // They end with the node.
        node.child.kill().unwrap();
        node.child.wait().unwrap();
    });
    assert_eq!(ended.load(Relaxed), READERS);
    mounted.unmount();
}
