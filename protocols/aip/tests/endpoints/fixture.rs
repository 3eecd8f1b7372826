//! A service with a listener, hooks that keep what they are told, and a client that speaks frames.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use agentanycast_aip::{
    endpoints::{
        ClientCaller, ClosureTools, CommandBatch, ConnectedClient, ConstellationClient,
        ConstellationSettings, DeviceClient, DeviceClientSettings, DeviceEntry, DeviceHandle, DeviceService,
        DeviceState, DeviceTool, ServiceHooks, ServiceSettings, ServiceTask, TaskOutcome,
    },
    messages::{JsonObject, McpToolInfo, MessageStatus, ToolCommand, ToolCommandType},
    protocol::{BatchContext, FileProgress, Registration},
    transport::{Connector as _, Transport, WebSocketEndpoint, WebSocketSettings, WireFrame, accept},
};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

pub(crate) const SOON: Duration = Duration::from_secs(20);
pub(crate) const TOKEN: &str = "key";

/// What hooks were told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    Connected(String),
    Tools(String, Vec<String>),
    Gone(String),
    Cancelled(String),
    Note(String, MessageStatus),
    File(String, FileProgress),
}

/// Hooks: `run TOOL` calls a tool of the device; `wait` waits for its cancellation; all else is echoed.
pub(crate) struct TestHooks {
    told: mpsc::UnboundedSender<Told>,
    pub(crate) takes_files: bool,
}

#[async_trait]
impl ServiceHooks for TestHooks {
    async fn admit(&self, registration: &Registration, _: Option<&ClientCaller>) -> Result<(), String> {
        if registration.client_id == "unwanted" {
            Err("it is not wanted".to_owned())
        } else {
            Ok(())
        }
    }

    async fn connected(&self, client: &ConnectedClient) -> Result<(), String> {
        if client.client_id == "one-too-many" {
            return Err("max_agents is 1".to_owned());
        }
        let _ = self.told.send(Told::Connected(client.client_id.clone()));
        Ok(())
    }

    async fn tools(&self, device_id: &str, tools: &[DeviceTool]) {
        let names = tools
            .iter()
            .map(|tool| format!("{}/{}", tool.agent_name, tool.tool.tool_name))
            .collect();
        let _ = self.told.send(Told::Tools(device_id.to_owned(), names));
    }

    async fn gone(&self, client: &ConnectedClient) {
        let _ = self.told.send(Told::Gone(client.client_id.clone()));
    }

    async fn has_target(&self, target_id: &str) -> bool {
        target_id == "mesh-agent"
    }

    async fn target_info(&self, target_id: &str) -> Option<Value> {
        (target_id == "mesh-agent").then(|| json!({ "device_id": "mesh-agent", "platform": "mesh" }))
    }

    async fn run_task(&self, task: ServiceTask) -> TaskOutcome {
        if let Some(tool) = task.request.strip_prefix("run ") {
            task.progress(vec![format!("running {tool}")]).await;
            let batch = CommandBatch {
                context: BatchContext {
                    agent_name: Some("LinuxAgent".to_owned()),
                    ..BatchContext::default()
                },
                actions: vec![ToolCommand::new(tool, JsonObject::new()).with_call_id("c0")],
                ..CommandBatch::default()
            };
            return match task.command(batch).await {
                Ok(results) => TaskOutcome::completed(json!(results)),
                Err(error) => TaskOutcome::failed(error.to_string()),
            };
        }
        if task.request == "wait" {
            task.cancelled.cancelled().await;
            let _ = self.told.send(Told::Cancelled(task.session_id.clone()));
            return TaskOutcome::failed("cancelled");
        }
        let owner = format!("{} {}", task.owner_role, task.owner_id);
        TaskOutcome::completed(json!({ "echo": task.request, "name": task.task_name, "owner": owner }))
    }

    async fn task_note(&self, session_id: &str, status: MessageStatus, _: Option<&str>) {
        let _ = self.told.send(Told::Note(session_id.to_owned(), status));
    }

    async fn file(&self, client_id: &str, progress: FileProgress) -> Result<(), String> {
        let _ = self.told.send(Told::File(client_id.to_owned(), progress));
        if self.takes_files {
            Ok(())
        } else {
            Err("no files here".to_owned())
        }
    }
}

/// A service that listens.
pub(crate) struct TestService {
    pub(crate) service: DeviceService,
    pub(crate) address: SocketAddr,
    told: mpsc::UnboundedReceiver<Told>,
    _listener: AbortOnDropHandle<()>,
}

impl TestService {
    pub(crate) async fn new() -> Self {
        Self::with(ServiceSettings::default()).await
    }

