//! The HTTP faces of a relay that runs: health, metrics, directory, dashboard, live events.

use agentanycast_tests::{TestRelay, within};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use crate::registry_requests::{found, registration};

#[tokio::test(flavor = "multi_thread")]
async fn the_faces_say_what_is_there() {
    let relay = TestRelay::builder().start().await;
    let mut client = relay.client().await;
    client
        .register_skills(registration("p1", "translate"))
        .await
        .unwrap();
    client.register_skills(registration("p2", "echo")).await.unwrap();
    found(&relay, "echo").await;
    let health = relay.health().await;
    assert_eq!(
        (health["status"].as_str(), health["peer_id"].as_str()),
        (Some("healthy"), Some(relay.id()))
    );
    assert_eq!(health["registry"]["local_count"], 2);
    agentanycast_tests::eventually("the figures are up to date", || async {
        (relay.metric("registry_local_count").await > 1.0).then_some(())
    })
    .await;
    assert!(relay.metric("registry_discover_duration_seconds_count").await >= 1.0);
    let agents = relay.api("/api/v1/agents?skill=translate&tag=lang:de").await;
    assert_eq!(
        (&agents["total"], &agents["agents"][0]["peer_id"]),
        (&1.into(), &"p1".into())
    );
    assert_eq!(relay.api("/api/v1/skills").await["count"], 2);
    assert_eq!(relay.api("/api/v1/stats").await["registry"]["local_count"], 2);
    assert_eq!(relay.api("/api/v1/nothing").await["error"]["code"], "not_found");
    let (status, page) = relay.get(relay.api, "/").await;
    assert!(status == 200 && page.contains("<title>AgentAnycast relay</title>"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_told_at_once() {
    let relay = TestRelay::builder().start().await;
    let mut stream = TcpStream::connect(relay.api).await.unwrap();
    stream
        .write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: relay\r\n\r\n")
        .await
        .unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut next = async || loop {
        let line = within("an event comes", lines.next_line())
            .await
            .unwrap()
            .unwrap();
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str::<serde_json::Value>(data).unwrap();
        }
    };
    assert_eq!(next().await["registry"]["local_count"], 0);
    let mut client = relay.client().await;
    client.register_skills(registration("p", "s")).await.unwrap();
    let changed = next().await;
    assert_eq!(
        (&changed["registry"]["local_count"], &changed["changes"]),
        (&1.into(), &1.into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_agents_are_listed_in_pages() {
    let relay = TestRelay::builder().start().await;
    let mut client = relay.client().await;
    for n in 0..1000 {
        client
            .register_skills(registration(
                &format!("agent-{n:04}"),
                &format!("skill-{}", n % 10),
            ))
            .await
            .unwrap();
    }
    let all = relay.api("/api/v1/agents?limit=1000").await;
    assert_eq!((&all["total"], &all["count"]), (&1000.into(), &1000.into()));
    let some = relay.api("/api/v1/agents?q=AGENT-042&limit=5").await;
    assert_eq!((&some["total"], &some["count"]), (&10.into(), &5.into()));
}
