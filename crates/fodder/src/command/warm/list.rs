//! A list of paths in a file, one a line, and which line each came from.

use anyhow::{Context, Result, bail};
use fodder_api::{MAX_PATH_BYTES, spelling};
use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

/// The paths of a file.
pub(super) struct List {
    name: String,
    /// The lines that name paths, numbered from 1 on.
    lines: Vec<(u32, String)>,
}

impl List {
    /// Reads a file, or stdin. Lines may begin with what was given as the target. A line that can be no path is named.
    pub(super) fn read(file: &Path, target: &str) -> Result<Self> {
        let (name, reader): (_, Box<dyn BufRead>) = if file.as_os_str() == "-" {
            ("stdin".into(), Box::new(io::stdin().lock()))
        } else {
            let opened = File::open(file).with_context(|| format!("cannot read the list {}", file.display()))?;
            (file.display().to_string(), Box::new(BufReader::new(opened)))
        };
        Self::parse(name, reader, target)
    }

    fn parse(name: String, reader: impl BufRead, target: &str) -> Result<Self> {
        let mut lines = Vec::new();
        let target = target.trim_end_matches('/');
        for (number, line) in (1..).zip(reader.split(b'\n')) {
            let line = line.with_context(|| format!("cannot read {name}"))?;
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let path = &*spelling::text(line);
            if path.len() > MAX_PATH_BYTES || line.contains(&0) {
                bail!("{name}:{number}: not a path: it contains a NUL, or has more than {MAX_PATH_BYTES} bytes");
            }
            let below = path.strip_prefix(target).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path);
            lines.push((number, below.trim_start_matches("./").to_owned()));
        }
        Ok(Self { name, lines })
    }

    /// The paths, below `prefix`.
    pub(super) fn paths(&self, prefix: &str) -> Vec<String> {
        let prefix = prefix.trim_end_matches('/');
        let below = |path: &String| if prefix.is_empty() { path.clone() } else { format!("{prefix}/{path}") };
        self.lines.iter().map(|(_, path)| below(path)).collect()
    }

    /// How a person finds the path at a place in the list: `files.txt:7: train/9.jpg`.
    pub(super) fn line(&self, place: u64) -> String {
        match usize::try_from(place).ok().and_then(|place| self.lines.get(place)) {
            Some((number, path)) => format!("{}:{number}: {path}", self.name),
            None => self.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Result<List> {
        List::parse("files.txt".into(), text, "pets/")
    }

    #[test]
    fn paths_are_read_with_the_lines_they_came_from() {
        let list = parse(b"# chosen\na/1.png\r\n\n  b c\npets/x\n./y\n\xff").unwrap();
        assert_eq!(list.paths(""), ["a/1.png", "  b c", "x", "y", "\u{10F7FF}"]);
        assert_eq!(list.paths("sub/")[0], "sub/a/1.png");
        assert_eq!(list.line(0), "files.txt:2: a/1.png");
        assert_eq!(list.line(2), "files.txt:5: x");
    }

    #[test]
    fn a_line_that_can_be_no_path_is_named() {
        let long = [b"ok\n".to_vec(), vec![b'x'; MAX_PATH_BYTES + 1]].concat();
        for junk in [&b"ok\na\0b\n"[..], &long] {
            let said = parse(junk).err().unwrap().to_string();
            assert!(said.starts_with("files.txt:2: "), "{said}");
        }
        assert!(parse(b"\n# nothing\n").unwrap().paths("").is_empty(), "a list may be empty");
    }
}
