//! Files of the catalog that are not what was written.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn catalog_with_two_snapshots(dir: &Path) -> Vec<SnapshotId> {
    let source = Memory::default();
    (0..40).for_each(|n| source.put_size(&format!("c{}/{n}.jpg", n % 3), "\"00ff\"", n << 18));
    let catalog = build(dir, "files", &source).unwrap();
    let first = catalog.current().id();
    source.put_size("c9/new.jpg", "odd version", 3);
    wait(catalog.refresh_from(&source)).unwrap();
    vec![first, catalog.current().id()]
}

#[test]
fn a_flipped_byte_is_noticed_or_harmless() {
    let dir = scratch();
    let ids = catalog_with_two_snapshots(dir.path());
    let good = names(&reopen(dir.path(), "files").unwrap().current());
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&path, &damaged).unwrap();
            let opened = catch_unwind(AssertUnwindSafe(|| Catalog::open(dir.path(), &identity(), &Layout::Files)));
            match opened.unwrap() {
                Ok(None) | Err(_) => {}
                Ok(Some(catalog)) => {
                    assert_eq!(catalog.current().id(), ids[1], "{} byte {at}", path.display());
                    assert_eq!(names(&catalog.current()), good);
                }
            }
        }
        fs::write(&path, &bytes).unwrap();
    }
}

#[test]
fn a_missing_file_means_building_anew() {
    let dir = scratch();
    catalog_with_two_snapshots(dir.path());
    let files: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 4);
    for path in files {
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(reopen(dir.path(), "files").is_none(), "{}", path.display());
        fs::write(&path, bytes).unwrap();
    }
    assert!(reopen(dir.path(), "files").is_some());
}

#[test]
fn what_a_crash_left_behind_is_removed() {
    let dir = scratch();
    catalog_with_two_snapshots(dir.path());
    for name in ["segment-77.cat", "snapshot-78.tmp", "manifest.tmp", "somebody-elses.txt"] {
        fs::write(dir.path().join(name), b"half").unwrap();
    }
    assert!(reopen(dir.path(), "files").is_some());
    assert!(!dir.path().join("segment-77.cat").exists() && !dir.path().join("manifest.tmp").exists());
    assert!(dir.path().join("somebody-elses.txt").exists());
}

#[test]
fn a_disk_that_cannot_be_written_changes_nothing() {
    let (dir, source) = (scratch(), Memory::default());
    source.put_size("a", "1", 1);
    let catalog = build(dir.path(), "files", &source).unwrap();
    let before = catalog.current().id();
    // The next snapshot's temporary file cannot be created where a directory stands.
    fs::create_dir(dir.path().join("snapshot-4.tmp")).unwrap();
    source.put_size("b", "1", 1);
    assert!(wait(catalog.refresh_from(&source)).is_err());
    assert_eq!(catalog.current().id(), before);
    assert_eq!(reopen(dir.path(), "files").unwrap().current().id(), before);
    fs::remove_dir(dir.path().join("snapshot-4.tmp")).unwrap();
    assert_eq!(wait(catalog.refresh_from(&source)).unwrap().added, 1);
    assert_ne!(reopen(dir.path(), "files").unwrap().current().id(), before);
}
