//! Configuration files, Fodder's own and iCache's: any text is a configuration or a problem with a place, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match fodder::config::parse(text) {
        Ok((config, _)) => {
            serde_yaml_ng::to_string(&config).expect("what was read can be written");
        }
        Err(problem) => assert!(!problem.shown_in("fuzz.yaml", text).is_empty()),
    }
});
