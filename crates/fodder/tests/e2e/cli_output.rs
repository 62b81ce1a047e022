//! Where commands write and what they write there: to disks that are full, to readers that have gone, to terminals; names of
//! files that a terminal would obey; exit statuses.

use crate::program::{Data, Node, fodder, run};
use fodder_testing::skip;
use std::{
    fs::{self, File},
    process::{Command, Stdio},
};

/// Commands that print something and need no node.
const COMMANDS: [&[&str]; 7] = [
    &["--help"],
    &["--version"],
    &["help", "status"],
    &["completions", "bash"],
    &["config", "show", "s3://bucket/x", "--cache-dir", "/tmp/x", "--cache-size", "1GiB"],
    &["sim", "--workload", "uniform", "--items", "100", "--epochs", "4"],
    &["demo", "--images", "4", "--epochs", "1", "--throttle", "latency=1ms"],
];

/// A disk that is full.
fn full_disk() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// The end of a pipe that nobody reads from any more.
pub(crate) fn nobody_reads() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_disk_behind_stdout_that_is_full_is_an_error_that_says_so() {
    for args in COMMANDS {
        let ended = run(fodder().args(args).stdout(full_disk()));
        assert_eq!(ended.code, 1, "{args:?}");
        let said = ended.bad();
        assert!(said.starts_with("error: cannot write to stdout: No space left"), "{args:?}: {said}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for args in COMMANDS {
        let ended = run(fodder().args(args).stdout(nobody_reads())).good();
        assert_eq!(ended.stderr, "", "{args:?}");
    }
}

#[test]
fn an_error_that_cannot_be_written_leaves_the_exit_status_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    for (args, code) in [(&["status"][..], 1), (&["sevre"], 2), (&["config", "check", "/no/such/file"], 1)] {
        for stderr in [full_disk(), nobody_reads()] {
            let ended = run(fodder().args(args).env("FODDER_CACHE_DIR", home.path()).stderr(stderr));
            assert_eq!(ended.code, code, "{args:?}");
        }
    }
}

