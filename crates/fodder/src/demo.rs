//! `fodder demo`: the main job in one command, three epochs over slow storage, with and without the cache.

mod image;
mod node;
mod read;
mod table;

use crate::{
    cli::DemoArgs,
    command::{block_on, plural, print_raw},
};
use anyhow::{Context, Result};
use fodder_core::size::human;
use image::Noise;
use indicatif::{ProgressBar, ProgressStyle};
use node::ChildNode;
use read::{STOP, Source, ThroughNode, ThroughOrigin, Truth};
use std::{path::Path, process::ExitCode, sync::atomic::Ordering, time::Instant};
use table::Paint;
use tokio::signal::unix::{SignalKind, signal};

/// Readers at a time, on both sides: the workers of a data loader.
const READERS: usize = 8;
/// What the dataset is called.
const NAME: &str = "demo";

/// Shows it. Leaves nothing behind, also when it is interrupted.
pub(crate) fn run(args: &DemoArgs) -> Result<ExitCode> {
    let dir =
        tempfile::Builder::new().prefix("fodder-demo-").tempdir().context("cannot create a directory for the demo")?;
    let (path, args) = (dir.path().to_owned(), args.clone());
    let show = std::thread::spawn(move || show(&args, &path));
    let interrupted = block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        while !show.is_finished() {
            tokio::select! {
                _ = interrupt.recv() => return Ok(true),
                _ = terminate.recv() => return Ok(true),
                () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {}
            }
        }
        Ok(false)
    })?;
    if interrupted {
        STOP.store(true, Ordering::Relaxed);
    }
    // The thread holds the node, and ends it whatever happened.
    let outcome = show.join().expect("the demonstration does not panic");
    if interrupted {
        return Ok(ExitCode::from(130));
    }
    outcome?;
    Ok(ExitCode::SUCCESS)
}

fn show(args: &DemoArgs, dir: &Path) -> Result<()> {
    let started = Instant::now();
    let paint = Paint::new();
    let data = dir.join("data");
    image::write_dataset(&data, args.images)?;
    let origin = format!("throttled:{}:{}", args.throttle, data.display());
    let truth = Truth::read(&data)?;
    let without = ThroughOrigin::open(&origin, truth.clone())?;
    print_painted(&format!(
        "\n  {}\n  {}, {}, behind slow storage: {}\n  {}, {READERS} readers, one sample at a time; every byte is compared \
         with the source\n\n",
        paint.bold("Fodder keeps GPUs fed."),
        plural(args.images.into(), "image"),
        human(truth.total_bytes()),
        args.throttle,
        plural(args.epochs.into(), "shuffled epoch")
    ))?;

    let node = ChildNode::start(&origin, NAME, dir)?;
    let with = ThroughNode::open(&node, NAME, truth)?;
    print_painted(&format!("{}\n", table::header(paint)))?;
    for number in 1..=args.epochs {
        let order = Noise(u64::from(number)).shuffled(u64::from(args.images));
        let slow = epoch(&without, &order, &format!("epoch {number}, straight from the origin"))?;
        let fast = epoch(&with, &order, &format!("epoch {number}, through Fodder"))?;
        print_painted(&format!("{}\n", table::row(paint, number, &slow, &fast)))?;
    }
    where_to_look(paint, &node)?;
    drop(with);
    node.stop()?;
    print_painted(&format!(
        "\n  All {} reads gave the right bytes. Took {:.1} s.\n  Now with your data:  {}\n\n",
        args.images * args.epochs * 2,
        started.elapsed().as_secs_f64(),
        paint.green("fodder serve ./data")
    ))
}

/// One epoch, with a bar where a terminal shows it.
fn epoch(source: &impl Source, order: &[u64], what: &str) -> Result<table::Epoch> {
    let style = ProgressStyle::with_template("  {msg}  {bar:40.green}  {pos}/{len}").expect("the template is constant");
    let bar = ProgressBar::new(order.len() as u64).with_style(style).with_message(what.to_owned());
    let result = read::epoch(source, order, READERS, || bar.inc(1));
    bar.finish_and_clear();
    result
}

/// The doors of the node, with what they answer now.
fn where_to_look(paint: Paint, node: &ChildNode) -> Result<()> {
    let (rest, grpc, socket) = (&node.rest, &node.grpc, node.socket.display());
    let mut text = format!(
        "\n  {}
    status    fodder status --addr {grpc}
    a sample  fodder get {NAME} 0 --addr {grpc} > sample.png
    REST      curl {rest}/api/v1/datasets
    gRPC      {grpc} (fodder.v1), also on the socket {socket}
    metrics   curl {rest}/metrics\n",
        paint.bold("Where to look while a node runs")
    );
    let metrics = node.http_get("/metrics")?;
    let is_shown = |line: &&str| line.starts_with("fodder_") && line.contains(NAME) && !line.ends_with(" 0");
    for line in metrics.lines().filter(is_shown).take(6) {
        text += &format!("              {}\n", paint.dim(line));
    }
    print_painted(&text)
}

/// Prints text that has colours where a terminal shows them.
fn print_painted(text: &str) -> Result<()> {
    print_raw(text).map(drop)
}
