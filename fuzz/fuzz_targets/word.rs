//! What other nodes say of jobs: any bytes are a word or an error, never a panic; what is heeded stays within its bounds.
#![no_main]

use fodder_policy::{
    job::{Jobs, Settings, Telling, Word},
    plan::Snapshot,
};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

fuzz_target!(|bytes: &[u8]| {
    let settings = Settings { max_memory_bytes: 16 << 20, ..Settings::default() };
    let _ = Word::decode(bytes, &settings);
    let Ok(word) = Word::decode(&Word::sealed(bytes), &settings) else { return };
    let again = Word::decode(&word.encode(), &settings).expect("what was read can be written and read");
    assert_eq!(again.encode(), word.encode());
    let on = Snapshot { fingerprint: 7, items: 100 };
    let known: Vec<Snapshot> = word.snapshots().filter(|snapshot| snapshot.items < 100_000).chain([on]).collect();
    let mut jobs = Jobs::new(on, settings, 1);
    jobs.heed(word, &known, Duration::from_secs(10));
    assert!(jobs.memory_bytes() < 64 << 20);
    for status in jobs.status(Duration::from_secs(10)) {
        assert!(status.consumed <= status.planned);
        let _ = jobs.checkpoint(status.job);
    }
    jobs.words(Telling::All, Duration::from_secs(11));
});
