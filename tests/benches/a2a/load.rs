//! Requests in numbers: connections that are kept, one request at a time on each.

use std::{
    fmt,
    time::{Duration, Instant},
};

use agentanycast_tests::proc_stats;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::server::BenchServer;

/// What came of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadResult {
    /// Requests a second.
    pub(crate) rate: f64,
    p50: Duration,
    pub(crate) p99: Duration,
    /// Processor time of the server's process per request, in microseconds.
    pub(crate) cpu: f64,
}

impl LoadResult {
    /// From how long each took, and what the process has used.
    pub(crate) fn new(mut times: Vec<Duration>, elapsed: Duration, cpu: Duration) -> Self {
        times.sort_unstable();
        let count = times.len() as f64;
        Self {
            rate: count / elapsed.as_secs_f64(),
            p50: times[times.len() / 2],
            p99: times[times.len() * 99 / 100],
            cpu: cpu.as_secs_f64() * 1e6 / count,
        }
    }

    /// The one whose rate is in the middle.
    pub(crate) fn median(turns: &[Self]) -> Option<Self> {
        let mut turns = turns.to_vec();
        turns.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        turns.get(turns.len() / 2).copied()
    }
}

impl fmt::Display for LoadResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let (p50, p99) = (millis(self.p50), millis(self.p99));
        write!(f, "{:.0} | {p50:.2} / {p99:.2} | {:.0}", self.rate, self.cpu)
    }
}

/// Asks for a while, on so many connections, as quickly as it is answered.
pub(crate) async fn run_load(server: &BenchServer, connections: usize, time: Duration) -> LoadResult {
    run_load_at(server, connections, time, f64::INFINITY).await
}

/// The same at this rate at most.
pub(crate) async fn run_load_at(
    server: &BenchServer,
    connections: usize,
    time: Duration,
    rate: f64,
) -> LoadResult {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(BenchConnection::open(server).await);
    }
    let (cpu, begun) = (proc_stats::cpu_time(server.pid), Instant::now());
    let workers: Vec<_> = open
        .into_iter()
        .enumerate()
        .map(|(number, mut connection)| {
            tokio::spawn(async move {
                let mut times = Vec::new();
                let mut pace = RequestPacer::new(begun, rate, connections, number);
                while begun.elapsed() < time {
                    pace.wait().await;
                    let sent = Instant::now();
                    connection.ask().await;
                    times.push(sent.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for worker in workers {
        times.extend(worker.await.unwrap());
    }
    LoadResult::new(
        times,
        begun.elapsed(),
        proc_stats::cpu_time(server.pid).saturating_sub(cpu),
    )
}

/// When one of several who ask has its turns: together they ask at a rate at most.
pub(crate) struct RequestPacer {
    next: Instant,
    gap: Duration,
}

impl RequestPacer {
    /// Of asker `number` of so many, who begin at a time.
    pub(crate) fn new(begun: Instant, rate: f64, askers: usize, number: usize) -> Self {
        let gap = Duration::from_secs_f64(askers as f64 / rate);
        let next = begun + gap * number as u32 / askers as u32;
        Self { next, gap }
    }

    /// Until its next turn; at once when the rate is infinite.
    pub(crate) async fn wait(&mut self) {
        if !self.gap.is_zero() {
            tokio::time::sleep_until(self.next.into()).await;
            self.next += self.gap;
        }
    }
}

/// A connection of HTTP/1.1.
struct BenchConnection {
    name: &'static str,
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl BenchConnection {
    async fn open(server: &BenchServer) -> Self {
        let stream = TcpStream::connect(server.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"6c9f","role":"ROLE_USER","parts":[{"text":"What is the weather in Berlin like?"}]}}}"#;
        let request = format!(
            "POST / HTTP/1.1\r\nhost: {}\r\na2a-version: 1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        Self {
            name: server.name,
            stream,
            request: request.into(),
            answer: Vec::new(),
        }
    }

    /// One request, and its answer, which is checked.
    async fn ask(&mut self) {
        self.stream.write_all(&self.request).await.unwrap();
        self.answer.clear();
        let whole = loop {
            let read = self.stream.read_buf(&mut self.answer).await.unwrap();
            assert!(read > 0, "{} has closed the connection", self.name);
            if let Some(length) = length(&self.answer)
                && self.answer.len() >= length
            {
                break length;
            }
        };
        let answer = &self.answer[..whole];
        let done = answer.windows(20).any(|bytes| bytes == b"TASK_STATE_COMPLETED");
        assert!(done, "{}: {}", self.name, String::from_utf8_lossy(answer));
    }
}

/// How long an answer is with its head, once that is there.
fn length(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&answer[..head]).unwrap();
    let body = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim())
    });
    Some(head + body.expect("a length").parse::<usize>().unwrap())
}
