//! The committed code in `src/gen` is what the `.proto` text gives. Regenerate it with
//! `UPDATE_GENERATED=1 cargo test -p agentanycast-proto --test drift`.

use std::{fs, path::Path};

use prost::Message as _;
use prost_types::FileDescriptorSet;

const FILES: [&str; 22] = [
    "agentanycast/v1/common.proto",
    "agentanycast/v1/anycast.proto",
    "agentanycast/v1/a2a_models.proto",
    "agentanycast/v1/agent_card.proto",
    "agentanycast/v1/node_agents.proto",
    "agentanycast/v1/agent_service.proto",
    "agentanycast/v1/streaming.proto",
    "agentanycast/v1/node_service.proto",
    "agentanycast/v1/registry_service.proto",
    "agentanycast/v1/registry_proof.proto",
    "agentanycast/v1/relay_info.proto",
    "agentanycast/v1/agent_record.proto",
    "agentanycast/v1/federation.proto",
    "agentanycast/v1/task_list_service.proto",
    "agentanycast/v1/session_service.proto",
    "agentanycast/v1/network_service.proto",
    "agentanycast/v1/directory_service.proto",
    "agentanycast/v1/invite_service.proto",
    "agentanycast/v1/access_service.proto",
    "agentanycast/v1/task_note_service.proto",
    "agentanycast/v1/diagnostics_service.proto",
    "agentanycast/v1/sealed.proto",
];

/// Not of our network: what gateways speak.
const A2A: &str = "lf/a2a/v1/a2a.proto";
const A2A_0_3: &str = "a2a/v1/a2a_0_3.proto";

/// Clients and servers need tonic, messages do not.
const SERVICES_ONLY: &str = "#[cfg(feature = \"services\")]";

#[test]
fn generated_code_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = tempfile::tempdir().unwrap();
    let descriptors = protox::compile(FILES, [root.join("proto")]).unwrap();
    fs::write(fresh.path().join("descriptors.bin"), descriptors.encode_to_vec()).unwrap();
    let configure = || {
        tonic_prost_build::configure()
            .btree_map(".")
            .codec_path("crate::codec::SizedCodec")
            .client_mod_attribute(".", SERVICES_ONLY)
            .server_mod_attribute(".", SERVICES_ONLY)
            .out_dir(fresh.path())
    };
    configure()
        .bytes(".agentanycast.v1.StreamChunk.data")
        .compile_fds(descriptors)
        .unwrap();
    let mut gateways = FileDescriptorSet::default();
    for file in [A2A, A2A_0_3] {
        let a2a = protox::compile([file], [root.join("proto")]).unwrap();
        gateways.file.extend_from_slice(&a2a.file);
        configure().compile_fds(a2a).unwrap();
    }
    fs::write(fresh.path().join("a2a_descriptors.bin"), gateways.encode_to_vec()).unwrap();

    let committed = root.join("src/gen");
    for name in [
        "agentanycast.v1.rs",
        "descriptors.bin",
        "a2a_descriptors.bin",
        "lf.a2a.v1.rs",
        "a2a.v1.rs",
    ] {
        let new = fs::read(fresh.path().join(name)).unwrap();
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            fs::create_dir_all(&committed).unwrap();
            fs::write(committed.join(name), &new).unwrap();
        }
        let old = fs::read(committed.join(name)).unwrap_or_default();
        assert!(
            old == new,
            "proto/src/gen/{name} is stale; run: UPDATE_GENERATED=1 cargo test -p agentanycast-proto --test drift"
        );
    }
}
