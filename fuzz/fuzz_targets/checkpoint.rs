//! Checkpoints of jobs: any bytes are a checkpoint or an error, never a panic, and take no more memory than the snapshot has
//! items for. What was read is written as it was meant.
#![no_main]

use fodder_policy::{ledger::Checkpoint, plan::Snapshot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((items, rest)) = bytes.split_first_chunk() else { return };
    let snapshot = Snapshot { fingerprint: 7, items: u16::from_le_bytes(*items).into() };
    // As they came, and behind a right head and with a right sum.
    let _ = Checkpoint::decode(rest, snapshot);
    let Ok(checkpoint) = Checkpoint::decode(&Checkpoint::sealed(snapshot, rest), snapshot) else { return };
    assert_eq!(checkpoint.rest().len(), checkpoint.planned() - checkpoint.consumed());
    let _ = checkpoint.plan(None);
    let again = Checkpoint::decode(&checkpoint.encode(), snapshot).expect("what was read can be written and read");
    assert_eq!(again, checkpoint);
});
