//! Requests of many programs at once, with a node whose origin or disk stalls, and with one that panics.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{
    backing::Content,
    fs::Settings,
    inode::ROOT,
    mode::Policy,
    node::{Description, Entry, From, Newest, Page, Part},
    testing::{Ids, Memory},
    worker::FETCH_THREADS,
};
use fodder_api::{
    Error as NodeError, Result as NodeResult,
    frames::{Arriving, Lease, LeaseStatus, ObjectId},
};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::HashSet,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::{Duration, Instant},
};

const DEADLINE: Duration = Duration::from_secs(20);

/// More than the threads of all pools together.
const READERS: usize = 200;

/// A node in memory whose origin and disk can stall, and that can panic.
#[derive(Debug)]
struct Faulty {
    memory: Memory,
    stalled: Mutex<Stalled>,
    released: Condvar,
    panics: AtomicBool,
    /// Objects of which a part is cached.
    viewable: Mutex<HashSet<ObjectId>>,
    /// Leases that were handed out.
    leases: Mutex<Vec<Arc<Lease>>>,
    /// The answer to a verification; None: it is refused.
    verdict: Mutex<Option<LeaseStatus>>,
}

/// What does not answer.
#[derive(Debug, Default)]
struct Stalled {
    origin: bool,
    disk: bool,
}

impl Faulty {
    fn new(memory: Memory) -> Self {
        let (stalled, released) = (Mutex::default(), Condvar::new());
        let (viewable, leases, verdict) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { memory, stalled, released, panics: AtomicBool::new(false), viewable, leases, verdict }
    }

    fn stall_origin(&self) {
        self.stalled.lock().origin = true;
    }

    fn release(&self) {
        *self.stalled.lock() = Stalled::default();
        self.released.notify_all();
    }

    fn wait_for_origin(&self) {
        self.released.wait_while(&mut self.stalled.lock(), |stalled| stalled.origin);
    }

    fn wait_for_disk(&self) {
        self.released.wait_while(&mut self.stalled.lock(), |stalled| stalled.disk);
    }

    fn check(&self) {
        assert!(!self.panics.load(Relaxed), "planted");
    }
}

impl Node for Faulty {
    fn lookup(&self, path: &str) -> NodeResult<Entry> {
        self.check();
        self.memory.lookup(path)
    }
    fn list(&self, path: &str, from: From<'_>, count: u32) -> NodeResult<Page> {
        self.check();
        self.memory.list(path, from, count)
    }
    /// All that is not cached is on its way, and comes with the origin.
    fn lease(&self, object: ObjectId, arriving: Arriving) -> NodeResult<Option<Content>> {
        self.check();
        self.wait_for_disk();
        let content = self.memory.lease(object, arriving)?;
        if content.is_none() && arriving == Arriving::Await {
            self.wait_for_origin();
        }
        Ok(content.map(|content| {
            let Content::Own(file) = content else { unreachable!("what a node in memory has") };
            let lease = Arc::new(Lease::detached(file, 0));
            lease.answered(LeaseStatus::Verified);
            self.leases.lock().push(Arc::clone(&lease));
            Content::Leased(lease)
        }))
    }
    fn read(&self, object: ObjectId, part: Part, take: &mut dyn FnMut(&[u8])) -> NodeResult<()> {
        self.check();
        self.wait_for_origin();
        self.memory.read(object, part, take)
    }
    fn read_shown(&self, object: ObjectId, part: Part, arriving: Arriving, buffer: &mut [u8]) -> NodeResult<bool> {
        self.check();
        let is_cached = self.viewable.lock().contains(&object);
        if !is_cached && arriving == Arriving::Await {
            self.wait_for_origin();
        }
        Ok(is_cached && self.memory.read_shown(object, part, arriving, buffer)?)
    }
    fn verify_lease(&self, _: ObjectId, lease: &Arc<Lease>) -> NodeResult<()> {
        self.wait_for_disk();
        let verdict = self.verdict.lock().ok_or(NodeError::Full("no descriptors left".into()))?;
        lease.answered(verdict);
        Ok(())
    }
    fn describe(&self, object: ObjectId) -> NodeResult<Description> {
        self.check();
        self.memory.describe(object)
    }
    fn newest(&self) -> NodeResult<Newest> {
        self.memory.newest()
    }
    fn touch(&self, objects: &[ObjectId]) {
        self.memory.touch(objects);
    }
}

