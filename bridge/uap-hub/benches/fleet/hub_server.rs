//! The hub before a remembering node.

use std::sync::Arc;

use agentanycast_daemon_kit::settings::ListenOn;
use agentanycast_front::{front::Front, request_counts::RequestCounts};
use agentanycast_gateway::{
    NodePort,
    fake::{
        FakeGateway,
        agents::{FakeAgents, FakeEnd},
    },
    registration::GatewayModule as _,
};
use agentanycast_gateways::front::FrontSettings;
use agentanycast_proto::v1 as mesh;
use agentanycast_uap_hub_gateway::{UapHubGateway, settings::UapHubSettings};
use mesh::part::Content;

use crate::{TYPES, server::announce, sessions};

/// Serves until the process is ended.
pub(crate) async fn serve() {
    let agents = FakeAgents::default();
    let mut settings = FrontSettings {
        listen: ListenOn("127.0.0.1:0".to_owned()),
        ..FrontSettings::default()
    };
    // All agents come from one address here.
    settings.limits.rate = 0;
    settings.limits.at_once = 10_000;
    settings.limits.connections = 10_000;
    let front = Front::new(settings, Arc::new(RequestCounts::default())).unwrap();
    let node = NodePort {
        client: Arc::new(FakeGateway::default()),
        agents: Arc::new(agents.clone()),
        external: None,
        key: None,
        home: None,
    };
    let running = UapHubGateway::start(node, front, UapHubSettings::default())
        .await
        .unwrap();
    announce(&format!("http://{}", running.address().unwrap())).await;
    // All tasks of one type, then those of the next: what comes first must not be served alone.
    for (of, kind) in TYPES.iter().enumerate() {
        for number in (of..sessions()).step_by(TYPES.len()) {
            agents.give(task(number, kind));
        }
    }
    for number in 0..sessions() {
        let end = agents.end_of(&number.to_string()).await;
        assert!(matches!(end, FakeEnd::Completed(..)), "{end:?}");
    }
    println!("done");
    std::future::pending::<()>().await;
}

fn task(number: usize, kind: &str) -> mesh::Task {
    let file = mesh::Part {
        content: Some(Content::RawPart(mesh::RawPart {
            data: vec![7; 1024],
            filename: number.to_string(),
        })),
        ..mesh::Part::default()
    };
    mesh::Task {
        task_id: number.to_string(),
        target_skill_id: format!("uap:test:{kind}"),
        messages: vec![mesh::Message {
            parts: vec![file],
            ..mesh::Message::default()
        }],
        ..mesh::Task::default()
    }
}
