//! A node and a mount for minutes, under everything at once: what they hold must not grow.

use super::{Place, bytes, can_mount};
use crate::program::Node;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    fmt, fs,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

const FILES: u64 = 2_000;
const READERS: u64 = 8;

/// What a process holds.
#[derive(Clone, Copy)]
struct Held {
    memory_kib: u64,
    fds: u64,
    threads: u64,
}

impl Held {
    fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
        Self { memory_kib: field("RssAnon:"), fds, threads: field("Threads:") }
    }

    /// The most of two.
    fn or(self, other: Self) -> Self {
        Self {
            memory_kib: self.memory_kib.max(other.memory_kib),
            fds: self.fds.max(other.fds),
            threads: self.threads.max(other.threads),
        }
    }

    /// Whether it is clearly more than another. Threads that read files of an origin come when more of them are read at once
    /// than ever before, and stay while there is work: of those there are at most as many as requests, which are 64.
    fn exceeds(self, before: Self) -> bool {
        self.memory_kib > before.memory_kib + before.memory_kib / 5 + (32 << 10)
            || self.fds > before.fds + before.fds / 5 + 64
            || self.threads > before.threads + 32
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4} MiB, {:>5} fds, {:>3} threads", self.memory_kib >> 10, self.fds, self.threads)
    }
}

fn size(file: u64) -> usize {
    match file % 100 {
        0 => 12 << 20,
        _ => 1 + (file as usize * 7919) % 200_000,
    }
}

fn name(file: u64) -> String {
    format!("class{}/{file:05}", file % 20)
}

/// Reads files at random and compares their bytes, in whole and in parts.
fn read(mnt: &Path, seed: u64, end: &AtomicBool, reads: &AtomicU64) {
    let mut dice = SmallRng::seed_from_u64(seed);
    while !end.load(Relaxed) {
        let file = dice.random_range(0..FILES);
        let (path, content) = (mnt.join(name(file)), bytes(file + 1, size(file)));
        if dice.random_bool(0.5) {
            assert!(fs::read(&path).unwrap() == content, "{} is wrong", path.display());
        } else {
            let open = fs::File::open(&path).unwrap();
            for _ in 0..4 {
                let at = dice.random_range(0..content.len());
                let mut part = vec![0; (content.len() - at).min(100_000)];
                open.read_exact_at(&mut part, at as u64).unwrap();
                assert!(part == content[at..at + part.len()], "{} is wrong from {at} on", path.display());
            }
        }
        reads.fetch_add(1, Relaxed);
    }
}

