//! Messages over the limit, at every gRPC call that takes one: RESOURCE_EXHAUSTED with a text that says how much
//! fits, nothing done, and the next call served on the same connection.

use agentanycast_proto::v1::{
    self, Artifact, CompleteTaskRequest, FailTaskRequest, Part, RawPart, SetAgentCardRequest, Skill,
    UpdateTaskStatusRequest, part::Content,
};
use agentanycast_tests::{
    raw_peer::RawPeer,
    rpc::{self, text, to_peer},
    task_assertions::completed,
};
use tonic::{Code, Status};

use super::{AttackedDaemon, CACHES, HOLD, MIB};

/// Over a frame, under the longest gRPC message.
const OVER_A_FRAME: usize = 17 << 20;

/// Over the longest gRPC message.
const OVER_GRPC: usize = (128 << 20) + 1;

/// SendTask with a message over a frame, and over what gRPC takes.
#[tokio::test]
async fn send_task_over_the_limit() {
    let siege = AttackedDaemon::begin().await;
    // The client's own limits must not be what refuses.
    let mut rpc = siege.rpc.clone().max_encoding_message_size(usize::MAX);
    let peer = RawPeer::new();
    let before = listed(&siege).await;
    for bytes in [OVER_A_FRAME, OVER_GRPC] {
        let refused = rpc.send_task(to_peer(peer.id(), large(bytes))).await;
        assert_limit(&refused.unwrap_err());
    }
    assert_eq!(listed(&siege).await, before, "nothing was taken");
    let fits = rpc.send_task(to_peer(peer.id(), large(15 << 20))).await.unwrap();
    assert!(fits.into_inner().task.is_some());
    // A message over what gRPC takes is refused by its header; one of 15 MiB is read, decoded, queued and stored.
    siege.endured(CACHES).await;
}

/// CompleteTask, UpdateTaskStatus and FailTask over the limit: the task stays as it is, and completes with less.
#[tokio::test]
async fn a_report_over_the_limit() {
    let siege = AttackedDaemon::begin().await;
    let mut rpc = siege.rpc.clone().max_encoding_message_size(usize::MAX);
    let target = agentanycast::Target::Peer(siege.id().clone());
    // Claimed through this connection by nobody: the agent holds it, and any connection may complete.
    let handle = siege
        .ally
        .send_task(target, format!("{HOLD} it").as_str())
        .await
        .unwrap();
    let task_id = handle.id().to_owned();
    let held = || async { (siege.task(&task_id).await.ok()?.status == 2).then_some(()) };
    agentanycast_tests::eventually("the agent holds the task", held).await;
    for bytes in [OVER_A_FRAME, OVER_GRPC] {
        let refused = rpc
            .complete_task(CompleteTaskRequest {
                task_id: task_id.clone(),
                artifacts: vec![artifact(bytes)],
                ..CompleteTaskRequest::default()
            })
            .await;
        assert_limit(&refused.unwrap_err());
        let refused = rpc
            .update_task_status(UpdateTaskStatusRequest {
                task_id: task_id.clone(),
                status: 2,
                message: Some(large(bytes)),
                ..Default::default()
            })
            .await
            .unwrap_err();
        // Whoever has not claimed it hears of that first.
        if refused.code() != Code::FailedPrecondition {
            assert_limit(&refused);
        }
        let refused = rpc
            .fail_task(FailTaskRequest {
                task_id: task_id.clone(),
                error_message: "x".repeat(bytes),
                unclaimed: false,
            })
            .await;
        assert_limit(&refused.unwrap_err());
        held().await.expect("it is still held");
    }
    rpc::complete(&mut rpc, &task_id, "less").await.unwrap();
    assert_eq!(completed(&handle).await.text_content(), "less");
    // A message of 17 MiB, as it comes, decoded, and as a copy for the task.
    siege.endured(128 * MIB).await;
}

