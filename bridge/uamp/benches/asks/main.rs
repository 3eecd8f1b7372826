//! What an ask costs, in figures: `cargo bench -p agentanycast-uamp-gateway --bench asks`.
//!
//! A client in this process sends asks over HTTP/2 and reads each answer to its end. Each server is a process of its
//! own: a bare front that answers the same bytes as the gateway, the A2A gateway, and the gateway of UAMP. The last two
//! are before the same node, which answers at once. All have the same listener, TLS and token, and the allocator of the
//! daemon. Rounds alternate between the servers; a row is the median of its rounds: asks a second, processor time of the
//! server for one ask, and the ratio of that time to the one of an A2A stream. Then what signing takes alone. Sizes come
//! from the environment: `AGENTANYCAST_ASKS` (5000 in a round), `AGENTANYCAST_AT_ONCE` (32), `AGENTANYCAST_ROUNDS` (3).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and ends by a panic"
)]

mod client;
#[path = "../../tests/gateway/scripted.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod scripted;
mod server;
mod signing;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use client::{AskClient, AskForm};
use server::ServerKind;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const TOKEN: &str = "0123456789abcdef";

/// Asks before the first round, for connections and caches.
const WARM_UP: usize = 300;

/// The rows of the table. The ratio is to the row `BESIDE`.
const ROWS: [(&str, ServerKind, AskForm); 4] = [
    ("bare front", ServerKind::Bare, AskForm::Uamp),
    ("A2A, message:stream", ServerKind::A2a, AskForm::A2aStream),
    ("A2A, message:send, GET", ServerKind::A2a, AskForm::A2aSendAndGet),
    ("UAMP, ask, stream", ServerKind::Uamp, AskForm::Uamp),
];
const BESIDE: usize = 1;

fn size(name: &str, default: usize) -> usize {
    let text = std::env::var(format!("AGENTANYCAST_{name}"));
    text.map_or(default, |text| text.parse().unwrap())
}

#[tokio::main]
async fn main() {
    if let Some(kind) = std::env::args().nth(1).and_then(|name| ServerKind::parse(&name)) {
        return server::serve(kind).await;
    }
    let (asks, at_once, rounds) = (size("ASKS", 5000), size("AT_ONCE", 32), size("ROUNDS", 3));
    println!("{rounds} rounds of {asks} asks, {at_once} at once, over HTTP/2");
    let mut servers = Vec::new();
    for (_, kind, form) in ROWS {
        let (child, base) = start(kind);
        let client = AskClient::new(base, form);
        client.run(WARM_UP, at_once).await;
        servers.push((child, client, Vec::new(), Vec::new()));
    }
    for _ in 0..rounds {
        for (child, client, seconds, costs) in &mut servers {
            let before = processor_time(child);
            let begun = Instant::now();
            client.run(asks, at_once).await;
            seconds.push(begun.elapsed().as_secs_f64());
            let used = processor_time(child).saturating_sub(before);
            costs.push(used.as_secs_f64() * 1e6 / asks as f64);
        }
    }
    let medians: Vec<(f64, f64)> = servers
        .iter_mut()
        .map(|(_, _, seconds, costs)| (median(seconds), median(costs)))
        .collect();
    println!(
        "{:<24}{:>8}{:>16}{:>14}",
        "server", "asks/s", "server µs/ask", "ratio to A2A"
    );
    for ((name, ..), (seconds, cost)) in ROWS.iter().zip(&medians) {
        let (rate, ratio) = (asks as f64 / seconds, cost / medians[BESIDE].1);
        println!("{name:<24}{rate:>8.0}{cost:>16.0}{ratio:>14.2}");
    }
    for (child, ..) in &mut servers {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    signing::measure();
}

fn start(kind: ServerKind) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg(kind.name())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let base = format!("https://{}", line.trim());
    (child, base)
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// What a process has used of the processor: ticks of 10 ms.
fn processor_time(child: &Child) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}
