//! The committed code in `src/gen` is what the `.proto` text gives. Regenerate it with
//! `UPDATE_GENERATED=1 cargo test -p agentanycast-uap-hub --test drift`.

use std::{fs, path::Path};

use prost::Message as _;

#[test]
fn generated_code_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = tempfile::tempdir().unwrap();
    // The service names every other file, at some depth.
    let descriptors = protox::compile(["AgentHub.proto"], [root.join("../../proto/proto/uap/v1")]).unwrap();
    fs::write(fresh.path().join("descriptors.bin"), descriptors.encode_to_vec()).unwrap();
    tonic_prost_build::configure()
        .bytes(".uap.v1.Attachment.data")
        .codec_path("crate::codec::BoundedCodec")
        .out_dir(fresh.path())
        .compile_fds(descriptors)
        .unwrap();

    let committed = root.join("src/gen");
    for name in ["uap.v1.rs", "descriptors.bin"] {
        let new = fs::read(fresh.path().join(name)).unwrap();
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            fs::create_dir_all(&committed).unwrap();
            fs::write(committed.join(name), &new).unwrap();
        }
        let old = fs::read(committed.join(name)).unwrap_or_default();
        assert!(
            old == new,
            "protocols/uap-hub/src/gen/{name} is stale; run: \
             UPDATE_GENERATED=1 cargo test -p agentanycast-uap-hub --test drift"
        );
    }
}