#[test]
fn a_wrong_command_line_ends_with_2_and_every_other_error_with_1() {
    let home = tempfile::tempdir().unwrap();
    for (args, code) in [
        (&["status", "--no-such-flag"][..], 2),
        (&["job"], 2),
        (&[], 2),
        (&["warm", "pets", "--workers", "0"], 2),
        (&["status"], 1),
        (&["warm", "pets"], 1),
        (&["bench", "read", "--dir", "/no/such/directory"], 1),
        (&["unmount", "/no/such/directory"], 1),
    ] {
        let ended = run(fodder().args(args).env("FODDER_CACHE_DIR", home.path()));
        assert_eq!((ended.code, &*ended.stdout), (code, &b""[..]), "{args:?}");
        assert!(ended.stderr.starts_with("error: ") || args.len() < 2, "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn control_characters_in_names_are_escaped() {
    let hostile = "/no/\u{1b}[31msuch\u{7}/place\u{202e}";
    let cache = tempfile::tempdir().unwrap();
    let Err(ended) = Node::try_start(cache.path(), &[hostile]) else { panic!("there is no such place") };
    let commands = [
        &["unmount", hostile][..],
        &["config", "check", hostile],
        &["sim", "--trace", hostile],
        &["bench", "read", "--dir", hostile],
        &["status", "--log-file", hostile],
        &["status", "--addr", hostile],
    ];
    let said = commands.map(|args| run(fodder().args(args)).bad());
    for said in said.into_iter().chain([ended.bad()]) {
        assert!(said.contains("\\u{1b}[31msuch\\u{7}/place\\u{202e}"), "{said}");
        assert!(!said.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{said:?}");
    }
    // What is not understood is said by clap, in colours on a terminal.
    let Some(said) = on_terminal("status pets \"$HOSTILE\"", &[("HOSTILE", hostile)]) else {
        skip!("script (package bsdutils) is not installed");
    };
    assert!(said.contains("error: unexpected argument"), "{said:?}");
    assert!(!said.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{said:?}");
}

/// What a terminal gets of a command; None where there is no program to make one.
fn on_terminal(args: &str, environment: &[(&str, &str)]) -> Option<String> {
    let line = format!("{} {args}", env!("CARGO_BIN_EXE_fodder"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env_remove("NO_COLOR").env("TERM", "xterm");
    let output = script.envs(environment.iter().copied()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn names_of_objects_that_a_terminal_would_obey_are_escaped_in_reports() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shard = "\u{1b}[31mred\nbytes   all is well.tar";
    fs::write(data.path().join(shard), b"this is no archive, and long enough to have been meant as one".repeat(20))
        .unwrap();
    // An archive without a file: where no shard can be read, there is no dataset.
    fs::write(data.path().join("good.tar"), [0; 1024]).unwrap();
    let node = Node::start(cache.path(), &[data.path().to_str().unwrap(), "--name", "shards", "--layout", "tar"]);
    let list = cache.path().join("list");
    fs::write(&list, "\u{1b}[2Jgone.tar\n").unwrap();
    let listed = node.client(&["warm", "shards", "--from-list", list.to_str().unwrap()]);
    assert_eq!(listed.code, 3, "{}", listed.stderr);
    let status = node.client(&["status"]).good().text();
    assert!(status.contains("problem \\u{1b}[31mred\\nbytes   all is well.tar: "), "{status}");
    assert!(listed.text().contains("\\u{1b}[2Jgone.tar"), "{}", listed.text());
    for text in [status, listed.text(), node.log()] {
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
    let json = node.client(&["status", "--json"]).good();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["datasets"][0]["problems"][0].as_str().unwrap().contains(shard), "a program gets the name as it is");
}

#[test]
fn colours_are_for_terminals_and_for_those_who_want_them() {
    let dir = tempfile::tempdir().unwrap();
    // A warning in the log, then an error.
    let line = format!(
        "serve /no/such/place --rest 0.0.0.0:0 --grpc 127.0.0.1:0 --cache-size 64MiB --cache-dir {}",
        dir.path().display()
    );
    let Some(coloured) = on_terminal(&line, &[("NO_COLOR", "")]) else {
        skip!("script (package bsdutils) is not installed");
    };
    assert!(coloured.contains("WARN") && coloured.contains('\u{1b}'), "{coloured:?}");
    for environment in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let plain = on_terminal(&line, &[environment]).unwrap();
        assert!(plain.contains("WARN") && !plain.contains('\u{1b}'), "{plain:?}");
    }
    let piped = run(fodder().args(line.split(' ')));
    assert!(piped.stderr.contains("WARN") && !piped.stderr.contains('\u{1b}'), "{:?}", piped.stderr);
}

#[test]
fn a_log_that_cannot_be_written_hides_no_error() {
    let cache = tempfile::tempdir().unwrap();
    let args = ["/no/such/place", "--rest", "0.0.0.0:0", "--log-file", "/dev/full"];
    let Err(ended) = Node::try_start(cache.path(), &args) else { panic!("there is no such place") };
    let said = ended.bad();
    assert!(said.starts_with("error: cannot serve place: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_file_that_config_check_accepts_is_one_that_a_node_starts_with() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("fodder.yaml");
    for (text, expected) in [
        ("engine: {memory_budget: 1MiB}", "engine.memory_budget must be at least 32MiB"),
        ("node: {rest: localhost}", "127.0.0.1:18283"),
        ("cluster: {replicas: 99}", "--replicas"),
        ("datasets: [{name: a, origin: /x, listing: {max_depth: 0}}]", "--max-depth"),
    ] {
        fs::write(&file, text).unwrap();
        let said = run(fodder().args(["config", "check"]).arg(&file)).bad();
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn a_node_of_another_user_is_not_said_to_be_away() {
    if !rustix::process::geteuid().is_root() {
        skip!("running a command as another user needs root");
    }
    let (data, home) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(&home.path().join("cache"), &[data.path()]);
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_fodder"), "status"]);
    let said = run(other.args(["--addr", node.line("socket")])).bad();
    assert!(said.contains("belongs to another user") && !said.contains("check that it is running"), "{said}");
}

#[test]
fn a_cache_directory_that_is_a_file_is_called_one() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let Err(ended) = Node::try_start(file.path(), &["/tmp"]) else { panic!("a file is no directory") };
    let said = ended.bad();
    assert!(said.contains("is not a directory") && said.contains("--cache-dir"), "{said}");
    assert!(!said.contains("chmod"), "{said}");
}

#[test]
fn help_has_each_flag_below_the_heading_it_belongs_to() {
    for (command, flag, heading) in [
        (&["job", "resume"][..], "--world", "Options:"),
        (&["job", "resume"], "--addr", "Node:"),
        (&["mount"], "--patience", "Options:"),
        (&["mount"], "--max-depth", "Listing:"),
        (&["serve"], "--config", "Options:"),
        (&["serve"], "--rest", "Addresses:"),
    ] {
        let help = run(fodder().args(command).arg("-h")).good().text();
        let at = help.find(&format!(" {flag} ")).unwrap();
        let heading_of = help[..at].lines().rfind(|line| line.ends_with(':') && !line.starts_with(' '));
        assert_eq!(heading_of, Some(heading), "{command:?} {flag}");
    }
}
