//! What an ask costs, in figures: `cargo bench -p agentanycast-uamp --bench asks`.
//!
//! A client in this process sends signed asks over HTTP/2 and reads each stream to its `done`. In a process of its
//! own is first a bare front that answers the same bytes, then the gateway before a node that answers at once. Both
//! have the same listener, TLS and token. Asks a second, and processor time of the server for one ask. Sizes come
//! from the environment: `AGENTANYCAST_ASKS` (5000), `AGENTANYCAST_AT_ONCE` (32).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and ends by a panic"
)]

#[path = "../../tests/gateway/scripted.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod scripted;
mod server;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use agentanycast_uamp::{
    body::EnvelopeBody,
    envelope::{EnvelopeDraft, Intent},
    jws::{SignatureForm, SigningIdentity},
};
use futures::{StreamExt as _, stream};
use reqwest::Client;

const TOKEN: &str = "0123456789abcdef";

fn size(name: &str, default: usize) -> usize {
    let text = std::env::var(format!("AGENTANYCAST_{name}"));
    text.map_or(default, |text| text.parse().unwrap())
}

#[tokio::main]
async fn main() {
    if let Some(kind) = std::env::args()
        .nth(1)
        .filter(|kind| server::KINDS.contains(&kind.as_str()))
    {
        return server::serve(&kind).await;
    }
    let (asks, at_once) = (size("ASKS", 5000), size("AT_ONCE", 32));
    println!("{asks} asks, {at_once} at once, over HTTP/2");
    println!(
        "{:<14}{:>10}{:>10}{:>16}",
        "server", "seconds", "asks/s", "server µs/ask"
    );
    for kind in server::KINDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(kind)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let base = format!("https://{}", line.trim());
        run(&base, 200, at_once).await;
        let before = processor_time(&child);
        let begun = Instant::now();
        run(&base, asks, at_once).await;
        let took = begun.elapsed().as_secs_f64();
        let cost = processor_time(&child).saturating_sub(before).as_secs_f64() * 1e6 / asks as f64;
        println!("{kind:<14}{took:>10.2}{:>10.0}{cost:>16.0}", asks as f64 / took);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

async fn run(base: &str, asks: usize, at_once: usize) {
    let identity = SigningIdentity::from_ed25519(&[2; 32]);
    let client = Client::builder()
        .danger_accept_invalid_certs(true)
        .build()
        .unwrap();
    let ask = async || {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let to = vec![server::identity().did().to_owned()];
        let body = EnvelopeBody::text("text/plain", "2+2");
        let draft = EnvelopeDraft::new(Intent::Ask, to, body, now.as_millis() as i64);
        let envelope = draft.sign_to_bytes(&identity, SignatureForm::Detached).unwrap();
        let request = client
            .post(format!("{base}/v1/messages"))
            .bearer_auth(TOKEN)
            .body(envelope);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 202);
        let place = response.headers()["location"].to_str().unwrap().to_owned();
        let events = client
            .get(format!("{base}{place}"))
            .bearer_auth(TOKEN)
            .send()
            .await
            .unwrap();
        assert!(events.text().await.unwrap().contains("\"done\""));
    };
    stream::iter(0..asks)
        .map(|_| ask())
        .buffer_unordered(at_once)
        .collect::<Vec<()>>()
        .await;
}

/// What a process has used of the processor: ticks of 10 ms.
fn processor_time(child: &Child) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}
