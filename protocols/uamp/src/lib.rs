//! The Universal Agent Messaging Protocol 1.0: signed JSON envelopes, and streams of deltas that answer them.
//!
//! The crate knows no I/O and no clock. The feature `grpc` adds the generated code of the gRPC binding. The crate
//! `agentanycast-uamp-gateway` has the gateway `uamp` and a client.
//! Invariant: a signature covers the JSON that was received, never one that is made of typed fields.

#![forbid(unsafe_code)]

pub mod body;
pub mod canonical;
pub mod capability_token;
pub mod conversation;
pub mod delta;
pub mod did_document;
pub mod did_key;
pub mod envelope;
pub mod error;
pub mod event_lines;
pub mod hub_document;
pub mod jws;
pub mod key;
pub mod manifest;
pub mod record;
pub mod replay;
pub mod schemas;
pub mod signer;
pub mod trust;
pub mod window;

/// The generated messages, clients and servers of the package `uamp.v1`, the gRPC binding.
#[cfg(feature = "grpc")]
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, rustdoc::all)]
pub mod v1 {
    include!("gen/uamp.v1.rs");
}
