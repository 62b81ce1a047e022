//! What Prometheus reads.
