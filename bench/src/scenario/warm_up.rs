//! `fodder warm` against what line and disk give, and against `rclone copy` from the same S3 server: as it is, which compares the
//! MD5 sums that the server's ETags are, and told not to.

use super::{Setting, mount::write_large};
use crate::{
    contest::{Contestant, alternate},
    machine::touch_memory,
    mounted::{BUCKET, copy_with_rclone},
    outcome::{Line, Target},
    program::Node,
};
use anyhow::Result;
use fodder_s3_server::Server;
use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    time::Instant,
};

const BANDWIDTH_MB: f64 = 200.0;

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let data = workspace.path().join("data");
    let (files, file_mib) = (setting.choose(16, 2), setting.choose(64, 16));
    write_large(&data, files, file_mib)?;
    let bytes = (files * file_mib) as f64 * f64::from(1 << 20);
    let runtime = tokio::runtime::Runtime::new()?;
    let server = runtime.block_on(Server::start_dir("127.0.0.1:0", &data))?;
    let limited = format!("throttled:latency=20ms,bandwidth={BANDWIDTH_MB}MB/s:{}", data.display());
    let s3 = format!("s3://{BUCKET}?endpoint={}", server.endpoint());
    let (mut ours, mut best) = (Vec::new(), Vec::new());
    for _ in 0..setting.choose(3, 1) {
        let disk = write_plainly(&workspace.path().join("plain"), files * file_mib)?;
        best.push(BANDWIDTH_MB.min(bytes / disk / 1e6));
        ours.push(bytes / warm(&limited, workspace.path())? / 1e6);
    }
    let copy = |options: &[&str]| -> Result<f64> {
        let target = workspace.path().join("copy");
        touch_memory(2 * bytes as usize);
        let began = Instant::now();
        copy_with_rclone(&server.endpoint(), &target, options)?;
        let speed = bytes / began.elapsed().as_secs_f64() / 1e6;
        fs::remove_dir_all(target)?;
        Ok(speed)
    };
    let mut contestants = [
        Contestant::new("fodder warm", |_| {
            touch_memory(2 * bytes as usize);
            Ok(bytes / warm(&s3, workspace.path())? / 1e6)
        }),
        Contestant::new("rclone copy", |_| copy(&[])),
        Contestant::new("rclone copy --ignore-checksum", |_| copy(&["--ignore-checksum"])),
    ];
    let speeds = alternate(setting.choose(5, 1), &mut contestants)?;
    let [from_s3, copied, unchecked] = &speeds[..] else { unreachable!("as many speeds as contestants") };
    let what = format!("warming {files} × {file_mib} MiB");
    let from = format!("{what} from S3");
    Ok(vec![
        Line::of_rounds(&what, "MB/s", &ours, "line or disk, the slower", &best, Target::AtLeast(0.95)),
        Line::of_rounds(&from, "MB/s", from_s3, "rclone copy", copied, Target::AtLeast(1.0)),
        Line::of_rounds(&from, "MB/s", from_s3, "rclone copy --ignore-checksum", unchecked, Target::Context),
    ])
}

/// Seconds to bring everything into an empty cache.
fn warm(origin: &str, workspace: &Path) -> Result<f64> {
    let cache = workspace.join("cache");
    let node = Node::start(origin, &cache, 8 << 30, &["--anonymous"])?;
    let began = Instant::now();
    node.warm()?;
    let seconds = began.elapsed().as_secs_f64();
    drop(node);
    fs::remove_dir_all(cache)?;
    Ok(seconds)
}

/// Seconds to write as much to one file, and to have it on the disk.
fn write_plainly(path: &Path, mib: u64) -> Result<f64> {
    let block = vec![7; 1 << 20];
    let began = Instant::now();
    let mut file = File::create(path)?;
    for _ in 0..mib {
        file.write_all(&block)?;
    }
    file.sync_data()?;
    let seconds = began.elapsed().as_secs_f64();
    fs::remove_file(path)?;
    Ok(seconds)
}
