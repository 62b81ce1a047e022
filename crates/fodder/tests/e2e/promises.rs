//! What can be said of the sources alone: docs/SEMANTICS.md names a test for each promise, and these tests must exist; what
//! nodes agree on hangs on no wall clock.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            found.push(path);
        }
    }
}

/// Whether the test that begins behind `before` has the attribute `ignore`.
fn is_ignored(before: &str) -> bool {
    let before = before.trim_end_matches("async ").trim_end();
    let mut attributes = before.lines().rev().map(str::trim_start).take_while(|line| line.starts_with("#["));
    attributes.any(|line| line.contains("ignore"))
}

#[test]
fn every_promise_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    sources(&root.join("python/tests"), &mut files);
    let code: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let page = fs::read_to_string(root.join("docs/SEMANTICS.md")).unwrap();
    let promises = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise"));
    let mut count = 0;
    for promise in promises {
        let tests = promise.rsplit('|').nth(1).unwrap_or_default();
        let mut run = 0;
        for test in tests.split('`').skip(1).step_by(2) {
            let at = ["fn", "def"].iter().find_map(|keyword| code.find(&format!("{keyword} {test}(")));
            let at = at.unwrap_or_else(|| panic!("no test {test} for: {promise}"));
            if !is_ignored(&code[..at]) {
                run += 1;
            } else {
                assert!(tests.contains(&format!("`{test}` (make soak)")), "{test} is ignored, but holds: {promise}");
            }
        }
        assert!(run > 0, "no test in CI holds: {promise}");
        count += run;
    }
    assert!(count > 30, "only {count} tests are named");
}

#[test]
fn nothing_that_nodes_agree_on_reads_a_wall_clock() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    sources(&root.join("fodder-policy/src"), &mut files);
    sources(&root.join("fodder-server/src/cluster"), &mut files);
    assert!(files.len() > 100, "only {} files", files.len());
    // Certificates have dates, and tests may start a node.
    files.retain(|file| !file.iter().any(|part| part == "tls" || part == "tls.rs" || part == "tests"));
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let wall = code.into_iter().find(|line| line.contains("SystemTime") || line.contains("UNIX_EPOCH"));
        assert_eq!(wall, None, "{} reads a wall clock", file.display());
    }
}