/// Cards, metadata and ids that are too large for what they are.
#[tokio::test]
async fn other_requests_over_their_limits() {
    let siege = AttackedDaemon::begin().await;
    let mut rpc = siege.rpc.clone().max_encoding_message_size(usize::MAX);
    let peer = RawPeer::new();
    let card = v1::AgentCard {
        skills: vec![Skill {
            description: "x".repeat(256 << 10),
            ..Skill::default()
        }],
        ..v1::AgentCard::default()
    };
    let refused = rpc
        .set_agent_card(SetAgentCardRequest { card: Some(card) })
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let long = "x".repeat(1 << 20);
    let spoil: [fn(&mut v1::SendTaskRequest, String); 4] = [
        |request, long| request.context_id = long,
        |request, long| request.target = Some(v1::send_task_request::Target::PeerId(long)),
        |request, long| request.metadata = [(long, String::new())].into(),
        |request, _| request.metadata = (0..257).map(|key| (key.to_string(), String::new())).collect(),
    ];
    for spoil in spoil {
        let mut request = to_peer(peer.id(), text("x"));
        spoil(&mut request, long.clone());
        let refused = rpc.send_task(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(!refused.message().is_empty() && refused.message().len() < 1000);
    }
    for id in [String::new(), long] {
        let refused = rpc::get(&mut rpc, &id).await.unwrap_err();
        assert!(
            matches!(refused.code(), Code::InvalidArgument | Code::NotFound),
            "{refused}"
        );
        assert!(refused.message().len() < 4096, "the answer repeats the id");
    }
    siege.endured(64 * MIB).await;
}

/// A peer whose tasks fill its share of the store is refused with the reason; the local agent and other peers
/// still have room.
#[tokio::test]
async fn one_peer_cannot_fill_the_store() {
    use agentanycast_tests::raw_peer::{envelope, send_task};
    let builder = agentanycast_tests::Daemon::builder()
        .config("store_quota = \"16MiB\"\nmax_artifact_bytes = \"1MiB\"\n");
    let siege = AttackedDaemon::begin_with(builder).await;
    let greedy = RawPeer::new().dial(siege.daemon.tcp()).await;
    let filler = format!("{HOLD} {}", "x".repeat(1 << 20));
    let mut refusal = None;
    for _ in 0..32 {
        let sent = envelope(send_task(&filler));
        greedy.send(std::slice::from_ref(&sent)).await;
        let ack = greedy.ack_of(&sent).await;
        if !ack.reason.is_empty() {
            super::assert_refused(&ack, &"a task over the share");
            refusal = Some(ack.reason);
            break;
        }
    }
    eprintln!("refused: {:?}", refusal.expect("a share has an end"));
    let other = RawPeer::new().dial(siege.daemon.tcp()).await;
    let sent = envelope(send_task("from another peer"));
    other.send(std::slice::from_ref(&sent)).await;
    super::assert_accepted(&other.ack_of(&sent).await, &sent);
    let own = siege
        .node
        .send_task(
            agentanycast::Target::Peer(siege.id().clone()),
            "from the local agent",
        )
        .await
        .expect("room for the local agent");
    completed(&own).await;
    siege.release();
    siege.endured(CACHES).await;
}

fn assert_limit(refused: &Status) {
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("limit"), "{refused}");
}

/// How many tasks the daemon under attack has.
async fn listed(siege: &AttackedDaemon) -> usize {
    let channel = rpc::channel(siege.daemon.grpc()).await.unwrap();
    let mut list = v1::task_list_service_client::TaskListServiceClient::new(channel);
    let request = v1::ListTasksRequest {
        ..v1::ListTasksRequest::default()
    };
    list.list_tasks(request).await.unwrap().into_inner().tasks.len()
}

fn large(bytes: usize) -> v1::Message {
    v1::Message {
        parts: vec![part(bytes)],
        ..text("")
    }
}

fn artifact(bytes: usize) -> Artifact {
    Artifact {
        parts: vec![part(bytes)],
        ..Artifact::default()
    }
}

fn part(bytes: usize) -> Part {
    Part {
        content: Some(Content::RawPart(RawPart {
            data: vec![7; bytes],
            ..RawPart::default()
        })),
        ..Part::default()
    }
}
