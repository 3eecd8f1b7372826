//! Large messages: what fits arrives whole, what does not is refused with a reason and harms nobody.

use agentanycast::{Artifact, ErrorKind, Message, Part, Target};
use agentanycast_proto::v1;
use agentanycast_tests::{
    DaemonPair, TransportKind,
    agent::TestAgent,
    rpc::{self, next_task},
    task_assertions::completed,
};
use prost::Message as _;

/// The length of what came back, and its first and last byte.
fn raw(bytes: usize) -> Part {
    Part::raw(vec![7; bytes], "application/octet-stream")
}

#[tokio::test]
async fn a_message_of_8_mib_arrives_whole() {
    let pair = DaemonPair::start(TransportKind::Quic).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = TestAgent::serve(&bob, |task| async move {
        let part = task.message().parts[0].clone();
        task.complete([Artifact::new("back", [part])]).await?;
        Ok(())
    });
    let message = Message::new([raw(8 << 20)]);
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), message)
        .await
        .unwrap();
    let task = completed(&handle).await;
    let bytes = match &task.artifacts[0].parts[0].content {
        agentanycast::Content::Raw { data, .. } => data.clone(),
        _ => handle.read_artifact(&task.artifacts[0].id).await.unwrap(),
    };
    assert!(bytes.len() == 8 << 20 && bytes.iter().all(|byte| *byte == 7));
}

/// What no frame can hold is refused when it is sent, and the road stays open.
#[tokio::test]
async fn a_message_larger_than_a_frame_is_refused() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = TestAgent::echo(&bob);
    let target = Target::Peer(pair.bob.peer_id().clone());
    let refused = alice
        .send_task(target.clone(), Message::new([raw(17 << 20)]))
        .await;
    let error = refused.expect_err("17 MiB do not fit");
    assert!(
        matches!(
            error.kind(),
            ErrorKind::LimitExceeded | ErrorKind::InvalidArgument
        ),
        "{error:?}"
    );
    let handle = alice.send_task(target, "small").await.unwrap();
    assert_eq!(completed(&handle).await.text_content(), "echo: small");
}

/// A client with the usual limit of 4 MiB gets a large artifact by reference, and reads it as a stream.
#[tokio::test]
async fn a_large_artifact_is_listed_by_reference() {
    const BYTES: usize = 5 << 20;
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let bob = pair.bob.node().await;
    let _agent = TestAgent::serve(&bob, |task| async move {
        task.complete([Artifact::new("large", [raw(BYTES)])]).await?;
        Ok(())
    });
    let mut alice = pair.alice.rpc().await;
    let sent = rpc::send(&mut alice, pair.bob.peer_id(), "much").await;
    // The generated client's own limit is 4 MiB; an answer above would fail here.
    let channel = rpc::channel(pair.alice.grpc()).await.unwrap();
    let mut modest = v1::node_service_client::NodeServiceClient::new(channel);
    let request = v1::SubscribeTaskUpdatesRequest {
        task_id: sent.task_id.clone(),
        ..Default::default()
    };
    let mut updates = modest.subscribe_task_updates(request).await.unwrap().into_inner();
    let mut last = None;
    while let Some(update) = updates.message().await.unwrap() {
        last = Some(update);
    }
    let last = last.expect("at least one update");
    assert_eq!(last.status(), v1::TaskStatus::Completed);
    let task = rpc::get(&mut modest, &sent.task_id).await.unwrap();
    for listed in [&last.artifacts[0], &task.artifacts[0]] {
        let expected = format!("agentanycast-stream:{}/{}", sent.task_id, listed.artifact_id);
        match &listed.parts[0].content {
            Some(v1::part::Content::UrlPart(part)) => assert_eq!(part.url, expected),
            _ => panic!("the artifact is not listed by reference"),
        }
        assert_eq!((listed.name.as_str(), listed.size_bytes), ("large", BYTES as u64));
    }
    let handle = pair.alice.node().await.task_handle(sent.task_id);
    let bytes = handle
        .read_artifact(&task.artifacts[0].artifact_id)
        .await
        .unwrap();
    assert!(bytes.len() == BYTES && bytes.iter().all(|byte| *byte == 7));
}

/// A flood of large messages to a peer that takes them slowly: all arrive, in order.
#[tokio::test]
async fn many_large_messages_arrive_in_order() {
    const TASKS: usize = 40;
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (mut alice, mut bob) = (pair.alice.rpc().await, pair.bob.rpc().await);
    let mut ids = Vec::new();
    let filler = "x".repeat(512 << 10);
    for number in 0..TASKS {
        ids.push(
            rpc::send(&mut alice, pair.bob.peer_id(), &format!("{number} {filler}"))
                .await
                .task_id,
        );
    }
    let mut incoming = rpc::listen(&mut bob).await;
    for id in ids {
        assert_eq!(next_task(&mut incoming).await.task_id, id);
    }
}

