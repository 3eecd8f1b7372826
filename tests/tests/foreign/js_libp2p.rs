//! A second implementation of libp2p, js-libp2p over TCP with Noise and yamux, that speaks our wire protocol
//! as deployed peers do: a stream per envelope, acknowledgements on streams of their own.

use agentanycast::{AgentCard, Artifact, Node, Skill, Target, TaskError, TaskStatus};
use agentanycast_tests::{
    Daemon,
    agent::TestAgent,
    eventually,
    rpc::{self, next_task},
    task_assertions::{completed, not_completed},
};
use serde_json::{Value, json};

use crate::js_peer::{JsPeer, ack, artifact, envelope, send_task, task_of};

const CARD: &str = "/agentanycast/card/1.0";

/// An agent that reports progress and then answers.
pub(crate) fn busy_echo(node: &Node) -> TestAgent {
    TestAgent::serve(node, |task| async move {
        let text = task.message().text_content();
        task.working(format!("{text}: working")).await?;
        task.complete([Artifact::text(format!("echo: {text}"))]).await?;
        Ok(())
    })
}

/// The texts of the artifacts that came with a TASK_COMPLETE.
pub(crate) fn result_of(complete: &Value) -> &str {
    complete["task_complete"]["artifacts"][0]["parts"][0]["text_part"]["text"]
        .as_str()
        .unwrap_or_default()
}

