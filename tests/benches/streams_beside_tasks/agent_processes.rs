//! The processes around the daemons: who serves tasks, who reads artifacts, who asks for echoes. Each is
//! this program again with a role as its first argument, on one thread, and speaks on standard output.

use std::{
    io::{BufRead as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentanycast::{Artifact, ArtifactEvent, EndReason, HandlerError, IncomingTask, Node, PeerId, Target};
use futures::StreamExt as _;
use tokio::time::{Instant, MissedTickBehavior};

/// Bytes that a producer writes at once.
const PIECE: usize = 64 << 10;

/// Plays the role that the arguments name; false when they name none.
pub(crate) async fn run(args: &[String]) -> bool {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["serve", address] => serve(address).await,
        ["read", address, peer, streams, bytes, rate] => {
            read(address, peer, number(streams), number(bytes), number(rate)).await;
        }
        ["ask", address, peer, rate, seconds] => ask(address, peer, number(rate), number(seconds)).await,
        _ => return false,
    }
    true
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

/// Serves `stream BYTES RATE` and echoes everything else.
async fn serve(address: &str) {
    let node = Node::connect(address).await.unwrap();
    say("ready");
    node.serve(handle).concurrency(4096).await.unwrap();
}

async fn handle(task: IncomingTask) -> Result<(), HandlerError> {
    let text = task.message().text_content();
    let words: Vec<&str> = text.split(' ').collect();
    if let ["stream", bytes, rate] = words[..] {
        produce(&task, number(bytes), number(rate)).await?;
        task.complete([]).await?;
    } else {
        task.complete([Artifact::text(text)]).await?;
    }
    Ok(())
}

/// Where in its period a producer begins, 0 to 1, spread evenly: agents of their own have no common clock.
fn phase() -> f64 {
    static PRODUCERS: AtomicU64 = AtomicU64::new(0);
    (PRODUCERS.fetch_add(1, Ordering::Relaxed) as f64 * 0.618_033_988_749_895).fract()
}

/// Writes an artifact of `bytes`, at `rate` bytes a second unless that is 0.
async fn produce(task: &IncomingTask, bytes: u64, rate: u64) -> Result<(), HandlerError> {
    let mut artifact = task.stream_artifact("bulk", "application/octet-stream").await?;
    let piece = vec![0x5a; PIECE];
    let mut pace = (rate > 0).then(|| {
        let period = Duration::from_secs_f64(PIECE as f64 / rate as f64);
        let mut pace = tokio::time::interval_at(Instant::now() + period.mul_f64(phase()), period);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pace
    });
    let mut left = bytes;
    while left > 0 {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        let now = left.min(PIECE as u64);
        artifact.write(&piece[..now as usize]).await?;
        left -= now;
    }
    artifact.finish().await?;
    Ok(())
}

/// Asks for streams and reads them all; a line on standard input breaks them off.
async fn read(address: &str, peer: &str, streams: u64, bytes: u64, rate: u64) {
    let node = Node::connect(address).await.unwrap();
    let peer: PeerId = peer.parse().unwrap();
    let total = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..streams {
        let (node, peer, total) = (node.clone(), peer.clone(), Arc::clone(&total));
        readers.spawn(async move { read_one(&node, peer, bytes, rate, &total).await });
    }
    let (stopper, stopped) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        let _ = stopper.send(());
    });
    let all = async {
        while let Some(done) = readers.join_next().await {
            done.unwrap();
        }
    };
    tokio::select! {
        () = all => {}
        _ = stopped => {}
    }
    say(&format!(
        "{} {}",
        total.load(Ordering::Relaxed),
        began.elapsed().as_micros()
    ));
    // Dropping the readers would leave the producers running against nobody.
    readers.shutdown().await;
    for task in node.tasks(&agentanycast::TaskFilter::default()).await.unwrap() {
        if !task.status.is_terminal() {
            let _ = node.task_handle(task.id).cancel().await;
        }
    }
}

async fn read_one(node: &Node, peer: PeerId, bytes: u64, rate: u64, total: &AtomicU64) {
    let text = format!("stream {bytes} {rate}");
    let handle = node.send_task(Target::Peer(peer), text).await.unwrap();
    let mut events = handle.artifacts();
    let mut own = 0;
    while let Some(event) = events.next().await {
        match event.unwrap() {
            ArtifactEvent::Chunk { data, .. } => {
                if own == 0 {
                    say("flows");
                }
                own += data.len() as u64;
                total.fetch_add(data.len() as u64, Ordering::Relaxed);
            }
            ArtifactEvent::End { reason, error, .. } => {
                assert_eq!((reason, own), (EndReason::Complete, bytes), "{error}");
            }
            _ => {}
        }
    }
}

/// Sends `rate` tasks a second whatever becomes of them, and prints how long each took, in microseconds.
async fn ask(address: &str, peer: &str, rate: u64, seconds: u64) {
    let node = Node::connect(address).await.unwrap();
    let peer: PeerId = peer.parse().unwrap();
    let mut pace = tokio::time::interval(Duration::from_secs(1) / u32::try_from(rate).unwrap());
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..rate * seconds {
        // Counted from when it was due, so that a stall of this process is not hidden.
        let due = pace.tick().await;
        let (node, peer) = (node.clone(), peer.clone());
        running.spawn(async move {
            let handle = node.send_task(Target::Peer(peer), "x".repeat(256)).await.unwrap();
            handle.wait().await.unwrap();
            due.elapsed().as_micros()
        });
    }
    let took: Vec<String> = running.join_all().await.iter().map(u128::to_string).collect();
    say(&format!("took {}", took.join(" ")));
}
