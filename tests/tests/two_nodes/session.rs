//! Many calls on one stream: each is what the unary call is, and none waits for another.

use std::collections::BTreeSet;

use agentanycast::{PeerId, TaskError};
use agentanycast_proto::{
    MAX_GRPC_MESSAGE,
    v1::{self, TaskStatus, session_request::Call, session_response::Answer},
};
use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind,
    raw_session::{self, RawSession},
    rpc::{self, Rpc},
    within,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tonic::{Code, Status, transport::Channel};

/// A peer id that is well-formed and nobody's.
const NOBODY: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

fn nobody() -> PeerId {
    NOBODY.parse().unwrap()
}

async fn channel(daemon: &Daemon) -> Channel {
    rpc::channel(daemon.grpc()).await.unwrap()
}

async fn open(daemon: &Daemon) -> RawSession {
    RawSession::open(channel(daemon).await, None).await
}

fn task_of(answer: Answer) -> v1::Task {
    let task = match answer {
        Answer::SendTask(answer) => answer.task,
        Answer::GetTask(answer) | Answer::WaitTask(answer) | Answer::RunTask(answer) => answer.task,
        Answer::CancelTask(answer) => answer.task,
        answer => panic!("{answer:?} has no task"),
    };
    task.expect("a task")
}

/// The same call in the unary way.
async fn unary(rpc: &mut Rpc, call: Call) -> Result<Answer, Status> {
    Ok(match call {
        Call::SendTask(request) => Answer::SendTask(rpc.send_task(request).await?.into_inner()),
        Call::GetTask(request) => Answer::GetTask(rpc.get_task(request).await?.into_inner()),
        Call::CancelTask(request) => Answer::CancelTask(rpc.cancel_task(request).await?.into_inner()),
        Call::UpdateTaskStatus(request) => {
            Answer::UpdateTaskStatus(rpc.update_task_status(request).await?.into_inner())
        }
        Call::CompleteTask(request) => Answer::CompleteTask(rpc.complete_task(request).await?.into_inner()),
        Call::FailTask(request) => Answer::FailTask(rpc.fail_task(request).await?.into_inner()),
        Call::WaitTask(request) => {
            let request = v1::SubscribeTaskUpdatesRequest {
                task_id: request.task_id,
                end_only: true,
                or_input: request.or_input,
            };
            let mut events = rpc.subscribe_task_updates(request).await?.into_inner();
            let task = events.message().await?.expect("the end").task;
            Answer::WaitTask(v1::GetTaskResponse { task })
        }
        Call::RunTask(_) => panic!("there is none: it is two calls"),
        Call::CancelCall(_) => panic!("not a call"),
    })
}

/// What two tasks with the same life have in common.
fn alike(outcome: Result<Answer, Status>, id: &str) -> String {
    let shown = match outcome {
        Ok(answer @ (Answer::UpdateTaskStatus(_) | Answer::CompleteTask(_) | Answer::FailTask(_))) => {
            format!("{answer:?}")
        }
        Ok(answer) => {
            let mut task = task_of(answer);
            (task.created_at, task.updated_at) = (None, None);
            // A further message of no task makes a new one.
            (task.task_id, task.context_id) = (String::new(), String::new());
            for message in task.messages.iter_mut().chain(task.status_message.as_mut()) {
                message.created_at = None;
                message.message_id = String::new();
            }
            format!("{task:?}")
        }
        Err(status) => format!("{:?}: {}", status.code(), status.message()),
    };
    shown.replace(id, "THE-TASK")
}

/// A drawn call on this task; waits only where they end.
fn drawn(dice: &mut StdRng, id: &str, peer: &PeerId, ended: bool) -> Call {
    let id = match dice.random_range(0..20) {
        0 => "unknown",
        1 => "",
        _ => id,
    };
    let task_id = id.to_owned();
    match dice.random_range(0..12) {
        0 | 1 => raw_session::get(id),
        2 => Call::CancelTask(v1::CancelTaskRequest { task_id }),
        3 => Call::FailTask(v1::FailTaskRequest {
            task_id,
            error_message: "no ink".to_owned(),
            unclaimed: false,
        }),
        4 => Call::CompleteTask(v1::CompleteTaskRequest {
            task_id,
            artifacts: vec![v1::Artifact {
                artifact_id: "artifact".to_owned(),
                ..rpc::artifact("result", "done")
            }],
            ..v1::CompleteTaskRequest::default()
        }),
        5 => Call::SendTask(v1::SendTaskRequest {
            task_id,
            ..rpc::to_peer(peer, rpc::text("further"))
        }),
        6 if ended => raw_session::wait(id),
        _ => Call::UpdateTaskStatus(v1::UpdateTaskStatusRequest {
            task_id,
            status: dice.random_range(0..9),
            message: dice.random_bool(0.5).then(|| v1::Message {
                message_id: "progress".to_owned(),
                ..rpc::text("progress")
            }),
            ..Default::default()
        }),
    }
}

