//! What the service costs, in figures: `cargo bench -p agentanycast-aip --bench fleet`.
//!
//! 1000 devices in this process, each with a WebSocket of its own, and in a process of its own first a bare
//! server of the same WebSocket library that sends each of them commands and only counts the answers, then
//! the device service of the crate. Both send and get the same frames: a COMMAND of one call with 200 bytes,
//! and its COMMAND_RESULTS; four are under way for each device. Commands a second, and memory of the server
//! with the devices idle and at its peak. The service's run is checked: each result belongs to the command
//! that asked for it, and each device gets its commands in their order.
//! Sizes come from the environment: `AGENTANYCAST_DEVICES` (1000), `AGENTANYCAST_COMMANDS` (100000).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and ends by a panic"
)]

mod bare_server;
mod devices;
mod server;
mod service_server;

use std::time::Duration;

/// What a server is told to be by its first argument.
const BARE: &str = "bare-server";
const SERVICE: &str = "service";

/// Commands of one device that are under way.
const AHEAD: usize = 4;

/// The tool of the devices.
const TOOL: &str = "say";

fn size(name: &str, default: usize) -> usize {
    let text = std::env::var(format!("AGENTANYCAST_{name}"));
    text.map_or(default, |text| text.parse().unwrap())
}

fn devices() -> usize {
    size("DEVICES", 1000)
}

fn commands_of_each() -> usize {
    size("COMMANDS", 100_000) / devices()
}

#[tokio::main]
async fn main() {
    match std::env::args().nth(1).as_deref() {
        Some(BARE) => return bare_server::serve().await,
        Some(SERVICE) => return service_server::serve().await,
        _ => {}
    }
    let commands = commands_of_each() * devices();
    println!("{} devices, {commands} commands", devices());
    println!(
        "{:<12}{:>10}{:>13}{:>11}{:>11}{:>13}",
        "server", "seconds", "commands/s", "idle MiB", "peak MiB", "KiB/device"
    );
    let bare = run(BARE).await;
    let service = run(SERVICE).await;
    let ratio = service.as_secs_f64() / bare.as_secs_f64();
    println!("the service takes {ratio:.2} times the time of the bare server");
}

/// Runs all commands at one server; how long they took.
async fn run(kind: &'static str) -> Duration {
    let mut server = server::Server::start(kind);
    let empty = server.memory("VmRSS");
    let connected = devices::BenchDevices::connect(&server.url, devices()).await;
    let idle = server.memory("VmRSS");
    let took = server.run();
    let (peak, seconds) = (server.memory("VmHWM"), took.as_secs_f64());
    let rate = (commands_of_each() * devices()) as f64 / seconds;
    let each = (idle - empty) * 1024.0 / devices() as f64;
    println!("{kind:<12}{seconds:>10.2}{rate:>13.0}{idle:>11.1}{peak:>11.1}{each:>13.1}");
    connected.check(commands_of_each());
    took
}
