//! `fodder warm`: bring data in, and show how far it is. The node does the work.

mod list;
mod show;
mod target;

use super::target::Target;
use crate::{cli::WarmArgs, config, signal::Signals};
use anyhow::{Result, anyhow};
use fodder_api::{WarmStream, spelling, v1};
use list::List;
use show::{End, View};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, process::ExitCode, time::Duration};

/// The exit status when something is missing: neither that of an error nor that of a wrong command line.
const EXIT_MISSING: u8 = 3;

/// How long a node may take for its last word when a signal came. It speaks about twice a second.
const LAST_WORD: Duration = Duration::from_secs(1);

pub(super) async fn run(args: &WarmArgs) -> Result<ExitCode> {
    let list = args.from_list.as_deref().map(|file| List::read(file, &args.target)).transpose()?;
    let mut signals = Signals::new()?;
    let mut view = View::new(args.json);
    let begun = tokio::select! {
        begun = begin(args, list.as_ref()) => Some(begun?),
        () = signals.first() => None,
    };
    let end = match begun {
        Some(progress) => follow(progress, &mut signals, &mut view).await?,
        None => End::Stopped,
    };
    let complete = view.end(end, list.as_ref())?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(EXIT_MISSING) })
}

/// Shows what the node tells until it is over or a signal comes; then its next word, since the last may be stale.
async fn follow(mut progress: WarmStream, signals: &mut Signals, view: &mut View) -> Result<End> {
    loop {
        tokio::select! {
            next = progress.next() => match next? {
                Some(next) => view.show(next)?,
                None => return Ok(End::Finished),
            },
            () = signals.first() => break,
        }
    }
    match tokio::time::timeout(LAST_WORD, progress.next()).await {
        Ok(Ok(Some(last))) => {
            let end = if last.finished { End::Finished } else { End::Stopped };
            view.show(last)?;
            Ok(end)
        }
        _ => Ok(End::Stopped),
    }
}

/// Finds what is meant, and asks its node.
async fn begin(args: &WarmArgs, list: Option<&List>) -> Result<WarmStream> {
    let target = target::find(args).await.map_err(|error| hinted(error, &args.target))?;
    ask(args, &target, list).await.map_err(|error| hinted(error, &args.target))
}

/// An error, with a hint where a file of this directory may have been meant, which is written otherwise.
fn hinted(error: anyhow::Error, target: &str) -> anyhow::Error {
    let is_unknown = matches!(error.downcast_ref(), None | Some(fodder_api::Error::NotFound(_)));
    let is_here = || Path::new(OsStr::from_bytes(&spelling::name(target))).exists();
    if is_unknown && !config::is_origin(target) && is_here() {
        return anyhow!("{error:#}\nfor the file or directory of that name in the current directory, write ./{target}");
    }
    error
}

async fn ask(args: &WarmArgs, target: &Target, list: Option<&List>) -> Result<WarmStream> {
    let request = v1::WarmRequest {
        dataset: target.dataset.clone(),
        path: target.path.clone(),
        max_bytes: args.max_size,
        bytes_per_second: args.bandwidth.unwrap_or(0),
        workers: args.workers,
        shown: target.mounted,
        this_node: args.this_node,
        ..Default::default()
    };
    Ok(match list {
        Some(list) => target.client.warm_listed(request, list.paths(&target.path)).await?,
        None => target.client.warm(request).await?,
    })
}
