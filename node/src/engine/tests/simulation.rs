//! Two or three nodes, a deployed peer, their clients and their agents, over a network that breaks, on
//! machines that crash, with disks that fail and calendars that jump. One seed decides everything. What is
//! checked is written from the guarantees ("Why nothing is lost"), not from the code.
//!
//! `AGENTANYCAST_SEEDS` is the number of seeds (300), `AGENTANYCAST_FIRST_SEED` the first one (0). With one
//! seed a failure prints the whole run.

mod agent;
mod check;
mod client;
mod deployed;
mod dice;
mod disk;
mod ledger;
mod machine;
mod network;
mod plan;
mod plane;
mod sabotage;
mod what;
mod world;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
};

use agentanycast_proto::v1::{A2aEnvelope, Message, Part};
use prost::Message as _;

use self::{sabotage::Sabotage, world::World};
use crate::engine::wire;

/// How many lines of a failed run are shown when many seeds are run.
const LINES: usize = 60;

/// Seeds within which a deliberate fault has to show.
const PATIENCE: u64 = 1000;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// One whole run. What went wrong, if anything did, and its trace.
fn run(seed: u64, sabotage: Sabotage, tracing: bool) -> (Option<String>, Vec<String>) {
    let mut world = World::new(seed, sabotage, tracing);
    let done = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..world.plan.events {
            world.happen();
            if world.ledger.wrong.is_some() {
                return;
            }
        }
        world.heal();
        if world.ledger.wrong.is_none() {
            world.check();
        }
    }));
    let wrong = match done {
        Ok(()) => world.ledger.wrong.take(),
        Err(_) => Some("it panicked (see above)".into()),
    };
    (wrong, world.take_trace())
}

#[test]
fn whatever_breaks_every_accepted_task_ends_once_and_well() {
    let first = number("AGENTANYCAST_FIRST_SEED", 0);
    let count = number("AGENTANYCAST_SEEDS", 300);
    let next = AtomicU64::new(first);
    let lowest_wrong = AtomicU64::new(u64::MAX);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // What is above a seed that went wrong is of no interest.
                    if seed >= first + count || seed > lowest_wrong.load(Ordering::Relaxed) {
                        return;
                    }
                    if run(seed, Sabotage::None, false).0.is_some() {
                        lowest_wrong.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let seed = lowest_wrong.into_inner();
    if seed == u64::MAX {
        return;
    }
    let (wrong, trace) = run(seed, Sabotage::None, true);
    let from = if count == 1 {
        0
    } else {
        trace.len().saturating_sub(LINES)
    };
    panic!(
        "{}\n\nseed {seed}: {}\nthe whole run: AGENTANYCAST_FIRST_SEED={seed} AGENTANYCAST_SEEDS=1 \
         cargo test -p agentanycast-node --lib simulation::whatever 2>&1 | less",
        trace[from..].join("\n"),
        wrong
            .as_deref()
            .unwrap_or("it went wrong before, and not again: the run is not deterministic"),
    );
}

/// Runs with this fault until one goes wrong; how many it took.
fn noticed(sabotage: Sabotage) -> Option<(u64, String)> {
    (0..PATIENCE).find_map(|seed| Some((seed, run(seed, sabotage, false).0?)))
}

#[test]
fn the_checker_notices() {
    for sabotage in Sabotage::ALL {
        let found = noticed(sabotage);
        println!("{sabotage:?}: {found:?}");
        assert!(found.is_some(), "{sabotage:?} goes unnoticed");
    }
}

/// What the other tests rely on: several envelopes are accepted in one turn, and acknowledged together.
#[test]
fn some_acknowledgements_stand_for_several_envelopes() {
    let several = |line: &String| line.contains("ACK of ") && !line.contains(" and []");
    let runs = (0..50).map(|seed| run(seed, Sabotage::None, true).1);
    let count: usize = runs
        .map(|trace| trace.iter().filter(|line| several(line)).count())
        .sum();
    assert!(count >= 10, "{count} in 50 runs");
}

/// All text of a message or an artifact.
fn text_in(parts: &[Part]) -> String {
    wire::text_of(&Message {
        parts: parts.to_vec(),
        ..Message::default()
    })
}

/// A frame, for the trace.
fn describe(frame: &[u8]) -> String {
    use agentanycast_proto::v1::a2a_envelope::Payload;
    let Ok(envelope) = A2aEnvelope::decode(frame) else {
        return "garbage".into();
    };
    let id: String = envelope.envelope_id.chars().take(8).collect();
    let what = match &envelope.payload {
        Some(Payload::Ack(ack)) => {
            let of: String = ack.acknowledged_envelope_id.chars().take(8).collect();
            let next = ack
                .next_sequence
                .map_or(String::new(), |next| format!(" next {next}"));
            let also: Vec<&str> = ack
                .also_acknowledged
                .iter()
                .map(|id| id.get(..8).unwrap_or(id))
                .collect();
            return format!("ACK of {of} and {also:?} {} {}{next}", ack.outcome, ack.reason);
        }
        Some(Payload::SendTask(it)) => {
            let said = it.message.as_ref().map_or("", |said| said.message_id.as_str());
            format!("{} {said}", it.task_id)
        }
        Some(Payload::TaskStatusUpdate(it)) => {
            let said = it.message.as_ref().map_or("", |said| said.message_id.as_str());
            format!("{} is {} {said}", it.task_id, it.status)
        }
        Some(Payload::TaskComplete(it)) => it.task_id.clone(),
        Some(Payload::TaskFail(it)) => format!("{} {}", it.task_id, it.error_message),
        Some(Payload::TaskCancel(it)) => it.task_id.clone(),
        Some(Payload::TaskConfirm(it)) => it.task_id.clone(),
        Some(Payload::GetTask(it)) => it.task_id.clone(),
        Some(Payload::GetTaskResponse(it)) => {
            let task = it.task.as_ref();
            task.map_or(String::new(), |task| {
                format!("{} is {}", task.task_id, task.status)
            })
        }
        Some(Payload::StreamStart(it)) => format!("{} {}", it.task_id, it.artifact_id),
        Some(Payload::StreamChunk(it)) => format!("{} {} {}", it.task_id, it.artifact_id, it.sequence),
        Some(Payload::StreamEnd(it)) => format!("{} {} {}", it.task_id, it.artifact_id, it.reason),
        None => "empty".into(),
    };
    let kind = envelope
        .r#type()
        .as_str_name()
        .trim_start_matches("ENVELOPE_TYPE_");
    format!("{kind} {what} [{id} #{}]", envelope.sequence)
}