/// Drawn lives of tasks, each led twice: by unary calls and on a session. Every answer and every refusal is the same.
#[tokio::test]
async fn a_session_answers_as_unary_calls_do() {
    const LIVES: usize = 40;
    const CALLS: usize = 12;
    let daemon = Daemon::builder().start().await;
    let peer = daemon.peer_id().clone();
    let mut rpc = daemon.rpc().await;
    let mut session = open(&daemon).await;
    let mut dice = StdRng::seed_from_u64(7);
    let mut refused = std::collections::BTreeSet::new();
    for life in 0..LIVES {
        let new = Call::SendTask(rpc::to_peer(&peer, rpc::text("x")));
        let ids = [
            task_of(unary(&mut rpc, new.clone()).await.unwrap()).task_id,
            task_of(session.call(new).await.unwrap()).task_id,
        ];
        let mut done = Vec::new();
        for _ in 0..CALLS {
            let status = rpc::get(&mut rpc, &ids[0]).await.unwrap().status();
            let ended = !matches!(
                status,
                TaskStatus::Submitted | TaskStatus::Working | TaskStatus::InputRequired
            );
            let seed = dice.random();
            let [ours, theirs] =
                [&ids[0], &ids[1]].map(|id| drawn(&mut StdRng::seed_from_u64(seed), id, &peer, ended));
            done.push(format!("{ours:?}"));
            let by_unary = unary(&mut rpc, ours).await;
            let on_session = session.call(theirs).await;
            refused.extend(
                by_unary
                    .as_ref()
                    .err()
                    .map(|status| format!("{:?}", status.code())),
            );
            assert_eq!(
                alike(by_unary, &ids[0]),
                alike(on_session, &ids[1]),
                "life {life}: {done:#?}"
            );
        }
    }
    for code in ["NotFound", "FailedPrecondition", "InvalidArgument"] {
        assert!(refused.contains(code), "{code} is not among {refused:?}");
    }
    let skill = Call::SendTask(v1::SendTaskRequest {
        target: Some(v1::send_task_request::Target::SkillId("echo".to_owned())),
        message: Some(rpc::text("x")),
        ..v1::SendTaskRequest::default()
    });
    assert_eq!(session.call(skill).await.unwrap_err().code(), Code::Unavailable);
}

