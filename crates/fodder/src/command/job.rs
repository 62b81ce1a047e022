//! `fodder job`: what a job says to a node, one subcommand each. Prints JSON where there is something to tell.

mod list;

use crate::{
    cli::{IntroduceArgs, JobArgs, JobCommand, ModeArg, UnevenArg},
    command::{jobs::audit_json, print_raw},
    join,
};
use anyhow::{Context, Result, bail};
use fodder_api::{Job, v1};
use fodder_policy::{
    job::{JobId, Start},
    plan::Order,
    serving::{Approximation, Mode},
};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    process::ExitCode,
};

pub(super) async fn run(command: JobCommand) -> Result<ExitCode> {
    match command {
        JobCommand::Introduce(args) => introduce(*args).await,
        JobCommand::Begin { job, epoch, rank, seed, ids } => {
            let order = match (seed, ids) {
                (Some(seed), _) => Order::Seed(seed),
                (None, ids) => Order::Ids(list::ids(&ids.context("give --seed or --ids")?)?),
            };
            let begun = find(&job).await?.begin_epoch(rank, epoch, &order).await?;
            let audit = begun.audit.as_ref().map(audit_json);
            tell(&json!({ "items": begun.items, "snapshot": begun.snapshot, "audit": audit }))
        }
        JobCommand::Next { job, epoch, rank, number, count, out } => {
            let request = v1::NextBatchRequest { epoch, rank, number, count, ..Default::default() };
            next(&find(&job).await?, request, out.as_deref()).await
        }
        JobCommand::Ack { job, epoch, rank, numbers } => {
            find(&job).await?.acknowledge(epoch, rank, numbers).await?;
            Ok(ExitCode::SUCCESS)
        }
        JobCommand::Consumed { job, epoch, ids } => {
            find(&job).await?.consumed(epoch, ids).await?;
            Ok(ExitCode::SUCCESS)
        }
        JobCommand::Scores { job, file } => {
            let scores = list::scores(&file)?;
            tell(&json!({ "taken": find(&job).await?.report_scores(scores).await? }))
        }
        JobCommand::Embeddings { job, file } => {
            let list::Rows { width, ids, values } = list::embeddings(&file)?;
            tell(&json!({ "taken": find(&job).await?.report_embeddings(width, ids, values).await? }))
        }
        JobCommand::Checkpoint { job, file } => {
            let checkpoint = find(&job).await?.checkpoint().await?;
            std::fs::write(&file, checkpoint).with_context(|| format!("cannot write {}", file.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        JobCommand::Resume { job, file, world, rank, ids, attempt, nonce } => {
            let checkpoint = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let ids = ids.map(|file| list::ids(&file)).transpose()?;
            let start = Start { attempt, nonce };
            let (job, resumed) = find(&job).await?.resume(checkpoint.into(), world, rank, ids, start).await?;
            let number = JobId(job.id()).to_string();
            let v1::ResumeReply { epoch, left, snapshot, .. } = resumed;
            tell(&json!({ "job": number, "epoch": epoch, "left": left, "snapshot": snapshot }))
        }
        JobCommand::Renew { job } => {
            find(&job).await?.renew().await?;
            Ok(ExitCode::SUCCESS)
        }
        JobCommand::Leave { job } => tell(&json!(find(&job).await?.leave().await?.as_ref().map(audit_json))),
    }
}

async fn introduce(args: IntroduceArgs) -> Result<ExitCode> {
    let mode = match args.mode {
        ModeArg::Strict => Mode::Strict,
        ModeArg::Reorder => Mode::Reorder { window: args.window },
        ModeArg::Approx => Mode::Approx(Approximation {
            max_fraction: args.max_fraction,
            same_class: !args.any_class,
            max_repeats: args.max_repeats,
        }),
    };
    let uneven = match args.uneven {
        UnevenArg::Pad => v1::Uneven::Pad,
        UnevenArg::Drop => v1::Uneven::Drop,
        UnevenArg::Exact => v1::Uneven::Exact,
    };
    let lease_ms = args.lease.map_or(0, |lease| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX));
    let request = v1::IntroduceRequest {
        dataset: args.dataset,
        name: args.name,
        mode: Some(mode.into()),
        world: args.world,
        uneven: uneven.into(),
        weight: Some(args.weight),
        lease_ms,
        in_step: args.in_step,
    };
    let introduced = join::connect(&args.node).await?.introduce(request).await?;
    let job = JobId(introduced.job.id()).to_string();
    tell(&json!({ "job": job, "snapshot": introduced.snapshot, "items": introduced.items }))
}

/// The job that is meant: by its name, or by its number.
async fn find(args: &JobArgs) -> Result<Job> {
    let client = join::connect(&args.node).await?;
    let jobs = client.list_jobs(Some(&args.dataset)).await?;
    let number = u64::from_str_radix(&args.job, 16).ok().filter(|_| args.job.len() == 16);
    if let Some(job) = jobs.iter().find(|job| job.name == args.job).map(|job| job.job).or(number) {
        return Ok(client.job(&args.dataset, job));
    }
    let names: Vec<_> = jobs.iter().map(|job| job.name.as_str()).collect();
    match names.is_empty() {
        true => bail!(
            "dataset {:?} has no jobs, and so no job {:?}: introduce it with `fodder job introduce`",
            args.dataset,
            args.job
        ),
        false => bail!("dataset {:?} has no job {:?}; it has: {}", args.dataset, args.job, names.join(", ")),
    }
}

async fn next(job: &Job, request: v1::NextBatchRequest, out: Option<&Path>) -> Result<ExitCode> {
    let mut items = job.next_batch(request).await?;
    let mut out = match out {
        Some(path) => {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            Some(BufWriter::new(file))
        }
        None => None,
    };
    let mut given = Vec::new();
    while let Some(item) = items.next().await? {
        let data = item.data?;
        let source = item.source.as_str_name().trim_start_matches("SOURCE_").to_lowercase();
        let delivery = item.delivery.as_str_name().trim_start_matches("DELIVERY_").to_lowercase();
        given.push(json!({
            "asked": item.asked,
            "served": item.served,
            "label": item.label,
            "delivery": delivery,
            "source": source,
            "bytes": data.len(),
        }));
        if let Some(out) = &mut out {
            out.write_all(&data).context("cannot write the items")?;
        }
    }
    if let Some(mut out) = out {
        out.flush().context("cannot write the items")?;
    }
    tell(&json!({ "snapshot": items.snapshot(), "items": given }))
}

fn tell(value: &Value) -> Result<ExitCode> {
    print_raw(&format!("{value}\n"))
}
