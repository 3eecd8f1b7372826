//! docker-compose.yml against the published schema of compose files.

use std::path::Path;

use agentanycast_tests::Transport;

use crate::{script::Script, stage::Stage};

#[tokio::test]
async fn our_compose_file_is_one() {
    let stage = Stage::new(Transport::Quic);
    let mut command = stage.python("compose_file.py");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docker-compose.yml"));
    assert_eq!(Script::start(command).succeed().await, ["valid"]);
}