/// A claim on a session is the connection's, whichever way the next call goes.
#[tokio::test]
async fn a_claim_belongs_to_the_connection() {
    let daemon = Daemon::builder().start().await;
    let connection = channel(&daemon).await;
    let mut unary = Rpc::new(connection.clone());
    let mut session = RawSession::open(connection, None).await;
    let mut others = open(&daemon).await;
    let task = rpc::send(&mut unary, daemon.peer_id(), "x").await;
    let working = |text| raw_session::update(&task.task_id, TaskStatus::Working, text);
    session.call(working(None)).await.unwrap();
    let refused = others.call(working(None)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    rpc::report(&mut unary, &task.task_id, TaskStatus::Working, "still at it")
        .await
        .unwrap();
    drop((unary, session));
    // Once the connection is gone, another one takes the task over.
    let taken_over = async { while others.call(working(None)).await.is_err() {} };
    within("the task is taken over", taken_over).await;
}

#[tokio::test]
async fn calls_begin_in_order_and_nothing_waits_for_a_wait() {
    const REPORTS: usize = 600;
    let daemon = Daemon::builder().start().await;
    let mut rpc = daemon.rpc().await;
    let mut session = open(&daemon).await;
    let id = rpc::send(&mut rpc, daemon.peer_id(), "count").await.task_id;
    let wait = session.send(raw_session::wait(&id));
    let unwanted = session.send(raw_session::wait(&id));
    session.send(raw_session::update(&id, TaskStatus::Working, None));
    for number in 0..REPORTS {
        session.send(raw_session::update(
            &id,
            TaskStatus::Working,
            Some(&number.to_string()),
        ));
    }
    for _ in 0..=REPORTS {
        session.next().await.1.unwrap();
    }
    session.cancel(unwanted);
    let (given_up, outcome) = session.next().await;
    assert_eq!(
        (given_up, outcome.unwrap_err().code()),
        (unwanted, Code::Cancelled)
    );
    // Nobody's, or answered: nothing happens.
    session.cancel(unwanted);
    session.cancel(u64::MAX);
    session.send_as(wait + 1_000_000, Some(raw_session::complete(&id, "done")));
    session.close();
    let mut ended = None;
    for _ in 0..2 {
        let (call, outcome) = session.next().await;
        if call == wait {
            ended = Some(task_of(outcome.unwrap()));
        }
    }
    let ended = ended.expect("the wait is answered");
    assert_eq!(ended.status(), TaskStatus::Completed);
    let texts: Vec<_> = ended
        .messages
        .iter()
        .map(|message| rpc::text_of(&message.parts))
        .collect();
    let counted: Vec<_> = (0..REPORTS).map(|number| number.to_string()).collect();
    assert_eq!(texts[1..], counted);
    assert!(
        session.end().await.is_none(),
        "all calls of a closed session are answered"
    );
}

#[tokio::test]
async fn what_a_daemon_does_not_know_ends_no_session() {
    let daemon = Daemon::builder().start().await;
    let mut session = open(&daemon).await;
    session.send_as(5, None);
    let (call, outcome) = session.next().await;
    assert_eq!((call, outcome.unwrap_err().code()), (5, Code::Unimplemented));
    assert_eq!(
        session.call(raw_session::get("x")).await.unwrap_err().code(),
        Code::NotFound
    );
}

/// An answer could not say which of the two it is for.
#[tokio::test]
async fn a_number_used_twice_ends_the_session() {
    let daemon = Daemon::builder().start().await;
    let mut rpc = daemon.rpc().await;
    let id = rpc::send(&mut rpc, &nobody(), "x").await.task_id;
    let mut session = open(&daemon).await;
    session.send_as(7, Some(raw_session::wait(&id)));
    session.send_as(7, Some(raw_session::get(&id)));
    let status = session.end().await.expect("a reason");
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("call_id 7"), "{status}");
}

/// Whoever takes large messages gets the artifact whole, whoever does not gets it by reference.
#[tokio::test]
async fn large_answers_keep_to_what_the_client_takes() {
    const BYTES: usize = 5 << 20;
    let daemon = Daemon::builder().start().await;
    let mut rpc = daemon.rpc().await;
    let id = rpc::send(&mut rpc, daemon.peer_id(), "much").await.task_id;
    let mut modest = open(&daemon).await;
    let mut greedy = RawSession::open(channel(&daemon).await, Some(MAX_GRPC_MESSAGE)).await;
    greedy.send(raw_session::wait(&id));
    modest.send(raw_session::wait(&id));
    let large = "x".repeat(BYTES);
    greedy.send(raw_session::update(&id, TaskStatus::Working, None));
    greedy.next().await.1.unwrap();
    greedy.send(raw_session::complete(&id, &large));
    let mut whole = None;
    for _ in 0..2 {
        if let Ok(Answer::WaitTask(answer)) = greedy.next().await.1 {
            whole = answer.task;
        }
    }
    let whole = whole.expect("the end");
    assert_eq!(rpc::text_of(&whole.artifacts[0].parts).len(), BYTES);
    let listed = task_of(modest.next().await.1.unwrap());
    assert!(rpc::text_of(&listed.artifacts[0].parts).is_empty());
    assert!(listed.artifacts[0].size_bytes >= BYTES as u64);
}

