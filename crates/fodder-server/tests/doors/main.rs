//! The doors of a node, from outside: gRPC, frames and leases over TCP and the Unix socket, byte for byte.

#![allow(missing_docs, clippy::unwrap_used)]

mod frames;
mod grpc;
mod hostile;
mod lease;
mod lifecycle;
mod object;
mod setup;
