//! A gateway on a port of its own, and devices and constellations that connect to it.

use std::{
    io::Write as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use agentanycast_aip::{
    endpoints::{
        ClosureTools, ConstellationClient, ConstellationSettings, DeviceClient, DeviceClientSettings,
        DeviceEntry, DeviceHandle, DeviceState,
    },
    messages::{McpToolInfo, ToolCommandType},
    transport::WebSocketEndpoint,
};
use agentanycast_aip_gateway::{AipGateway, settings::AipSettings};
use agentanycast_daemon_kit::settings::ListenOn;
use agentanycast_front::{front::Front, request_counts::RequestCounts};
use agentanycast_gateway::{
    NodePort,
    fake::agents::{FakeAgents, FakeEnd},
    registration::GatewayModule as _,
    running::RunningGateway,
};
use agentanycast_gateways::front::FrontSettings;
use agentanycast_proto::{
    json::{from_struct, to_struct},
    v1 as mesh,
};
use mesh::part::Content;
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::scripted::ScriptedNode;

/// How long anything may take.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// What ends within this when a client is gone.
pub(crate) const TWO_SECONDS: Duration = Duration::from_secs(2);

/// The token of the one caller.
pub(crate) const TOKEN: &str = "0123456789abcdef";

/// The result of what should not take long.
pub(crate) async fn soon<R>(what: impl Future<Output = R>) -> R {
    tokio::time::timeout(SOON, what).await.unwrap()
}

/// A gateway, and the node before which it runs.
pub(crate) struct TestGateway {
    pub(crate) agents: FakeAgents,
    pub(crate) running: RunningGateway,
    _tokens: tempfile::NamedTempFile,
}

impl TestGateway {
    pub(crate) async fn start() -> Self {
        Self::with(AipSettings::default()).await
    }

    pub(crate) async fn with(settings: AipSettings) -> Self {
        Self::with_front(settings, |_| {}).await
    }

    /// With other settings of its front, too.
    pub(crate) async fn with_front(settings: AipSettings, change: impl FnOnce(&mut FrontSettings)) -> Self {
        let mut tokens = tempfile::NamedTempFile::new().unwrap();
        writeln!(tokens, "alice {TOKEN}").unwrap();
        let mut front = FrontSettings {
            listen: ListenOn("127.0.0.1:0".to_owned()),
            ..FrontSettings::default()
        };
        front.limits.rate = 0;
        front.auth.tokens_file = Some(tokens.path().to_owned());
        change(&mut front);
        let front = Front::new(front, Arc::new(RequestCounts::default())).unwrap();
        let agents = FakeAgents::default();
        let node = NodePort {
            client: Arc::new(ScriptedNode::default()),
            agents: Arc::new(agents.clone()),
            external: None,
            key: None,
            home: None,
        };
        let running = AipGateway::start(node, front, settings).await.unwrap();
        Self {
            agents,
            running,
            _tokens: tokens,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/ws", self.running.address().unwrap())
    }

    pub(crate) fn endpoint(&self) -> WebSocketEndpoint {
        WebSocketEndpoint::new(&self.url()).unwrap().with_token(TOKEN)
    }

    /// Waits until the card has a skill.
    pub(crate) async fn has_skill(&self, id: &str) -> mesh::Skill {
        soon(self.agents.until(|agents| {
            let skills = agents.card().skills;
            skills.into_iter().find(|skill| skill.id == id)
        }))
        .await
    }

    /// A device whose tools are skills.
    pub(crate) async fn device(&self, id: &str) -> TestDevice {
        let device = TestDevice::connect(self, id).await;
        self.has_skill(&format!("aip:{id}:say")).await;
        device
    }

    pub(crate) fn give(&self, id: &str, skill: &str, part: mesh::Part) {
        self.agents.give(mesh::Task {
            task_id: id.to_owned(),
            target_skill_id: skill.to_owned(),
            messages: vec![mesh::Message {
                role: mesh::MessageRole::User.into(),
                parts: vec![part],
                ..mesh::Message::default()
            }],
            ..mesh::Task::default()
        });
    }

    pub(crate) async fn end_of(&self, id: &str) -> FakeEnd {
        soon(self.agents.end_of(id)).await
    }

    /// The result of a task that has completed.
    pub(crate) async fn result_of(&self, id: &str) -> Value {
        match self.end_of(id).await {
            FakeEnd::Completed(artifacts, _) => match &artifacts[0].parts[0].content {
                Some(Content::DataPart(data)) => Value::Object(from_struct(data.data.as_ref().unwrap())),
                Some(Content::TextPart(text)) => Value::String(text.text.clone()),
                other => panic!("{other:?}"),
            },
            other => panic!("it has not completed: {other:?}"),
        }
    }

    pub(crate) async fn reason_of(&self, id: &str) -> String {
        match self.end_of(id).await {
            FakeEnd::Failed(reason) => reason,
            other => panic!("it has not failed: {other:?}"),
        }
    }

    pub(crate) async fn constellation(&self, name: &str, device: &str) -> ConstellationClient {
        let client = ConstellationClient::new(ConstellationSettings::new(name));
        client.add_device(DeviceEntry::new(device), self.endpoint());
        client.wait_connected(device, SOON).await.unwrap();
        client
    }
}

pub(crate) fn data(value: &Value) -> mesh::Part {
    mesh::Part {
        content: Some(Content::DataPart(mesh::DataPart {
            data: Some(to_struct(value.as_object().cloned().unwrap())),
        })),
        ..mesh::Part::default()
    }
}

pub(crate) fn text(text: &str) -> mesh::Part {
    mesh::Part {
        content: Some(Content::TextPart(mesh::TextPart {
            text: text.to_owned(),
        })),
        ..mesh::Part::default()
    }
}

/// A device with the tools `say`, `repeat`, `fail`, `large` and `hang`.
pub(crate) struct TestDevice {
    pub(crate) calls: Arc<Mutex<Vec<String>>>,
    pub(crate) handle: DeviceHandle,
    _running: AbortOnDropHandle<()>,
}

fn tool(name: &str) -> McpToolInfo {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    McpToolInfo::new(ToolCommandType::Action, "Test", name, schema)
}

/// A tool that requires one text.
fn repeating() -> McpToolInfo {
    let schema = json!({
        "type": "object", "required": ["text"], "properties": { "text": { "type": "string" } },
    });
    McpToolInfo::new(ToolCommandType::Action, "Test", "repeat", schema)
}

impl TestDevice {
    pub(crate) async fn connect(gateway: &TestGateway, id: &str) -> Self {
        Self::connect_by(gateway.endpoint(), id).await
    }

    pub(crate) async fn connect_by(endpoint: WebSocketEndpoint, id: &str) -> Self {
        let calls = Arc::<Mutex<Vec<String>>>::default();
        let keep = |name: &'static str| {
            let calls = Arc::clone(&calls);
            move || calls.lock().unwrap().push(name.to_owned())
        };
        let (said, failed, hung) = (keep("say"), keep("fail"), keep("hang"));
        let executor = ClosureTools::new()
            .with_tool(tool("say"), move |parameters| {
                said();
                async move { Ok(json!({ "said": parameters.get("text") }).into()) }
            })
            .with_tool(repeating(), |parameters| async move {
                Ok(parameters.get("text").cloned().unwrap_or_default().into())
            })
            .with_tool(tool("fail"), move |_| {
                failed();
                async { Err("it failed".into()) }
            })
            .with_tool(tool("large"), |_| async {
                Ok(Value::String("x".repeat(4 << 20)).into())
            })
            .with_tool(tool("hang"), move |_| {
                hung();
                std::future::pending()
            });
        let client = DeviceClient::new(endpoint, DeviceClientSettings::new(id), Arc::new(executor));
        let mut handle = client.handle();
        let running = client.run(CancellationToken::new());
        let running = tokio::spawn(async move { running.await.unwrap() });
        assert!(soon(handle.wait_for(DeviceState::is_connected)).await);
        Self {
            calls,
            handle,
            _running: AbortOnDropHandle::new(running),
        }
    }

    /// Waits until a tool is called.
    pub(crate) async fn called(&self, tool: &str) {
        let called = async {
            while !self.calls.lock().unwrap().iter().any(|called| called == tool) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon(called).await;
    }
}