/// Sends each answer to the test.
struct Recorded {
    room: Vec<u8>,
    answer: Option<mpsc::Sender<Result<Vec<u8>, Errno>>>,
}

impl Recorded {
    fn new(answer: mpsc::Sender<Result<Vec<u8>, Errno>>) -> Self {
        Self { room: Vec::new(), answer: Some(answer) }
    }

    fn send(&mut self, answer: Result<Vec<u8>, Errno>) {
        if let Some(sender) = self.answer.take() {
            let _ = sender.send(answer);
        }
    }
}

impl Reply for Recorded {
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        self.room.resize(bytes, 0);
        &mut self.room
    }
    fn done(mut self, bytes: usize) {
        let answer = self.room[..bytes].to_vec();
        self.send(Ok(answer));
    }
    fn data(mut self, bytes: &[u8]) {
        self.send(Ok(bytes.to_vec()));
    }
    fn error(mut self, error: Errno) {
        self.send(Err(error));
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.send(Err(Errno::Io));
    }
}

fn handler(immutable: bool) -> Handler<Faulty> {
    handler_with(|settings| settings.immutable = immutable)
}

fn handler_with(change: impl FnOnce(&mut Settings)) -> Handler<Faulty> {
    let names: Vec<String> = (0..READERS).map(|number| format!("cold/{number}")).collect();
    let objects = names.iter().map(|name| (name.as_str(), vec![1; 1000]));
    let memory = Memory::new(objects.chain([("warm", vec![2; 1000]), ("part", vec![3; 2 << 20])]));
    memory.fill("warm");
    let mut settings = Settings {
        owner: (0, 0),
        immutable: false,
        policy: Policy::KeepCache,
        whole_bytes: 1 << 20,
        inodes: 1 << 20,
        files: 1000,
    };
    change(&mut settings);
    Handler::new(Arc::new(FileSystem::new(Faulty::new(memory), settings, Arc::new(Ids::default()))))
}

type Answers = mpsc::Receiver<Result<Vec<u8>, Errno>>;

fn ask(handler: &Handler<Faulty>, ino: u64, operation: Operation<'_>) -> Answers {
    let (sender, receiver) = mpsc::channel();
    handler.handle(Head { opcode: 0, unique: 1, ino }, operation, Recorded::new(sender));
    receiver
}

fn answer(answers: &Answers) -> Result<Vec<u8>, Errno> {
    answers.recv_timeout(DEADLINE).expect("an answer in time")
}

/// The inode of a path, which the kernel knows from now on.
fn inode(handler: &Handler<Faulty>, path: &str) -> u64 {
    path.split('/').fold(ROOT, |parent, name| handler.fs.lookup(parent, name.as_bytes()).unwrap().ino)
}

/// The handle in the answer to an open.
fn number(opened: &[u8]) -> u64 {
    u64::from_ne_bytes(opened[..8].try_into().unwrap())
}

#[test]
fn readers_of_a_stalled_origin_do_not_delay_lookups_listings_and_opens_of_cached_files() {
    let handler = handler(false);
    let cold: Vec<u64> = (0..READERS).map(|number| inode(&handler, &format!("cold/{number}"))).collect();
    let (warm, part) = (inode(&handler, "warm"), inode(&handler, "part"));
    let partly = answer(&ask(&handler, part, Operation::Open)).unwrap();
    handler.fs.node().stall_origin();
    let object = handler.fs.node().lookup("part").unwrap().object.unwrap().id;
    handler.fs.node().viewable.lock().insert(object);
    let stuck: Vec<_> = cold.iter().map(|ino| ask(&handler, *ino, Operation::Open)).collect();
    assert!(answer(&ask(&handler, ROOT, Operation::Lookup { name: b"warm" })).is_ok());
    assert!(answer(&ask(&handler, warm, Operation::Open)).is_ok());
    let read = Operation::Read { handle: number(&partly), offset: 1 << 20, size: 4096, paged: false };
    assert_eq!(answer(&ask(&handler, part, read)).unwrap(), vec![3; 4096], "a part that is cached");
    let directory = answer(&ask(&handler, ROOT, Operation::OpenDirectory)).unwrap();
    let handle = number(&directory);
    let listed = ask(&handler, ROOT, Operation::List { handle, cookie: 0, size: 4096, plus: false });
    assert!(!answer(&listed).unwrap().is_empty());
    let attribute = Operation::ExtendedAttribute { name: b"user.fodder.tier", room: 100 };
    assert_eq!(answer(&ask(&handler, warm, attribute)).unwrap(), b"SSD");
    assert!(stuck.iter().all(|reader| reader.try_recv().is_err()), "the readers of the origin still wait");
    handler.fs.node().release();
    assert!(stuck.iter().all(|reader| answer(reader).is_ok()));
}

