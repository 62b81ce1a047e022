//! A walk that would take ages, and loses its reader.
#![allow(clippy::unwrap_used)]

use super::*;
use std::time::Duration;

#[tokio::test]
async fn a_walk_stops_when_its_reader_goes_away() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..40 {
        let directory = dir.path().join(format!("d{n:02}"));
        fs::create_dir(&directory).unwrap();
        for name in ["a", "b"] {
            std::os::unix::fs::symlink(format!("../d{:02}", n + 1), directory.join(name)).unwrap();
        }
    }
    // Without its limits, and without a file that would be passed on.
    let config = ListingConfig {
        follow_links: FollowLinks::All,
        max_aliases: u32::MAX,
        max_entries: u64::MAX,
        ..ListingConfig::default()
    };
    let details = Arc::<Mutex<ListingDetails>>::default();
    let root = fs::canonicalize(dir.path()).unwrap();
    let walk = walk(root, String::new(), Arc::new(config), Arc::clone(&details));
    assert_eq!(Arc::strong_count(&details), 2);
    drop(walk);
    let ended = async {
        while Arc::strong_count(&details) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("the walk has stopped");
}
