//! Where log lines go. Standard output is for results, so the log is on stderr unless a file is named. A new log file is
//! its user's alone: it has names of files.

use crate::{cli::LogFormat, config::LogConfig};
use anyhow::{Context, Result, anyhow};
use std::{fs, io::IsTerminal, os::unix::fs::OpenOptionsExt};
use tracing_subscriber::{EnvFilter, fmt, fmt::writer::BoxMakeWriter};

/// Starts logging for this process.
pub(crate) fn start(config: &LogConfig) -> Result<()> {
    let filter = EnvFilter::try_new(&config.level).map_err(|_| {
        let level = &config.level;
        anyhow!("{level:?} is no log level: write error, warn, info, debug, trace, or a filter such as info,h2=warn")
    })?;
    let writer = match &config.file {
        Some(path) => {
            let file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
            BoxMakeWriter::new(file.with_context(|| format!("cannot write the log file {}", path.display()))?)
        }
        None => BoxMakeWriter::new(std::io::stderr),
    };
    let colour = config.file.is_none() && std::io::stderr().is_terminal();
    let log = fmt().with_env_filter(filter).with_writer(writer).with_ansi(colour).with_target(false);
    match config.format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}
