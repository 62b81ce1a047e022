//! The examples in deploy/: they run, and say what they are meant to.

use crate::program::{Data, Node, fodder};
use clap::Parser;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples").join(path)
}

/// A prolog in a directory of its own, with its settings beside it.
pub(super) struct Prolog {
    dir: tempfile::TempDir,
}

impl Prolog {
    pub(super) fn new(settings: &str) -> Self {
        let prolog = Self { dir: tempfile::tempdir().unwrap() };
        fs::copy(example("slurm/fodder-prolog.sh"), prolog.path()).unwrap();
        prolog.set(settings);
        prolog
    }

    /// Writes its settings.
    pub(super) fn set(&self, settings: &str) {
        let program = fodder().get_program().to_str().unwrap().to_owned();
        let cache = self.dir.path().join("cache");
        let defaults = format!("FODDER={program}\nLOG={}\nCACHE_DIR={}\n", self.log_path().display(), cache.display());
        fs::write(self.dir.path().join("fodder-prolog.conf"), defaults + settings).unwrap();
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("fodder-prolog.sh")
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Runs it as Slurm does: with Slurm's variables and nothing else, in the root directory.
    fn run(&self) -> Output {
        let mut prolog = Command::new(self.path());
        prolog.env_clear().env("SLURM_JOB_ID", "17").env("SLURMD_NODENAME", "n1").current_dir("/").output().unwrap()
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }
}

#[test]
fn a_slurm_prolog_warms_without_path_or_environment() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let settings = format!("WARM='pets/cat pets/dog'\nCACHE_DIR={}\n", cache.path().display());
    let prolog = Prolog::new(&settings);
    assert!(prolog.run().status.success());
    let log = prolog.log();
    assert!(log.contains("job 17: pets/cat is there: complete: 4 files"), "{log}");
    assert!(log.contains("pets/dog is there"), "{log}");
    assert_eq!(node.status()["datasets"][0]["stats"]["origin_requests"], 8);
}

#[test]
fn a_slurm_prolog_never_fails_its_node() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let slow = format!("throttled:latency=10s:{}", data.path());
    let _node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let cache_dir = format!("CACHE_DIR={}\n", cache.path().display());
    for (settings, expected) in [
        ("WARM=pest\n".to_owned() + &cache_dir, "pest could not be brought in (status 1)"),
        (format!("WARM='pets {slow}'\nLIMIT=2\n") + &cache_dir, "is not all there"),
        ("WARM=pets\nLIMIT=0\n".to_owned() + &cache_dir, "no time is left for pets"),
        ("WARM=pets\nFODDER=/no/such/program\n".into(), "there is no program"),
        ("WARM=pets\nLOG=/no/such/directory/log\n".to_owned() + &cache_dir, ""),
        ("WARM=pets\nFLAGS='--no-such-flag'\n".to_owned() + &cache_dir, "pets"),
        ("if then ((\n".into(), ""),
    ] {
        let prolog = Prolog::new(&settings);
        let output = prolog.run();
        assert_eq!(output.status.code(), Some(0), "{settings}");
        assert!(prolog.log().contains(expected), "{settings}: {}", prolog.log());
    }
}

#[test]
fn the_kubernetes_example_holds_commands_that_are_understood() {
    let text = fs::read_to_string(example("kubernetes/warm-init-container.yaml")).unwrap();
    let pod: serde_yaml_ng::Value = serde_yaml_ng::from_str(&text).unwrap();
    let containers = &pod["spec"]["initContainers"];
    let script = containers[0]["args"][0].as_str().unwrap();
    let command = script.split("||").next().unwrap().trim().strip_prefix("timeout 30m ").unwrap();
    fodder::cli::Cli::try_parse_from(command.split_whitespace()).unwrap();
    let serve = containers[1]["command"].as_sequence().unwrap();
    fodder::cli::Cli::try_parse_from(serve.iter().map(|word| word.as_str().unwrap())).unwrap();
}