/// Evicts, lists, walks and asks, as people and their tools do.
fn disturb(node: &Node, mnt: &Path, end: &AtomicBool) {
    for turn in 0u64.. {
        if end.load(Relaxed) {
            return;
        }
        match turn % 4 {
            0 => drop(node.client(&["evict", "data", "--prefix", &format!("class{}/", turn % 20)]).good()),
            1 => drop(node.client(&["index", "data"]).good()),
            2 => drop(node.status()),
            _ => assert!(fs::read_dir(mnt.join(format!("class{}", turn % 20))).unwrap().count() > 0),
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "takes minutes: make soak"]
fn nothing_grows_under_readers_evictions_and_refreshes() {
    if !can_mount() {
        return;
    }
    let minutes: f64 =
        std::env::var("SOAK_MINUTES").map_or(10.0, |text| text.parse().expect("SOAK_MINUTES is a number"));
    let (place, began) = (Place::new(), Instant::now());
    (0..FILES).for_each(|file| place.put(&name(file), &bytes(file + 1, size(file))));
    // A third of it fits, so that it is evicted and fetched all the time.
    let node = place.node(&["--cache-size", "150MiB", "--policy", "lru"]);
    let mounted = place.mount(&[]);
    let (mnt, end, reads) = (place.mnt(), AtomicBool::new(false), AtomicU64::new(0));
    let (mut early, mut late) = ([None; 2], [None; 2]);
    thread::scope(|scope| {
        let (mnt, end, reads, node) = (&mnt, &end, &reads, &node);
        let mut others: Vec<_> = (0..READERS).map(|seed| scope.spawn(move || read(mnt, seed, end, reads))).collect();
        others.push(scope.spawn(move || disturb(node, mnt, end)));
        let whole = Duration::from_secs_f64(minutes * 60.0);
        while began.elapsed() < whole && !others.iter().any(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(whole / 40);
            let held = [node.child.id(), mounted.child.id()].map(Held::of);
            let done = began.elapsed().as_secs_f64() / whole.as_secs_f64();
            println!(
                "{:>4.0} %  {:>8} reads   node {}   mount {}",
                done * 100.0,
                reads.load(Relaxed),
                held[0],
                held[1]
            );
            // The first fifth fills buffers and tables; the second is compared with the last.
            let into = match done {
                0.2..0.4 => &mut early,
                0.8.. => &mut late,
                _ => continue,
            };
            for (most, held) in into.iter_mut().zip(held) {
                *most = Some(most.map_or(held, |most: Held| most.or(held)));
            }
        }
        end.store(true, Relaxed);
    });
    for (who, (early, late)) in ["the node", "the mount"].iter().zip(early.into_iter().zip(late)) {
        let (early, late) = (early.unwrap(), late.unwrap());
        assert!(!late.exceeds(early), "{who} grew:\n  {early}\n  {late}");
    }
    assert!(reads.load(Relaxed) > 1_000, "hardly anything was read");
    mounted.unmount();
}

/// Opens, reads and closes files chosen at random, until so many were opened by all.
fn open_many(dir: &Path, seed: u64, files: u64, opened: &AtomicU64, most: u64) {
    let mut dice = SmallRng::seed_from_u64(seed);
    while opened.fetch_add(1, Relaxed) < most {
        let file = dice.random_range(0..files);
        let content = fs::read(dir.join(format!("d{}/{file}", file % 100))).unwrap();
        assert_eq!(content, file.to_string().as_bytes());
    }
}

#[test]
#[ignore = "takes minutes: make soak"]
fn memory_is_flat_over_a_million_opens_of_a_hundred_thousand_files() {
    const FILES: u64 = 100_000;
    /// Opens of each round. The first two fill tables: what the kernel knows, what is kept open.
    const ROUND: u64 = 250_000;
    const ROUNDS: u64 = 4;
    if !can_mount() {
        return;
    }
    let place = Place::new();
    for dir in 0..100 {
        fs::create_dir(place.origin().join(format!("d{dir}"))).unwrap();
    }
    for file in 0..FILES {
        fs::write(place.origin().join(format!("d{}/{file}", file % 100)), file.to_string()).unwrap();
    }
    // Small files take a block each.
    let node = place.node(&["--cache-size", "1GiB"]);
    node.client(&["warm", "data"]).good();
    let mounted = place.mount(&[]);
    let held = || [node.child.id(), mounted.child.id()].map(Held::of);
    let mut before = held();
    println!("before any open               node {}   mount {}", before[0], before[1]);
    for round in 1..=ROUNDS {
        let (began, opened, mnt) = (Instant::now(), AtomicU64::new(0), place.mnt());
        thread::scope(|scope| {
            for reader in 0..READERS {
                let (opened, mnt) = (&opened, &mnt);
                scope.spawn(move || open_many(mnt, round * READERS + reader, FILES, opened, ROUND));
            }
        });
        let (now, took) = (held(), began.elapsed());
        println!("after {:>8} opens, {took:>6.1?}   node {}   mount {}", round * ROUND, now[0], now[1]);
        if round == ROUNDS / 2 {
            before = now;
        }
    }
    for (who, (before, after)) in ["the node", "the mount"].iter().zip(before.into_iter().zip(held())) {
        assert!(!after.exceeds(before), "{who} grew:\n  {before}\n  {after}");
    }
    mounted.unmount();
}

#[test]
fn a_process_that_grows_is_noticed() {
    let before = Held::of(std::process::id());
    let memory = vec![1u8; before.memory_kib as usize / 2 * 1024 + (512 << 20)];
    let grown = Held { memory_kib: Held::of(std::process::id()).memory_kib, ..before };
    assert!(grown.exceeds(before), "{before}, then {grown}");
    drop(memory);
    let files: Vec<_> = (0..before.fds + 200).map(|_| fs::File::open("/dev/null").unwrap()).collect();
    let grown = Held { fds: Held::of(std::process::id()).fds, ..before };
    assert!(grown.exceeds(before), "{before}, then {grown}");
    drop(files);
    let end = std::sync::Mutex::new(());
    thread::scope(|scope| {
        let held = end.lock().unwrap();
        for _ in 0..before.threads + 60 {
            scope.spawn(|| drop(end.lock()));
        }
        let grown = Held { threads: Held::of(std::process::id()).threads, ..before };
        drop(held);
        assert!(grown.exceeds(before), "{before}, then {grown}");
    });
    assert!(!before.exceeds(before));
}

#[test]
#[ignore = "makes a million files"]
fn a_directory_of_a_million_files_is_listed_whole_in_bounded_memory() {
    const FILES: usize = 1_000_000;
    /// A file of ext4 has at most 65,000 names.
    const NAMES: usize = 50_000;
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let dir = place.origin().join("many");
    fs::create_dir(&dir).unwrap();
    for number in 0..FILES {
        let first = dir.join(format!("{:07}", number - number % NAMES));
        match number % NAMES {
            0 => fs::write(first, number.to_string()).unwrap(),
            _ => fs::hard_link(first, dir.join(format!("{number:07}"))).unwrap(),
        }
    }
    let _node = place.node(&[]);
    let mounted = place.mount(&[]);
    let many = place.mnt().join("many");
    for round in ["asked for", "kept by the kernel"] {
        let started = Instant::now();
        let mut seen = vec![false; FILES];
        for entry in fs::read_dir(&many).unwrap() {
            let number: usize = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
            assert!(!std::mem::replace(&mut seen[number], true), "{number} twice");
        }
        assert!(seen.iter().all(|seen| *seen));
        println!("listed, {round}: {:.1?}; the mount: {}", started.elapsed(), Held::of(mounted.child.id()));
    }
    for number in (0..FILES).step_by(10_007) {
        let content = fs::read_to_string(many.join(format!("{number:07}"))).unwrap();
        assert_eq!(content, (number - number % NAMES).to_string());
    }
    let held = Held::of(mounted.child.id());
    assert!(held.memory_kib < 1 << 20, "{held}");
    mounted.unmount();
}
