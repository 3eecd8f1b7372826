//! The devices of a run, and what they were given.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use agentanycast_aip::{
    endpoints::{ClosureTools, DeviceClient, DeviceClientSettings, DeviceState},
    messages::{McpToolInfo, ToolCommandType},
    transport::WebSocketEndpoint,
};
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::TOOL;

/// All devices. Dropping it ends them.
pub(crate) struct BenchDevices {
    /// The number of the next command of each device.
    next: Vec<Arc<AtomicUsize>>,
    _stop: DropGuard,
}

impl BenchDevices {
    /// So many devices at this service, when all are registered.
    pub(crate) async fn connect(url: &str, count: usize) -> Self {
        let (stop, mut next) = (CancellationToken::new(), Vec::new());
        for number in 0..count {
            let expected = Arc::<AtomicUsize>::default();
            let client = device(url, &format!("device-{number}"), Arc::clone(&expected));
            let mut handle = client.handle();
            let running = client.run(stop.clone());
            tokio::spawn(async move { running.await.unwrap() });
            assert!(handle.wait_for(DeviceState::is_connected).await);
            next.push(expected);
        }
        // The service has done what it does after a registration.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Self {
            next,
            _stop: stop.drop_guard(),
        }
    }

    /// Checks that each device was given so many commands. That they came in order, each device has checked.
    pub(crate) fn check(&self, count: usize) {
        assert!(self.next.iter().all(|next| next.load(Relaxed) == count));
    }
}

/// A device that says its name and the command's number, and refuses a command out of order.
fn device(url: &str, id: &str, expected: Arc<AtomicUsize>) -> DeviceClient {
    let tool = McpToolInfo::new(
        ToolCommandType::Action,
        "Bench",
        TOOL,
        json!({ "type": "object" }),
    );
    let name = id.to_owned();
    let tools = ClosureTools::new().with_tool(tool, move |parameters| {
        let number = parameters["number"].as_u64();
        let in_order = number == Some(expected.fetch_add(1, Relaxed) as u64);
        let said = json!({ "device": name, "number": number });
        async move {
            if in_order {
                Ok(said.into())
            } else {
                Err("out of order".into())
            }
        }
    });
    let settings = DeviceClientSettings {
        // No heartbeat within a run: the bare server counts frames.
        heartbeat: Duration::from_hours(1),
        ..DeviceClientSettings::new(id)
    };
    DeviceClient::new(WebSocketEndpoint::new(url).unwrap(), settings, Arc::new(tools))
}
