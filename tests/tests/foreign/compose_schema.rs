//! The Compose files against the published schema of such files.

use agentanycast_tests::TransportKind;

use crate::{client_env::ClientEnv, doc_pages::page, script::ScriptProcess};

#[tokio::test]
async fn our_compose_files_are_some() {
    let stage = ClientEnv::new(TransportKind::Quic);
    for file in ["docker-compose.yml", "examples/team-relay/docker-compose.yml"] {
        let mut command = stage.python("compose_file.py");
        command.arg(page(file));
        assert_eq!(ScriptProcess::start(command).succeed().await, ["valid"], "{file}");
    }
}
