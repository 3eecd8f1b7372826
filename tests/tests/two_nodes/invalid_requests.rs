//! Every call with what it does not take: one table of requests and the codes that they are refused with.
//! None is INTERNAL or UNKNOWN, and UNAVAILABLE only where it is the contract's word, since deployed
//! clients repeat such calls.

use agentanycast_proto::v1::{self, TaskStatus, send_task_request::Target};
use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind,
    rpc::{self, Rpc, next_task, text},
};
use tonic::{
    Code::{self, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied, Unavailable},
    Status,
};

/// A peer id that is well-formed and nobody's.
const NOBODY: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

fn check<T>(case: &str, expected: Code, outcome: Result<T, Status>) {
    match outcome {
        Ok(_) => panic!("{case}: was taken"),
        Err(status) => {
            assert_eq!(status.code(), expected, "{case}: {status}");
            assert!(!status.message().is_empty(), "{case}: no text for people");
        }
    }
}

async fn first<T>(stream: Result<tonic::Response<tonic::Streaming<T>>, Status>) -> Result<Option<T>, Status> {
    stream?.into_inner().message().await
}

fn send_to(target: Option<Target>, message: Option<v1::Message>) -> v1::SendTaskRequest {
    v1::SendTaskRequest {
        target,
        message,
        ..v1::SendTaskRequest::default()
    }
}

#[tokio::test]
async fn sends_that_are_refused() {
    let daemon = Daemon::builder().start().await;
    let mut rpc = daemon.rpc().await;
    let peer = |id: &str| Some(Target::PeerId(id.to_owned()));
    let cases = [
        ("no target", InvalidArgument, send_to(None, Some(text("x")))),
        ("no message", InvalidArgument, send_to(peer(NOBODY), None)),
        ("empty peer", InvalidArgument, send_to(peer(""), Some(text("x")))),
        (
            "bad peer",
            InvalidArgument,
            send_to(peer("somebody"), Some(text("x"))),
        ),
        (
            "empty skill",
            InvalidArgument,
            send_to(Some(Target::SkillId(String::new())), Some(text("x"))),
        ),
        (
            "skill without discovery",
            Unavailable,
            send_to(Some(Target::SkillId("echo".to_owned())), Some(text("x"))),
        ),
        (
            "answer to an unknown task",
            NotFound,
            v1::SendTaskRequest {
                task_id: "unknown".to_owned(),
                ..send_to(peer(NOBODY), Some(text("x")))
            },
        ),
    ];
    for (case, code, request) in cases {
        check(case, code, rpc.send_task(request).await);
    }
    // A peer that is away is no error: the task waits for it.
    let request = send_to(peer(NOBODY), Some(text("x")));
    let task = rpc.send_task(request).await.unwrap().into_inner().task.unwrap();
    assert_eq!(task.status(), TaskStatus::Submitted);
    assert_eq!(task.assignee_peer_id, NOBODY);
    assert_eq!(task.messages.len(), 1);
}

#[tokio::test]
async fn a_brief_answer_leaves_out_what_the_sender_knows() {
    let daemon = Daemon::builder().start().await;
    let mut rpc = daemon.rpc().await;
    let request = v1::SendTaskRequest {
        brief: true,
        idempotency_key: "key".to_owned(),
        metadata: [("label".to_owned(), "kept".to_owned())].into(),
        ..send_to(Some(Target::PeerId(NOBODY.to_owned())), Some(text("x")))
    };
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let answer = rpc.send_task(request.clone()).await.unwrap();
        tasks.push(answer.into_inner().task.unwrap());
    }
    assert_eq!(tasks[0], tasks[1], "sent again it is the same task");
    let mut brief = tasks.remove(0);
    assert_eq!((brief.status(), brief.messages.len()), (TaskStatus::Submitted, 0));
    let whole = v1::GetTaskRequest {
        task_id: brief.task_id.clone(),
        ..v1::GetTaskRequest::default()
    };
    let whole = rpc.get_task(whole).await.unwrap().into_inner().task.unwrap();
    assert_eq!(whole.messages[0].parts, text("x").parts);
    brief.messages.clone_from(&whole.messages);
    assert_eq!(brief, whole, "it has everything else");
}

