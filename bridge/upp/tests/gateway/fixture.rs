//! A gateway on a port of its own, and a client over HTTP.

use std::{sync::Arc, time::Duration};

use agentanycast_daemon_kit::settings::ListenOn;
use agentanycast_front::{front::Front, request_counts::RequestCounts};
use agentanycast_gateway::{
    NodePort, fake::agents::FakeAgents, registration::GatewayModule as _, running::RunningGateway,
};
use agentanycast_gateways::front::FrontSettings;
use agentanycast_upp_gateway::UppGateway;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::scripted::ScriptedAgents;

/// The token of the one caller.
pub(crate) const TOKEN: &str = "0123456789abcdef";

/// The largest body of a request.
pub(crate) const MAX_BODY: usize = 1 << 20;

/// The result of what should not take long.
pub(crate) async fn soon<R>(what: impl Future<Output = R>) -> R {
    tokio::time::timeout(Duration::from_secs(20), what).await.unwrap()
}

pub(crate) struct TestGateway {
    pub(crate) node: ScriptedAgents,
    pub(crate) running: RunningGateway,
    pub(crate) client: Client,
    _directory: tempfile::TempDir,
}

impl TestGateway {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tokens = directory.path().join("tokens");
        std::fs::write(&tokens, format!("alice {TOKEN}\n")).unwrap();
        let mut settings = FrontSettings {
            listen: ListenOn("127.0.0.1:0".to_owned()),
            ..FrontSettings::default()
        };
        settings.limits.rate = 0;
        settings.max_body.0 = MAX_BODY as u64;
        settings.auth.tokens_file = Some(tokens);
        let node = ScriptedAgents::default();
        let port = NodePort {
            client: Arc::new(node.clone()),
            agents: Arc::new(FakeAgents::default()),
            external: None,
            key: None,
            home: None,
        };
        let front = Front::new(settings, Arc::new(RequestCounts::default())).unwrap();
        Self {
            node,
            running: UppGateway::start(port, front, ()).await.unwrap(),
            client: Client::new(),
            _directory: directory,
        }
    }

    pub(crate) fn post(&self, target: &str, accept: &str) -> RequestBuilder {
        let url = format!("http://{}/upp/{target}", self.running.address().unwrap());
        let request = self.client.post(url).bearer_auth(TOKEN);
        request
            .header("accept", accept)
            .header("content-type", "application/json")
    }

    pub(crate) async fn ask(&self, text: &str) -> (u16, Value) {
        let request = self.post("self", "application/json").body(body(text));
        answer(soon(request.send()).await.unwrap()).await
    }

    /// The data of the events of an answer.
    pub(crate) async fn events(&self, text: &str) -> Vec<String> {
        let request = self.post("self", "text/event-stream").body(body(text));
        data(soon(request.send()).await.unwrap()).await
    }

    /// Returns once this many tasks were cancelled.
    pub(crate) async fn cancelled(&self, count: usize) {
        let mut cancelled = self.node.cancelled.subscribe();
        soon(cancelled.wait_for(|now| *now == count)).await.unwrap();
    }
}

pub(crate) fn body(text: &str) -> String {
    let message = json!({
        "id": "m1", "type": "user", "timestamp": "2026-11-20T22:41:54.035Z",
        "content": [{"type": "text", "text": text}],
    });
    json!({"model": "default", "messages": [message]}).to_string()
}

pub(crate) async fn answer(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/json");
    let text = soon(response.text()).await.unwrap();
    (status, serde_json::from_str(&text).unwrap())
}

pub(crate) async fn data(response: Response) -> Vec<String> {
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = soon(response.text()).await.unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: ").map(str::to_owned))
        .collect()
}
