//! What the hub costs, in figures: `cargo bench -p agentanycast-uap-hub-gateway --bench fleet`.
//!
//! 500 agents of four types each in this process, and in a process of its own first a bare tonic service that gives each of them sessions
//! in turn and keeps nothing, then the hub before a remembering node. Both send and get the same messages: a proposal, its acceptance,
//! ready, a start with 1 KiB, ACKNOWLEDGED, RUNNING, a result with a report of three steps. Sessions a second, and memory of the server with the
//! agents idle and at its peak. The hub's run is checked: no task is lost, none is given to two agents, and the types are served in turn.
//! Sizes come from the environment: `AGENTANYCAST_AGENTS` (500), `AGENTANYCAST_SESSIONS` (5000).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints, and ends by a panic"
)]

mod agents;
mod bare_server;
mod hub_server;
mod server;

use std::time::Duration;

/// The types of tests, which all agents do.
const TYPES: [&str; 4] = ["junit", "selenium", "cypress", "pytest"];

/// What a server is told to be by its first argument.
const BARE: &str = "bare-server";
const HUB: &str = "hub-server";

fn size(name: &str, default: usize) -> usize {
    let text = std::env::var(format!("AGENTANYCAST_{name}"));
    text.map_or(default, |text| text.parse().unwrap())
}

fn agents() -> usize {
    size("AGENTS", 500)
}

fn sessions() -> usize {
    size("SESSIONS", 5000)
}

#[tokio::main]
async fn main() {
    match std::env::args().nth(1).as_deref() {
        Some(BARE) => return bare_server::serve().await,
        Some(HUB) => return hub_server::serve().await,
        _ => {}
    }
    println!(
        "{} agents, {} sessions of {} types",
        agents(),
        sessions(),
        TYPES.len()
    );
    println!(
        "{:<14}{:>12}{:>12}{:>14}{:>14}",
        "server", "seconds", "sessions/s", "idle MiB", "peak MiB"
    );
    let bare = run(BARE).await;
    let hub = run(HUB).await;
    println!(
        "the hub takes {:.2} times the time of the bare service",
        hub.as_secs_f64() / bare.as_secs_f64()
    );
}

/// Runs all sessions at one server; how long they took.
async fn run(kind: &'static str) -> Duration {
    let mut server = server::Server::start(kind);
    let fleet = agents::Fleet::connect(&server.url, agents()).await;
    let idle = server.memory("VmRSS");
    let took = server.run();
    let (peak, rate) = (server.memory("VmHWM"), sessions() as f64 / took.as_secs_f64());
    println!(
        "{kind:<14}{:>12.2}{rate:>12.0}{idle:>14.1}{peak:>14.1}",
        took.as_secs_f64()
    );
    fleet.check(sessions());
    if kind == HUB {
        fleet.check_turns();
    }
    took
}