#[test]
fn readers_of_a_stalled_origin_do_not_delay_reads_of_cached_files_that_are_never_opened() {
    let handler = handler(true);
    handler.fs.node().stall_origin();
    let cold: Vec<u64> = (0..READERS).map(|number| inode(&handler, &format!("cold/{number}"))).collect();
    let warm = inode(&handler, "warm");
    let read = Operation::Read { handle: 0, offset: 0, size: 4096, paged: true };
    let stuck: Vec<_> = cold.iter().map(|ino| ask(&handler, *ino, read)).collect();
    assert_eq!(answer(&ask(&handler, warm, read)).unwrap(), vec![2; 1000]);
    assert!(stuck.iter().all(|reader| reader.try_recv().is_err()), "the readers of the origin still wait");
    handler.fs.node().release();
    assert!(stuck.iter().all(|reader| answer(reader).unwrap() == vec![1; 1000]));
}

#[test]
fn requests_that_panic_are_answered_with_an_io_error_and_the_next_ones_succeed() {
    let handler = handler(false);
    handler.fs.node().panics.store(true, Relaxed);
    let asked: Vec<_> = (0..READERS).map(|_| ask(&handler, ROOT, Operation::Lookup { name: b"warm" })).collect();
    assert!(asked.iter().all(|reader| answer(reader) == Err(Errno::Io)));
    handler.fs.node().panics.store(false, Relaxed);
    assert!(answer(&ask(&handler, ROOT, Operation::Lookup { name: b"warm" })).is_ok());
}

/// A request for each of many objects that are not cached. Their origin stalls, so they wait until it is released.
fn open_cold(handler: &Handler<Faulty>) -> Vec<Answers> {
    handler.fs.node().stall_origin();
    let inodes = (0..READERS).map(|number| inode(handler, &format!("cold/{number}")));
    inodes.map(|ino| ask(handler, ino, Operation::Open)).collect()
}

#[test]
fn readers_of_a_stalled_origin_do_not_delay_opens_of_large_files() {
    // Nothing is fetched by an open, but the node waits a moment for what is on its way.
    let handler = handler_with(|settings| settings.whole_bytes = 10);
    let opened = open_cold(&handler);
    assert!(answer(&ask(&handler, ROOT, Operation::Lookup { name: b"warm" })).is_ok());
    let deadline = Instant::now() + DEADLINE;
    let mut waiting: Vec<_> = opened.iter().collect();
    // Those for which there was a thread to wait with still wait.
    while waiting.len() > FETCH_THREADS {
        assert!(Instant::now() < deadline, "{} opens wait", waiting.len());
        waiting.retain(|reader| reader.try_recv().is_err());
        std::thread::yield_now();
    }
    handler.fs.node().release();
    assert!(waiting.into_iter().all(|reader| answer(reader).is_ok()));
}

#[test]
fn parts_that_are_on_their_way_do_not_delay_reads_of_cached_parts_and_files() {
    let handler = handler_with(|settings| settings.whole_bytes = 10);
    let cold: Vec<u64> = (0..READERS).map(|number| inode(&handler, &format!("cold/{number}"))).collect();
    let (warm, part) = (inode(&handler, "warm"), inode(&handler, "part"));
    let open = |ino| number(&answer(&ask(&handler, ino, Operation::Open)).unwrap());
    let cold: Vec<(u64, u64)> = cold.into_iter().map(|ino| (ino, open(ino))).collect();
    let (warm, partly) = ((warm, open(warm)), (part, open(part)));
    let object = handler.fs.node().lookup("part").unwrap().object.unwrap().id;
    handler.fs.node().viewable.lock().insert(object);
    handler.fs.node().stall_origin();
    let read = |(ino, handle)| ask(&handler, ino, Operation::Read { handle, offset: 0, size: 1000, paged: false });
    let stuck: Vec<_> = cold.into_iter().map(read).collect();
    assert_eq!(answer(&read(partly)).unwrap(), vec![3; 1000]);
    assert_eq!(answer(&read(warm)).unwrap(), vec![2; 1000]);
    assert!(stuck.iter().all(|reader| reader.try_recv().is_err()), "the readers of the origin still wait");
    handler.fs.node().release();
    assert!(stuck.iter().all(|reader| answer(reader).unwrap() == vec![1; 1000]));
}

