//! A hundred thousand small files, cached, opened, read and closed a million times through a mount: the resident memory (RSS)
//! of the node and of the mount before, after the first half and after the second, which must not be more.

use super::Setting;
use crate::{
    fixture,
    outcome::{Line, Target},
    process::memory_kib,
    program::Node,
};
use anyhow::{Result, ensure};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{fs, path::Path, thread};

const READERS: usize = 8;
const FILE_BYTES: usize = 100;
const CACHE_BYTES: u64 = 1 << 30;
/// The first half fills tables: what the kernel knows, what is kept open.
const HALVES: u64 = 2;

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let data = workspace.path().join("data");
    let files = setting.choose(100_000, 2_000);
    let opens = setting.choose(1_000_000, 20_000);
    fixture::write_files(&data, files, FILE_BYTES)?;
    let node = Node::start(&data.display().to_string(), &workspace.path().join("cache"), CACHE_BYTES, &[])?;
    node.warm()?;
    let mount = node.mount(&workspace.path().join("mount"), &[])?;
    let held = || -> Result<[f64; 2]> {
        let [node, mount] = [node.process(), mount.process()].map(|process| memory_kib(process, "VmRSS"));
        Ok([node? as f64 / 1024.0, mount? as f64 / 1024.0])
    };
    let mut memory = vec![held()?];
    for half in 0..HALVES {
        open_many(mount.dir(), files, opens / HALVES as usize, half)?;
        memory.push(held()?);
    }
    let mut lines = Vec::new();
    for (who, name) in ["node", "mount"].into_iter().enumerate() {
        let [before, half, all] = [0, 1, 2].map(|when: usize| memory[when][who]);
        let what = |opens: usize| format!("RSS of the {name} after {opens} opens");
        lines.push(Line::new(what(opens / 2), "MiB", half, "before the first", before, Target::Context));
        lines.push(Line::new(what(opens), "MiB", all, "after half of them", half, Target::AtMost(1.1)));
    }
    Ok(lines)
}

/// Opens, reads and closes so many files, chosen at random, by all readers together.
fn open_many(dir: &Path, files: usize, opens: usize, seed: u64) -> Result<()> {
    let read = |reader: usize| {
        let mut dice = SmallRng::seed_from_u64(seed * READERS as u64 + reader as u64);
        let mut expected = [0; FILE_BYTES];
        for _ in 0..opens / READERS {
            let number = dice.random_range(0..files);
            let path = fixture::file(dir, number);
            fixture::scramble(number as u64, &mut expected);
            ensure!(fs::read(&path)? == expected, "{} has other bytes", path.display());
        }
        Ok(())
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|reader| scope.spawn(move || read(reader))).collect();
        readers.into_iter().try_for_each(|reader| reader.join().expect("a reader does not panic"))
    })
}
