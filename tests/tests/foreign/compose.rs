//! The Compose files against the published schema of such files.

use agentanycast_tests::Transport;

use crate::{pages::page, script::Script, stage::Stage};

#[tokio::test]
async fn our_compose_files_are_some() {
    let stage = Stage::new(Transport::Quic);
    for file in ["docker-compose.yml", "examples/team-relay/docker-compose.yml"] {
        let mut command = stage.python("compose_file.py");
        command.arg(page(file));
        assert_eq!(Script::start(command).succeed().await, ["valid"], "{file}");
    }
}
