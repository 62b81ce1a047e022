//! `fodder cluster`: the nodes that share a cache, as one of them sees them, and what each says of itself.

use crate::{
    cli::{ClusterCommand, NodeArgs},
    command::plural,
    join, output,
};
use anyhow::Result;
use fodder_api::v1;
use fodder_core::size::human;
use serde_json::{Value, json};
use std::{fmt::Write, process::ExitCode};

pub(super) async fn run(command: &ClusterCommand) -> Result<ExitCode> {
    match command {
        ClusterCommand::Status { json, node } => status(*json, node).await,
    }
}

/// `fodder drain`: ends with 0 once others have everything that only this node had.
pub(super) async fn drain(node: &NodeArgs) -> Result<ExitCode> {
    let node = join::connect(node).await?;
    let done = node.drain().await?;
    let (ranges, bytes) = (plural(done.taken, "range"), human(done.taken_bytes));
    super::print(&format!("the node owns nothing now; the other nodes have {ranges} ({bytes}) of what it holds\n"))?;
    if done.left > 0 {
        let members = node.members().await?;
        let takes = |member: &v1::MemberStatus| member.id != members.me && member.state == "serving";
        let why = if members.members.iter().any(takes) { "" } else { "no other node is there to take what it holds: " };
        let left = plural(done.left, "range");
        output::error(format_args!(
            "{why}{left} not taken; if this node is stopped, they are fetched from the origin again"
        ));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

async fn status(as_json: bool, node: &NodeArgs) -> Result<ExitCode> {
    let members = join::connect(node).await?.members().await?;
    match as_json {
        true => super::print_raw(&format!("{:#}\n", to_json(&members))),
        false => super::print(&to_text(&members)?),
    }
}

fn to_json(members: &v1::MembersReply) -> Value {
    let list = members.members.iter().map(|member| {
        json!({
            "id": member.id,
            "incarnation": member.incarnation,
            "address": member.address,
            "zone": member.zone,
            "state": member.state,
            "capacity_bytes": member.capacity_bytes,
            "share": member.share,
            "oldest_version": member.oldest_version,
            "newest_version": member.newest_version,
            "latency_us": member.latency_us,
            "held_bytes": member.held_bytes,
            "hit_ratio": member.hit_ratio,
        })
    });
    json!({ "me": (!members.me.is_empty()).then_some(&members.me), "members": list.collect::<Vec<_>>() })
}

fn to_text(members: &v1::MembersReply) -> Result<String> {
    if members.members.is_empty() {
        return Ok("the node is not in a cluster; start nodes with --join to share their caches\n".into());
    }
    let mut rows =
        vec![["member", "address", "zone", "state", "share", "holds", "of", "hits", "answers in"].map(String::from)];
    for member in &members.members {
        let unknown = || "-".to_owned();
        let mark = if member.id == members.me { "*" } else { "" };
        rows.push([
            format!("{}{mark}", &member.id[..member.id.len().min(8)]),
            member.address.clone(),
            if member.zone.is_empty() { unknown() } else { member.zone.clone() },
            member.state.clone(),
            format!("{:.1} %", member.share * 100.0),
            member.held_bytes.map_or_else(unknown, human),
            human(member.capacity_bytes),
            member.hit_ratio.map_or_else(unknown, |ratio| format!("{:.1} %", ratio * 100.0)),
            member.latency_us.map_or_else(unknown, |us| format!("{:.1} ms", us as f64 / 1000.0)),
        ]);
    }
    let widths: [usize; 9] = std::array::from_fn(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or_default());
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(text, "{}", cells.join("  ").trim_end())?;
    }
    writeln!(text, "* the node that was asked")?;
    Ok(text)
}
