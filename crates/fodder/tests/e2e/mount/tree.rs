//! A mounted tree is the origin's tree, byte for byte, whatever goes on in the cache.

use super::{Place, Way, attribute, bytes, over_each_transport, wait_until_cached};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    ffi::OsStr,
    fs,
    io::ErrorKind,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

over_each_transport! {
    a_mounted_tree_is_the_origins_in_every_mode,
    tools_find_what_stat_and_attributes_tell,
    eight_readers_see_right_bytes_while_everything_is_evicted,
    an_origin_with_faults_gives_right_bytes_or_an_error_in_bounded_time,
    every_open_is_a_hit_at_the_node,
    a_full_cache_disk_fails_no_read,
    a_directory_of_many_files_is_listed_whole,
}

fn same(left: &Path, right: &Path) {
    let diff = Command::new("diff").arg("-r").arg(left).arg(right).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

fn fill(place: &Place) {
    for (number, path) in ["a", "b/c", "b/d/e", "b/ünï cödé", "b/new\nline", "z z/'\"$"].iter().enumerate() {
        place.put(path, &bytes(number as u64 + 1, 1 + number * 77_777));
    }
    place.put("empty", b"");
    fs::write(place.origin().join(OsStr::from_bytes(b"b/not \xff utf-8 \xe2\x82")), bytes(7, 1000)).unwrap();
    place.put("large", &bytes(99, (12 << 20) + 5));
    (0..300).for_each(|number| place.put(&format!("many/{number:04}"), &bytes(number + 1000, 100)));
}

fn a_mounted_tree_is_the_origins_in_every_mode(way: Way) {
    let place = Place::over(way);
    fill(&place);
    let _node = place.node(&[]);
    for flags in [&[][..], &["--no-passthrough"], &["--immutable"], &["--allow-other"]] {
        let mounted = place.mount(flags);
        same(&place.origin(), &place.mnt());
        same(&place.origin(), &place.mnt());
        mounted.unmount();
    }
}

fn tools_find_what_stat_and_attributes_tell(way: Way) {
    let place = Place::over(way);
    fill(&place);
    let _node = place.node(&[]);
    let mounted = place.mount(&[]);
    let (origin, mnt) = (place.origin(), place.mnt());
    let list = |dir: &Path| {
        let format = [".", "-type", "f", "-printf", "%p %s %TY%Tm%Td\\0"];
        let found = Command::new("find").current_dir(dir).args(format).output().unwrap().stdout;
        let mut lines: Vec<_> = found.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    assert_eq!(list(&mnt), list(&origin));
    let tar = |dir: &Path| {
        let options = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--mode=0", "-cf", "-", "."];
        Command::new("tar").current_dir(dir).args(options).output().unwrap().stdout
    };
    assert!(tar(&mnt) == tar(&origin));
    for path in ["a", "large", "b/ünï cödé"] {
        let (here, there) = (fs::metadata(mnt.join(path)).unwrap(), fs::metadata(origin.join(path)).unwrap());
        assert_eq!((here.len(), here.mtime(), here.mtime_nsec()), (there.len(), there.mtime(), there.mtime_nsec()));
        assert_eq!((here.mode() & 0o7777, here.nlink()), (0o444, 1));
        wait_until_cached(&mnt.join(path));
        assert_eq!(attribute(&mnt.join(path), "user.fodder.tier"), "SSD");
        assert!(attribute(&mnt.join(path), "user.fodder.etag").starts_with('"'));
    }
    let numbers: Vec<u64> = fs::read_dir(mnt.join("many"))
        .unwrap()
        .map(|entry| {
            use std::os::unix::fs::DirEntryExt;
            let entry = entry.unwrap();
            assert_eq!(entry.ino(), entry.metadata().unwrap().ino());
            entry.ino()
        })
        .collect();
    assert_eq!(numbers.len(), 300);
    let size = rustix::fs::statvfs(&mnt).unwrap();
    let bytes: u64 = 1 + (1..6).map(|n| 1 + n * 77_777).sum::<u64>() + (12 << 20) + 5 + 300 * 100 + 1000;
    assert_eq!((size.f_files, size.f_blocks), (309, bytes.div_ceil(4096)));
    assert_eq!((size.f_bsize, size.f_bavail, size.f_ffree, size.f_namemax), (4096, 0, 0, 255));
    assert_eq!(fs::metadata(mnt.join("nothing")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::write(mnt.join("a"), b"x").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    mounted.unmount();
}

fn eight_readers_see_right_bytes_while_everything_is_evicted(way: Way) {
    let place = Place::over(way);
    let sizes = [100, 70_000, 300_000, 1 << 20, (2 << 20) + 7, 9 << 20];
    let contents: Vec<Vec<u8>> =
        (0..60).map(|number| bytes(number + 1, sizes[number as usize % sizes.len()])).collect();
    contents.iter().enumerate().for_each(|(number, bytes)| place.put(&format!("d{}/{number}", number % 3), bytes));
    // A third of what there is fits, and some of that is thrown away all the time.
    let node = place.node(&["--policy", "lru", "--cache-size", "32MiB"]);
    let mounted = place.mount(&[]);
    let (done, reads, mnt) = (AtomicBool::new(false), AtomicUsize::new(0), place.mnt());
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..8)
            .map(|reader| {
                let (contents, done, reads, mnt) = (&contents, &done, &reads, &mnt);
                scope.spawn(move || {
                    let mut rng = SmallRng::seed_from_u64(reader);
                    while !done.load(Relaxed) {
                        let number = rng.random_range(0..contents.len());
                        let expected = &contents[number];
                        let file = fs::File::open(mnt.join(format!("d{}/{number}", number % 3))).unwrap();
                        let from = rng.random_range(0..=expected.len());
                        let mut found = vec![0; expected.len() - from];
                        for (index, part) in found.chunks_mut(1 << 18).enumerate() {
                            file.read_exact_at(part, (from + index * (1 << 18)) as u64).unwrap();
                        }
                        assert!(found == expected[from..], "file {number} from {from}");
                        reads.fetch_add(1, Relaxed);
                    }
                })
            })
            .collect();
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(6) && !readers.iter().any(|reader| reader.is_finished()) {
            node.client(&["evict", "data", "--prefix", "d1"]).good();
            let diff = Command::new("diff").arg("-r").arg(place.origin()).arg(&mnt).output().unwrap();
            if !diff.status.success() {
                done.store(true, Relaxed);
                panic!("{}", String::from_utf8_lossy(&diff.stdout));
            }
        }
        done.store(true, Relaxed);
    });
    assert!(reads.load(Relaxed) > 100, "{reads:?}");
    same(&place.origin(), &mnt);
    mounted.unmount();
}

fn an_origin_with_faults_gives_right_bytes_or_an_error_in_bounded_time(way: Way) {
    let place = Place::over(way);
    let contents: Vec<Vec<u8>> = (0..30).map(|number| bytes(number + 1, 200_000)).collect();
    contents.iter().enumerate().for_each(|(number, bytes)| place.put(&number.to_string(), bytes));
    let origin = format!("throttled:faults=0.3,latency=1ms,seed=5:{}", place.origin().display());
    let _node = crate::program::Node::start(&place.cache(), &[&origin, "--name", "data"]);
    let mounted = place.mount(&[]);
    let (started, mut right) = (Instant::now(), 0);
    for (number, expected) in contents.iter().enumerate() {
        match fs::read(place.mnt().join(number.to_string())) {
            Ok(found) => {
                assert!(found == *expected, "file {number}");
                right += 1;
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{error}"),
        }
    }
    assert!(right > 15 && started.elapsed() < Duration::from_secs(300), "{right} right");
    mounted.unmount();
}

fn every_open_is_a_hit_at_the_node(way: Way) {
    let place = Place::over(way);
    place.put("a", &bytes(1, 1000));
    let node = place.node(&[]);
    let mounted = place.mount(&[]);
    let path = place.mnt().join("a");
    fs::read(&path).unwrap();
    wait_until_cached(&path);
    let hits = || node.status()["datasets"][0]["stats"]["hits_ssd"].as_u64().unwrap();
    let before = hits();
    (0..20).for_each(|_| drop(fs::read(&path).unwrap()));
    crate::program::wait_for("the opens to be counted", || hits() >= before + 20);
    mounted.unmount();
}

fn a_full_cache_disk_fails_no_read(way: Way) {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    let place = Place::over(way);
    let sizes = [100_000, (1 << 20) + 1, 9 << 20];
    let contents: Vec<Vec<u8>> = (0..24).map(|number| bytes(number + 1, sizes[number as usize % 3])).collect();
    contents.iter().enumerate().for_each(|(number, bytes)| place.put(&number.to_string(), bytes));
    mount("tmpfs", place.cache(), "tmpfs", MountFlags::empty(), c"size=24m").unwrap();
    // More than the disk has, as it is when something else fills it.
    let node = place.node(&["--cache-size", "200MiB"]);
    let mounted = place.mount(&[]);
    for _ in 0..2 {
        for (number, expected) in contents.iter().enumerate() {
            assert!(fs::read(place.mnt().join(number.to_string())).unwrap() == *expected, "file {number}");
        }
    }
    mounted.unmount();
    drop(node);
    unmount(place.cache(), UnmountFlags::DETACH).unwrap();
}

fn a_directory_of_many_files_is_listed_whole(way: Way) {
    let place = Place::over(way);
    let dir = place.origin().join("many");
    fs::create_dir(&dir).unwrap();
    for number in 0..20_000 {
        fs::File::create(dir.join(format!("{number:06}"))).unwrap();
    }
    let _node = place.node(&[]);
    let mounted = place.mount(&[]);
    for _ in 0..2 {
        let mut names: Vec<_> =
            fs::read_dir(place.mnt().join("many")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert!(names.iter().enumerate().all(|(number, name)| *name == *format!("{number:06}")));
        assert_eq!(names.len(), 20_000);
    }
    mounted.unmount();
}
