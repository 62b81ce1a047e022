//! The datasets that were added to a running node, kept for its next start.
//!
//! Only those: what flags or a file name is theirs to say. Credentials are not kept: a dataset whose origin holds some
//! must be named in a configuration file to come back.

use anyhow::{Context, Result};
use fodder_core::config::DatasetConfig;
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

const FILE: &str = "datasets.json";
/// What the file looks like; a later form gets another number.
const FORMAT: u32 = 1;

#[derive(serde::Serialize, serde::Deserialize)]
struct Contents {
    format: u32,
    datasets: Vec<DatasetConfig>,
}

/// The remembered datasets of one cache directory.
#[derive(Debug)]
pub(crate) struct Remembered {
    /// None: nothing is to be remembered.
    path: Option<PathBuf>,
    datasets: Vec<DatasetConfig>,
}

impl Remembered {
    /// What an earlier node left. A file that cannot be understood is an error: its datasets would be forgotten.
    pub(crate) fn open(cache_dir: &Path) -> Result<Self> {
        let path = cache_dir.join(FILE);
        let datasets = match fs::read_to_string(&path) {
            Ok(text) => read(&text).with_context(|| {
                let path = path.display();
                format!("cannot read {path}, which lists the datasets added earlier: repair it or move it away")
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Ok(Self { path: Some(path), datasets })
    }

    /// Remembers nothing, whatever it is told.
    pub(crate) fn nothing() -> Self {
        Self { path: None, datasets: Vec::new() }
    }

    /// The datasets.
    pub(crate) fn datasets(&self) -> &[DatasetConfig] {
        &self.datasets
    }

    /// Makes the file say `datasets`, if it does not yet: whole or not at all, and durable.
    pub(crate) fn keep(&mut self, mut datasets: Vec<DatasetConfig>) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        datasets.sort_by(|a, b| a.name.cmp(&b.name));
        if datasets == self.datasets {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(&Contents { format: FORMAT, datasets: datasets.clone() })?;
        write_whole(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        self.datasets = datasets;
        Ok(())
    }
}

fn read(text: &str) -> Result<Vec<DatasetConfig>> {
    let contents: Contents = serde_json::from_str(text)?;
    anyhow::ensure!(
        contents.format == FORMAT,
        "it has format {}, and this version of Fodder reads format {FORMAT}",
        contents.format
    );
    Ok(contents.datasets)
}

fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("json.new");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(name: &str) -> DatasetConfig {
        serde_json::from_value(serde_json::json!({"name": name, "origin": "/data"})).unwrap()
    }

    #[test]
    fn what_was_kept_is_there_at_the_next_start_and_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mut remembered = Remembered::open(dir.path()).unwrap();
        assert!(remembered.datasets().is_empty());
        remembered.keep(vec![dataset("b"), dataset("a")]).unwrap();
        assert_eq!(Remembered::open(dir.path()).unwrap().datasets(), [dataset("a"), dataset("b")]);
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_of_another_format_is_refused_and_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["{\"format\": 2, \"datasets\": []}", "{", ""] {
            fs::write(dir.path().join(FILE), text).unwrap();
            let error = format!("{:#}", Remembered::open(dir.path()).unwrap_err());
            assert!(error.contains("repair it or move it away"), "{error}");
        }
    }
}
