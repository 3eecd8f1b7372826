//! Two processes of the README's Python agent, which says nothing before its result: each task is run by one of them, however
//! long it takes. And two `Node` objects in one process, both of which get it.

use std::{collections::BTreeSet, fs, time::Duration};

use agentanycast::{Target, TaskStatus};
use agentanycast_tests::{Daemon, TransportKind, eventually, eventually_within, within};
use serde_json::json;
use tokio::process::Command;

use crate::{
    client_env::{ClientEnv, python},
    readme,
    script::ScriptProcess,
};

const TASKS: usize = 20;

/// What its handler does after it has printed what it was sent, and before it answers.
const ANSWERS: &str = "            await task.complete(";

/// Sends the tasks to two processes whose handler sleeps so long, at a daemon with these settings.
async fn each_task_is_run_once(settings: &str, sleep: Duration) {
    let stage = ClientEnv::new(TransportKind::Tcp);
    let program = readme::python_agent();
    let seconds = sleep.as_secs();
    let slow = program.replace(
        ANSWERS,
        &format!(
            "            print(text, flush=True)\n            await asyncio.sleep({seconds})\n{ANSWERS}"
        ),
    );
    assert_ne!(slow, program, "the handler is not where it was");
    let script = stage.path().join("server.py");
    fs::write(&script, slow).unwrap();
    // Where the program looks for the daemon.
    let socket = stage.path().join(".agentanycast/daemon.sock");
    let daemon = Daemon::builder().grpc(format!("unix://{}", socket.display()));
    let daemon = daemon.config(settings).start().await;
    let process = || {
        let mut command = stage.command(python());
        command.arg(&script);
        ScriptProcess::start(command)
    };
    let processes = [process(), process()];
    let node = daemon.node().await;
    eventually("both processes listen", || async {
        let agents = node.node_agents().await.unwrap();
        (agents.first()?.listeners == 2).then_some(())
    })
    .await;

    let sent: BTreeSet<String> = (0..TASKS).map(|number| format!("task {number}")).collect();
    let mut tasks = Vec::new();
    for text in &sent {
        let target = Target::Peer(daemon.peer_id().clone());
        tasks.push((text, node.send_task(target, text.as_str()).await.unwrap()));
    }
    for (text, task) in &tasks {
        let limit = sleep + Duration::from_mins(1);
        let ended = eventually_within(limit, "the task ends", || async {
            let task = task.snapshot().await.unwrap();
            task.status.is_terminal().then_some(task)
        })
        .await;
        assert_eq!(ended.status, TaskStatus::Completed, "{}", ended.reason());
        assert_eq!(ended.text_content(), text.to_uppercase());
    }
    let [first, second] = processes;
    let runs = [first.kill().await, second.kill().await];
    assert_eq!([runs[0].len(), runs[1].len()], [TASKS / 2; 2], "{runs:?}");
    assert_eq!(runs.into_iter().flatten().collect::<BTreeSet<_>>(), sent);
}

/// Both limits are shorter than the handler is silent: its process reads its stream, and is not known to claim.
#[tokio::test]
async fn twenty_tasks_of_a_silent_handler_are_run_twenty_times() {
    each_task_is_run_once(
        "[agents]\nhand_over_timeout = \"2s\"\nclaim_within = \"2s\"\n",
        Duration::from_secs(6),
    )
    .await;
}

#[tokio::test]
#[ignore = "long: the handler sleeps 45 s"]
async fn twenty_tasks_of_a_handler_that_sleeps_are_run_twenty_times() {
    each_task_is_run_once("", Duration::from_secs(45)).await;
}

/// Two `Node` objects of one process, which gRPC puts on one connection: both get each task, and the claim of the one does not
/// keep the other from it. README names this as a limit.
async fn two_nodes_of_one_process(start: impl FnOnce(&ClientEnv, &Daemon) -> Command) {
    let stage = ClientEnv::new(TransportKind::Tcp);
    let daemon = Daemon::builder().start().await;
    let mut program = ScriptProcess::start(start(&stage, &daemon));
    program.json().await;
    let node = daemon.node().await;
    eventually("both nodes listen", || async {
        let agents = node.node_agents().await.unwrap();
        (agents.first()?.listeners == 2).then_some(())
    })
    .await;
    for text in ["one", "two", "three"] {
        let target = Target::Peer(daemon.peer_id().clone());
        let task = node.send_task(target, text).await.unwrap();
        let ended = within("the task ends", task.wait()).await.unwrap();
        assert_eq!(ended.text_content(), text.to_uppercase());
        let mut called = [program.json().await, program.json().await];
        called.sort_by_key(|call| call["node"].as_u64());
        assert_eq!(called, [1, 2].map(|node| json!({ "node": node, "text": text })));
    }
    program.succeed().await;
}

#[tokio::test]
async fn two_python_nodes_of_one_process_both_get_each_task() {
    two_nodes_of_one_process(|stage, daemon| {
        let mut command = stage.python("two_nodes.py");
        command.arg(daemon.home().path());
        command
    })
    .await;
}

#[tokio::test]
async fn two_typescript_nodes_of_one_process_both_get_each_task() {
    two_nodes_of_one_process(|stage, daemon| {
        let mut command = stage.node("two_nodes.mjs");
        command.arg(daemon.grpc());
        command
    })
    .await;
}
