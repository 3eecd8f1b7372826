//! The gateway `uap-hub`: a hub for fleets of execution agents, by the Universal Agent Protocol v1.
//!
//! The protocol's text is in `proto/proto/uap/v1/`, one message, enum or service a file; the code in `src/gen` is
//! generated from it and committed. `tests/drift.rs` keeps the two together.

#![forbid(unsafe_code)]

pub mod agent;
#[cfg(feature = "hub")]
pub mod capability;
pub mod codec;
#[cfg(feature = "hub")]
mod fleet;
#[cfg(feature = "hub")]
pub mod gateway;
#[cfg(feature = "hub")]
mod hub;
#[cfg(feature = "hub")]
mod join;
#[cfg(feature = "hub")]
mod metrics;
#[cfg(feature = "hub")]
pub mod payloads;
#[cfg(feature = "hub")]
mod results;
#[cfg(feature = "hub")]
pub mod settings;

/// The generated messages, clients and servers of the package `uap.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, rustdoc::all)]
pub mod v1 {
    include!("gen/uap.v1.rs");
}

/// The encoded `FileDescriptorSet` of all files, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("gen/descriptors.bin");