/// Waits of the SDK that are open while their daemon is killed, or stopped, and started again.
#[tokio::test]
async fn open_waits_outlive_the_daemon() {
    const WAITS: usize = 500;
    let mut daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    let mut handles = Vec::new();
    for _ in 0..WAITS {
        let target = agentanycast::Target::Peer(nobody());
        handles.push(node.send_task(target, "wait").await.unwrap());
    }
    let waits: Vec<_> = handles
        .iter()
        .cloned()
        .map(|handle| tokio::spawn(async move { handle.wait().await }))
        .collect();
    for stops in [false, true, false] {
        handles[0].snapshot().await.unwrap();
        if stops {
            daemon.stop().await;
        } else {
            daemon.kill().await;
        }
        daemon.restart().await;
    }
    for handle in &handles {
        handle.cancel().await.unwrap();
    }
    for wait in waits {
        let outcome = within("the wait ends", wait).await.unwrap();
        assert!(matches!(outcome, Err(TaskError::Canceled { .. })), "{outcome:?}");
    }
}

/// What is run is one task, and ends, also where the daemon is killed meanwhile.
#[tokio::test]
async fn what_is_run_outlives_the_daemon() {
    const TASKS: usize = 300;
    let mut daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    let running: Vec<_> = (0..TASKS)
        .map(|number| {
            let node = node.clone();
            let target = agentanycast::Target::Peer(nobody());
            tokio::spawn(async move { node.run_task(target, number.to_string()).await })
        })
        .collect();
    let filter = agentanycast::TaskFilter::default();
    // The first of them comes while all wait in the calls that they were sent with.
    for (round, stops) in [true, false, true, false].into_iter().enumerate() {
        let some_are_sent =
            async { while node.tasks(&filter).await.unwrap().len() < (round + 1) * TASKS / 4 {} };
        within("some are sent", some_are_sent).await;
        if stops {
            daemon.stop().await;
        } else {
            daemon.kill().await;
        }
        daemon.restart().await;
    }
    let all_are_sent = async { while node.tasks(&filter).await.unwrap().len() < TASKS {} };
    within("all are sent", all_are_sent).await;
    for task in node.tasks(&filter).await.unwrap() {
        node.task_handle(task.id).cancel().await.unwrap();
    }
    for run in running {
        let outcome = within("it ends", run).await.unwrap();
        assert!(matches!(outcome, Err(TaskError::Canceled { .. })), "{outcome:?}");
    }
    assert_eq!(node.tasks(&filter).await.unwrap().len(), TASKS);
}

/// Tasks that are run hold up no other call until they have ended, and are known by their ids when that takes its time.
#[tokio::test]
async fn tasks_that_are_run_and_go_on_hold_up_nothing() {
    /// More than the calls that a session makes at a time.
    const TASKS: usize = 300;
    let daemon = Daemon::builder().start().await;
    let mut session = open(&daemon).await;
    let run = |number: usize| Call::RunTask(rpc::to_peer(&nobody(), rpc::text(&number.to_string())));
    let runs: BTreeSet<u64> = (0..TASKS).map(|number| session.send(run(number))).collect();
    let refused = session.send(Call::RunTask(v1::SendTaskRequest {
        message: Some(rpc::text("x")),
        ..v1::SendTaskRequest::default()
    }));
    let mut answers = Vec::new();
    while answers.len() < TASKS + 1 {
        answers.push(session.next().await);
    }
    let at = answers.iter().position(|(call, _)| *call == refused).unwrap();
    let (_, outcome) = answers.remove(at);
    assert_eq!(outcome.unwrap_err().code(), Code::InvalidArgument);
    // If they held their places as calls it would be read when so many have ended.
    assert!(at < TASKS - 256, "it was answered behind {at} tasks");
    let mut ids = BTreeSet::new();
    for (call, outcome) in answers {
        assert!(runs.contains(&call));
        let task = task_of(outcome.unwrap());
        assert!(task.messages.is_empty() && task.artifacts.is_empty());
        ids.insert(task.task_id);
    }
    let all = daemon
        .node()
        .await
        .tasks(&agentanycast::TaskFilter::default())
        .await
        .unwrap();
    let sent: BTreeSet<String> = all.into_iter().map(|task| task.id).collect();
    assert_eq!(ids, sent);
    assert_eq!(sent.len(), TASKS);
}

