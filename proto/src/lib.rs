//! Package `agentanycast.v1`: the messages and services of the AgentAnycast network.
//!
//! The text is in `proto/proto/agentanycast/v1/`; the code in `src/gen` is generated from it and
//! committed, so that nobody needs `protoc`. `tests/drift.rs` keeps the two together. Fields with a
//! number from 100 upwards, `access_service.proto`, `agent_record.proto`, `anycast.proto`, `diagnostics_service.proto`,
//! `agent_service.proto`, `directory_service.proto`, `invite_service.proto`, `network_service.proto`, `registry_proof.proto`, `sealed.proto`, `session_service.proto`, `task_list_service.proto`
//! and `task_note_service.proto` are additive to the published contract.
//!
//! Feature `services`: clients and servers, with tonic. Without it the crate has the messages alone.

pub mod agent_name;
#[cfg(feature = "services")]
pub mod bounded_decode;
pub mod card_agents;
#[cfg(feature = "services")]
pub mod codec;
pub mod decoded_size;
pub mod gateway_labels;
pub mod json;
pub mod parts;
pub mod struct_json;

/// The generated messages, and with the feature `services` clients and servers.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod v1 {
    include!("gen/agentanycast.v1.rs");
}

/// A2A 1.0 over gRPC (package `lf.a2a.v1`), as the A2A project defines it; what gateways speak with agents outside.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, rustdoc::all)]
pub mod a2a {
    include!("gen/lf.a2a.v1.rs");
}

/// A2A 0.3 over gRPC (package `a2a.v1`), as far as gateways speak it.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, rustdoc::all)]
pub mod a2a_0_3 {
    include!("gen/a2a.v1.rs");
}

/// The encoded `FileDescriptorSet` of all files, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("gen/descriptors.bin");

/// The same of what gateways speak, A2A 1.0 and 0.3.
pub(crate) const A2A_DESCRIPTOR_SET: &[u8] = include_bytes!("gen/a2a_descriptors.bin");

/// What a daemon that is being stopped refuses calls with (UNAVAILABLE, which of a task to a peer or skill can mean other things too):
/// nothing was done, and the next daemon is asked.
pub const STOPPING: &str = "the daemon is stopping";

/// Largest gRPC message that nodes and SDKs of this project send or take: a frame between nodes is
/// at most 16 MiB, and a task holds several messages and artifacts.
pub const MAX_GRPC_MESSAGE: usize = 128 << 20;
