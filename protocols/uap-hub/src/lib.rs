//! The hub protocol (Universal Agent Protocol v1): generated messages and services, and the library for execution
//! agents. The crate `agentanycast-uap-hub-gateway` has the hub itself.
//!
//! The protocol's text is in `proto/proto/uap/v1/`, one message, enum or service a file; the code in `src/gen` is
//! generated from it and committed. `tests/drift.rs` keeps the two together.

#![forbid(unsafe_code)]

pub mod agent;
pub mod codec;

/// The generated messages, clients and servers of the package `uap.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, rustdoc::all)]
pub mod v1 {
    include!("gen/uap.v1.rs");
}

/// The encoded `FileDescriptorSet` of all files, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("gen/descriptors.bin");
