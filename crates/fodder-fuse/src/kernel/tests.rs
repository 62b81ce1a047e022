//! Requests of many programs at once, with a node whose origin stalls, and with one that panics.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{
    backing::Content,
    fs::Settings,
    inode::ROOT,
    mode::Policy,
    node::{Description, Entry, From, Newest, Page, Part},
    testing::{Ids, Memory},
};
use fodder_api::{Result as NodeResult, frames::ObjectId};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::HashSet,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

const DEADLINE: Duration = Duration::from_secs(20);

/// More than the threads of all pools together.
const READERS: usize = 200;

/// A node in memory whose origin can stall, and whose lookups can panic.
#[derive(Debug)]
struct Faulty {
    memory: Memory,
    stalled: Mutex<bool>,
    released: Condvar,
    panics: AtomicBool,
    /// Objects of which a part is cached.
    viewable: Mutex<HashSet<ObjectId>>,
}

impl Faulty {
    fn new(memory: Memory) -> Self {
        let (stalled, released) = (Mutex::new(false), Condvar::new());
        Self { memory, stalled, released, panics: AtomicBool::new(false), viewable: Mutex::default() }
    }

    fn release(&self) {
        *self.stalled.lock() = false;
        self.released.notify_all();
    }
}

impl Node for Faulty {
    fn lookup(&self, path: &str) -> NodeResult<Entry> {
        assert!(!self.panics.load(Relaxed), "planted");
        self.memory.lookup(path)
    }
    fn list(&self, path: &str, from: From<'_>, count: u32) -> NodeResult<Page> {
        self.memory.list(path, from, count)
    }
    fn lease(&self, object: ObjectId) -> NodeResult<Option<Content>> {
        self.memory.lease(object)
    }
    fn read(&self, object: ObjectId, part: Part, take: &mut dyn FnMut(&[u8])) -> NodeResult<()> {
        let mut stalled = self.stalled.lock();
        self.released.wait_while(&mut stalled, |stalled| *stalled);
        drop(stalled);
        self.memory.read(object, part, take)
    }
    fn read_shown(&self, object: ObjectId, part: Part, buffer: &mut [u8]) -> NodeResult<bool> {
        Ok(self.viewable.lock().contains(&object) && self.memory.read_shown(object, part, buffer)?)
    }
    fn describe(&self, object: ObjectId) -> NodeResult<Description> {
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
    let names: Vec<String> = (0..READERS).map(|number| format!("cold/{number}")).collect();
    let objects = names.iter().map(|name| (name.as_str(), vec![1; 1000]));
    let memory = Memory::new(objects.chain([("warm", vec![2; 1000]), ("part", vec![3; 2 << 20])]));
    memory.fill("warm");
    let settings = Settings {
        owner: (0, 0),
        immutable,
        policy: Policy::KeepCache,
        whole_bytes: 1 << 20,
        inodes: 1 << 20,
        files: 1000,
    };
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
    *handler.fs.node().stalled.lock() = true;
    let cold: Vec<u64> = (0..READERS).map(|number| inode(&handler, &format!("cold/{number}"))).collect();
    let (warm, part) = (inode(&handler, "warm"), inode(&handler, "part"));
    let partly = answer(&ask(&handler, part, Operation::Open)).unwrap();
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
    *handler.fs.node().stalled.lock() = true;
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
