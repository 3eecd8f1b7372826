//! The committed code in `src/gen` is what the `.proto` text gives. Regenerate it with
//! `UPDATE_GENERATED=1 cargo test -p agentanycast-uamp --test drift`.

use std::{fs, path::Path};

#[test]
fn generated_code_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = tempfile::tempdir().unwrap();
    let descriptors = protox::compile(["agent.proto"], [root.join("../../proto/proto/uamp/v1")]).unwrap();
    tonic_prost_build::configure()
        .bytes(".uamp.v1")
        // A client's constructor has the name of the method `Connect`.
        .build_transport(false)
        .out_dir(fresh.path())
        .compile_fds(descriptors)
        .unwrap();
    let committed = root.join("src/gen");
    let name = "uamp.v1.rs";
    let new = fs::read(fresh.path().join(name)).unwrap();
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::create_dir_all(&committed).unwrap();
        fs::write(committed.join(name), &new).unwrap();
    }
    let old = fs::read(committed.join(name)).unwrap_or_default();
    assert!(
        old == new,
        "protocols/uamp/src/gen/{name} is stale; run: \
         UPDATE_GENERATED=1 cargo test -p agentanycast-uamp --test drift"
    );
}
