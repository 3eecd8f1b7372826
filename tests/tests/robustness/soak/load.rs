//! The traffic of the long life: a sender that keeps to a rate, an agent that answers in kind. Tasks are small
//! for the most part, some are larger, and some are answered by a streamed artifact; each answer is checked.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agentanycast::{Artifact, IncomingTask, Message, Node, PeerId, Target, Task};
use agentanycast_tests::agent::TestAgent;
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

/// Tasks that may be under way at once; at the bound the next is sent when one has ended.
pub(super) const IN_FLIGHT: usize = 512;

/// Every so many tasks one is answered by a streamed artifact.
pub(super) const STREAM_EVERY: usize = 200;

/// Bytes of a streamed artifact.
/// How a task ends whose agent lost its daemon while it streamed an artifact.
const CUT: &str = "the daemon went away while artifact";

const STREAMED: usize = 256 << 10;

/// One id is remembered for each so many tasks, to ask later whether it was collected.
const REMEMBER_EVERY: usize = 50;

/// How long a task may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(2);

/// What was done so far.
#[derive(Debug, Default)]
pub(super) struct SoakLoad {
    accepted: AtomicUsize,
    completed: AtomicUsize,
    failures: Mutex<Vec<String>>,
    /// The number of an accepted task, and its id.
    remembered: Mutex<Vec<(usize, String)>>,
}

impl SoakLoad {
    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn completed(&self) -> usize {
        self.completed.load(Ordering::Relaxed)
    }

    /// Answers each task with as many bytes as it has, or with a stream when it asks for one.
    pub(super) fn agent(node: &Node) -> TestAgent {
        TestAgent::serve(node, |task| async move {
            let question = task.message().text_content();
            if question.starts_with("stream") {
                return answer_with_a_stream(&task, &question).await;
            }
            task.complete([Artifact::text(question)]).await?;
            Ok(())
        })
    }

    /// Sends at `rate` tasks a second for `length`, and waits until all have ended.
    pub(super) async fn send(self: &Arc<Self>, node: &Node, peer: &PeerId, rate: u32, length: Duration) {
        let places = Arc::new(Semaphore::new(IN_FLIGHT));
        let start = Instant::now();
        let mut under_way = JoinSet::new();
        for number in 0_usize.. {
            let due = start + Duration::from_secs(number as u64) / rate;
            if due >= start + length || start.elapsed() >= length {
                break;
            }
            tokio::time::sleep_until(due).await;
            let place = Arc::clone(&places).acquire_owned().await.unwrap();
            let (load, node, peer) = (Arc::clone(self), node.clone(), peer.clone());
            under_way.spawn(async move {
                let _place = place;
                let outcome = tokio::time::timeout(PATIENCE, load.one(&node, peer, number)).await;
                if let Err(why) = outcome.unwrap_or_else(|_| Err("it did not end".to_owned())) {
                    load.failures
                        .lock()
                        .unwrap()
                        .push(format!("task {number}: {why}"));
                }
            });
            while under_way.try_join_next().is_some() {}
        }
        while let Some(done) = under_way.join_next().await {
            done.unwrap();
        }
    }

    async fn one(&self, node: &Node, peer: PeerId, number: usize) -> Result<(), String> {
        let question = question(number);
        let handle = node
            .send_task(Target::Peer(peer), Message::text(question.clone()))
            .await
            .map_err(|error| error.to_string())?;
        let accepted = self.accepted.fetch_add(1, Ordering::Relaxed);
        if accepted.is_multiple_of(REMEMBER_EVERY) {
            let id = handle.id().to_owned();
            self.remembered.lock().unwrap().push((accepted, id));
        }
        let task = handle.wait().await.map_err(|error| error.to_string())?;
        if question.starts_with("stream") {
            check_stream(&task, &question)?;
        } else if task.text_content() != question {
            return Err("another answer than the question".to_owned());
        }
        self.completed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Of the remembered tasks that have to be gone when `keep` are kept, the newest. As many as can be
    /// under way are left out: tasks end, and so go, in another order than they were accepted in.
    pub(super) fn newest_to_go(&self, keep: usize) -> Option<String> {
        let gone = self.accepted().checked_sub(keep + IN_FLIGHT)?;
        let remembered = self.remembered.lock().unwrap();
        let mut old = remembered.iter().rev().filter(|(number, _)| *number < gone);
        old.next().map(|(_, id)| id.clone())
    }

    pub(super) fn report(&self, length: Duration) -> String {
        format!(
            "{} accepted, {} completed with the right answer, {:.0} a second",
            self.accepted(),
            self.completed(),
            self.completed() as f64 / length.as_secs_f64()
        )
    }

    /// None was lost; in a long run, as many were sent as it is meant to have. Of the artifacts that an agent was streaming
    /// into its daemon when that was killed, at most `kills` times two, the beginning is gone: those tasks end with this reason.
    pub(super) fn assert_all_ended(&self, rate: u32, length: Duration, long: bool, kills: usize) {
        let failures = self.failures.lock().unwrap();
        let (cut, failures): (Vec<&String>, Vec<&String>) =
            failures.iter().partition(|why| why.contains(CUT));
        eprintln!("{} artifacts were cut by {kills} kills", cut.len());
        assert!(cut.len() <= 2 * kills, "{} were cut by {kills} kills", cut.len());
        assert!(
            failures.is_empty(),
            "{} failed, first: {:?}",
            failures.len(),
            &failures[..failures.len().min(5)]
        );
        assert!(self.completed() > 0 && self.completed() + cut.len() == self.accepted());
        let meant = u64::from(rate) * length.as_secs();
        assert!(
            !long || self.completed() as u64 >= meant * 9 / 10,
            "only {} of {meant} tasks were sent: this machine is too slow for the rate",
            self.completed()
        );
    }
}

/// What task `number` asks: 256 B, every tenth 4 KiB, every hundredth 64 KiB, some for a stream.
fn question(number: usize) -> String {
    let (kind, length) = match number {
        _ if number % STREAM_EVERY == STREAM_EVERY / 2 => ("stream", 64),
        _ if number % 100 == 7 => ("text", 64 << 10),
        _ if number % 10 == 3 => ("text", 4 << 10),
        _ => ("text", 256),
    };
    let mut question = format!("{kind} {number} ");
    question.extend((question.len()..length).map(|at| char::from(b'a' + (at * 7 % 26) as u8)));
    question
}

async fn answer_with_a_stream(task: &IncomingTask, question: &str) -> Result<(), agentanycast::HandlerError> {
    let mut artifact = task.stream_artifact("answer", "text/plain").await?;
    let mut left = streamed(question);
    while !left.is_empty() {
        let rest = left.split_off(left.len().min(64 << 10));
        artifact.write(left).await?;
        left = rest;
    }
    artifact.finish().await?;
    task.complete([]).await?;
    Ok(())
}

fn streamed(question: &str) -> Vec<u8> {
    question.bytes().cycle().take(STREAMED).collect()
}

fn check_stream(task: &Task, question: &str) -> Result<(), String> {
    let whole = task.artifacts.first().and_then(|artifact| artifact.parts.first());
    let bytes = whole.and_then(|part| {
        let text = part.as_text().map(str::as_bytes);
        text.or_else(|| part.as_raw())
    });
    match bytes {
        Some(bytes) if bytes == streamed(question) => Ok(()),
        Some(bytes) => Err(format!("{} bytes that were not sent", bytes.len())),
        None => Err(format!("no artifact but {:?}", task.artifacts)),
    }
}
