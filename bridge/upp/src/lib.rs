//! The gateway `upp`: a program that speaks the proxy wire of UPP-1.3 asks any agent of the mesh as if the
//! agent were a model.
//!
//! `POST /upp/{target}` becomes a task; its end becomes the turn of the answer, as JSON or as server-sent
//! events. `http` has the routes, `target` and `codec` the mapping, `running_answer` follows the task.
//!
//! Invariant: a task of this gateway ends with its request. A client that goes away cancels it.

#![forbid(unsafe_code)]

mod codec;
mod event_lines;
mod failure;
mod http;
mod running_answer;
mod target;

use std::{convert::Infallible, sync::Arc};

use agentanycast_front::front::Front;
use agentanycast_gateway::{
    NodePort, caller::GatewayLabels, registration::GatewayModule, running::RunningGateway,
    tasks::GatewayTasks,
};
use axum::Router;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use self::http::UppFront;

/// Tasks that are waited for at once, of all callers: each holds its answer in memory at its end.
const MAX_RUNNING: usize = 1024;

/// How the tasks of the gateway are labelled.
const LABELS: GatewayLabels = GatewayLabels::new(UppGateway::NAME);

/// The gateway `upp`. Its settings are those of the front.
#[derive(Debug)]
pub struct UppGateway;

impl GatewayModule for UppGateway {
    const NAME: &'static str = "upp";

    type Settings = ();

    async fn start(node: NodePort, front: Front, _settings: ()) -> anyhow::Result<RunningGateway> {
        let tasks = Arc::new(GatewayTasks::new(node.client, MAX_RUNNING));
        let rules = front.rules();
        let router = |stop: CancellationToken| {
            let routes = UppFront::new(tasks, rules, stop);
            Router::new().fallback_service(service_fn(move |request| {
                let routes = routes.clone();
                async move { Ok::<_, Infallible>(routes.answer(request).await) }
            }))
        };
        let front = front.serve("UPP programs", router).await?;
        Ok(RunningGateway::new("UPP gateway", Self::NAME, front))
    }
}
