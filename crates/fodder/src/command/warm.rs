//! `fodder warm`: bring data in, and show how far it is. The node does the work.

mod list;
mod show;
mod target;

use crate::{cli::WarmArgs, signal::Signals};
use anyhow::Result;
use fodder_api::{WarmStream, v1};
use list::List;
use show::{End, View};
use std::process::ExitCode;
use target::Target;

/// The status when something is missing.
const EXIT_MISSING: u8 = 2;

pub(super) async fn run(args: &WarmArgs) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let list = args.from_list.as_deref().map(|file| List::read(file, &args.target)).transpose()?;
    let mut view = View::new(args.json);
    let end = tokio::select! {
        end = warm(args, list.as_ref(), &mut view) => end?,
        () = signals.first() => End::Stopped,
    };
    let complete = view.end(end, list.as_ref())?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(EXIT_MISSING) })
}

/// Asks the node, and shows what it tells until it is over.
async fn warm(args: &WarmArgs, list: Option<&List>, view: &mut View) -> Result<End> {
    let target = Target::find(args).await?;
    let mut progress = ask(args, &target, list).await?;
    while let Some(progress) = progress.next().await? {
        view.show(progress)?;
    }
    Ok(End::Finished)
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
