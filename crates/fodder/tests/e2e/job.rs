//! Training jobs over a real node, as their clients see them.

mod exact;
mod refused;
mod resumed;
mod simulated;
mod world;