/// Which states the peer heard of a task, in the order in which they first came.
fn states_of(peer: &JsPeer, task_id: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let mut states = Vec::new();
    for (_, envelope) in &peer.received {
        if seen.contains(&envelope["envelope_id"]) {
            continue;
        }
        seen.push(envelope["envelope_id"].clone());
        if envelope["task_status_update"]["task_id"] == task_id {
            states.push(
                envelope["task_status_update"]["status"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        } else if envelope["task_complete"]["task_id"] == task_id {
            states.push("TASK_COMPLETE".to_owned());
        }
    }
    states
}

#[tokio::test]
async fn a_task_is_taken_worked_on_and_completed() {
    let daemon = Daemon::builder().start().await;
    let _agent = busy_echo(&daemon.node().await);
    let mut peer = JsPeer::connected_to(&daemon).await;
    let sent = send_task("hello");
    peer.send(std::slice::from_ref(&sent)).await;
    let ack = peer.ack_of(&sent).await;
    assert!(
        ack.get("outcome")
            .is_none_or(|outcome| outcome == "ACK_OUTCOME_ACCEPTED"),
        "{ack}"
    );
    let complete = peer.of_task("task_complete", &task_of(&sent)).await;
    assert_eq!(result_of(&complete), "echo: hello");
    let states = states_of(&peer, &task_of(&sent));
    assert_eq!(states.last().unwrap(), "TASK_COMPLETE");
    let working = &states[..states.len() - 1];
    assert!(
        !working.is_empty() && working.iter().all(|state| state == "TASK_STATUS_WORKING"),
        "{states:?}"
    );
    let task = daemon
        .node()
        .await
        .task_handle(task_of(&sent))
        .snapshot()
        .await
        .unwrap();
    assert_eq!(task.originator.as_ref(), Some(&peer.id));
}

/// A deployed originator refuses COMPLETE of a task that never was WORKING, so WORKING comes first.
#[tokio::test]
async fn an_agent_that_completes_at_once_has_worked_before() {
    let daemon = Daemon::builder().start().await;
    let mut rpc = daemon.rpc().await;
    let mut incoming = rpc::listen(&mut rpc).await;
    let mut peer = JsPeer::connected_to(&daemon).await;
    let sent = send_task("hello");
    peer.send(std::slice::from_ref(&sent)).await;
    let id = next_task(&mut incoming).await.task_id;
    rpc::complete(&mut rpc, &id, "at once").await.unwrap();
    peer.of_task("task_complete", &id).await;
    assert_eq!(states_of(&peer, &id), ["TASK_STATUS_WORKING", "TASK_COMPLETE"]);
}

#[tokio::test]
async fn many_frames_on_one_stream_are_taken_in_order() {
    const TASKS: usize = 200;
    let daemon = Daemon::builder().start().await;
    let mut rpc = daemon.rpc().await;
    let mut incoming = rpc::listen(&mut rpc).await;
    let mut peer = JsPeer::connected_to(&daemon).await;
    let all: Vec<Value> = (0..TASKS).map(|number| send_task(&number.to_string())).collect();
    peer.tell(json!({"do": "send_on_one", "envelopes": all}), "sent")
        .await;
    for sent in &all {
        let task = next_task(&mut incoming).await;
        assert_eq!(task.task_id, task_of(sent));
        rpc::complete(&mut rpc, &task.task_id, "done").await.unwrap();
    }
    for sent in &all {
        peer.ack_of(sent).await;
        peer.of_task("task_complete", &task_of(sent)).await;
    }
}

/// Deployed peers send again when an ACK was lost: each time it is acknowledged, once it is a task.
#[tokio::test]
async fn a_duplicate_is_acknowledged_again_and_is_no_second_task() {
    let mut daemon = Daemon::builder().start().await;
    let mut peer = JsPeer::connected_to(&daemon).await;
    let sent = send_task("once");
    let acks = |peer: &JsPeer| {
        let of_it = |heard: &&(u64, Value)| heard.1["ack"]["acknowledged_envelope_id"] == sent["envelope_id"];
        peer.received.iter().filter(of_it).count()
    };
    for times in 1..=4 {
        if times == 4 {
            // Not even a restart lets a duplicate through.
            daemon.kill().await;
            daemon.restart().await;
            peer.tell(json!({"do": "dial", "address": daemon.tcp()}), "dialed")
                .await;
        }
        peer.send(std::slice::from_ref(&sent)).await;
        while acks(&peer) < times {
            peer.event("envelope").await;
        }
    }
    let other = send_task("another");
    peer.send(std::slice::from_ref(&other)).await;
    let mut rpc = daemon.rpc().await;
    let mut incoming = rpc::listen(&mut rpc).await;
    assert_eq!(next_task(&mut incoming).await.task_id, task_of(&sent));
    assert_eq!(next_task(&mut incoming).await.task_id, task_of(&other));
}

#[tokio::test]
async fn cards_are_exchanged_and_checked() {
    let daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    let card = AgentCard::new("Ours", "").with_skill(Skill::new("echo", "Says it again"));
    node.set_card(card).await.unwrap();
    let mut peer = JsPeer::connected_to(&daemon).await;
    // The daemon opens once the connection is there.
    let pushed = peer.event("card_received").await;
    assert_eq!(pushed["card"]["name"], "Ours");
    assert_eq!(
        pushed["card"]["p2p_extension"]["peer_id"],
        daemon.peer_id().to_string()
    );
    let own = |id: &str| json!({"name": "Theirs", "skills": [{"id": "s"}], "p2p_extension": {"peer_id": id}});
    let answer = peer
        .tell(
            json!({"do": "card", "card": own(peer.id.as_ref())}),
            "card_answer",
        )
        .await;
    assert_eq!(answer["card"]["skills"][0]["id"], "echo");
    eventually("the card is kept", || async {
        let card = node.card_of(&peer.id).await.ok()?;
        (card.name == "Theirs").then_some(())
    })
    .await;
    // A card in another's name is dropped; so is what is no card.
    let mut liar = own(daemon.peer_id().as_ref());
    liar["name"] = json!("Liar");
    peer.tell(json!({"do": "card", "card": liar}), "card_answer")
        .await;
    for hex in ["", "00000000", "00000002ffff", "7fffffff00", "01000001"] {
        peer.tell(json!({"do": "raw", "protocol": CARD, "hex": hex}), "raw_done")
            .await;
    }
    node.set_card(AgentCard::new("Ours, later", "")).await.unwrap();
    while peer.event("card_received").await["card"]["name"] != "Ours, later" {}
    let kept = node.card_of(&peer.id).await.unwrap();
    assert_ne!(kept.name, "Liar");
    assert_eq!(node.card_of(daemon.peer_id()).await.unwrap().name, "Ours, later");
}

/// Deployed peers close a stream after 30 s without a frame and read nothing more from it. This one does so
/// after each envelope: everything arrives all the same, in order.
#[tokio::test]
async fn streams_that_the_peer_closes_are_opened_again() {
    const UPDATES: usize = 20;
    let daemon = Daemon::builder()
        .config("retry_delays = [\"300ms\", \"300ms\", \"300ms\"]\n")
        .start()
        .await;
    let mut rpc = daemon.rpc().await;
    let mut incoming = rpc::listen(&mut rpc).await;
    let mut peer = JsPeer::connected_to(&daemon).await;
    peer.tell(json!({"do": "set", "close": true}), "set").await;
    let sent = send_task("count");
    peer.send(std::slice::from_ref(&sent)).await;
    let id = next_task(&mut incoming).await.task_id;
    for number in 0..UPDATES {
        let update = agentanycast_proto::v1::UpdateTaskStatusRequest {
            task_id: id.clone(),
            status: agentanycast_proto::v1::TaskStatus::Working.into(),
            message: Some(rpc::text(&number.to_string())),
            ..Default::default()
        };
        rpc.update_task_status(update).await.unwrap();
    }
    rpc::complete(&mut rpc, &id, "counted").await.unwrap();
    peer.of_task("task_complete", &id).await;
    let mut said: Vec<usize> = Vec::new();
    for (_, envelope) in &peer.received {
        let text = &envelope["task_status_update"]["message"]["parts"][0]["text_part"]["text"];
        let number = text.as_str().and_then(|text| text.parse().ok());
        // A repetition of what was heard is legal, a new one out of order is not.
        said.extend(number.filter(|number| !said.contains(number)));
    }
    assert_eq!(said, (0..UPDATES).collect::<Vec<_>>());
    let streams: std::collections::BTreeSet<u64> = peer.received.iter().map(|(stream, _)| *stream).collect();
    assert!(streams.len() > UPDATES, "only {} streams", streams.len());
}

/// Deployed daemons wait 30 s for the next frame and then drop the stream.
#[tokio::test]
async fn a_stream_that_was_idle_for_30_seconds_is_opened_again() {
    let daemon = Daemon::builder().start().await;
    let _agent = busy_echo(&daemon.node().await);
    let mut peer = JsPeer::connected_to(&daemon).await;
    peer.tell(json!({"do": "set", "idle": 30}), "set").await;
    let before = send_task("before");
    peer.send(std::slice::from_ref(&before)).await;
    peer.of_task("task_complete", &task_of(&before)).await;
    peer.event("idle").await;
    let after = send_task("after");
    peer.send(std::slice::from_ref(&after)).await;
    let complete = peer.of_task("task_complete", &task_of(&after)).await;
    assert_eq!(result_of(&complete), "echo: after");
}

/// Without an ACK the same envelope comes again, byte for byte; with one it stops.
#[tokio::test]
async fn an_envelope_without_ack_comes_again() {
    let daemon = Daemon::builder()
        .config("retry_delays = [\"200ms\", \"200ms\", \"200ms\"]\n")
        .start()
        .await;
    let node = daemon.node().await;
    let mut peer = JsPeer::connected_to(&daemon).await;
    peer.tell(json!({"do": "set", "ack": false}), "set").await;
    let handle = node
        .send_task(Target::Peer(peer.id.clone()), "hello")
        .await
        .unwrap();
    let of_it = |peer: &JsPeer| -> Vec<Value> {
        let all = peer.received.iter().map(|(_, envelope)| envelope.clone());
        all.filter(|envelope| envelope["send_task"]["task_id"] == handle.id())
            .collect()
    };
    while of_it(&peer).len() < 3 {
        peer.event("envelope").await;
    }
    let heard = of_it(&peer);
    assert!(heard.iter().all(|envelope| *envelope == heard[0]), "{heard:#?}");
    peer.send(&[ack(&heard[0])]).await;
    let complete = json!({"task_id": handle.id(), "artifacts": [artifact("late")]});
    let working = json!({"task_id": handle.id(), "status": "TASK_STATUS_WORKING"});
    peer.send(&[
        envelope("task_status_update", working),
        envelope("task_complete", complete),
    ])
    .await;
    assert_eq!(completed(&handle).await.text_content(), "late");
}

/// The peer does the work: metadata reaches it, its progress and its result reach us.
#[tokio::test]
async fn the_peer_is_the_assignee() {
    let daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    let mut peer = JsPeer::start().await;
    // This time we dial.
    node.connect_peer(&peer.id, [&peer.address]).await.unwrap();
    peer.tell(json!({"do": "dial", "address": daemon.tcp()}), "dialed")
        .await;
    let handle = node
        .task(Target::Peer(peer.id.clone()), "work")
        .metadata("priority", "low")
        .send()
        .await
        .unwrap();
    let sent = peer.of_task("send_task", handle.id()).await;
    assert_eq!(sent["send_task"]["metadata"]["priority"], "low");
    assert_eq!(
        sent["send_task"]["message"]["parts"][0]["text_part"]["text"],
        "work"
    );
    let working = json!({"task_id": handle.id(), "status": "TASK_STATUS_WORKING"});
    let working = envelope("task_status_update", working);
    peer.send(std::slice::from_ref(&working)).await;
    peer.ack_of(&working).await;
    assert_eq!(
        handle.snapshot().await.unwrap().status,
        TaskStatus::Working,
        "the ACK came before the effect"
    );
    let complete = envelope(
        "task_complete",
        json!({"task_id": handle.id(), "artifacts": [artifact("done")]}),
    );
    peer.send(std::slice::from_ref(&complete)).await;
    assert_eq!(completed(&handle).await.text_content(), "done");
    peer.ack_of(&complete).await;
}

#[tokio::test]
async fn the_peer_fails_refuses_and_is_canceled() {
    let daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    let mut peer = JsPeer::connected_to(&daemon).await;
    let target = Target::Peer(peer.id.clone());

    let failing = node.send_task(target.clone(), "fail").await.unwrap();
    peer.of_task("send_task", failing.id()).await;
    let working = json!({"task_id": failing.id(), "status": "TASK_STATUS_WORKING"});
    let fail = json!({"task_id": failing.id(), "error_message": "no such city"});
    peer.send(&[
        envelope("task_status_update", working),
        envelope("task_fail", fail),
    ])
    .await;
    match not_completed(&failing).await {
        TaskError::Failed { reason, .. } => assert_eq!(reason, "no such city"),
        other => panic!("{other:?}"),
    }

    let canceled = node.send_task(target.clone(), "never mind").await.unwrap();
    peer.of_task("send_task", canceled.id()).await;
    canceled.cancel().await.unwrap();
    peer.of_task("task_cancel", canceled.id()).await;

    peer.tell(json!({"do": "set", "ack": false}), "set").await;
    let refused = node.send_task(target, "unwanted").await.unwrap();
    let sent = peer.of_task("send_task", refused.id()).await;
    let mut no = ack(&sent);
    no["ack"]["outcome"] = json!("ACK_OUTCOME_REJECTED");
    no["ack"]["reason"] = json!("not today");
    peer.send(&[no]).await;
    match not_completed(&refused).await {
        TaskError::Rejected { reason, .. } => assert_eq!(reason, "not today"),
        other => panic!("{other:?}"),
    }
}

/// The peer goes while its task is worked on, and comes back: it gets what it missed.
#[tokio::test]
async fn a_peer_that_comes_back_gets_what_it_missed() {
    let daemon = Daemon::builder().start().await;
    let mut rpc = daemon.rpc().await;
    let mut incoming = rpc::listen(&mut rpc).await;
    let mut peer = JsPeer::connected_to(&daemon).await;
    let sent = send_task("hello");
    peer.send(std::slice::from_ref(&sent)).await;
    peer.ack_of(&sent).await;
    let id = next_task(&mut incoming).await.task_id;
    peer.tell(json!({"do": "hang_up"}), "hung_up").await;
    rpc::complete(&mut rpc, &id, "meanwhile").await.unwrap();
    peer.tell(json!({"do": "dial", "address": daemon.tcp()}), "dialed")
        .await;
    let complete = peer.of_task("task_complete", &id).await;
    assert_eq!(result_of(&complete), "meanwhile");
    assert_eq!(states_of(&peer, &id), ["TASK_STATUS_WORKING", "TASK_COMPLETE"]);
}

/// Deployed peers do not know streamed artifacts and say nothing to them: they get the artifact whole.
#[tokio::test]
async fn a_peer_without_streams_gets_the_artifact_whole() {
    let daemon = Daemon::builder()
        .config("retry_delays = [\"200ms\", \"200ms\", \"200ms\"]\n")
        .start()
        .await;
    let _agent = TestAgent::serve(&daemon.node().await, |task| async move {
        let mut artifact = task.stream_artifact("pieces", "text/plain").await?;
        for piece in ["one, ", "two, ", "three"] {
            artifact.write(piece).await?;
        }
        artifact.finish().await?;
        task.complete([]).await?;
        Ok(())
    });
    let mut peer = JsPeer::connected_to(&daemon).await;
    let unknown = ["START", "CHUNK", "END"].map(|name| format!("ENVELOPE_TYPE_STREAM_{name}"));
    peer.tell(json!({"do": "set", "ignore": unknown}), "set").await;
    let sent = send_task("pieces");
    peer.send(std::slice::from_ref(&sent)).await;
    let complete = peer.of_task("task_complete", &task_of(&sent)).await;
    assert_eq!(complete["task_complete"]["artifacts"][0]["name"], "pieces");
    assert_eq!(result_of(&complete), "one, two, three");
}

/// A peer that streams as deployed peers send everything: a stream per envelope.
#[tokio::test]
async fn the_peer_streams_an_artifact() {
    const CHUNKS: usize = 50;
    let daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    let mut peer = JsPeer::connected_to(&daemon).await;
    let handle = node
        .send_task(Target::Peer(peer.id.clone()), "pieces")
        .await
        .unwrap();
    peer.of_task("send_task", handle.id()).await;
    let of_it = |more: Value| {
        let mut content = json!({"task_id": handle.id(), "artifact_id": "a"});
        content
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        content
    };
    let working = json!({"task_id": handle.id(), "status": "TASK_STATUS_WORKING"});
    let mut all = vec![
        envelope("task_status_update", working),
        envelope(
            "stream_start",
            of_it(json!({"artifact_name": "pieces", "media_type": "text/plain"})),
        ),
    ];
    for number in 0..CHUNKS {
        // protobufjs takes bytes as base64; "x" twice.
        all.push(envelope(
            "stream_chunk",
            of_it(json!({"sequence": number, "data": "eHg="})),
        ));
    }
    let end = envelope(
        "stream_end",
        of_it(json!({"reason": "STREAM_END_REASON_COMPLETE"})),
    );
    all.push(end.clone());
    peer.send(&all).await;
    peer.ack_of(&end).await;
    let complete = envelope("task_complete", json!({"task_id": handle.id()}));
    peer.send(&[complete]).await;
    let task = completed(&handle).await;
    assert_eq!(task.artifacts[0].name, "pieces");
    assert_eq!(task.text_content(), "xx".repeat(CHUNKS));
}

/// The originator may ask how its task stands; nobody else learns anything.
#[tokio::test]
async fn the_peer_asks_for_its_task() {
    let daemon = Daemon::builder().start().await;
    let _agent = busy_echo(&daemon.node().await);
    let mut peer = JsPeer::connected_to(&daemon).await;
    let mut stranger = JsPeer::connected_to(&daemon).await;
    let sent = send_task("hello");
    let id = task_of(&sent);
    peer.send(std::slice::from_ref(&sent)).await;
    peer.of_task("task_complete", &id).await;
    let question = || envelope("get_task", json!({"task_id": id}));
    peer.send(&[question()]).await;
    let answer = peer
        .envelope(|heard| {
            let task = heard["get_task_response"]["task"].clone();
            (task["task_id"] == id).then_some(task)
        })
        .await;
    assert_eq!(answer["status"], "TASK_STATUS_COMPLETED");
    let foreign = question();
    stranger.send(std::slice::from_ref(&foreign)).await;
    assert_eq!(stranger.ack_of(&foreign).await["outcome"], "ACK_OUTCOME_REJECTED");
}

/// The W3C trace context goes both ways: with the task to the agent, and with what the agent reports.
#[tokio::test]
async fn the_trace_context_travels() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const STATE: &str = "vendor=value";
    let daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    let _agent = TestAgent::serve(&node, |task| async move {
        let (parent, state) = (&task.metadata()["traceparent"], &task.metadata()["tracestate"]);
        task.complete([Artifact::text(format!("{parent} {state}"))])
            .await?;
        Ok(())
    });
    let mut peer = JsPeer::connected_to(&daemon).await;
    let mut sent = send_task("traced");
    sent["trace_parent"] = json!(PARENT);
    sent["trace_state"] = json!(STATE);
    peer.send(std::slice::from_ref(&sent)).await;
    let complete = peer.of_task("task_complete", &task_of(&sent)).await;
    assert_eq!(result_of(&complete), format!("{PARENT} {STATE}"));
    assert_eq!(
        (
            complete["trace_parent"].as_str(),
            complete["trace_state"].as_str()
        ),
        (Some(PARENT), Some(STATE))
    );
    let handle = node
        .task(Target::Peer(peer.id.clone()), "traced")
        .metadata("traceparent", PARENT)
        .metadata("tracestate", STATE)
        .send()
        .await
        .unwrap();
    let ours = peer.of_task("send_task", handle.id()).await;
    assert_eq!(
        (ours["trace_parent"].as_str(), ours["trace_state"].as_str()),
        (Some(PARENT), Some(STATE))
    );
}
