//! The figures that tell what the network and the queues do, each moved by what it is about; those of tasks are in
//! `telemetry`.

use agentanycast::{AgentCard, Artifact, Skill, Target};
use agentanycast_tests::{
    Daemon, DaemonBuilder, DaemonPair, TestRelay, TransportKind,
    agent::TestAgent,
    eventually,
    raw_peer::{A2A, RawPeer, envelope, frame, send_task},
    within,
};
use prost::Message as _;

/// Waits until each of these figures has this value.
pub(crate) async fn wait_metrics(daemon: &Daemon, expected: &[(&str, f64)]) {
    for (series, value) in expected {
        eventually(&format!("{series} is {value}"), || async {
            (daemon.metric(series).await == Some(*value)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn pieces_of_artifacts_and_bytes_are_counted_at_both_ends() {
    const PIECE: usize = 64 << 10;
    let pair = DaemonPair::start_with(TransportKind::Quic, DaemonBuilder::metrics).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = TestAgent::serve(&bob, |task| async move {
        let mut writer = task.stream_artifact("data", "application/octet-stream").await?;
        for _ in 0..3 {
            writer.write(vec![7; PIECE]).await?;
        }
        writer.finish().await?;
        task.complete([]).await?;
        Ok(())
    });
    let target = Target::Peer(pair.bob.peer_id().clone());
    let task = alice.send_task(target, "stream").await.unwrap();
    within("the task ends", task.wait()).await.unwrap();
    wait_metrics(
        &pair.bob,
        &[
            (r#"agentanycast_stream_chunks_total{direction="outbound"}"#, 3.0),
            (r#"agentanycast_stream_chunks_total{direction="inbound"}"#, 0.0),
            (r#"agentanycast_connections_by_transport{transport="quic"}"#, 1.0),
        ],
    )
    .await;
    wait_metrics(
        &pair.alice,
        &[
            (r#"agentanycast_stream_chunks_total{direction="inbound"}"#, 3.0),
            (r#"agentanycast_connections_by_transport{transport="quic"}"#, 1.0),
        ],
    )
    .await;
    // What one has sent the other has got, once nothing is under way any more.
    eventually("each byte is counted at both ends", || async {
        let sent = pair
            .bob
            .metric(r#"agentanycast_envelope_bytes_total{direction="outbound"}"#)
            .await?;
        let came = pair
            .alice
            .metric(r#"agentanycast_envelope_bytes_total{direction="inbound"}"#)
            .await?;
        let (sent, came) = (sent as u64, came as u64);
        (sent == came && sent > 3 * PIECE as u64).then_some(())
    })
    .await;
}

#[tokio::test]
async fn queues_are_told_by_how_far_they_are() {
    let impatient = |daemon: DaemonBuilder| {
        daemon.metrics().config(
            "retry_delays = [\"1s\", \"1s\"]\noffline_queue_ttl = \"6s\"\n[anycast]\nauto_register = false\n",
        )
    };
    let pair = DaemonPair::start_with(TransportKind::Tcp, impatient).await;
    let alice = pair.alice.node().await;
    pair.bob.freeze();
    let target = Target::Peer(pair.bob.peer_id().clone());
    let task = alice.send_task(target, "who hears it?").await.unwrap();
    let depth = |state: &str| format!(r#"agentanycast_outbox_depth{{state="{state}"}}"#);
    for (sent, parked) in [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)] {
        let (one, other) = (depth("sent"), depth("parked"));
        wait_metrics(&pair.alice, &[(one.as_str(), sent), (other.as_str(), parked)]).await;
    }
    within("the task is given up", task.wait()).await.unwrap_err();
    wait_metrics(
        &pair.alice,
        &[(r#"agentanycast_refusals_total{reason="expired"}"#, 1.0)],
    )
    .await;
    pair.bob.thaw();
}

#[tokio::test]
async fn what_comes_in_vain_is_told_by_why() {
    let daemon = Daemon::builder()
        .metrics()
        .config("[policy]\n[policy.rate_limit]\ndefault_rps = 1\n")
        .start()
        .await;
    let node = daemon.node().await;
    let _agent = TestAgent::echo(&node);
    let link = RawPeer::new().dial(daemon.tcp()).await;
    link.send_bytes(A2A, &frame(b"no envelope")).await.unwrap();
    let first = envelope(send_task("first"));
    link.send(std::slice::from_ref(&first)).await;
    link.ack_of(&first).await;
    link.send(&[first]).await;
    wait_metrics(
        &daemon,
        &[
            (r#"agentanycast_refusals_total{reason="malformed"}"#, 1.0),
            (r#"agentanycast_refusals_total{reason="duplicate"}"#, 1.0),
            (r#"agentanycast_refusals_total{reason="limited"}"#, 0.0),
        ],
    )
    .await;
    let flood: Vec<_> = (0..50)
        .map(|number| envelope(send_task(&number.to_string())))
        .collect();
    link.send(&flood).await;
    eventually("those over the limit are counted", || async {
        let limited = daemon
            .metric(r#"agentanycast_refusals_total{reason="limited"}"#)
            .await?;
        (limited >= 40.0).then_some(())
    })
    .await;
    // A frame that ends before it is whole.
    let cut = &frame(&envelope(send_task("cut")).encode_to_vec())[..10];
    link.send_bytes(A2A, cut).await.unwrap();
    wait_metrics(
        &daemon,
        &[(
            r#"agentanycast_network_refusals_total{reason="frame_broken"}"#,
            1.0,
        )],
    )
    .await;
}

#[tokio::test]
async fn choices_of_an_agent_are_told_by_what_came_of_them() {
    let mut relay = TestRelay::builder().start().await;
    let daemon = || Daemon::builder().metrics().known_to(&relay);
    let there = daemon().start().await;
    let agent = there.node().await;
    let skilled = AgentCard::new("digger", "an agent of a test").with_skill(Skill::new("dig", "it digs"));
    agent.set_card(skilled).await.unwrap();
    let _agent = TestAgent::echo(&agent);
    let here = daemon().start().await;
    let node = here.node().await;
    let result = |name: &str| format!(r#"agentanycast_route_resolutions_total{{result="{name}"}}"#);
    let told = async |found: f64, cached: f64, nobody: f64, failed: f64| {
        let values = [
            ("found", found),
            ("cached", cached),
            ("nobody", nobody),
            ("failed", failed),
        ];
        let named = values.map(|(name, value)| (result(name), value));
        let named: Vec<_> = named
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        wait_metrics(&here, &named).await;
    };
    let send = async |skill: &str| node.send_task(Target::Skill(skill.to_owned()), "x").await;
    for _ in 0..2 {
        within("the task ends", send("dig").await.unwrap().wait())
            .await
            .unwrap();
    }
    told(1.0, 1.0, 0.0, 0.0).await;
    let of_agent = [
        (r#"agentanycast_agent_listeners{agent="digger"}"#, 1.0),
        (r#"agentanycast_agent_open_tasks{agent="digger"}"#, 0.0),
    ];
    wait_metrics(&there, &of_agent).await;
    send("fly").await.unwrap_err();
    told(1.0, 1.0, 1.0, 0.0).await;
    relay.kill().await;
    send("swim").await.unwrap_err();
    told(1.0, 1.0, 1.0, 1.0).await;
}

#[tokio::test]
async fn tasks_by_url_are_told_by_how_they_ended() {
    let daemon = Daemon::builder()
        .metrics()
        .config("[bridge.outbound]\nallow_private = true\n")
        .start()
        .await;
    let other = Daemon::builder().bridge().start().await;
    let agent = other.node_named("other").await;
    let _agent = TestAgent::serve(&agent, |task| async move {
        task.complete([Artifact::text("done")]).await?;
        Ok(())
    });
    let node = daemon.node().await;
    let at = |address: std::net::SocketAddr| Target::Url(format!("http://{address}"));
    let good = node.send_task(at(other.bridge()), "hello").await.unwrap();
    within("the task ends", good.wait()).await.unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let bad = node.send_task(at(closed), "hello").await.unwrap();
    within("the task fails", bad.wait()).await.unwrap_err();
    wait_metrics(
        &daemon,
        &[
            (
                r#"agentanycast_bridge_requests_total{direction="outbound",status="completed"}"#,
                1.0,
            ),
            (
                r#"agentanycast_bridge_requests_total{direction="outbound",status="failed"}"#,
                1.0,
            ),
        ],
    )
    .await;
}
