//! Skipping a test that cannot run on this machine.
//!
//! A skipped test is reported, never silently passed: [`skip!`](crate::skip!) prints one line that `tools/test` counts. A test
//! that docs/SEMANTICS.md names holds a promise, and a promise that CI does not check is not kept: there, skipping fails.

use std::{fmt, thread};

/// The promises and the tests that hold them. Read at run time, because a change of the page alone rebuilds nothing.
const SEMANTICS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SEMANTICS.md");

/// Reports that the running test is skipped, with the reason, and returns from the enclosing function.
///
/// The arguments are those of [`format!`]. The enclosing function returns the default of its return type: `()` in a test, `None`
/// or `false` in a helper that tells its caller whether the test can go on.
///
/// # Panics
///
/// Under CI, if docs/SEMANTICS.md names the test.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        $crate::report_skip(&$crate::test_name(::std::any::type_name_of_val(&|| {})), format_args!($($reason)+));
        return ::std::default::Default::default();
    }};
}

/// The name of the running test, without its modules.
///
/// The test harness names the thread after the test, except with `--test-threads=1`, where tests run on the main thread. There
/// the enclosing function (`caller`, a type name that the macro passes) is the best name.
pub fn test_name(caller: &str) -> String {
    let thread = thread::current();
    let path = match thread.name() {
        Some(name) if name != "main" && !name.starts_with("tokio") => name,
        _ => caller,
    };
    let segments = path.split("::").filter(|segment| !segment.starts_with("{{"));
    segments.last().unwrap_or(path).to_owned()
}

/// Prints the line that `tools/test` counts.
///
/// # Panics
///
/// Under CI, if docs/SEMANTICS.md names the test.
pub fn report_skip(test: &str, reason: fmt::Arguments<'_>) {
    if std::env::var_os("CI").is_some() {
        let page = std::fs::read_to_string(SEMANTICS).expect("docs/SEMANTICS.md is part of the repository");
        assert!(
            !is_promised(&page, test),
            "{test} holds a promise of docs/SEMANTICS.md and may not be skipped: {reason}"
        );
    }
    println!("SKIPPED {test}: {reason}");
}

/// Whether `page` names `test` as one that holds a promise.
fn is_promised(page: &str, test: &str) -> bool {
    page.lines().filter(|line| line.starts_with('|')).any(|line| line.contains(&format!("`{test}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_promised_if_a_row_names_it() {
        let page = "`prose`\n| promise | held by |\n|---|---|\n| No byte is lost. | `no_byte`, `not_one` |\n";
        assert!(is_promised(page, "no_byte") && is_promised(page, "not_one"));
        assert!(!is_promised(page, "no") && !is_promised(page, "prose"));
    }

    #[test]
    fn the_name_is_that_of_the_test() {
        assert_eq!(test_name("a::caller::{{closure}}"), "the_name_is_that_of_the_test");
        let elsewhere = thread::Builder::new().name("main".into()).spawn(|| test_name("a::caller::{{closure}}"));
        assert_eq!(elsewhere.unwrap().join().unwrap(), "caller");
    }
}
