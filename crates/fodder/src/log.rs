//! Where log lines go. Standard output is for results, so the log is on stderr unless a file is named. A new log file is
//! its user's alone: it has names of files.

use crate::{
    cli::LogFormat,
    config::LogConfig,
    output::{self, escaped, escaped_name},
};
use anyhow::{Context, Result, anyhow};
use std::{fs, os::unix::fs::OpenOptionsExt};
use tracing_subscriber::{
    EnvFilter,
    field::MakeExt,
    fmt::{
        FormatFields,
        format::{Writer, debug_fn},
        writer::BoxMakeWriter,
    },
};

/// Starts logging for this process.
pub(crate) fn start(config: &LogConfig) -> Result<()> {
    let filter = EnvFilter::try_new(&config.level).map_err(|_| {
        let level = &config.level;
        anyhow!("{level:?} is not a log level: use error, warn, info, debug, trace, or a filter such as info,h2=warn")
    })?;
    let writer = match &config.file {
        Some(path) => {
            let file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
            BoxMakeWriter::new(file.with_context(|| format!("cannot write the log file {}", path.display()))?)
        }
        None => BoxMakeWriter::new(std::io::stderr),
    };
    let colour = config.file.is_none() && output::stderr_has_colours();
    // A log that cannot be written (its disk is full) must not fill stderr, which may hold the reason a node did not start.
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(colour).with_target(false);
    let log = log.log_internal_errors(false);
    match config.format {
        LogFormat::Text => log.fmt_fields(text_fields()).init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

/// A message and its fields as text. Fields hold names of files, whose control characters are escaped; `tracing` does that
/// for messages only.
fn text_fields() -> impl for<'a> FormatFields<'a> + Send + Sync + 'static {
    debug_fn(|writer: &mut Writer<'_>, field, value| match field.name() {
        "message" => write!(writer, "{}", escaped(&format!("{value:?}"))),
        name => write!(writer, "{name}={}", escaped_name(&format!("{value:?}"))),
    })
    .delimited(" ")
}
