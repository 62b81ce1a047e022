//! A 10 GiB file of tokens, a tenth of it cached, 8 KiB at random through a mount, read and mapped: how many bytes are
//! fetched for each byte that is used.

use super::Setting;
use crate::{
    outcome::{Line, Target},
    program::Node,
};
use anyhow::{Context, Result};
use memmap2::{Advice, Mmap};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

const READ_BYTES: u64 = 8 << 10;
const PIECE_BYTES: f64 = (1 << 20) as f64;
/// What the node promises.
const BOUND: f64 = 17.0;

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let data = workspace.path().join("data");
    fs::create_dir_all(&data)?;
    let size: u64 = setting.choose(10 << 30, 256 << 20);
    // Without blocks on the disk: what is in it does not matter here.
    File::create(data.join("tokens.bin"))?.set_len(size)?;
    let node = Node::start(&data.display().to_string(), &workspace.path().join("cache"), 16 << 30, &[])?;
    let mount = node.mount(&workspace.path().join("mount"), &[])?;
    let file = File::open(mount.dir().join("tokens.bin"))?;
    let mut buffer = vec![0; 1 << 20];
    for at in (0..size / 10).step_by(buffer.len()) {
        file.read_exact_at(&mut buffer, at)?;
    }
    let mut dice = StdRng::seed_from_u64(7);
    let mut lines = Vec::new();
    let mut measure = |what: &str, reads: u64, read: &mut dyn FnMut(u64) -> Result<()>| {
        let before = node.count("bytes_from_origin")?;
        for _ in 0..reads {
            read(dice.random_range(0..size / READ_BYTES) * READ_BYTES)?;
        }
        let fetched = (node.count("bytes_from_origin")? - before) as f64;
        let a_byte = fetched / (reads * READ_BYTES) as f64;
        let what = format!("{} GiB, 8 KiB at random, {what}", size as f64 / f64::from(1 << 30));
        lines.push(Line::new(&what, "bytes", a_byte, "for each byte: the promise", BOUND, Target::AtMost(1.0)));
        let pieces = PIECE_BYTES / READ_BYTES as f64;
        lines.push(Line::new(&what, "bytes", a_byte, "whole pieces at first", pieces, Target::Context));
        anyhow::Ok(())
    };
    let reads = setting.choose(20_000, 500);
    let mut part = vec![0; READ_BYTES as usize];
    measure("read", reads, &mut |at| file.read_exact_at(&mut part, at).context("cannot read"))?;
    // SAFETY: nobody shortens the file.
    #[allow(unsafe_code, reason = "mapping a file is what is measured")]
    let mapped = unsafe { Mmap::map(&file)? };
    let mut touch = |at: u64| {
        part.copy_from_slice(&mapped[at as usize..][..READ_BYTES as usize]);
        std::hint::black_box(&part);
        Ok(())
    };
    // As numpy.memmap does it: the kernel is told nothing, and reads around each page.
    measure("mapped", reads, &mut touch)?;
    mapped.advise(Advice::Random)?;
    measure("mapped, the kernel told so", reads, &mut touch)?;
    drop((mapped, file, mount));
    Ok(lines)
}
