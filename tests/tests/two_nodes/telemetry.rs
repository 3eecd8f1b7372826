//! What operators see: figures, health, readiness, and traces at a collector.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use agentanycast::{AgentCard, Artifact, Skill, Target};
use agentanycast_tests::{
    Bridge, Daemon, DaemonBuilder, DaemonPair, TestRelay, TransportKind, agent::TestAgent, eventually,
    task_assertions::completed, trace_collector::TraceCollector, within,
};
use http::StatusCode;
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::metrics::wait_metrics;

#[tokio::test]
async fn figures_tell_what_became_of_tasks() {
    let mut pair = DaemonPair::start_with(TransportKind::Tcp, DaemonBuilder::metrics).await;
    let agent = TestAgent::serve_many(&pair.bob.node().await, 3, |task| async move {
        if task.message().text_content() == "fail" {
            task.fail("as told").await?;
        } else {
            task.complete([Artifact::text("done")]).await?;
        }
        Ok(())
    });
    let node = pair.alice.node().await;
    let target = Target::Peer(pair.bob.peer_id().clone());
    for text in ["one", "two", "fail"] {
        let task = node.send_task(target.clone(), text).await.unwrap();
        let _ = within("the task ends", task.wait()).await;
    }
    let sent = [
        (
            r#"agentanycast_tasks_total{direction="outbound",status="submitted"}"#,
            3.0,
        ),
        (
            r#"agentanycast_tasks_total{direction="outbound",status="completed"}"#,
            2.0,
        ),
        (
            r#"agentanycast_tasks_total{direction="outbound",status="failed"}"#,
            1.0,
        ),
        (
            r#"agentanycast_task_duration_seconds_count{direction="outbound"}"#,
            3.0,
        ),
        (
            r#"agentanycast_messages_total{direction="outbound",type="send_task"}"#,
            3.0,
        ),
        (
            r#"agentanycast_messages_total{direction="inbound",type="task_complete"}"#,
            2.0,
        ),
        ("agentanycast_connected_peers", 1.0),
        (r#"agentanycast_peer_paths{path="direct"}"#, 1.0),
        (r#"agentanycast_connections_total{direction="inbound"}"#, 1.0),
        (r#"agentanycast_connections_by_transport{transport="tcp"}"#, 1.0),
        ("agentanycast_open_tasks", 0.0),
        ("agentanycast_offline_queue_size", 0.0),
        ("agentanycast_store_works", 1.0),
    ];
    wait_metrics(&pair.alice, &sent).await;
    let got = [
        (
            r#"agentanycast_tasks_total{direction="inbound",status="completed"}"#,
            2.0,
        ),
        (
            r#"agentanycast_tasks_total{direction="outbound",status="submitted"}"#,
            0.0,
        ),
        (
            r#"agentanycast_messages_total{direction="inbound",type="send_task"}"#,
            3.0,
        ),
        (r#"agentanycast_connections_total{direction="outbound"}"#, 1.0),
    ];
    wait_metrics(&pair.bob, &got).await;
    // The commit is known of programs that are handed out.
    let (_, text) = pair.alice.metrics().text("/metrics").await;
    let built = text
        .lines()
        .find(|line| line.starts_with("agentanycast_build_info{"));
    let built = built.unwrap_or_else(|| panic!("{text}"));
    assert!(
        built.contains("version=\"") && built.contains("revision=\""),
        "{built}"
    );
    let barriers = pair
        .alice
        .metric("agentanycast_store_barrier_seconds_count")
        .await;
    assert!(barriers.is_some_and(|count| count >= 3.0), "{barriers:?}");

    drop(agent);
    pair.bob.kill().await;
    node.send_task(target, "later").await.unwrap();
    wait_metrics(
        &pair.alice,
        &[
            ("agentanycast_offline_queue_size", 1.0),
            ("agentanycast_open_tasks", 1.0),
        ],
    )
    .await;
    wait_metrics(
        &pair.alice,
        &[(r#"agentanycast_outbox_depth{state="queued"}"#, 1.0)],
    )
    .await;
}

/// A local user that takes every place there is does not make the daemon look dead.
#[tokio::test]
async fn connections_that_ask_nothing_keep_no_monitor_out() {
    let daemon = Daemon::builder().metrics().start().await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(daemon.metrics_addr()).await.unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\n").await.unwrap();
        silent.push(stream);
        if silent.len() % 50 == 0 {
            let answer = daemon.metrics().get("/health").await;
            assert_eq!(answer.status, StatusCode::OK, "beside {}", silent.len());
        }
    }
}

#[tokio::test]
async fn health_and_readiness_are_shown() {
    let daemon = Daemon::builder().metrics().start().await;
    let client = daemon.metrics();
    let health = client.get("/health").await;
    assert_eq!(
        (health.status, &health.body["status"]),
        (StatusCode::OK, &"healthy".into())
    );
    assert_eq!(health.body["peer_id"], daemon.peer_id().to_string());
    let ready = client.get("/ready").await;
    assert_eq!(
        (ready.status, &ready.body["ready"]),
        (StatusCode::OK, &true.into())
    );
    assert_eq!(ready.body["agent_listens"], false);
    let node = daemon.node().await;
    let _agent = TestAgent::echo(&node);
    eventually("an agent listens", || async {
        (client.get("/ready").await.body["agent_listens"] == true).then_some(())
    })
    .await;
    assert_eq!(client.text("/elsewhere").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_port_for_metrics_that_is_taken_stops_nothing() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let daemon = Daemon::builder()
        .args([format!("--metrics-listen={address}")])
        .start()
        .await;
    let node = daemon.node().await;
    let _agent = TestAgent::echo(&node);
    let task = node
        .send_task(Target::Peer(daemon.peer_id().clone()), "still")
        .await
        .unwrap();
    completed(&task).await;
    assert!(daemon.log_tail().contains(&address.to_string()));
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Sends a task with this metadata; what its agent saw of it.
async fn traced(pair: &DaemonPair, metadata: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let seen = Arc::new(Mutex::new(None));
    let agent = {
        let seen = Arc::clone(&seen);
        TestAgent::serve(&pair.bob.node().await, move |task| {
            *seen.lock().unwrap() = Some(task.metadata().clone());
            async move {
                task.complete([Artifact::text("done")]).await?;
                Ok(())
            }
        })
    };
    let target = Target::Peer(pair.bob.peer_id().clone());
    let node = pair.alice.node().await;
    let task = node
        .task(target, "traced")
        .metadata_from(metadata)
        .send()
        .await
        .unwrap();
    completed(&task).await;
    drop(agent);
    let seen = seen.lock().unwrap().take();
    seen.unwrap()
}

#[tokio::test]
async fn one_trace_goes_through_both_daemons_to_the_agent_and_back() {
    let (collector, address) = TraceCollector::start().await;
    let pair = DaemonPair::start_with(TransportKind::Tcp, |daemon| {
        daemon.args([format!("--otlp-endpoint=http://{address}")])
    })
    .await;
    let (trace, caller) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let parent = format!("00-{trace}-{caller}-01");
    let seen = traced(&pair, BTreeMap::from([("traceparent".to_owned(), parent)])).await;
    eventually("the collector has all spans", || async {
        let spans = |daemon, name| collector.daemon_spans(daemon, name).len();
        let ends = spans(&pair.alice, "send_task") == 1 && spans(&pair.bob, "handle_task") == 1;
        let acks = spans(&pair.alice, "deliver") >= 1 && spans(&pair.bob, "deliver") >= 1;
        (ends && acks).then_some(())
    })
    .await;
    let (sent, handled) = (
        &collector.daemon_spans(&pair.alice, "send_task")[0],
        &collector.daemon_spans(&pair.bob, "handle_task")[0],
    );
    assert_eq!(hex(&sent.trace_id), trace);
    assert_eq!(hex(&sent.parent_span_id), caller);
    assert_eq!(
        (&handled.trace_id, &handled.parent_span_id),
        (&sent.trace_id, &sent.span_id)
    );
    assert!(sent.end_time_unix_nano >= sent.start_time_unix_nano);
    for (daemon, own) in [(&pair.alice, sent), (&pair.bob, handled)] {
        for delivered in collector.daemon_spans(daemon, "deliver") {
            assert_eq!(
                (&delivered.trace_id, &delivered.parent_span_id),
                (&own.trace_id, &own.span_id)
            );
        }
    }
    // Whatever the agent does is a part of what its daemon does.
    let agents = format!("00-{trace}-{}-01", hex(&handled.span_id));
    assert_eq!(seen.get("traceparent"), Some(&agents));

    // A context that is not sampled goes through as it is, and nobody is told.
    let untold = "0af7651916cd43dd8448eb211c80319d";
    let unsampled = format!("00-{untold}-{caller}-00");
    let seen = traced(
        &pair,
        BTreeMap::from([("traceparent".to_owned(), unsampled.clone())]),
    )
    .await;
    assert_eq!(seen.get("traceparent"), Some(&unsampled));

    // Without one a trace begins at the sender's daemon.
    let seen = traced(&pair, BTreeMap::new()).await;
    assert!(seen.contains_key("traceparent"), "{seen:?}");
    eventually("the collector has the second trace", || async {
        let spans = |daemon, name| collector.daemon_spans(daemon, name).len();
        (spans(&pair.alice, "send_task") == 2 && spans(&pair.bob, "handle_task") == 2).then_some(())
    })
    .await;
    let begun = &collector.daemon_spans(&pair.alice, "send_task")[1];
    assert!(begun.parent_span_id.is_empty(), "{begun:?}");
    assert_ne!(hex(&begun.trace_id), trace);
    let told = collector.all_spans();
    assert!(
        told.iter().all(|(_, span)| hex(&span.trace_id) != untold),
        "{told:?}"
    );
}

/// Of the traces that begin here only a share is told; whoever has begun one elsewhere has decided already.
#[tokio::test]
async fn what_is_not_sampled_is_told_nobody() {
    let (collector, address) = TraceCollector::start().await;
    let pair = DaemonPair::start_with(TransportKind::Tcp, |daemon| {
        daemon
            .args([format!("--otlp-endpoint=http://{address}")])
            .config("[telemetry]\nsample_rate = 0.0\n")
    })
    .await;
    for _ in 0..3 {
        let seen = traced(&pair, BTreeMap::new()).await;
        let context = &seen["traceparent"];
        assert!(context.ends_with("-00"), "{context}");
    }
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let sampled = format!("00-{trace}-b7ad6b7169203331-01");
    traced(&pair, BTreeMap::from([("traceparent".to_owned(), sampled)])).await;
    eventually("the collector has the one that is sampled", || async {
        let is_there = |daemon, name| !collector.daemon_spans(daemon, name).is_empty();
        (is_there(&pair.alice, "send_task") && is_there(&pair.bob, "handle_task")).then_some(())
    })
    .await;
    let told = collector.all_spans();
    assert!(
        told.iter().all(|(_, span)| hex(&span.trace_id) == trace),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_task_to_whoever_can_of_a_caller_of_the_bridge_is_one_trace() {
    let (collector, address) = TraceCollector::start().await;
    let relay = TestRelay::builder().start().await;
    let daemon = || {
        Daemon::builder()
            .args([format!("--otlp-endpoint=http://{address}")])
            .known_to(&relay)
            .metrics()
    };
    let there = daemon().start().await;
    let agent = there.node().await;
    agent.agent("first").register().await.unwrap();
    let card = AgentCard::new("translator", "an agent of a test")
        .with_skill(Skill::new("translate", "what it does"));
    agent.set_card(card).await.unwrap();
    let _agent = TestAgent::echo(&agent);
    let here = daemon().bridge().start().await;

    let (trace, caller) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let client = Bridge::in_daemon(&here)
        .client()
        .version("1.0")
        .header("traceparent", &format!("00-{trace}-{caller}-01"));
    let message = json!({"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]});
    let answer = client
        .post("/skills/translate/message:send", &json!({"message": message}))
        .await;
    assert_eq!(
        answer.body["task"]["status"]["state"], "TASK_STATE_COMPLETED",
        "{}",
        answer.body
    );

    eventually("the collector has both ends", || async {
        let is_there = |daemon, name| collector.daemon_spans(daemon, name).len() == 1;
        (is_there(&here, "send_task") && is_there(&there, "handle_task")).then_some(())
    })
    .await;
    let sent = &collector.daemon_spans(&here, "send_task")[0];
    let handled = &collector.daemon_spans(&there, "handle_task")[0];
    assert_eq!(
        (hex(&sent.trace_id), hex(&sent.parent_span_id)),
        (trace.to_owned(), caller.to_owned())
    );
    assert_eq!(
        (&handled.trace_id, &handled.parent_span_id),
        (&sent.trace_id, &sent.span_id)
    );
    let has = |span: &opentelemetry_proto::tonic::trace::v1::Span, key: &str, value: &str| {
        let found = span.attributes.iter().find(|attribute| attribute.key == key);
        assert!(format!("{found:?}").contains(value), "{key}: {span:?}");
    };
    has(sent, "agentanycast.skill", "translate");
    has(handled, "agentanycast.agent", "translator");

    wait_metrics(
        &here,
        &[
            (
                r#"agentanycast_bridge_requests_total{direction="inbound",status="200"}"#,
                1.0,
            ),
            (r#"agentanycast_route_resolutions_total{result="found"}"#, 1.0),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_collector_that_is_not_there_holds_up_nobody() {
    let pair = DaemonPair::start_with(TransportKind::Tcp, |daemon| {
        daemon.args(["--otlp-endpoint=http://127.0.0.1:1"])
    })
    .await;
    let seen = traced(&pair, BTreeMap::new()).await;
    assert!(seen.contains_key("traceparent"), "{seen:?}");
    eventually("the loss is in the log", || async {
        (pair.alice.log_tail().contains("did not reach the collector")).then_some(())
    })
    .await;
}
