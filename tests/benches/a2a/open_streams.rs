//! Requests beside a crowd of streams, some of whose readers stand still.

use std::{net::SocketAddr, time::Duration};

use agentanycast::{HandlerError, IncomingTask};
use agentanycast_tests::{bench_targets::BenchTargets, http::HttpClient, proc_stats};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
};

use crate::{load, server::BenchServer};

/// What makes the agent report once a second until the task is cancelled.
pub(crate) const REPORTS: &str = "reports";

/// Tasks, streams of each, and how many of these nobody reads.
const TASKS: usize = 10;
const STREAMS: usize = 50;
const STANDING: usize = 10;

/// Connections of those who ask beside them.
const ASKERS: usize = 16;

/// Reports until it is told to stop.
pub(crate) async fn report(task: IncomingTask) -> Result<(), HandlerError> {
    let cancelled = task.cancelled();
    while !cancelled.is_cancelled() {
        task.working("x".repeat(1024)).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// The streams; dropping it closes them.
struct OpenStreams {
    client: HttpClient,
    tasks: Vec<Value>,
    _standing: Vec<TcpStream>,
    readers: Vec<JoinHandle<()>>,
}

impl OpenStreams {
    async fn gather(address: SocketAddr) -> Self {
        let client = HttpClient::new(format!("http://{address}")).version("1.0");
        let (mut tasks, mut standing, mut readers) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TASKS {
            let message = json!({"messageId": "r", "role": "ROLE_USER", "parts": [{"text": REPORTS}]});
            let params = json!({"message": message, "configuration": {"returnImmediately": true}});
            let task = client.call("SendMessage", params).await["task"]["id"].take();
            for number in 0..STREAMS {
                let mut stream = subscribe(address, &task).await;
                if number < STANDING {
                    standing.push(stream);
                } else {
                    readers.push(tokio::spawn(async move {
                        let mut buffer = vec![0; 4096];
                        while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
                    }));
                }
            }
            tasks.push(task);
        }
        Self {
            client,
            tasks,
            _standing: standing,
            readers,
        }
    }

    async fn leave(self) {
        for task in &self.tasks {
            self.client.call("CancelTask", json!({ "id": task })).await;
        }
        for reader in self.readers {
            reader.abort();
        }
    }
}

/// A stream that has begun.
async fn subscribe(address: SocketAddr, task: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}}).to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\na2a-version: 1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        call.len()
    );
    stream
        .write_all(format!("{head}{call}").as_bytes())
        .await
        .unwrap();
    let mut begun = [0; 15];
    stream.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200 OK");
    stream
}

/// Alone and beside the crowd, turn by turn.
pub(crate) async fn measure(server: &BenchServer, rounds: usize, time: Duration, verdict: &mut BenchTargets) {
    let mut ratios = Vec::new();
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let before = proc_stats::rss_bytes(server.pid);
    for _ in 0..rounds {
        let one = load::run_load(server, ASKERS, time).await;
        let crowd = OpenStreams::gather(server.address).await;
        let other = load::run_load(server, ASKERS, time).await;
        crowd.leave().await;
        ratios.push(other.p99.as_secs_f64() / one.p99.as_secs_f64());
        alone.push(one);
        beside.push(other);
    }
    ratios.sort_by(f64::total_cmp);
    verdict.figure("p99 beside the streams to p99 alone", ratios[ratios.len() / 2]);
    println!();
    println!("| {ASKERS} connections | requests/s | p50 / p99 ms | CPU µs per request |");
    println!("|---|---|---|---|");
    for (name, turns) in [("alone", &alone), ("beside 500 streams", &beside)] {
        println!("| {name} | {} |", load::LoadResult::median(turns).unwrap());
    }
    println!();
    println!(
        "p99 beside the streams to p99 alone: {:.2}; the bridge's memory {} to {} MiB",
        ratios[ratios.len() / 2],
        before >> 20,
        proc_stats::rss_bytes(server.pid) >> 20
    );
}
