//! kill -9 of the daemon of the agents while they have tasks.

use std::{collections::BTreeMap, fs};

use agentanycast::{Node, Target, TaskFilter, TaskHandle, TaskStatus};
use agentanycast_tests::{eventually, task_assertions::completed};
use futures::future::join_all;

use super::{AGENTS, ProgramAgent, ProgramAgents};

const TASKS: usize = 200;

/// How many have ended at least when the daemon is killed, and how many at most.
const ENDED_BEFORE: std::ops::Range<usize> = 40..160;

async fn send(scene: &ProgramAgents, bob: &Node, number: usize, agent: &ProgramAgent) -> TaskHandle {
    let by_name = Target::Peer(scene.pair.alice.peer_id().clone());
    let task = if agent.has_several_skills {
        bob.task(by_name, agent.message)
            .agent(agent.name)
            .skill_of_peer(agent.skill)
    } else if number.is_multiple_of(2) {
        bob.task(by_name, agent.message).agent(agent.name)
    } else {
        bob.task(Target::skill(agent.skill), agent.message)
    };
    task.send().await.unwrap()
}

/// How many tasks of the node have ended.
async fn ended(node: &Node) -> usize {
    let filter = TaskFilter {
        statuses: vec![TaskStatus::Completed, TaskStatus::Failed],
        limit: TASKS,
        ..TaskFilter::default()
    };
    node.tasks(&filter).await.unwrap().len()
}

#[tokio::test]
async fn each_of_two_hundred_tasks_ends_once() {
    let mut scene = ProgramAgents::start().await;
    let (_, bob) = scene.pair.nodes().await;
    let agents = AGENTS.iter().cycle().take(TASKS).enumerate();
    let tasks = join_all(agents.map(|(number, agent)| {
        let sending = send(&scene, &bob, number / AGENTS.len(), agent);
        async move { (agent, sending.await) }
    }))
    .await;
    let before = eventually("the first tasks have ended", || async {
        let count = ended(&bob).await;
        (count >= ENDED_BEFORE.start).then_some(count)
    })
    .await;
    scene.pair.alice.kill().await;
    assert!(
        ENDED_BEFORE.contains(&before),
        "{before} had ended before the daemon was killed"
    );
    scene.pair.alice.restart().await;
    eventually("all tasks have ended", || async {
        (ended(&bob).await == TASKS).then_some(())
    })
    .await;

    let (alice, _) = scene.pair.nodes().await;
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (agent, task) in &tasks {
        let task = task.snapshot().await.unwrap();
        // What it has ended as here is what it has ended as there.
        let there = alice.task_handle(task.id.clone()).snapshot().await.unwrap();
        assert_eq!(
            (there.status, there.reason()),
            (task.status, task.reason()),
            "{}",
            agent.name
        );
        *counts.entry((agent.name, task.status.as_str())).or_default() += 1;
        if task.status == TaskStatus::Completed {
            // One that its daemon did not take whole is sent again, also when only the other side had it all.
            let whole = task
                .artifacts
                .iter()
                .filter(|artifact| artifact.break_reason().is_none());
            let whole: Vec<_> = whole.map(|artifact| (&artifact.name, &artifact.parts)).collect();
            let said = format!("{whole:?}");
            let alike = whole.iter().all(|artifact| *artifact == whole[0]);
            assert!(
                !whole.is_empty() && alike && said.contains(agent.answer),
                "{}: {said}",
                agent.name
            );
            *counts.entry((agent.name, "results")).or_default() += whole.len();
        } else {
            assert_eq!(task.status, TaskStatus::Failed, "{}", agent.name);
            let reason = task.reason();
            eprintln!("{}: {reason}", agent.name);
            assert!(!reason.is_empty(), "{} failed without a reason", agent.name);
        }
    }
    eprintln!("{before} had ended before the daemon was killed; {counts:?}");

    // The script was started once at most for each of its tasks.
    let runs = fs::read_to_string(scene.runs()).unwrap();
    let mut runs: Vec<&str> = runs.lines().collect();
    let started = runs.len();
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(runs.len(), started, "a task was run twice");
    let own = tasks.iter().filter(|(agent, _)| agent.name == "script").count();
    assert!(started <= own, "{started} runs of {own} tasks");

    // All agents go on.
    for agent in &AGENTS {
        let task = completed(&send(&scene, &bob, 0, agent).await).await;
        assert!(format!("{:?}", task.artifacts).contains(agent.answer));
    }
}