/// A daemon that stops answers what it has accepted: nobody has to ask by sending it again.
#[tokio::test]
async fn what_is_run_is_known_by_its_id_when_the_daemon_stops() {
    const TASKS: usize = 50;
    let mut daemon = Daemon::builder().start().await;
    let mut session = open(&daemon).await;
    let runs: BTreeSet<u64> = (0..TASKS)
        .map(|_| session.send(Call::RunTask(rpc::to_peer(&nobody(), rpc::text("x")))))
        .collect();
    let node = daemon.node().await;
    let filter = agentanycast::TaskFilter::default();
    let accepted = async {
        loop {
            let tasks = node.tasks(&filter).await.unwrap();
            if tasks.len() == TASKS {
                return tasks;
            }
        }
    };
    let accepted = within("all are accepted", accepted).await;
    let accepted: BTreeSet<String> = accepted.into_iter().map(|task| task.id).collect();
    let answers = async {
        let mut answers = Vec::new();
        for _ in 0..TASKS {
            answers.push(session.next().await);
        }
        answers
    };
    let (answers, ()) = tokio::join!(answers, daemon.stop());
    let calls: BTreeSet<u64> = answers.iter().map(|(call, _)| *call).collect();
    assert_eq!(calls, runs);
    let ids = answers
        .into_iter()
        .map(|(_, outcome)| task_of(outcome.unwrap()).task_id);
    assert_eq!(ids.collect::<BTreeSet<_>>(), accepted);
}

#[tokio::test]
async fn a_task_is_run_in_one_call() {
    /// More than is kept in memory of a task that has ended.
    const BYTES: usize = 200 << 10;
    let daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    let _agent = agentanycast_tests::agent::TestAgent::echo(&node);
    let mut session = open(&daemon).await;
    let run = |to: &PeerId, text: &str, key: &str| {
        Call::RunTask(v1::SendTaskRequest {
            idempotency_key: key.to_owned(),
            ..rpc::to_peer(to, rpc::text(text))
        })
    };
    for bytes in [1, BYTES] {
        let text = "x".repeat(bytes);
        let ended = async {
            loop {
                // One that took more than its second is answered with its id.
                let task = task_of(session.call(run(daemon.peer_id(), &text, "")).await.unwrap());
                if task.status() == TaskStatus::Completed {
                    return task;
                }
            }
        };
        let task = within("a task ends soon", ended).await;
        assert_eq!(rpc::text_of(&task.artifacts[0].parts), format!("echo: {text}"));
    }
    let first = task_of(session.call(run(daemon.peer_id(), "x", "key")).await.unwrap());
    node.task_handle(&first.task_id).wait().await.unwrap();
    let again = task_of(session.call(run(daemon.peer_id(), "x", "key")).await.unwrap());
    assert_eq!(again.task_id, first.task_id);
    let taken_back = async {
        loop {
            let unwanted = session.send(run(&nobody(), "x", "taken back"));
            session.cancel(unwanted);
            if let (_, Err(status)) = session.next().await {
                return status;
            }
        }
    };
    let status = within("a wait is taken back", taken_back).await;
    assert_eq!(status.code(), Code::Cancelled);
    let goes_on = task_of(session.call(run(&nobody(), "x", "taken back")).await.unwrap());
    let goes_on = task_of(session.call(raw_session::get(&goes_on.task_id)).await.unwrap());
    assert_eq!(goes_on.status(), TaskStatus::Submitted);
}

/// More waits than a session takes, all of one SDK: the rest goes another way, and all end.
#[tokio::test]
async fn the_sdk_waits_for_more_than_a_session_takes() {
    const TASKS: usize = 50;
    const WAITS: usize = 60;
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let mut handles = Vec::new();
    for _ in 0..TASKS {
        let target = agentanycast::Target::Peer(pair.bob.peer_id().clone());
        handles.push(alice.send_task(target, "x").await.unwrap());
    }
    let waits: Vec<_> = (0..TASKS * WAITS)
        .map(|number| {
            let handle = handles[number % TASKS].clone();
            tokio::spawn(async move { handle.wait().await })
        })
        .collect();
    let _agent = agentanycast_tests::agent::TestAgent::echo(&bob);
    for wait in waits {
        let task = within("the wait ends", wait).await.unwrap().unwrap();
        assert_eq!(task.text_content(), "echo: x");
    }
}
