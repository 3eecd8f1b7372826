//! The bridge's calls without HTTP: a process that sends tasks by the SDK and waits for their ends, as many at once as it
//! is told, at the rate that it is told.

use std::time::{Duration, Instant};

use agentanycast::{Message, Node, Target};
use agentanycast_tests::proc_stats;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    load::{LoadResult, RequestPacer},
    server::BenchServer,
};

/// One task, by the calls that the bridge makes for one request.
async fn task(node: &Node, me: &Target) {
    let message = Message::from("What is the weather in Berlin like?");
    let handle = node.task(me.clone(), message).send().await.unwrap();
    let task = handle.wait_or_input().await.unwrap();
    assert_eq!(task.artifacts.len(), 1);
}

/// Says where it is. Each connection says how many tasks at once, for how many milliseconds (two numbers of four bytes)
/// and how many a second at most (eight bytes), and is told how long each took, in nanoseconds (eight bytes each).
pub(crate) async fn serve(daemon: &str) {
    let node = Node::connect(daemon).await.unwrap();
    let me = Target::Peer(node.info().await.unwrap().peer_id.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (at_once, millis) = (stream.read_u32().await.unwrap(), stream.read_u32().await.unwrap());
        let rate = stream.read_f64().await.unwrap();
        let (begun, time) = (Instant::now(), Duration::from_millis(millis.into()));
        let workers: Vec<_> = (0..at_once)
            .map(|number| {
                let (node, me) = (node.clone(), me.clone());
                tokio::spawn(async move {
                    let mut times = Vec::new();
                    let mut pace = RequestPacer::new(begun, rate, at_once as usize, number as usize);
                    while begun.elapsed() < time {
                        pace.wait().await;
                        let sent = Instant::now();
                        task(&node, &me).await;
                        times.push(sent.elapsed());
                    }
                    times
                })
            })
            .collect();
        let mut answer = Vec::new();
        for worker in workers {
            for time in worker.await.unwrap() {
                answer.extend((time.as_nanos() as u64).to_be_bytes());
            }
        }
        stream.write_all(&answer).await.unwrap();
    }
}

/// Has it send tasks for a while, as quickly as they are done.
pub(crate) async fn run_load(server: &BenchServer, at_once: usize, time: Duration) -> LoadResult {
    run_load_at(server, at_once, time, f64::INFINITY).await
}

/// The same at this rate at most.
pub(crate) async fn run_load_at(
    server: &BenchServer,
    at_once: usize,
    time: Duration,
    rate: f64,
) -> LoadResult {
    let (cpu, begun) = (proc_stats::cpu_time(server.pid), Instant::now());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_u32(at_once as u32).await.unwrap();
    stream.write_u32(time.as_millis() as u32).await.unwrap();
    stream.write_f64(rate).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let elapsed = begun.elapsed();
    let times = answer.chunks_exact(8).map(|bytes| {
        let nanos = u64::from_be_bytes(bytes.try_into().unwrap());
        Duration::from_nanos(nanos)
    });
    LoadResult::new(
        times.collect(),
        elapsed,
        proc_stats::cpu_time(server.pid).saturating_sub(cpu),
    )
}
