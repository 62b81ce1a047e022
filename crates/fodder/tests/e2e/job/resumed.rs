//! A job whose ranks are killed in the middle of an epoch goes on from its checkpoint, and sees exactly the rest.

use super::world::{Door, Rank, World, client, introduction};
use fodder_api::{Error, v1};
use fodder_policy::{job::Start, plan::Order, serving::Mode};
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// Set for the process that plays a rank, to the socket, the job and the rank.
const PART: &str = "FODDER_TEST_RANK";

/// Items of a batch.
const COUNT: u32 = 5;

/// Plays a rank in a process of its own, which the test below starts and kills; by itself it does nothing. A line for
/// each batch that it was given and has acknowledged.
#[test]
fn a_rank_plays_its_part_when_it_is_told_to() {
    let Ok(part) = std::env::var(PART) else { return };
    let [socket, job, rank] = part.split(' ').collect::<Vec<_>>()[..] else { panic!("{part} is no part") };
    let rank = rank.parse().unwrap();
    let mut client = Rank::join(socket, Door::Frames, job.parse().unwrap(), rank);
    client.begin(0, &Order::Seed(77)).unwrap();
    for number in 0.. {
        let given = client.next(0, number, COUNT, &[]).unwrap();
        client.call(async |job| job.acknowledge(0, rank, vec![number]).await).unwrap();
        let ids: Vec<_> = given.iter().map(|item| item.served.to_string()).collect();
        println!("\nconsumed {}", ids.join(" "));
    }
}

/// A rank that is being played, and the lines that it prints.
struct Played {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Played {
    fn start(socket: &str, job: u64, rank: u32) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "job::resumed::a_rank_plays_its_part_when_it_is_told_to", "--nocapture"])
            .env(PART, format!("{socket} {job} {rank}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The items of the next batch that it has consumed; None when it is gone.
    fn batch(&mut self) -> Option<Vec<u32>> {
        let line = self.lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("consumed "))?;
        Some(line.split(' ').skip(1).filter_map(|id| id.parse().ok()).collect())
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ranks_that_are_killed_in_an_epoch_resume_on_another_world_with_exactly_the_rest() {
    let world = World::new(240);
    let node = world.start("minio", 0.3);
    let socket = node.line("socket").to_owned();
    let (runtime, client) = client(&socket);
    for mode in [Mode::Strict, Mode::Reorder { window: 40 }] {
        let request = introduction(mode.name(), mode, 4);
        let job = runtime.block_on(client.introduce(request.clone())).unwrap().job;
        let mut ranks: Vec<_> = (0..4).map(|rank| Played::start(&socket, job.id(), rank)).collect();
        let mut consumed = BTreeSet::new();
        for _ in 0..6 {
            for rank in &mut ranks {
                consumed.extend(rank.batch().expect("the rank lives"));
            }
        }
        // The checkpoint may know of batches whose lines were not read yet, but never of less than was read.
        let checkpoint = runtime.block_on(job.checkpoint()).unwrap();
        for mut rank in ranks {
            rank.child.kill().unwrap();
            rank.child.wait().unwrap();
        }
        let (resumed, reply) = runtime.block_on(job.resume(checkpoint, 3, None, None, Start::default())).unwrap();
        assert_eq!(reply.epoch, 0);
        assert!(u64::from(reply.left) + consumed.len() as u64 <= 240, "{reply:?}");
        let refused = runtime.block_on(job.renew()).unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)), "the ranks of the run before are refused: {refused}");

        let mut rest = Vec::new();
        for rank in 0..3 {
            let door = if rank == 1 { Door::Grpc } else { Door::Frames };
            rest.extend(Rank::join(&socket, door, resumed.id(), rank).rest(0, 0, COUNT));
        }
        let ids: BTreeSet<_> = rest.iter().map(|item| item.served).collect();
        assert_eq!((ids.len(), rest.len()), (reply.left as usize, reply.left as usize), "nothing is given twice");
        assert!(ids.is_disjoint(&consumed), "what was consumed is not given again");

        let audits: Vec<_> = (0..3)
            .filter_map(|rank| runtime.block_on(resumed.begin_epoch(rank, 1, &Order::Seed(77))).unwrap().audit)
            .collect();
        let [v1::Audit { planned: 240, consumed: 240, duplicates: 0, omissions: 0, .. }] = audits[..] else {
            panic!("{audits:?}")
        };
        runtime.block_on(resumed.leave()).unwrap();
    }
}

#[test]
fn a_job_that_rolls_back_sees_the_rest_again_and_that_is_no_duplicate() {
    let world = World::new(90);
    let node = world.start("minio", 0.3);
    let mut rank = Rank::introduce(&node, Door::Frames, introduction("back", Mode::Strict, 1), 0).unwrap();
    rank.begin(0, &Order::Seed(5)).unwrap();
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for number in 0..3 {
        first.extend(rank.next(0, number, 10, &[]).unwrap());
        rank.call(async |job| job.acknowledge(0, 0, vec![number]).await).unwrap();
    }
    let checkpoint = rank.call(async |job| job.checkpoint().await).unwrap();
    for number in 3..6 {
        later.extend(rank.next(0, number, 10, &[]).unwrap());
        rank.call(async |job| job.acknowledge(0, 0, vec![number]).await).unwrap();
    }
    let (resumed, reply) =
        rank.call(async |job| job.resume(checkpoint, 1, None, None, Start::default()).await).unwrap();
    assert_eq!(reply.left, 60);
    let mut again = Rank::join(node.line("socket"), Door::Frames, resumed.id(), 0);
    let rest = again.rest(0, 0, 10);
    assert_eq!(
        rest[..30].iter().map(|item| item.served).collect::<Vec<_>>(),
        later.iter().map(|item| item.served).collect::<Vec<_>>()
    );
    let audit = again.begin(1, &Order::Seed(5)).unwrap().audit.unwrap();
    assert!(audit.is_exact() && audit.consumed == 90, "{audit:?}");
}
