//! `fodder config`: check a file, show what comes of file, environment and flags, or have a node read its own again.

use crate::{
    cli::{ConfigCommand, LogArgs, NodeArgs, ServeArgs},
    config::Effective,
    join, output,
};
use anyhow::Result;
use std::{path::Path, process::ExitCode};

pub(super) fn run(command: &ConfigCommand, log: &LogArgs) -> Result<ExitCode> {
    match command {
        ConfigCommand::Check { file } => check(file),
        ConfigCommand::Show(args) => show(args, log),
        ConfigCommand::Reload { cluster, node } => super::block_on(reload(*cluster, node)),
    }
}

fn check(file: &Path) -> Result<ExitCode> {
    let effective = Effective::new(&ServeArgs { config: Some(file.into()), ..ServeArgs::default() })?;
    for note in &effective.notes {
        output::note(note);
    }
    super::print(&format!(
        "{} is valid: {}\n",
        file.display(),
        super::plural(effective.config.datasets.len() as u64, "dataset")
    ))
}

fn show(args: &ServeArgs, log: &LogArgs) -> Result<ExitCode> {
    let Effective { mut config, notes, .. } = Effective::new(args)?;
    config.log = super::with_flags(config.log, log);
    for dataset in &mut config.datasets {
        dataset.origin = fodder_core::origin::redacted(&dataset.origin);
    }
    for note in &notes {
        output::note(note);
    }
    super::print_raw(&serde_yaml_ng::to_string(&config)?)
}

async fn reload(cluster: bool, node: &NodeArgs) -> Result<ExitCode> {
    let reply = join::connect(node).await?.reload(cluster).await?;
    let mut code = ExitCode::SUCCESS;
    for node in &reply.nodes {
        if !node.error.is_empty() {
            super::print(&format!("{}: failed: {}\n", node.address, node.error))?;
            output::error(format_args!("node {}: {}", node.address, node.error));
            code = ExitCode::FAILURE;
            continue;
        }
        let mut text = format!("{}:", node.address);
        for (what, names) in
            [("added", &node.added), ("removed", &node.removed), ("needs a restart for", &node.needs_restart)]
        {
            if !names.is_empty() {
                text += &format!(" {what} {};", names.join(", "));
            }
        }
        if text.ends_with(':') {
            text += " nothing has changed";
        }
        super::print(&format!("{}\n", text.trim_end_matches(';')))?;
    }
    Ok(code)
}
