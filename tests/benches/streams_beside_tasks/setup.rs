//! The pair of daemons, the processes on them, and what they used.

use std::{fmt, process::Stdio, time::Duration};

use agentanycast_tests::{
    DaemonPair, TransportKind,
    proc_stats::{cpu_time, peak_rss_bytes, reset_peak_rss},
    wait::eventually,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// Two daemons, and an agent on each: bob's sends artifacts, alice's echoes.
pub(crate) struct StreamSetup {
    pair: DaemonPair,
    producer: AgentProcess,
    echo: AgentProcess,
}

impl StreamSetup {
    pub(crate) async fn start(transport: TransportKind) -> Self {
        let pair = DaemonPair::start(transport).await;
        let mut producer = AgentProcess::spawn(&["serve", pair.bob.grpc()]);
        let mut echo = AgentProcess::spawn(&["serve", pair.alice.grpc()]);
        assert_eq!(producer.line().await, "ready");
        assert_eq!(echo.line().await, "ready");
        Self { pair, producer, echo }
    }

    /// Reads `streams` artifacts of `bytes` each to their ends.
    pub(crate) async fn read(&self, streams: u64, bytes: u64, rate: u64) -> StreamTransfer {
        let mut reading = self.spawn_read(streams, bytes, rate);
        reading.flows().await;
        reading.end().await
    }

    /// Begins to.
    pub(crate) fn spawn_read(&self, streams: u64, bytes: u64, rate: u64) -> StreamReaders {
        let numbers = [streams, bytes, rate].map(|number| number.to_string());
        let peer = self.pair.bob.peer_id().to_string();
        let agent = AgentProcess::spawn(&[
            "read",
            self.pair.alice.grpc(),
            &peer,
            &numbers[0],
            &numbers[1],
            &numbers[2],
        ]);
        StreamReaders { agent, streams }
    }

    /// Sends `rate` tasks a second from bob to alice, for so many seconds.
    pub(crate) async fn ask(&self, rate: u64, seconds: u64) -> Latencies {
        let peer = self.pair.alice.peer_id().to_string();
        let asked = rate * seconds;
        let (rate, seconds) = (rate.to_string(), seconds.to_string());
        let mut agent = AgentProcess::spawn(&["ask", self.pair.bob.grpc(), &peer, &rate, &seconds]);
        let line = agent.line().await;
        let mut took: Vec<u64> = line
            .split(' ')
            .skip(1)
            .map(|took| took.parse().unwrap())
            .collect();
        took.sort_unstable();
        assert_eq!(took.len() as u64, asked, "all tasks completed");
        Latencies(took)
    }

    /// Waits until broken-off streams have left nothing open.
    pub(crate) async fn settle(&self) {
        let (alice, bob) = self.pair.nodes().await;
        for node in [alice, bob] {
            eventually("all tasks have ended", || async {
                let tasks = node.tasks(&agentanycast::TaskFilter::default()).await.unwrap();
                tasks.iter().all(|task| task.status.is_terminal()).then_some(())
            })
            .await;
        }
    }

    /// What everybody has used so far.
    pub(crate) fn usage(&self) -> StreamUsage {
        let (alice, bob) = (self.pair.alice.pid(), self.pair.bob.pid());
        let peak_rss = [peak_rss_bytes(alice), peak_rss_bytes(bob)];
        reset_peak_rss(alice);
        reset_peak_rss(bob);
        let pids = [alice, bob, self.producer.pid(), self.echo.pid()];
        StreamUsage {
            cpu: pids.map(cpu_time),
            peak_rss,
        }
    }
}

/// Processor time and memory.
pub(crate) struct StreamUsage {
    cpu: [Duration; 4],
    peak_rss: [u64; 2],
}

impl StreamUsage {
    /// As text: what was used since, per MiB streamed.
    pub(crate) fn since(&self, before: &Self, mib: f64) -> String {
        let names = ["receiving daemon", "sending daemon", "producer", "echo"];
        let used = names
            .iter()
            .zip(self.cpu)
            .zip(before.cpu)
            .map(|((name, now), then)| {
                let per_mib = now.saturating_sub(then).as_secs_f64() * 1e6 / mib;
                format!("{name} {per_mib:.0}")
            });
        let used: Vec<String> = used.collect();
        let [receiving, sending] = self.peak_rss.map(|bytes| bytes >> 20);
        format!(
            "  processor time in µs per MiB: {}; most memory in MiB: receiving {receiving} sending {sending}",
            used.join(" ")
        )
    }
}

/// One of our processes; dropping it kills it.
struct AgentProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl AgentProcess {
    fn spawn(args: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_raw(self.child.id().unwrap() as i32).unwrap()
    }

    async fn line(&mut self) -> String {
        let line = self.lines.next_line().await.unwrap();
        line.expect("the agent's process goes on")
    }
}

/// Streams being read.
pub(crate) struct StreamReaders {
    agent: AgentProcess,
    streams: u64,
}

impl StreamReaders {
    /// Waits until each stream has had its first chunk.
    pub(crate) async fn flows(&mut self) {
        for _ in 0..self.streams {
            assert_eq!(self.agent.line().await, "flows");
        }
    }

    /// Waits for the ends of all.
    pub(crate) async fn end(mut self) -> StreamTransfer {
        let line = self.agent.line().await;
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let outcome = StreamTransfer {
            bytes: numbers[0],
            took: Duration::from_micros(numbers[1]),
        };
        let status = self.agent.child.wait().await.unwrap();
        assert!(status.success(), "{status}");
        outcome
    }

    /// Breaks them off.
    pub(crate) async fn stop(mut self) -> StreamTransfer {
        let stdin = self.agent.child.stdin.as_mut().unwrap();
        stdin.write_all(b"\n").await.unwrap();
        self.end().await
    }
}

/// What was read, and how long it took.
pub(crate) struct StreamTransfer {
    bytes: u64,
    took: Duration,
}

impl StreamTransfer {
    pub(crate) fn mib(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20)
    }
}

impl fmt::Display for StreamTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.mib() / self.took.as_secs_f64();
        write!(
            f,
            "{:.0} MiB in {:.1} s, {rate:.0} MiB/s",
            self.mib(),
            self.took.as_secs_f64()
        )
    }
}

/// How long each task took, in microseconds, ascending.
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    /// In milliseconds, what this share of them does not exceed.
    fn at(&self, share: f64) -> f64 {
        let index = ((self.0.len() - 1) as f64 * share).round() as usize;
        self.0[index] as f64 / 1000.0
    }

    pub(crate) fn p99(&self) -> f64 {
        self.at(0.99)
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} tasks, ms: p50 {:.2} p90 {:.2} p99 {:.2} most {:.2}",
            self.0.len(),
            self.at(0.5),
            self.at(0.9),
            self.p99(),
            self.at(1.0)
        )
    }
}
