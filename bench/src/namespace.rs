//! Two network namespaces with a line between them, gone when dropped. Needs root and `ip`.

use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};

/// Two hosts on one machine.
#[derive(Debug)]
pub(crate) struct Pair {
    names: [String; 2],
}

impl Pair {
    /// The addresses of the two.
    pub(crate) const ADDRESSES: [&'static str; 2] = ["10.231.17.1", "10.231.17.2"];

    /// Makes them.
    pub(crate) fn new() -> Result<Self> {
        let id = std::process::id();
        let pair = Self { names: [format!("fodder-a-{id}"), format!("fodder-b-{id}")] };
        let ends = [format!("fa{id}"), format!("fb{id}")];
        for name in &pair.names {
            ip(&["netns", "add", name])?;
        }
        let [left, right] = &ends;
        ip(&["link", "add", left, "netns", &pair.names[0], "type", "veth", "peer", right, "netns", &pair.names[1]])?;
        for ((name, end), address) in pair.names.iter().zip(&ends).zip(Self::ADDRESSES) {
            ip(&["-n", name, "address", "add", &format!("{address}/30"), "dev", end])?;
            ip(&["-n", name, "link", "set", end, "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(pair)
    }

    /// A program in one of them.
    pub(crate) fn command(&self, side: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[side], program]);
        command
    }

    /// Gigabytes a second that `iperf3` moves from the second to the first, over so many connections; by the congestion control
    /// of that name, or by the system's.
    pub(crate) fn iperf3(&self, connections: usize, seconds: u64, congestion: Option<&str>) -> Result<f64> {
        let mut server = self.command(0, "iperf3");
        let mut server = server
            .args(["--server", "--one-off", "--bind", Self::ADDRESSES[0]])
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start iperf3")?;
        let client = || -> Result<f64> {
            let (connections, seconds) = (connections.to_string(), seconds.to_string());
            // The server may need a moment.
            for _ in 0..100 {
                let mut command = self.command(1, "iperf3");
                command.args([
                    "--client",
                    Self::ADDRESSES[0],
                    "--json",
                    "--parallel",
                    &connections,
                    "--time",
                    &seconds,
                ]);
                command.args(congestion.map(|name| ["--congestion", name]).into_iter().flatten());
                let said: serde_json::Value = serde_json::from_slice(&command.output()?.stdout).unwrap_or_default();
                if let Some(bits) = said["end"]["sum_received"]["bits_per_second"].as_f64() {
                    return Ok(bits / 8e9);
                }
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            anyhow::bail!("iperf3 does not reach its server")
        };
        let speed = client();
        if speed.is_err() {
            let _ = server.kill();
        }
        server.wait()?;
        speed
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output().context("cannot run ip (iproute2)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {}: {} (it needs root)", arguments.join(" "), said.trim());
    Ok(())
}
