//! The prolog in deploy/examples under a real Slurm: a controller and a node of its own, on loopback. Needs root and Debian's
//! `slurm-wlm` and `munge`, which `make test` does not install, because they bring services that start by themselves.

use super::example::Prolog;
use crate::program::{DEADLINE, Data, Node, wait_for};
use fodder_testing::skip;
use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

/// Programs that this test starts.
const NEEDED: [&str; 5] =
    ["/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/srun", "/usr/bin/sinfo"];

/// Why Slurm cannot be started here.
fn unable() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("Slurm's daemons need root");
    }
    let missing = NEEDED.iter().any(|program| !Path::new(program).exists());
    missing.then_some("Slurm is not installed (Debian: munge, slurmctld, slurmd, slurm-client)")
}

/// A cluster of one node.
struct Slurm {
    dir: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl Slurm {
    fn start(prolog: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        for name in ["state", "spool"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(at("key"), [7; 128]).unwrap();
        fs::set_permissions(at("key"), fs::Permissions::from_mode(0o600)).unwrap();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [controller, node] = ports.map(|port| port.local_addr().unwrap().port());
        let conf = format!(
            "ClusterName=fodder\nSlurmctldHost=localhost(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={munge}\nCredType=cred/munge\n\
             SlurmctldPort={controller}\nSlurmdPort={node}\nStateSaveLocation={state}\nSlurmdSpoolDir={spool}\n\
             SlurmctldPidFile={state}/controller.pid\nSlurmdPidFile={state}/node.pid\n\
             ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSchedulerType=sched/builtin\nMpiDefault=none\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             Prolog={prolog}\nPrologFlags=Alloc\nPrologEpilogTimeout=60\nReturnToService=0\n\
             NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN\n\
             PartitionName=p Nodes=n1 Default=YES MaxTime=INFINITE State=UP\n",
            munge = at("munge"),
            state = at("state"),
            spool = at("spool"),
            prolog = prolog.display(),
            host = host.trim(),
        );
        fs::write(at("slurm.conf"), conf).unwrap();
        let mut slurm = Self { daemons: Vec::new(), dir };
        let at = |name: &str| slurm.dir.path().join(name).display().to_string();
        let munge = [("key-file", "key"), ("socket", "munge"), ("pid-file", "munge.pid"), ("seed-file", "seed")];
        let munge: Vec<_> = munge.iter().map(|(flag, name)| format!("--{flag}={}", at(name))).collect();
        let conf = at("slurm.conf");
        let commands = [
            (NEEDED[0], [&["--foreground".to_owned(), "--force".into()], &munge[..]].concat()),
            (NEEDED[1], vec!["-D".to_owned(), "-f".into(), conf.clone()]),
            (NEEDED[2], vec!["-D".to_owned(), "-N".into(), "n1".into(), "-f".into(), conf]),
        ];
        for (program, args) in commands {
            let log = fs::File::options().create(true).append(true).open(slurm.dir.path().join("log")).unwrap();
            let mut command = Command::new(program);
            command.args(args).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
            slurm.daemons.push(command.spawn().unwrap());
            wait_for("munge to listen", || slurm.dir.path().join("munge").exists());
        }
        wait_for("the node to be idle", || slurm.state() == "idle");
        slurm
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.dir.path().join("slurm.conf")).current_dir("/").stdin(Stdio::null());
        command
    }

    /// What Slurm thinks of its node.
    fn state(&self) -> String {
        let output = self.command(NEEDED[4]).args(["--noheader", "--format=%T"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs a job of one task.
    fn job(&self, command: &[&str]) -> Output {
        let limit = DEADLINE.as_secs().to_string();
        self.command("timeout").args([&limit, NEEDED[3], "--immediate=60"]).args(command).output().unwrap()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", fs::read_to_string(self.dir.path().join("log")).unwrap_or_default());
        }
        for daemon in self.daemons.iter_mut().rev() {
            let _ =
                rustix::process::kill_process(rustix::process::Pid::from_child(daemon), rustix::process::Signal::TERM);
            let _ = daemon.wait();
        }
    }
}

#[test]
fn slurm_itself_runs_the_prolog_before_a_job_and_keeps_the_node_whatever_it_does() {
    if let Some(why) = unable() {
        skip!("{why}");
    }
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let prolog = Prolog::new(&format!("WARM=pets\nCACHE_DIR={}\n", cache.path().display()));
    let slurm = Slurm::start(&prolog.path());
    // The job sees what the prolog has written, so the prolog was done before it began.
    let log = prolog.log_path();
    let job = slurm.job(&["cat", log.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&job.stdout).into_owned();
    assert!(job.status.success(), "{}", String::from_utf8_lossy(&job.stderr));
    assert!(said.contains("job 1: pets is there: complete: 8 files"), "{said}");
    assert_eq!(node.status()["datasets"][0]["stats"]["origin_requests"], 8);
    prolog.set(&format!("WARM='pest /no/such/origin'\nCACHE_DIR={}\n", cache.path().display()));
    let job = slurm.job(&["echo", "the job ran"]);
    assert!(String::from_utf8_lossy(&job.stdout).contains("the job ran"), "{}", String::from_utf8_lossy(&job.stderr));
    assert!(prolog.log().contains("job 2: pest could not be brought in (status 1)"), "{}", prolog.log());
    wait_for("the node to be idle again", || slurm.state() == "idle");
}