#[tokio::test]
async fn tasks_that_are_not_there() {
    let daemon = Daemon::builder().start().await;
    let rpc = daemon.rpc().await;
    for (id, code) in [("", InvalidArgument), ("unknown", NotFound)] {
        for (call, outcome) in refusals(rpc.clone(), id).await {
            check(&format!("{call} of {id:?}"), code, outcome);
        }
    }
}

/// Every call that names a task, with this id.
async fn refusals(mut rpc: Rpc, id: &str) -> Vec<(&'static str, Result<(), Status>)> {
    let task_id = id.to_owned();
    let (t, mut all) = (|| task_id.clone(), Vec::new());
    all.push((
        "GetTask",
        rpc.get_task(v1::GetTaskRequest {
            task_id: t(),
            ..Default::default()
        })
        .await
        .map(drop),
    ));
    all.push((
        "CancelTask",
        rpc.cancel_task(v1::CancelTaskRequest { task_id: t() })
            .await
            .map(drop),
    ));
    let updates = rpc
        .subscribe_task_updates(v1::SubscribeTaskUpdatesRequest {
            task_id: t(),
            ..Default::default()
        })
        .await;
    all.push(("SubscribeTaskUpdates", first(updates).await.map(drop)));
    let request = v1::SubscribeTaskStreamRequest {
        task_id: t(),
        ..v1::SubscribeTaskStreamRequest::default()
    };
    let stream = rpc.subscribe_task_stream(request).await;
    all.push(("SubscribeTaskStream", first(stream).await.map(drop)));
    all.push((
        "UpdateTaskStatus",
        rpc::update(&mut rpc, id, TaskStatus::Working).await,
    ));
    all.push(("CompleteTask", rpc::complete(&mut rpc, id, "x").await));
    let fail = v1::FailTaskRequest {
        task_id: t(),
        error_message: "x".to_owned(),
        unclaimed: false,
    };
    all.push(("FailTask", rpc.fail_task(fail).await.map(drop)));
    all
}

#[tokio::test]
async fn peers_cards_and_discovery_that_are_refused() {
    let daemon = Daemon::builder().start().await;
    let mut rpc = daemon.rpc().await;
    let connect = |peer_id: &str, addresses: &[&str]| v1::ConnectPeerRequest {
        peer_id: peer_id.to_owned(),
        addresses: addresses.iter().map(ToString::to_string).collect(),
    };
    let cases = [
        ("no id", InvalidArgument, connect("", &[])),
        ("bad id", InvalidArgument, connect("somebody", &[])),
        ("bad address", InvalidArgument, connect(NOBODY, &["127.0.0.1:1"])),
        ("nobody anywhere", Unavailable, connect(NOBODY, &[])),
        (
            "nobody there",
            Unavailable,
            connect(NOBODY, &["/ip4/127.0.0.1/tcp/1"]),
        ),
        (
            "another there",
            Unavailable,
            connect(NOBODY, &[daemon_address(&daemon)]),
        ),
    ];
    for (case, code, request) in cases {
        check(case, code, rpc.connect_peer(request).await);
    }
    let status = rpc
        .connect_peer(connect(NOBODY, &["127.0.0.1:1"]))
        .await
        .unwrap_err();
    assert!(
        status.message().contains("127.0.0.1:1"),
        "the address is not named: {status}"
    );
    for (id, code) in [
        ("somebody", InvalidArgument),
        ("", InvalidArgument),
        (NOBODY, NotFound),
    ] {
        let request = v1::GetPeerCardRequest {
            peer_id: id.to_owned(),
            ..Default::default()
        };
        check(&format!("card of {id:?}"), code, rpc.get_peer_card(request).await);
    }
    check(
        "no card",
        InvalidArgument,
        rpc.set_agent_card(v1::SetAgentCardRequest { card: None }).await,
    );
    for (skill, code) in [("", InvalidArgument), ("echo", Unavailable)] {
        let request = v1::DiscoverRequest {
            skill_id: skill.to_owned(),
            ..v1::DiscoverRequest::default()
        };
        check(&format!("discover {skill:?}"), code, rpc.discover(request).await);
    }
}

