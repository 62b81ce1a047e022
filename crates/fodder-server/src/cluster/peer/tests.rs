//! What is said of a peer that does not answer as it should.

use super::*;
use fodder_core::id::FileKey;
use std::fmt;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// What was logged, each line with its fields.
#[derive(Debug, Default, Clone)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().push(line.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn who_is_left_alone_is_named_once_with_the_reason_and_what_it_was_asked_for() {
    let wanted = Wanted {
        dataset: "photos".into(),
        path: "cat/1.jpg".into(),
        key: FileKey([1; 16]),
        object_bytes: 10,
        range: 0..10,
        for_peer: false,
        waited: Duration::ZERO,
    };
    let (silent, late, lied) = (Failure::Silent, Failure::Late, Failure::Lied);
    for (failure, times, fault) in
        [(silent("gone".into()), 3, "Silence"), (late("gone".into()), 1, "Lateness"), (lied("gone".into()), 1, "Lie")]
    {
        let (peer, log) = (Peer::new(7, "10.0.0.7:1".into()), Log::default());
        tracing::subscriber::with_default(log.clone(), || {
            peer.failed(&Failure::Refused("no".into()), Some(&wanted), Duration::ZERO);
            (0..times + 2).for_each(|_| peer.failed(&failure, Some(&wanted), Duration::ZERO));
        });
        let said = log.0.lock().join("\n");
        assert_eq!(said.lines().count(), 1, "{said}");
        for part in ["10.0.0.7:1", &format!("fault={fault}"), "why=gone", "\"photos\"", "\"cat/1.jpg\""] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert_eq!(peer.status().failed, times + 2, "a refusal is no failure");
    }
}
