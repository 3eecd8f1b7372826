//! `@modelcontextprotocol/conformance` tries our client of MCP servers and our MCP server. What is not
//! offered fails: `foreign/mcp/conformance.yml` names each such scenario with its reason.

use std::{path::PathBuf, process::Output};

use agentanycast_tests::{Daemon, TransportKind};
use tokio::process::Command;

use crate::client_env::{ClientEnv, node_modules, scripts};

/// The suite as one script: with the older Node.js of some distributions its own file does not start.
async fn suite(stage: &ClientEnv) -> PathBuf {
    let script = stage.path().join("conformance.cjs");
    let own_file = "const ownFile = require('url').pathToFileURL(__filename).href;";
    let mut bundler = stage.command(node_modules().join(".bin/esbuild"));
    bundler
        .arg(node_modules().join("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["--bundle", "--platform=node", "--format=cjs", "--log-level=error"])
        .args([
            "--define:import.meta.url=ownFile",
            &format!("--banner:js={own_file}"),
        ])
        .arg(format!("--outfile={}", script.display()));
    passed("the suite is bundled", bundler).await;
    script
}

/// A run of the suite, whose results go to the directory of the stage.
fn run(stage: &ClientEnv, script: &PathBuf, side: &str) -> Command {
    let mut suite = stage.command("node");
    suite
        .arg(script)
        .args([side, "--suite", "all", "--timeout", "60000"])
        .arg("--expected-failures")
        .arg(scripts().join("mcp/conformance.yml"))
        .arg("--output-dir")
        .arg(stage.path().join("results"));
    suite
}

async fn passed(what: &str, mut command: Command) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.kill_on_drop(true).output().await.unwrap();
    let (said, complained) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{what}: {status}\n{said}\n{complained}");
}

#[tokio::test]
pub(crate) async fn the_client_passes_what_it_offers() {
    let stage = ClientEnv::new(TransportKind::Tcp);
    let script = suite(&stage).await;
    let mut suite = run(&stage, &script, "client");
    suite.args(["--command", env!("CARGO_BIN_EXE_mcp_conformance_client")]);
    passed("the client conforms", suite).await;
}

#[tokio::test]
pub(crate) async fn the_server_passes_what_it_declares() {
    let daemon = Daemon::builder()
        .listen([TransportKind::Tcp.listen()])
        .mcp()
        .start()
        .await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let script = suite(&stage).await;
    let mut suite = run(&stage, &script, "server");
    suite.arg("--url").arg(format!("http://{}/mcp", daemon.mcp()));
    passed("the server conforms", suite).await;
}
