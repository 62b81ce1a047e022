//! docs/SEMANTICS.md names a test for each promise: these tests must exist.

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
        for test in tests.split('`').skip(1).step_by(2) {
            let there = ["fn", "def"].iter().any(|word| code.contains(&format!("{word} {test}(")));
            assert!(there, "no test {test} for: {promise}");
            count += 1;
        }
    }
    assert!(count > 30, "only {count} tests are named");
}
