//! Tar and TFRecord shards: what becomes items, what is read of them, what breaks.

use super::*;
use crate::layout::testing::{tar_member, tfrecord_file};

pub(super) fn tar(samples: &[(&str, usize)]) -> Vec<u8> {
    let members = samples.iter().flat_map(|(key, size)| {
        let label = key.bytes().last().unwrap_or(0) % 10;
        [
            tar_member(&format!("{key}.jpg"), b'0', &vec![1; *size]),
            tar_member(&format!("{key}.cls"), b'0', label.to_string().as_bytes()),
        ]
    });
    let mut bytes = members.collect::<Vec<_>>().concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

#[test]
fn samples_of_all_shards_are_items_in_path_order() {
    let (dir, source) = (scratch(), Memory::default());
    source.put("b.tar", "1", tar(&[("x0", 10), ("x1", 2000)]));
    source.put("a.tar", "1", tar(&[("k7", 0)]));
    source.put("empty.tar", "1", tar(&[]));
    source.put("index.json", "1", &b"{}"[..]);
    source.put("c.TAR", "1", tar(&[("z9", 3)]));
    let catalog = build(dir.path(), "tar", &source).unwrap();
    for catalog in [catalog, reopen(dir.path(), "tar").unwrap()] {
        let snapshot = catalog.current();
        assert_eq!(names(&snapshot), ["a.tar#k7", "b.tar#x0", "b.tar#x1", "c.TAR#z9"]);
        let item = snapshot.item(2).unwrap();
        assert_eq!((item.range, item.label), (2048..2048 + 512 + 2048 + 1024, Some(9)));
        assert_eq!(snapshot.items_of(snapshot.lookup("b.tar").unwrap()), 1..3);
        assert_eq!(snapshot.items_of(snapshot.lookup("index.json").unwrap()), 4..4);
        assert_eq!(catalog.objects().piece_bytes(), 128 << 10);
        assert!(snapshot.problems().is_empty());
    }
}

#[test]
fn payloads_of_all_record_files_are_items() {
    let (dir, source) = (scratch(), Memory::default());
    source.put("train-00001-of-00002", "1", tfrecord_file(&[b"a", b"bb"]));
    source.put("train-00000-of-00002", "1", tfrecord_file(&[b"ccc"]));
    for other in ["_SUCCESS", ".crc", "dataset_info.json", "labels.txt"] {
        source.put(other, "1", &b"not records"[..]);
    }
    source.put("empty", "1", &b""[..]);
    let snapshot = build(dir.path(), "tfrecord", &source).unwrap().current();
    assert_eq!(names(&snapshot), ["train-00000-of-00002#0", "train-00001-of-00002#0", "train-00001-of-00002#1"]);
    assert_eq!(snapshot.item(2).unwrap().range, 17 + 12..17 + 14);
    assert!(snapshot.problems().is_empty());
    assert_eq!(snapshot.object_count(), 7);
}

#[test]
fn a_broken_shard_is_left_out_and_named_until_it_is_mended() {
    let (dir, source) = (scratch(), Memory::default());
    let mut broken = tar(&[("1", 10), ("2", 10)]);
    broken[2048] ^= 1;
    source.put("good.tar", "1", tar(&[("g", 1)]));
    source.put("bad.tar", "1", broken);
    let catalog = build(dir.path(), "tar", &source).unwrap();
    for catalog in [&catalog, &reopen(dir.path(), "tar").unwrap()] {
        let snapshot = catalog.current();
        assert_eq!(names(&snapshot), ["good.tar#g"]);
        assert!(snapshot.lookup("bad.tar").is_some());
        assert_eq!(snapshot.problems().len(), 1);
        assert!(snapshot.problems()[0].starts_with("bad.tar: sample 1 at byte 2048"), "{:?}", snapshot.problems());
    }
    source.put("bad.tar", "2", tar(&[("1", 10)]));
    wait(catalog.refresh_from(&source)).unwrap();
    assert_eq!(names(&catalog.current()), ["bad.tar#1", "good.tar#g"]);
    assert!(catalog.current().problems().is_empty());
}

#[test]
fn only_broken_shards_are_an_error() {
    let (dir, source) = (scratch(), Memory::default());
    source.put("bad.tar", "1", vec![7; 600]);
    assert!(matches!(build(dir.path(), "tar", &source), Err(Error::Corrupt(text)) if text.contains("bad.tar")));
    source.put("good.tar", "1", tar(&[("g", 1)]));
    let catalog = build(dir.path(), "tar", &source).unwrap();
    source.put("bad.tar", "2", vec![8; 600]);
    wait(catalog.refresh_from(&source)).unwrap();
    let before = catalog.current().id();
    source.put("good.tar", "2", vec![9; 600]);
    source.put("bad.tar", "3", vec![9; 600]);
    assert!(matches!(wait(catalog.refresh_from(&source)), Err(Error::Corrupt(_))));
    assert_eq!(catalog.current().id(), before);
}

#[test]
fn a_refresh_reads_only_new_and_changed_shards() {
    let (dir, source) = (scratch(), Memory::default());
    for n in 0..20 {
        source.put(&format!("{n:02}.tar"), "1", tar(&[("a", n), ("b", n * 1000)]));
    }
    let catalog = build(dir.path(), "tar", &source).unwrap();
    source.reads.lock().unwrap().clear();
    source.put("05.tar", "2", tar(&[("a", 1)]));
    source.put("zz.tar", "1", tar(&[("z", 1)]));
    source.remove("07.tar");
    wait(catalog.refresh_from(&source)).unwrap();
    let mut read: Vec<String> = source.reads.lock().unwrap().iter().map(|(path, _)| path.clone()).collect();
    read.dedup();
    assert_eq!(read, ["05.tar", "zz.tar"]);
    let again = scratch();
    let elsewhere = build(again.path(), "tar", &source).unwrap();
    assert_eq!(names(&catalog.current()), names(&elsewhere.current()));
    assert_eq!(catalog.current().id(), elsewhere.current().id());
    for id in 0..catalog.current().len() {
        let (ours, theirs) = (catalog.current().item(id).unwrap(), elsewhere.current().item(id).unwrap());
        assert_eq!((ours.range, ours.label), (theirs.range, theirs.label));
    }
}

#[test]
fn large_members_are_jumped_over() {
    let (dir, source) = (scratch(), Memory::default());
    let bytes = tar(&[("a", 8 << 20), ("b", 8 << 20), ("c", 100), ("d", 3 << 20), ("e", 5)]);
    let whole = bytes.len() as u64;
    source.put("big.tar", "1", bytes);
    let snapshot = build(dir.path(), "tar", &source).unwrap().current();
    assert_eq!(snapshot.len(), 5);
    let read: u64 = source.reads.lock().unwrap().iter().map(|(_, range)| range.end - range.start).sum();
    assert!(read < 1 << 20, "{read} of {whole} bytes");
}

#[test]
fn small_members_are_read_in_few_requests() {
    let (dir, source) = (scratch(), Memory::default());
    let keys: Vec<String> = (0..100).map(|n| format!("{n}")).collect();
    let samples: Vec<(&str, usize)> = keys.iter().map(|key| (key.as_str(), 100_000)).collect();
    source.put("shard.tar", "1", tar(&samples));
    assert_eq!(build(dir.path(), "tar", &source).unwrap().current().len(), 100);
    assert!(source.reads.lock().unwrap().len() <= 7, "{:?}", source.reads.lock().unwrap());
}

#[test]
fn a_shard_that_changes_meanwhile_is_taken_up_by_the_next_refresh() {
    let (dir, source) = (scratch(), Memory::default());
    source.put("a.tar", "1", tar(&[("a", 1)]));
    source.put("b.tar", "1", tar(&[("b", 1)]));
    source.listed_as.lock().unwrap().insert("b.tar".into(), "0".into());
    let catalog = build(dir.path(), "tar", &source).unwrap();
    assert_eq!(names(&catalog.current()), ["a.tar#a"]);
    assert!(catalog.current().problems()[0].contains("b.tar changed"));
    source.listed_as.lock().unwrap().clear();
    wait(catalog.refresh_from(&source)).unwrap();
    assert_eq!(names(&catalog.current()), ["a.tar#a", "b.tar#b"]);
}
