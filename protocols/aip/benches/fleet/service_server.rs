//! The device service of the crate.

use std::sync::Arc;

use agentanycast_aip::{
    endpoints::{CommandBatch, DeviceService, ServiceHooks, ServiceSettings, ServiceTask, TaskOutcome},
    messages::ToolCommand,
    protocol::BatchContext,
    transport::{WebSocketSettings, accept},
};
use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};

use crate::{AHEAD, TOOL, commands_of_each, devices, server::announce};

struct NoTasks;

#[async_trait]
impl ServiceHooks for NoTasks {
    async fn run_task(&self, _: ServiceTask) -> TaskOutcome {
        TaskOutcome::failed("there are commands only")
    }
}

/// Serves until the process is ended.
pub(crate) async fn serve() {
    let settings = ServiceSettings {
        max_clients: devices(),
        ..ServiceSettings::default()
    };
    let service = DeviceService::new(settings, Arc::new(NoTasks));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    let serving = service.clone();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let _ = socket.set_nodelay(true);
            let service = serving.clone();
            tokio::spawn(async move {
                let transport = accept(socket, &WebSocketSettings::default(), |_| Ok(())).await;
                service.serve(transport.unwrap()).await;
            });
        }
    });
    announce(&url).await;
    let mut running = JoinSet::new();
    for number in 0..devices() {
        running.spawn(command_device(service.clone(), format!("device-{number}")));
    }
    running.join_all().await;
    println!("done");
    std::future::pending::<()>().await;
}

/// Gives a device its commands, some ahead of their results, and checks the results.
async fn command_device(service: DeviceService, id: String) {
    let text = "x".repeat(200);
    let results = stream::iter(0..commands_of_each())
        .map(|number| {
            let parameters = json!({ "number": number, "text": text });
            let command = ToolCommand::new(TOOL, parameters.as_object().cloned().unwrap());
            let batch = CommandBatch {
                context: BatchContext {
                    agent_name: Some("LinuxAgent".to_owned()),
                    ..BatchContext::default()
                },
                task_name: Some("bench".to_owned()),
                actions: vec![command.with_call_id(number.to_string())],
            };
            service.command(&id, batch)
        })
        .buffered(AHEAD);
    let mut results = std::pin::pin!(results.enumerate());
    while let Some((number, results)) = results.next().await {
        let results = results.unwrap();
        assert_eq!(results[0].call_id, Some(number.to_string()));
        assert_eq!(results[0].result, Some(json!({ "device": id, "number": number })));
    }
}
