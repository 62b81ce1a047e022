//! The Python package: PyTorch's loader over a cached dataset against torchvision over the same files, batches against
//! the same socket without Python, one item, and a loop whose plan is fetched ahead of it.

use super::Setting;
use crate::{
    contest::{Contestant, alternate},
    fixture,
    outcome::{Line, Target, median},
    process::Process,
    program::{self, Node},
};
use anyhow::{Context, Result, ensure};
use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

const ITEM_BYTES: usize = 100 << 10;
const CACHE_BYTES: u64 = 4 << 30;
/// Items of a batch by ids.
const BATCH: usize = 256;
/// What a step of training takes besides waiting.
const STEP_MS: u32 = 50;
/// How far the origin of the loop with a plan is.
const FAR: &str = "throttled:latency=20ms:";

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let (dir, interpreter) = (workspace.path(), Interpreter::new(workspace.path())?);
    let (items, drawn) = (setting.choose(4_000, 512), setting.choose(1_000, 64));
    let (files, pictures) = (dir.join("files"), dir.join("pictures"));
    fixture::write_files(&files, items, ITEM_BYTES)?;
    program::finish(interpreter.command().arg("draw").arg(&pictures).arg(drawn.to_string()))?;
    let node = |name: &str, origin: String| Node::start(&origin, &dir.join(name), CACHE_BYTES, &[]);
    let near = node("near", text(&files)?)?;
    let images = node("images", text(&pictures)?)?;
    let far = node("far", format!("{FAR}{}", text(&files)?))?;
    near.warm()?;
    images.warm()?;

    let mut serve = interpreter.command();
    serve.arg("serve").arg(&files).arg(near.socket()).arg(&pictures).arg(images.socket()).arg(far.socket());
    let loaders = RefCell::new(Process::spawn(&mut serve)?);
    ensure!(loaders.borrow_mut().answer()? == "ready", "the loaders did not start");

    let mut lines = Vec::new();
    for (what, told, count, least) in
        [("files", "files, not decoded", items, 0.9), ("decoded", "JPEG pictures, decoded", drawn, 0.97)]
    {
        let epoch = |who: &'static str| {
            let loaders = &loaders;
            Contestant::new(who, move |_| {
                rate(count as f64, || loaders.borrow_mut().ask(&format!("epoch {what} {who}")))
            })
        };
        let rounds = alternate(setting.choose(9, 1), &mut [epoch("fodder"), epoch("torchvision")])?;
        let what = format!("DataLoader, {told}");
        lines.push(Line::of_rounds(what, "files/s", &rounds[0], "torchvision", &rounds[1], Target::AtLeast(least)));
    }
    lines.push(batches(setting, &loaders, near.socket(), items)?);
    lines.extend(one_item(setting, &mut loaders.borrow_mut())?);
    lines.extend(ahead(setting, &mut loaders.borrow_mut())?);
    Ok(lines)
}

/// `get_batch` against the same frames received by Rust.
fn batches(setting: &Setting, loaders: &RefCell<Process>, socket: &str, items: usize) -> Result<Line> {
    let arguments = ["client", "--kind", "frames-unix", "--address", socket, "--items", &items.to_string()];
    let mut rust = Process::start(&arguments)?;
    let count = setting.choose(40, 2);
    let gigabytes = (count * BATCH * ITEM_BYTES) as f64 / 1e9;
    let ours = |round| rate(gigabytes, || loaders.borrow_mut().ask(&format!("batches {count} {round}")));
    let theirs = |round| rate(gigabytes, || rust.ask(&format!("run {count} {round}")));
    let speeds = alternate(
        setting.choose(9, 1),
        &mut [Contestant::new("get_batch", ours), Contestant::new("without Python", theirs)],
    )?;
    let [ours, theirs] = [&speeds[0], &speeds[1]];
    Ok(Line::of_rounds("get_batch, 256 x 100 KiB", "GB/s", ours, "without Python", theirs, Target::AtLeast(0.8)))
}

/// One warm item in a loop that does nothing else, and in one that computes between items, against `open().read()`.
fn one_item(setting: &Setting, loaders: &mut Process) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (what, told, how) in
        [("one", "one item, p50", "alone"), ("spaced", "one item, p50, computing between", "computing")]
    {
        let count = if how == "alone" { setting.choose(20_000, 200) } else { setting.choose(4_000, 200) };
        let ours: f64 = loaders.ask(&format!("{what} {count}"))?.parse()?;
        let plain: f64 = loaders.ask(&format!("plain {count} {how}"))?.parse()?;
        lines.push(Line::new(told, "µs", ours, "asked for", 60.0, Target::AtMost(1.0)));
        lines.push(Line::new(format!("{told}, against a file"), "µs", ours, "open().read()", plain, Target::Context));
    }
    Ok(lines)
}

/// How much of the time a loop waits, with a plan that is fetched ahead and without one.
fn ahead(setting: &Setting, loaders: &mut Process) -> Result<Vec<Line>> {
    let mut shares = |how| {
        let run = |seed| Ok(loaders.ask(&format!("ahead {how} {STEP_MS} {seed}"))?.parse::<f64>()?);
        (0..setting.choose(3, 1)).map(run).collect::<Result<Vec<_>>>()
    };
    let (planned, without) = (median(&shares("plan")?), median(&shares("demand")?));
    Ok(vec![
        Line::new("waiting, first epoch, 20 ms away, by plan", "%", planned, "asked for", 2.0, Target::AtMost(1.0)),
        Line::new("waiting, the same, without a plan", "%", without, "asked for", 2.0, Target::Context),
    ])
}

/// How much of something a second.
fn rate(work: f64, run: impl FnOnce() -> Result<String>) -> Result<f64> {
    let start = Instant::now();
    run()?;
    Ok(work / start.elapsed().as_secs_f64())
}

fn text(path: &Path) -> Result<String> {
    Ok(path.to_str().context("the directory's name is text")?.to_owned())
}

/// Python with the package as it was built beside this program.
struct Interpreter {
    python: PathBuf,
    script: PathBuf,
    packages: PathBuf,
}

impl Interpreter {
    /// Puts the package together in `dir`: what a wheel would have.
    fn new(dir: &Path) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let python = root.join(".venv/bin/python");
        ensure!(python.exists(), "there is no .venv: run make bench");
        let packages = dir.join("packages");
        copy_sources(&root.join("python/python/fodder"), &packages.join("fodder"))?;
        let native = std::env::current_exe()?.with_file_name("lib_fodder.so");
        fs::copy(&native, packages.join("fodder/_fodder.abi3.so"))
            .with_context(|| format!("{}: cargo build --release --package fodder-python", native.display()))?;
        Ok(Self { python, script: root.join("bench/python/loaders.py"), packages })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(&self.script).env("PYTHONPATH", &self.packages);
        command
    }
}

fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().context("an entry has a name")?);
        if path.is_dir() {
            copy_sources(&path, &target)?;
        } else if path.extension().is_some_and(|extension| extension == "py") {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
