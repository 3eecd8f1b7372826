//! Crash: both daemons are killed (SIGKILL) at random moments, alone and together, also while they start
//! again, through rounds of concurrent tasks. Every task that SendTask answered OK for ends COMPLETED, once,
//! with its own artifact, and never changes afterwards; what an originator was shown is never taken back; no
//! agent is handed a task as new that it has claimed; every start opens the store as it was left.
//!
//! Agents are bare gRPC clients, so that each connection is what it seems, and one served by the SDK;
//! originators likewise. An honest agent whose claim got no answer claims again until it is answered: OK
//! means that the task is its own to do, FAILED_PRECONDITION that it is somebody else's, or over.
//!
//! `AGENTANYCAST_CRASH_ROUNDS` says how many rounds over TCP (default 8; over QUIC a quarter), and
//! `AGENTANYCAST_CRASH_SEED` repeats the random choices of a run, which says its seed. The long version:
//!
//! ```sh
//! cargo build -p anycast --features full
//! AGENTANYCAST_CRASH_ROUNDS=100 cargo test -p agentanycast-tests --test robustness crash
//! ```

mod agents;
mod grpc_connection;
mod history;
mod kill_plan;
mod originators;

use std::{collections::HashMap, io::Write as _, sync::Arc, time::Instant};

use agentanycast::{Node, Task, TaskFilter, TaskStatus};
use agentanycast_tests::{Daemon, DaemonPair, TransportKind, eventually};
use futures::future::join_all;
use rand::{SeedableRng as _, rngs::StdRng};

use crate::size;
use agents::BareAgent;
use history::CrashHistory;
use kill_plan::KillPlan;
use originators::Originator;

/// Tasks of one round, all at once: more than 2 000 in 100 rounds.
const TASKS: usize = 24;

/// Bare agents beside the SDK's.
const BARE_AGENTS: usize = 2;

/// The label of a task that says which it is.
const NUMBER: &str = "number";

/// What the agent is asked.
fn question(number: &str) -> String {
    format!("do {number}")
}

/// What it answers.
fn answer(number: &str) -> String {
    format!("done {number}")
}

#[tokio::test]
async fn daemons_that_crash_lose_and_double_nothing_over_tcp() {
    rounds(
        TransportKind::Tcp,
        size("AGENTANYCAST_CRASH_ROUNDS", 8),
        BARE_AGENTS,
    )
    .await;
}

/// It begins what it is handed before it has claimed it.
#[tokio::test]
async fn daemons_that_crash_lose_and_double_nothing_of_an_agent_that_is_alone() {
    rounds(TransportKind::Tcp, size("AGENTANYCAST_CRASH_ROUNDS", 8), 0).await;
}

#[tokio::test]
async fn daemons_that_crash_lose_and_double_nothing_over_quic() {
    rounds(
        TransportKind::Quic,
        size("AGENTANYCAST_CRASH_ROUNDS", 8).div_ceil(4),
        BARE_AGENTS,
    )
    .await;
}

/// Random choices of one actor in one round: they depend on nothing that the others do.
fn dice(seed: u64, round: usize, actor: usize) -> StdRng {
    let place = ((round as u64) << 20) | actor as u64;
    StdRng::seed_from_u64(seed ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

async fn rounds(transport: TransportKind, rounds: usize, bare_agents: usize) {
    let seed = size("AGENTANYCAST_CRASH_SEED", rand::random::<u32>() as usize) as u64;
    eprintln!("the same choices again: AGENTANYCAST_CRASH_SEED={seed}");
    let began = Instant::now();
    let mut pair = DaemonPair::start(transport).await;
    let ledger = Arc::new(CrashHistory::default());
    let agents = (0..bare_agents).map(|number| {
        // No round has this number, nor any originator.
        let dice = dice(seed, 1 << 20, number);
        BareAgent::new(number, pair.bob.home().socket(), &ledger, dice).work()
    });
    let agents = join_all(agents);
    let _sdk_agent = agents::serve(&pair.bob.node().await, &ledger);
    let sdk = pair.alice.node().await;
    let body = async {
        for round in 0..rounds {
            one_round(&mut pair, &sdk, &ledger, seed, round).await;
        }
        audit(&pair, &ledger).await;
    };
    tokio::select! {
        () = body => {}
        _ = agents, if bare_agents > 0 => unreachable!("agents work for ever"),
    }
    let line = format!(
        "crash over {transport:?}, {bare_agents} bare agents: seed {seed}, {rounds} rounds in {:.0} s: {}\n",
        began.elapsed().as_secs_f64(),
        ledger.figures()
    );
    // Not by a macro: what those print is not shown when the test passes.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

async fn one_round(pair: &mut DaemonPair, sdk: &Node, ledger: &Arc<CrashHistory>, seed: u64, round: usize) {
    let bob = pair.bob.peer_id().clone();
    let alice = pair.alice.home().socket();
    let sends = (0..TASKS).map(|actor| {
        let number = format!("{round}.{actor}");
        let originator = Originator::new(number, &alice, &bob, ledger, dice(seed, round, 1 + actor));
        originator.run((actor % 4 == 0).then_some(sdk))
    });
    let plan = KillPlan::draw(&mut dice(seed, round, 0), TASKS);
    eprintln!("round {round}: {plan:?}");
    let tasks = async {
        join_all(sends).await;
        ledger.round_over();
    };
    tokio::join!(tasks, plan.carry_out(pair, ledger));
    ledger.next_round();
    // All of them, also those of the rounds before: none has changed.
    originators::read(&alice, ledger, &ledger.accepted()).await;
}

/// At the end both daemons have the same tasks, all of them completed, also those whose SendTask got no
/// answer and was given up; and none is there twice.
async fn audit(pair: &DaemonPair, ledger: &CrashHistory) {
    no_errors(&pair.alice);
    no_errors(&pair.bob);
    let (alice, bob) = pair.nodes().await;
    for (who, node) in [("the originator", &alice), ("the assignee", &bob)] {
        let tasks = all_completed(who, node).await;
        for id in ledger.accepted() {
            assert!(
                tasks.contains_key(&id),
                "{who} has lost the accepted task {id}: {}",
                ledger.story(&id)
            );
        }
        let mut numbers = HashMap::new();
        for (id, task) in &tasks {
            if let Some(twin) = numbers.insert(task.metadata[NUMBER].clone(), id) {
                panic!("at {who} tasks {id} and {twin} are one send");
            }
        }
    }
}

/// Nothing went wrong that a daemon got over by itself.
fn no_errors(daemon: &Daemon) {
    let log = std::fs::read_to_string(daemon.home().path().join("daemon.err")).unwrap();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("\"ERROR\"")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

async fn all_completed(who: &str, node: &Node) -> HashMap<String, Task> {
    eventually(&format!("all tasks of {who} are completed"), || async {
        let tasks = node.tasks(&TaskFilter::default()).await.unwrap();
        let all = tasks.iter().all(|task| task.status == TaskStatus::Completed);
        all.then(|| tasks.into_iter().map(|task| (task.id.clone(), task)).collect())
    })
    .await
}