/// What an agent's client cannot take it is not told in part: the task ends with the reason, unless another agent takes it.
#[tokio::test]
async fn a_message_larger_than_the_agent_s_client_takes_ends_with_the_reason() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let mut agent = pair.bob.rpc().await;
    let mut incoming = rpc::listen(&mut agent).await;
    let target = Target::Peer(pair.bob.peer_id().clone());
    let refused = alice
        .send_task(target.clone(), Message::new([raw(4 << 20)]))
        .await;
    let handle = refused.unwrap();
    let error = handle.wait().await.unwrap_err().to_string();
    assert!(
        error.contains("4194") && error.contains("send large content by its URL"),
        "{error}"
    );
    // What fits comes whole, and is the first that comes.
    let fits = alice
        .send_task(target.clone(), Message::new([raw(3 << 20)]))
        .await
        .unwrap();
    let task = next_task(&mut incoming).await;
    assert_eq!(task.task_id, fits.id());
    assert!(task.encoded_len() > 3 << 20);
    rpc::complete(&mut agent, &task.task_id, "taken").await.unwrap();
    completed(&fits).await;
    // Beside one whose client takes more, and that is there when it is handed a task: the other one has one in hand.
    let busy = alice.send_task(target.clone(), "keeps it busy").await.unwrap();
    assert_eq!(next_task(&mut incoming).await.task_id, busy.id());
    let _large = TestAgent::echo(&bob);
    loop {
        let sent = alice.send_task(target.clone(), "are both there").await.unwrap();
        tokio::select! {
            _ = completed(&sent) => break,
            task = next_task(&mut incoming) => rpc::complete(&mut agent, &task.task_id, "taken").await.unwrap(),
        }
    }
    rpc::complete(&mut agent, busy.id(), "taken").await.unwrap();
    // Both are free: the one that came first is asked first.
    let handle = alice
        .send_task(target, Message::new([Part::text("x".repeat(5 << 20))]))
        .await
        .unwrap();
    assert!(completed(&handle).await.id == handle.id());
}

/// An agent's own results take nothing from what its client may be told: they are listed. An answer that it cannot take
/// ends the task, though another agent listens: that one has not asked.
#[tokio::test]
async fn an_answer_may_be_as_large_as_the_agent_s_client_takes() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let mut agent = pair.bob.rpc().await;
    let mut incoming = rpc::listen(&mut agent).await;
    let target = Target::Peer(pair.bob.peer_id().clone());
    for (bytes, is_taken) in [(3 << 20, true), (4 << 20, false)] {
        let handle = alice.send_task(target.clone(), "ask me").await.unwrap();
        let id = next_task(&mut incoming).await.task_id;
        rpc::update(&mut agent, &id, v1::TaskStatus::Working)
            .await
            .unwrap();
        stream_ten_bytes(&mut agent, &id).await;
        rpc::update(&mut agent, &id, v1::TaskStatus::InputRequired)
            .await
            .unwrap();
        let asked = handle.wait_or_input().await.unwrap();
        assert_eq!(asked.status, agentanycast::TaskStatus::InputRequired);
        let other = TestAgent::echo(&bob);
        handle.reply(Message::new([raw(bytes)])).await.unwrap();
        if is_taken {
            let task = next_task(&mut incoming).await;
            assert_eq!((task.task_id.as_str(), task.artifacts.len()), (id.as_str(), 1));
            let answer = task.messages.last().expect("the answer");
            assert!(answer.encoded_len() > bytes, "it is whole");
            rpc::complete(&mut agent, &id, "taken").await.unwrap();
            completed(&handle).await;
        } else {
            let error = handle.wait().await.unwrap_err().to_string();
            assert!(error.contains("send large content by its URL"), "{error}");
        }
        drop(other);
    }
}

async fn stream_ten_bytes(agent: &mut rpc::Rpc, task_id: &str) {
    use v1::send_streaming_artifact_request::Event;
    let (task_id, artifact_id) = (task_id.to_owned(), "ten".to_owned());
    let events = [
        Event::StreamStart(v1::StreamStart {
            task_id: task_id.clone(),
            artifact_id: artifact_id.clone(),
            ..v1::StreamStart::default()
        }),
        Event::StreamChunk(v1::StreamChunk {
            task_id: task_id.clone(),
            artifact_id: artifact_id.clone(),
            data: vec![7; 10].into(),
            ..v1::StreamChunk::default()
        }),
        Event::StreamEnd(v1::StreamEnd {
            task_id,
            artifact_id,
            reason: v1::StreamEndReason::Complete as i32,
            ..v1::StreamEnd::default()
        }),
    ];
    let requests = events.map(|event| v1::SendStreamingArtifactRequest { event: Some(event) });
    let sent = agent
        .send_streaming_artifact(futures::stream::iter(requests))
        .await;
    sent.unwrap();
}