    pub(crate) async fn with(settings: ServiceSettings) -> Self {
        let (sender, told) = mpsc::unbounded_channel();
        let hooks = TestHooks {
            told: sender,
            takes_files: true,
        };
        let service = DeviceService::new(settings, Arc::new(hooks));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = service.clone();
        let listening = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let service = serving.clone();
                tokio::spawn(async move {
                    let admit = |path: &str| {
                        if path == format!("/ws?token={TOKEN}") {
                            Ok(())
                        } else {
                            Err(403)
                        }
                    };
                    if let Ok(transport) = accept(socket, &WebSocketSettings::default(), admit).await {
                        service.serve(transport).await;
                    }
                });
            }
        });
        Self {
            service,
            address,
            told,
            _listener: AbortOnDropHandle::new(listening),
        }
    }

    pub(crate) fn endpoint(&self) -> WebSocketEndpoint {
        WebSocketEndpoint::new(&format!("ws://{}/ws", self.address))
            .unwrap()
            .with_token(TOKEN)
    }

    /// Waits for something that the hooks are told; what they are told before is dropped.
    pub(crate) async fn told(&mut self, wanted: &Told) {
        self.told_within(wanted, SOON).await;
    }

    pub(crate) async fn told_within(&mut self, wanted: &Told, within: Duration) {
        let found = async { while self.told.recv().await.as_ref() != Some(wanted) {} };
        assert!(
            timeout(within, found).await.is_ok(),
            "not told within {within:?}: {wanted:?}"
        );
    }

    pub(crate) async fn next_told(&mut self) -> Told {
        timeout(SOON, self.told.recv()).await.unwrap().unwrap()
    }

    pub(crate) async fn raw(&self) -> RawClient {
        RawClient(self.endpoint().connect().await.unwrap())
    }

    /// A raw client that is registered.
    pub(crate) async fn registered(&self, role: &str, id: &str, target: Option<&str>) -> RawClient {
        let mut client = self.raw().await;
        client
            .send(json!({
                "type": "register", "status": "ok", "client_type": role, "client_id": id, "target_id": target,
            }))
            .await;
        let answer = client.next().await;
        assert_eq!(
            (&answer["type"], &answer["status"]),
            (&json!("heartbeat"), &json!("ok")),
            "{answer}"
        );
        client
    }

    pub(crate) fn constellation(&self, name: &str, device: &str) -> ConstellationClient {
        let client = ConstellationClient::new(ConstellationSettings::new(name));
        client.add_device(DeviceEntry::new(device), self.endpoint());
        client
    }
}

/// A client that sends and receives frames as they are.
pub(crate) struct RawClient(pub(crate) Transport);

impl RawClient {
    pub(crate) async fn send(&mut self, message: Value) {
        self.text(&message.to_string()).await;
    }

    pub(crate) async fn text(&mut self, text: &str) {
        self.0
            .sender
            .send(WireFrame::Text(text.to_owned()))
            .await
            .unwrap();
    }

    /// The next message; `Null`: the connection has ended.
    pub(crate) async fn next(&mut self) -> Value {
        match timeout(SOON, self.0.receiver.receive())
            .await
            .expect("a message within 20 s")
        {
            Some(Ok(WireFrame::Text(text))) => serde_json::from_str(&text).unwrap(),
            Some(other) => panic!("{other:?}"),
            None => Value::Null,
        }
    }

    /// The next message is an error with this text.
    pub(crate) async fn refused(&mut self, text: &str) {
        let message = self.next().await;
        assert_eq!(
            (&message["type"], &message["status"]),
            (&json!("error"), &json!("error")),
            "{message}"
        );
        let found = message["error"].as_str().unwrap();
        assert!(found.contains(text), "{found:?} does not contain {text:?}");
    }

    /// The client is refused with this text, and its connection is closed.
    pub(crate) async fn refused_for_good(&mut self, text: &str) {
        self.refused(text).await;
        assert_eq!(self.next().await, Value::Null);
    }

    /// Nothing but an answer to a heartbeat comes.
    pub(crate) async fn nothing_else(&mut self) {
        self.send(json!({ "type": "heartbeat", "status": "ok" })).await;
        let message = self.next().await;
        assert_eq!(message["type"], "heartbeat", "{message}");
        assert_eq!(message.get("session_id"), None, "{message}");
    }
}

/// A device that runs.
pub(crate) struct TestDevice {
    pub(crate) handle: DeviceHandle,
    pub(crate) calls: Arc<Mutex<Vec<String>>>,
    pub(crate) stop: CancellationToken,
    _running: AbortOnDropHandle<()>,
}

fn tool(name: &str) -> McpToolInfo {
    McpToolInfo::new(ToolCommandType::Action, "Test", name, json!({ "type": "object" }))
}

impl TestDevice {
    /// A device with the tools `say`, `fail` and `hang`, that is registered.
    pub(crate) async fn new(service: &TestService, id: &str) -> Self {
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
            .with_tool(tool("fail"), move |_| {
                failed();
                async { Err("it failed".into()) }
            })
            .with_tool(tool("hang"), move |_| {
                hung();
                std::future::pending()
            });
        let client = DeviceClient::new(
            service.endpoint(),
            DeviceClientSettings::new(id),
            Arc::new(executor),
        );
        let stop = CancellationToken::new();
        let mut handle = client.handle();
        let running = client.run(stop.clone());
        let running = tokio::spawn(async move { running.await.unwrap() });
        let registered = handle.wait_for(DeviceState::is_connected);
        assert!(timeout(SOON, registered).await.unwrap());
        Self {
            handle,
            calls,
            stop,
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
        timeout(SOON, called).await.unwrap();
    }
}

pub(crate) fn commands(names: &[&str]) -> Vec<ToolCommand> {
    let command = |(at, name): (usize, &&str)| {
        ToolCommand::new(*name, JsonObject::new()).with_call_id(format!("c{at}"))
    };
    names.iter().enumerate().map(command).collect()
}

pub(crate) fn batch(names: &[&str]) -> CommandBatch {
    CommandBatch {
        actions: commands(names),
        ..CommandBatch::default()
    }
}

impl RawClient {
    /// The next message within so many seconds, of a clock that may be paused.
    pub(crate) async fn next_within(&mut self, seconds: u64) -> Value {
        match timeout(Duration::from_secs(seconds), self.0.receiver.receive())
            .await
            .unwrap()
        {
            Some(Ok(WireFrame::Text(text))) => serde_json::from_str(&text).unwrap(),
            Some(other) => panic!("{other:?}"),
            None => Value::Null,
        }
    }
}