#[test]
fn a_node_whose_disk_stalls_does_not_delay_lookups() {
    let handler = handler(false);
    let stuck = open_cold(&handler);
    handler.fs.node().stalled.lock().disk = true;
    let warm = inode(&handler, "warm");
    // Each has the node verify the file, or lease it, which waits for the disk.
    let waiting: Vec<_> = (0..READERS).map(|_| ask(&handler, warm, Operation::Open)).collect();
    assert!(answer(&ask(&handler, ROOT, Operation::Lookup { name: b"warm" })).is_ok());
    assert!(waiting.iter().all(|reader| reader.try_recv().is_err()), "the disk stalls");
    handler.fs.node().release();
    assert!(waiting.iter().chain(&stuck).all(|reader| answer(reader).is_ok()));
}

/// Opens a file that another handle reads by passthrough, after its lease was lost with its connection.
fn open_unverified(verdict: Option<LeaseStatus>) -> Result<Vec<u8>, Errno> {
    let handler = handler_with(|settings| settings.policy = Policy::Passthrough);
    let warm = inode(&handler, "warm");
    answer(&ask(&handler, warm, Operation::Open)).unwrap();
    handler.fs.node().leases.lock().iter().for_each(|lease| lease.answered(LeaseStatus::Unverified));
    *handler.fs.node().verdict.lock() = verdict;
    let stuck = open_cold(&handler);
    let opened = answer(&ask(&handler, warm, Operation::Open));
    assert!(stuck.iter().all(|reader| reader.try_recv().is_err()), "the readers of the origin still wait");
    handler.fs.node().release();
    assert!(stuck.iter().all(|reader| answer(reader).is_ok()));
    opened
}

#[test]
fn a_lease_is_verified_before_its_file_is_opened_again_though_the_origin_stalls() {
    assert!(open_unverified(Some(LeaseStatus::Verified)).is_ok());
    // The kernel looks the name up again, and finds another inode.
    assert_eq!(open_unverified(Some(LeaseStatus::Corrupt)), Err(Errno::Stale));
    assert_eq!(open_unverified(Some(LeaseStatus::Evicted)), Err(Errno::Stale));
    assert_eq!(open_unverified(None), Err(Errno::Stale), "a node that refuses to verify it");
}

#[test]
fn every_kind_of_request_that_panics_is_answered_with_an_io_error() {
    let handler = handler_with(|settings| settings.whole_bytes = 10);
    let (cold, warm) = (inode(&handler, "cold/0"), inode(&handler, "warm"));
    let opened = number(&answer(&ask(&handler, cold, Operation::Open)).unwrap());
    let directory = number(&answer(&ask(&handler, ROOT, Operation::OpenDirectory)).unwrap());
    for _ in 0..READERS {
        handler.fs.node().panics.store(true, Relaxed);
        let asked = [
            ask(&handler, ROOT, Operation::Lookup { name: b"warm" }),
            ask(&handler, ROOT, Operation::List { handle: directory, cookie: 0, size: 4096, plus: true }),
            ask(&handler, warm, Operation::ExtendedAttribute { name: b"user.fodder.tier", room: 100 }),
            ask(&handler, warm, Operation::Open),
            ask(&handler, cold, Operation::Read { handle: opened, offset: 0, size: 1000, paged: false }),
        ];
        for (number, asked) in asked.iter().enumerate() {
            assert_eq!(answer(asked), Err(Errno::Io), "request {number}");
        }
    }
    handler.fs.node().panics.store(false, Relaxed);
    assert!(answer(&ask(&handler, warm, Operation::Open)).is_ok(), "and the threads are there");
}
