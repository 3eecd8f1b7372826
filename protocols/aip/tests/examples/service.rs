//! A service with a listener, plain or with TLS, that has devices carry out tasks as command lines.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use agentanycast_aip::{
    endpoints::{
        CommandBatch, CommandError, ConnectedClient, DeviceService, DeviceTool, ServiceHooks,
        ServiceSettings, ServiceTask, TaskOutcome,
    },
    messages::{CommandResult, CommandStatus, ToolCommand},
    protocol::BatchContext,
    transport::{WebSocketSettings, accept},
};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};
use tokio_util::task::AbortOnDropHandle;

use crate::program::wait_for;

pub(crate) const TOKEN: &str = "0123456789abcdef";

/// The agent of shell devices.
const AGENT: &str = "LinuxAgent";

/// Devices whose tools are known.
type Ready = Arc<Mutex<BTreeSet<String>>>;

/// `skill:echo` is an agent of a mesh that says what it is asked for, and `skill:fail` one that fails.
struct CommandLines(Ready);

#[async_trait]
impl ServiceHooks for CommandLines {
    async fn tools(&self, device_id: &str, tools: &[DeviceTool]) {
        assert_eq!(tools[0].tool.namespace, "BashExecutor");
        assert_eq!(tools[0].tool.tool_key, "action::execute_command");
        self.0.lock().unwrap().insert(device_id.to_owned());
    }

    async fn gone(&self, client: &ConnectedClient) {
        self.0.lock().unwrap().remove(&client.client_id);
    }

    async fn has_target(&self, target_id: &str) -> bool {
        target_id.starts_with("skill:")
    }

    async fn target_info(&self, target_id: &str) -> Option<Value> {
        let is_agent = target_id.starts_with("skill:");
        is_agent.then(|| json!({ "device_id": target_id }))
    }

    async fn run_task(&self, task: ServiceTask) -> TaskOutcome {
        match task.target_id.as_str() {
            "skill:echo" => return TaskOutcome::completed(json!({ "text": task.request })),
            "skill:fail" => return TaskOutcome::failed("it was told to"),
            _ => {}
        }
        let line = task.request.lines().next().unwrap_or_default();
        match task.command(batch(&[line])).await {
            Ok(results) if results[0].status == CommandStatus::Success => {
                let result = results[0].result.clone().unwrap();
                TaskOutcome::completed(json!({ "text": result["stdout"] }))
            }
            Ok(results) => TaskOutcome::failed(results[0].error.clone().unwrap()),
            Err(error) => TaskOutcome::failed(error.to_string()),
        }
    }
}

/// Command lines as commands, whose ids are their numbers.
pub(crate) fn batch(lines: &[&str]) -> CommandBatch {
    let command = |(at, line): (usize, &&str)| {
        let parameters = json!({ "command": line }).as_object().cloned().unwrap();
        ToolCommand::new("execute_command", parameters).with_call_id(at.to_string())
    };
    CommandBatch {
        context: BatchContext {
            agent_name: Some(AGENT.to_owned()),
            ..BatchContext::default()
        },
        actions: lines.iter().enumerate().map(command).collect(),
        ..CommandBatch::default()
    }
}

/// A service that listens.
pub(crate) struct TestService {
    service: Arc<Mutex<DeviceService>>,
    address: SocketAddr,
    ready: Ready,
    /// The authority of its certificate; none: it listens without TLS.
    pub(crate) ca_file: Option<PathBuf>,
    files: tempfile::TempDir,
    _listener: AbortOnDropHandle<()>,
}

impl TestService {
    pub(crate) async fn plain() -> Self {
        Self::start(None, tempfile::tempdir().unwrap()).await
    }

    pub(crate) async fn with_tls() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("ca.pem"), made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.key_pair.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from(made.cert)], key)
            .unwrap();
        Self::start(Some(TlsAcceptor::from(Arc::new(config))), files).await
    }

    async fn start(tls: Option<TlsAcceptor>, files: tempfile::TempDir) -> Self {
        let ready = Ready::default();
        let service = Arc::new(Mutex::new(new_service(&ready)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ca_file = tls.is_some().then(|| files.path().join("ca.pem"));
        let serving = Arc::clone(&service);
        let listening = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (service, tls) = (serving.lock().unwrap().clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(service, socket).await,
                        Some(tls) => {
                            if let Ok(socket) = tls.accept(socket).await {
                                serve(service, socket).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            service,
            address,
            ready,
            ca_file,
            files,
            _listener: AbortOnDropHandle::new(listening),
        }
    }

    /// The URL of the service.
    pub(crate) fn url(&self) -> String {
        let port = self.address.port();
        match &self.ca_file {
            Some(_) => format!("wss://localhost:{port}/ws"),
            None => format!("ws://127.0.0.1:{port}/ws"),
        }
    }

    /// A file with a token.
    pub(crate) fn token_file(&self, token: &str) -> String {
        self.file(&format!("token-{token}"), &format!("{token}\n"))
    }

    /// A file in a folder that goes with the service.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let file = self.files.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// Waits until a device's tools are known.
    pub(crate) async fn ready(&self, device_id: &str) {
        wait_for(|| self.ready.lock().unwrap().contains(device_id).then_some(())).await;
    }

    /// Has a device execute command lines.
    pub(crate) async fn command(
        &self,
        device_id: &str,
        lines: &[&str],
    ) -> Result<Vec<CommandResult>, CommandError> {
        let service = self.service.lock().unwrap().clone();
        service.command(device_id, batch(lines)).await
    }

    /// Ends the service and all its connections, and begins anew at the same port.
    pub(crate) async fn restart(&self) {
        let ended = {
            let mut service = self.service.lock().unwrap();
            std::mem::replace(&mut *service, new_service(&self.ready))
        };
        ended.stop().await;
    }
}

fn new_service(ready: &Ready) -> DeviceService {
    let settings = ServiceSettings {
        agent_names: vec![AGENT.to_owned()],
        ..ServiceSettings::default()
    };
    DeviceService::new(settings, Arc::new(CommandLines(Arc::clone(ready))))
}

async fn serve<T>(service: DeviceService, socket: T)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
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
}

/// What the result of a command line printed.
pub(crate) fn stdout(result: &CommandResult) -> &str {
    result
        .result
        .as_ref()
        .and_then(|result| result.get("stdout").and_then(Value::as_str))
        .unwrap()
}
