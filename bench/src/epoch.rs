//! One pass over all files of a directory.

use anyhow::{Context, Result};
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    thread,
    time::Instant,
};

/// Reads all files below a directory in name order, each by one of the readers; MB/s.
pub(crate) fn read_all(dir: &Path, readers: usize) -> Result<f64> {
    read_all_by(dir, readers, 1 << 20)
}

/// The same, so many bytes at a time. Their buffer begins within a page, as most do.
pub(crate) fn read_all_by(dir: &Path, readers: usize, chunk_bytes: usize) -> Result<f64> {
    let files = files_below(dir)?;
    let began = Instant::now();
    let bytes = thread::scope(|scope| {
        let read = |first: usize| {
            let mut buffer = vec![0; chunk_bytes];
            let mut bytes = 0;
            for path in files.iter().skip(first).step_by(readers) {
                let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
                loop {
                    match file.read(&mut buffer).with_context(|| format!("cannot read {}", path.display()))? {
                        0 => break,
                        n => bytes += n,
                    }
                }
            }
            anyhow::Ok(bytes)
        };
        let reading: Vec<_> = (0..readers).map(|first| scope.spawn(move || read(first))).collect();
        reading.into_iter().map(|thread| thread.join().expect("a reader does not panic")).sum::<Result<usize>>()
    })?;
    Ok(bytes as f64 / began.elapsed().as_secs_f64() / 1e6)
}

/// Has the kernel forget what it keeps in memory of the large files below a directory, which it then reads in again from the
/// disk. How large files are read from memory depends on how they came there: written in parts by many, or read in order.
/// Small ones are written at once by everybody.
pub(crate) fn forget_large(dir: &Path) -> Result<()> {
    rustix::fs::sync();
    for path in files_below(dir)? {
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        if file.metadata()?.len() >= 1 << 20 {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { files.extend(files_below(&entry.path())?) } else { files.push(entry.path()) }
    }
    files.sort();
    Ok(files)
}
