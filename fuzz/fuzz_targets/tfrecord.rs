//! A TFRecord file from anywhere: records in order and inside it, or an error that names the file.
#![no_main]

use fodder_core::layout::Layout;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match Layout::Tfrecord.records("shard", bytes) {
    Err(error) => assert!(error.to_string().starts_with("shard: "), "{error}"),
    Ok(records) => {
        let mut end = 0;
        for record in records {
            assert!(record.range.start >= end && record.range.end <= bytes.len() as u64, "{record:?}");
            end = record.range.end;
        }
    }
});
