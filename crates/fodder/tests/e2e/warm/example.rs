//! The examples in deploy/: they run, and say what they are meant to.

use crate::program::{Data, Node, fodder, wait_for};
use clap::Parser;
use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
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

    /// As Slurm runs it: with Slurm's variables and nothing else, in the root directory, in a process group of its own.
    fn command(&self) -> Command {
        let mut prolog = Command::new(self.path());
        prolog.env_clear().env("SLURM_JOB_ID", "17").env("SLURMD_NODENAME", "n1").current_dir("/").process_group(0);
        prolog
    }

    fn run(&self) -> Output {
        self.command().output().unwrap()
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
        (
            "WARM=pets\nFLAGS='--no-such-flag'\n".to_owned() + &cache_dir,
            "pets could not be brought in (status 2): error: unexpected argument '--no-such-flag'",
        ),
        ("if then ((\n".into(), ""),
    ] {
        let prolog = Prolog::new(&settings);
        let output = prolog.run();
        assert_eq!(output.status.code(), Some(0), "{settings}");
        assert!(prolog.log().contains(expected), "{settings}: {}", prolog.log());
    }
}

#[test]
fn a_slurm_prolog_that_is_told_to_end_does_so_at_once_and_says_so() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let _node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let slow = format!("throttled:latency=60s:{}", data.path());
    let settings = format!("WARM='pets {slow} pets'\nCACHE_DIR={}\n", cache.path().display());
    for tell in [rustix::process::kill_process, rustix::process::kill_process_group] {
        let prolog = Prolog::new(&settings);
        let mut running = prolog.command().spawn().unwrap();
        wait_for("the first of them to be there", || prolog.log().contains("pets is there"));
        let told = Instant::now();
        tell(rustix::process::Pid::from_child(&running), rustix::process::Signal::TERM).unwrap();
        assert_eq!(running.wait().unwrap().code(), Some(0));
        let (took, log) = (told.elapsed(), prolog.log());
        assert!(took < Duration::from_secs(20), "it took {took:?}: {log}");
        assert!(log.contains("job 17: stopped") && log.matches("pets is there").count() == 1, "{log}");
    }
}

/// The init containers of the Kubernetes example.
fn init_containers() -> serde_yaml_ng::Value {
    let text = fs::read_to_string(example("kubernetes/warm-init-container.yaml")).unwrap();
    let pod: serde_yaml_ng::Value = serde_yaml_ng::from_str(&text).unwrap();
    pod["spec"]["initContainers"].clone()
}

#[test]
fn a_misspelt_flag_in_the_kubernetes_example_fails_its_container_and_is_said() {
    let script = init_containers()[0]["args"][0].as_str().unwrap().replace("--bandwidth", "--bandwith");
    let program = PathBuf::from(fodder().get_program());
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let output = Command::new("/bin/sh").args(["-c", &script]).env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("'--bandwith'"), "{said}");
}

#[test]
fn the_kubernetes_example_holds_commands_that_are_understood() {
    let containers = init_containers();
    let script = containers[0]["args"][0].as_str().unwrap();
    let command = script.split("||").next().unwrap().trim().strip_prefix("timeout 30m ").unwrap();
    fodder::cli::Cli::try_parse_from(command.split_whitespace()).unwrap();
    let serve = containers[1]["command"].as_sequence().unwrap();
    fodder::cli::Cli::try_parse_from(serve.iter().map(|word| word.as_str().unwrap())).unwrap();
}