/// Its own address without the peer id, so that somebody else answers there.
fn daemon_address(daemon: &Daemon) -> &str {
    daemon
        .tcp()
        .split_once("/p2p/")
        .map_or(daemon.tcp(), |(bare, _)| bare)
}

/// Who may do what, and in which state.
#[tokio::test]
async fn states_and_owners_are_kept() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (mut alice, mut bob) = (pair.alice.rpc().await, pair.bob.rpc().await);
    let mut incoming = rpc::listen(&mut bob).await;
    let id = rpc::send(&mut alice, pair.bob.peer_id(), "x").await.task_id;
    assert_eq!(next_task(&mut incoming).await.task_id, id);
    let fail = |id: &str| v1::FailTaskRequest {
        task_id: id.to_owned(),
        error_message: "x".to_owned(),
        unclaimed: false,
    };

    check(
        "update by the originator",
        PermissionDenied,
        rpc::update(&mut alice, &id, TaskStatus::Working).await,
    );
    check(
        "completion by the originator",
        PermissionDenied,
        rpc::complete(&mut alice, &id, "x").await,
    );
    check(
        "failure by the originator",
        PermissionDenied,
        alice.fail_task(fail(&id)).await,
    );
    check(
        "no state",
        InvalidArgument,
        rpc::update(&mut bob, &id, TaskStatus::Unspecified).await,
    );
    rpc::update(&mut bob, &id, TaskStatus::Working).await.unwrap();
    let status = rpc::update(&mut bob, &id, TaskStatus::Submitted)
        .await
        .unwrap_err();
    assert_eq!(status.code(), FailedPrecondition);
    let (from, to) = ("WORKING", "SUBMITTED");
    assert!(
        status.message().contains(from) && status.message().contains(to),
        "{status}"
    );
    check(
        "rejected too late",
        FailedPrecondition,
        rpc::update(&mut bob, &id, TaskStatus::Rejected).await,
    );

    rpc::complete(&mut bob, &id, "done").await.unwrap();
    check(
        "completed twice",
        FailedPrecondition,
        rpc::complete(&mut bob, &id, "again").await,
    );
    check(
        "failed afterwards",
        FailedPrecondition,
        bob.fail_task(fail(&id)).await,
    );
    check(
        "moved on afterwards",
        FailedPrecondition,
        rpc::update(&mut bob, &id, TaskStatus::Working).await,
    );
    let cancel = v1::CancelTaskRequest { task_id: id.clone() };
    check(
        "canceled afterwards",
        FailedPrecondition,
        bob.cancel_task(cancel).await,
    );
    let answer = v1::SendTaskRequest {
        task_id: id.clone(),
        ..rpc::to_peer(pair.bob.peer_id(), text("x"))
    };
    check(
        "answered afterwards",
        FailedPrecondition,
        alice.send_task(answer).await,
    );
    let task = rpc::get(&mut bob, &id).await.unwrap();
    assert_eq!(rpc::text_of(&task.artifacts[0].parts), "done");
}

/// At the bound the caller is refused, in a way that deployed clients do not repeat; then it goes on.
#[tokio::test]
async fn the_bound_of_open_tasks_is_kept() {
    let daemon = Daemon::builder().config("max_open_tasks = 3\n").start().await;
    let mut rpc = daemon.rpc().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(rpc::send(&mut rpc, daemon.peer_id(), "x").await.task_id);
    }
    let more = rpc::to_peer(daemon.peer_id(), text("one too many"));
    check(
        "a fourth task",
        Code::ResourceExhausted,
        rpc.send_task(more.clone()).await,
    );
    rpc::complete(&mut rpc, &ids[0], "x").await.unwrap();
    rpc.send_task(more).await.unwrap();
}
