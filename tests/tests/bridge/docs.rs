//! The examples of docs/bridge.md, run as they are printed.

use std::{path::Path, process::Stdio};

use agentanycast_tests::{Daemon, skipped, within};
use tokio::process::Command;

use crate::scene::Scene;

/// The shell examples, each with what its output shows.
fn examples(text: &str) -> Vec<(String, String)> {
    let blocks = text.split("```sh\n").skip(1);
    let example = |block: &str| {
        let (code, _) = block.split_once("```").unwrap();
        let (_, shown) = code
            .split_once("# → ")
            .unwrap_or_else(|| panic!("nothing is expected of {code}"));
        (code.to_owned(), shown.trim().to_owned())
    };
    blocks.map(example).collect()
}

#[tokio::test]
async fn the_examples_work() {
    let curl = Command::new("curl")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .await;
    if curl.is_err() {
        skipped("there is no curl");
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/bridge.md");
    let examples = examples(&std::fs::read_to_string(path).unwrap());
    assert!(examples.len() >= 5, "{examples:?}");
    let scene = Scene::talking().await;
    let daemon = Daemon::builder().config("[bridge.outbound]\nallow_private = true\n");
    let daemon = daemon.start().await;
    // `anycast` is beside the daemon.
    let mut path = agentanycast_tests::daemon::program()
        .parent()
        .unwrap()
        .as_os_str()
        .to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    for (code, shown) in examples {
        let run = Command::new("sh")
            .args(["-ec", &code])
            .env("BRIDGE", scene.bridge.url())
            .env("PATH", &path)
            .env("DAEMON", daemon.grpc())
            .env("AGENT", scene.pair.alice.peer_id().to_string())
            .output();
        let output = within("the example ends", run).await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(&shown), "{code}\n{said}");
    }
}
