//! The choice among modes: how it is written, and which bounds are refused.

#![allow(clippy::unwrap_used)]

use super::*;

fn approx(max_fraction: f64, max_repeats: u32) -> Mode {
    Mode::Approx(Approximation { max_fraction, same_class: true, max_repeats })
}

#[test]
fn a_configuration_writes_each_mode_by_its_name() {
    let written = [
        (Mode::Strict, r#""strict""#),
        (Mode::Reorder { window: 100 }, r#"{"reorder":{"window":100}}"#),
        (approx(0.5, 3), r#"{"approx":{"max_fraction":0.5,"same_class":true,"max_repeats":3}}"#),
    ];
    for (mode, text) in written {
        assert_eq!(serde_json::to_string(&mode).unwrap(), text);
        assert_eq!(serde_json::from_str::<Mode>(text).unwrap(), mode);
        assert!(text.contains(mode.name()));
    }
    assert_eq!(serde_json::from_str::<Mode>(r#"{"approx":{}}"#).unwrap(), Mode::Approx(Approximation::default()));
    for wrong in [r#""exact""#, r#"{"reorder":{}}"#, r#"{"reorder":{"windows":1}}"#, r#"{"approx":{"fraction":1}}"#] {
        assert!(serde_json::from_str::<Mode>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn bounds_that_mean_nothing_are_refused() {
    for fraction in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let message = approx(fraction, 2).check().unwrap_err().to_string();
        assert!(message.contains("a share from 0 to 1"), "{message}");
    }
    assert!(approx(0.0, 0).check().unwrap_err().to_string().contains("at least 1"));
    for mode in [Mode::Strict, Mode::Reorder { window: 0 }, approx(0.0, 1), approx(1.0, u32::MAX)] {
        assert_eq!(mode.check(), Ok(()));
    }
}
