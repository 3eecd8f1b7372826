//! Sessions with clients that do what no client should: many calls on one stream, and nobody reads the answers;
//! more waits than there is room for; requests that are none.

use agentanycast::Target;
use agentanycast_proto::{
    MAX_GRPC_MESSAGE,
    v1::{CancelTaskRequest, TaskStatus, session_request::Call},
};
use agentanycast_tests::{
    raw_session::{self, RawSession},
    rpc, within,
};
use tonic::{
    Code, Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{AttackedDaemon, CACHES, MIB};

/// The daemon's bound of open waits.
const MAX_WAITS: usize = 4096;

/// A peer id that is well-formed and nobody's.
const NOBODY: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

/// A connection on which the daemon may send next to nothing ahead of what is read.
async fn narrow(siege: &AttackedDaemon) -> Channel {
    let endpoint = Endpoint::from_shared(siege.daemon.grpc().to_owned()).unwrap();
    let endpoint = endpoint.initial_stream_window_size(64 << 10);
    endpoint.connect().await.unwrap()
}

/// Sixteen sessions ask for 32 tasks of 1 MiB again and again, wait for their ends, and read nothing: the daemon holds
/// some of the answers, not all, and reads on only when somebody does. The one that reads at last hears all.
#[tokio::test]
async fn answers_that_nobody_reads() {
    const SESSIONS: usize = 16;
    const TASKS: usize = 32;
    const ROUNDS: usize = 100;
    let siege = AttackedDaemon::begin().await;
    let mut ids = Vec::new();
    for _ in 0..TASKS {
        let target = Target::Peer(siege.id().clone());
        let text = format!("hold {}", "x".repeat(1 << 20));
        let handle = siege.node.send_task(target, text.as_str()).await.unwrap();
        ids.push(handle.id().to_owned());
    }
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let mut session = RawSession::open(narrow(&siege).await, Some(MAX_GRPC_MESSAGE)).await;
        for id in &ids {
            session.send(raw_session::wait(id));
        }
        for _ in 0..ROUNDS {
            for id in &ids {
                session.send(raw_session::get(id));
            }
        }
        sessions.push(session);
    }
    siege.honest_work(50).await;
    siege.release();
    siege.honest_work(50).await;
    let mut first = sessions.swap_remove(0);
    let mut ends = 0;
    for _ in 0..TASKS * (ROUNDS + 1) {
        let (call, outcome) = first.next().await;
        outcome.unwrap();
        ends += usize::from(call <= TASKS as u64);
    }
    assert_eq!(ends, TASKS);
    drop((first, sessions));
    // The tasks, which all sessions share; each session holds one answer, encoded and not, and what is being sent.
    siege
        .endured(CACHES + (2 * TASKS + 8 * SESSIONS) as u64 * MIB)
        .await;
}

/// Hundreds of thousands of small calls on one session that reads nothing: what is not read is not taken.
#[tokio::test]
async fn calls_without_end() {
    const CALLS: usize = 300_000;
    let siege = AttackedDaemon::begin().await;
    let mut session = RawSession::open(narrow(&siege).await, None).await;
    for _ in 0..CALLS {
        session.send(raw_session::get("nothing"));
    }
    siege.honest_work(100).await;
    for _ in 0..CALLS {
        assert_eq!(session.next().await.1.unwrap_err().code(), Code::NotFound);
    }
    siege.endured(64 * MIB).await;
}

/// Waits above the bound are refused, each for itself; those that are given up make room.
#[tokio::test]
async fn waits_above_the_bound() {
    const MORE: usize = 100;
    let siege = AttackedDaemon::begin().await;
    let mut rpc = siege.rpc.clone();
    let nobody = NOBODY.parse().unwrap();
    let mut ids = Vec::new();
    // A task has 64 subscribers at most.
    for _ in 0..=MAX_WAITS / 60 {
        ids.push(rpc::send(&mut rpc, &nobody, "x").await.task_id);
    }
    let mut session = RawSession::open(narrow(&siege).await, None).await;
    for number in 0..MAX_WAITS + MORE {
        session.send(raw_session::wait(&ids[number % ids.len()]));
    }
    for number in 1..=MORE {
        let (call, outcome) = session.next().await;
        assert_eq!(call, (MAX_WAITS + number) as u64);
        let status = outcome.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert!(status.message().contains("limit"), "{status}");
    }
    for call in 1..=MORE as u64 {
        session.cancel(call);
    }
    for _ in 0..MORE {
        assert_eq!(session.next().await.1.unwrap_err().code(), Code::Cancelled);
    }
    session.send(raw_session::wait("unknown"));
    assert_eq!(session.next().await.1.unwrap_err().code(), Code::NotFound);
    siege.honest_work(20).await;
    for task_id in ids {
        rpc.cancel_task(CancelTaskRequest { task_id }).await.unwrap();
    }
    for _ in 0..MAX_WAITS - MORE {
        session.next().await.1.unwrap();
    }
    siege.endured(CACHES).await;
}

/// Junk instead of a request, and one larger than a message may be, end their session and nothing else.
#[tokio::test]
async fn requests_that_are_none() {
    let siege = AttackedDaemon::begin().await;
    for (junk, expected) in [
        (vec![0xff; 100], Code::Internal),
        (vec![0x0a; 1 << 20], Code::Internal),
        (vec![0; MAX_GRPC_MESSAGE + 1], Code::ResourceExhausted),
    ] {
        let mut grpc = Grpc::new(narrow(&siege).await);
        grpc.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/agentanycast.v1.SessionService/Session");
        let requests = futures::stream::iter([agentanycast_tests::raw_session::RawMessage(junk)]);
        let codec = ProstCodec::<raw_session::RawMessage, raw_session::RawMessage>::default();
        let answers = within(
            "the session opens",
            grpc.streaming(Request::new(requests), path, codec),
        )
        .await;
        let ended = within("the session ends", answers.unwrap().into_inner().message()).await;
        let status = ended.unwrap_err();
        assert_eq!(status.code(), expected, "{status}");
    }
    siege.endured(64 * MIB).await;
}

/// Sessions that are opened, given open calls and torn down, over and over: nothing of them stays.
#[tokio::test]
async fn sessions_torn_down() {
    const SESSIONS: usize = 300;
    let siege = AttackedDaemon::begin().await;
    let task = rpc::send(&mut siege.rpc.clone(), siege.id(), super::HOLD).await;
    let channel = narrow(&siege).await;
    for number in 0..SESSIONS {
        let mut session = RawSession::open(channel.clone(), None).await;
        for _ in 0..10 {
            session.send(raw_session::wait(&task.task_id));
            session.send(raw_session::update(&task.task_id, TaskStatus::Submitted, None));
        }
        if number % 2 == 0 {
            session.next().await.1.unwrap_err();
        }
        session.send(Call::CancelCall(agentanycast_proto::v1::CancelCall {}));
    }
    // Its subscribers have gone: there is room for another one.
    let mut session = RawSession::open(channel, None).await;
    let wait = session.send(raw_session::wait(&task.task_id));
    siege.release();
    let (call, outcome) = session.next().await;
    assert_eq!(call, wait);
    outcome.unwrap();
    siege.endured(64 * MIB).await;
}
