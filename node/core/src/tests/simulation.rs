//! Two or three nodes, a deployed peer, their clients and their agents, over a network that breaks, on
//! machines that crash, with disks that fail and calendars that jump. One seed decides everything. What is
//! checked is written from the guarantees ("Why nothing is lost"), not from the code.
//!
//! `AGENTANYCAST_SEEDS` is the number of seeds (300), `AGENTANYCAST_FIRST_SEED` the first one (0). With one
//! seed a failure prints the whole run.
//!
//! Each seed is run with `deliver = "all"` and with `"one"`: how tasks are handed to the listeners of an agent.
//!
//! `simulation/outcomes.txt` has one hash for each over what the first 300 and the first 10 000 seeds come to. A change that is to
//! keep the behaviour keeps it. `AGENTANYCAST_DIGESTS=FILE` writes a line for each seed, to FILE and FILE.one: `diff` of two such
//! files names the seeds that differ.

mod agent;
mod artifact_streams;
mod checker;
mod client;
mod daemon;
mod describe;
mod digest;
mod disk;
mod history;
mod legacy_daemon;
mod mutation;
mod network;
mod pending_call;
mod plan;
mod rng;
mod simulator;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use agentanycast_proto::v1::{Message, Part};
use sha2::{Digest as _, Sha256};

use self::{mutation::Mutation, simulator::Simulator};
use crate::{transaction::DeliverMode, wire};

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

/// What a run came to.
struct Run {
    /// What went wrong, if anything did.
    wrong: Option<String>,
    trace: Vec<String>,
    digest: [u8; 32],
}

fn run(seed: u64, sabotage: Mutation, deliver: DeliverMode, tracing: bool) -> Run {
    let mut world = Simulator::new(seed, sabotage, deliver, tracing);
    let done = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..world.plan.events {
            world.happen();
            if world.history.wrong.is_some() {
                return;
            }
        }
        world.heal();
        if world.history.wrong.is_none() {
            world.check();
        }
    }));
    let wrong = match done {
        Ok(()) => world.history.wrong.take(),
        Err(_) => Some("it panicked (see above)".into()),
    };
    Run {
        wrong,
        trace: world.take_trace(),
        digest: world.digest(),
    }
}

/// The hash that `outcomes.txt` has for so many seeds from the first one on.
fn known_outcome(seeds: u64, deliver: DeliverMode) -> Option<&'static str> {
    let run = match deliver {
        DeliverMode::All => format!("all {seeds}"),
        DeliverMode::One => format!("one {seeds}"),
    };
    let lines = include_str!("simulation/outcomes.txt").lines();
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .find_map(|(of, hash)| (of == run).then_some(hash))
}

/// One line for each seed, and the hash of them all.
fn outcome(digests: &BTreeMap<u64, [u8; 32]>) -> (String, String) {
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    let mut lines = String::new();
    for (seed, digest) in digests {
        let _ = writeln!(lines, "{seed} {}", hex(digest));
    }
    let all = hex(&Sha256::digest(&lines));
    (lines, all)
}

#[test]
fn whatever_breaks_every_accepted_task_ends_once_and_well() {
    end_once_and_well(DeliverMode::All);
}

/// The same where a task is handed to one listener at a time.
#[test]
fn whatever_breaks_with_one_listener_a_task_every_accepted_task_ends_once_and_well() {
    end_once_and_well(DeliverMode::One);
}

fn end_once_and_well(deliver: DeliverMode) {
    let first = number("AGENTANYCAST_FIRST_SEED", 0);
    let count = number("AGENTANYCAST_SEEDS", 300);
    let next = AtomicU64::new(first);
    let lowest_wrong = AtomicU64::new(u64::MAX);
    let digests = Mutex::new(BTreeMap::new());
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
                    let run = run(seed, Mutation::None, deliver, false);
                    digests.lock().unwrap().insert(seed, run.digest);
                    if run.wrong.is_some() {
                        lowest_wrong.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let seed = lowest_wrong.into_inner();
    if seed == u64::MAX {
        let (lines, hash) = outcome(&digests.into_inner().unwrap());
        if let Some(file) = std::env::var_os("AGENTANYCAST_DIGESTS") {
            let mut file = file;
            file.push(if deliver == DeliverMode::One { ".one" } else { "" });
            std::fs::write(file, lines).unwrap();
        }
        if let Some(known) = known_outcome(count, deliver).filter(|_| first == 0) {
            assert_eq!(
                hash, known,
                "{count} seeds do not come to what they came to before"
            );
        }
        return;
    }
    let Run { wrong, trace, .. } = run(seed, Mutation::None, deliver, true);
    let from = if count == 1 {
        0
    } else {
        trace.len().saturating_sub(LINES)
    };
    panic!(
        "{}\n\nseed {seed}: {}\nthe whole run: AGENTANYCAST_FIRST_SEED={seed} AGENTANYCAST_SEEDS=1 \
         cargo test -p agentanycast-core --lib simulation::whatever 2>&1 | less",
        trace[from..].join("\n"),
        wrong
            .as_deref()
            .unwrap_or("it went wrong before, and not again: the run is not deterministic"),
    );
}

/// Runs with this fault until one goes wrong; how many it took.
fn noticed(sabotage: Mutation) -> Option<(u64, String)> {
    (0..PATIENCE).find_map(|seed| Some((seed, run(seed, sabotage, DeliverMode::All, false).wrong?)))
}

#[test]
fn the_checker_notices() {
    for sabotage in Mutation::ALL {
        let found = noticed(sabotage);
        println!("{sabotage:?}: {found:?}");
        assert!(found.is_some(), "{sabotage:?} goes unnoticed");
    }
}

/// What the other tests rely on: several envelopes are accepted in one turn, and acknowledged together.
#[test]
fn some_acknowledgements_stand_for_several_envelopes() {
    let several = |line: &String| line.contains("ACK of ") && !line.contains(" and []");
    let runs = (0..50).map(|seed| run(seed, Mutation::None, DeliverMode::All, true).trace);
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
