//! What the port answers: the WebSocket at `/ws`, and the REST routes beside it.
//!
//! Invariant: a client that is not admitted is refused before its socket is opened.

use std::sync::Arc;

use agentanycast_front::{
    admission::AdmittedRequest,
    front::FrontRules,
    json_body,
    json_response::{JSON, response},
    refusal::{Refusal, RefusalKind},
    websocket,
};
use axum::{extract::Request, response::Response};
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};
use url::form_urlencoded;

use super::socket;
use crate::{
    endpoints::{DeviceService, DispatchError},
    messages::sanitize_task_name,
};

/// Largest body of a REST request, in bytes.
const MOST_BODY: usize = 1 << 20;

/// What the port answers. Cheap to clone.
#[derive(Clone)]
pub(super) struct AipFront {
    service: DeviceService,
    rules: Arc<FrontRules>,
}

impl AipFront {
    pub(super) fn new(service: DeviceService, rules: Arc<FrontRules>) -> Self {
        Self { service, rules }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, mut request: Request) -> Response {
        take_token(&mut request);
        let is_socket = request.uri().path() == "/ws";
        let admitted = match self.rules.admit(&request).await {
            Ok(admitted) => admitted,
            Err(refusal) => return refused(&refusal, is_socket),
        };
        if is_socket {
            return self
                .open(request, admitted)
                .unwrap_or_else(|refusal| refused(&refusal, true));
        }
        self.rest(request, admitted)
            .await
            .unwrap_or_else(|refusal| refused(&refusal, false))
    }

    fn open(&self, mut request: Request, admitted: AdmittedRequest) -> Result<Response, Refusal> {
        let service = self.service.clone();
        let most = self.rules.max_body();
        let caller = Some(admitted.caller.as_str().to_owned());
        websocket::upgrade(&mut request, admitted.permit, most, async move |socket| {
            service.serve_caller(socket::transport(socket), caller).await;
        })
    }

    async fn rest(&self, request: Request, admitted: AdmittedRequest) -> Result<Response, Refusal> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let answer = match (&head.method, path) {
            (&Method::GET, "/api/health") => {
                json!({ "status": "healthy", "online_clients": self.online() })
            }
            (&Method::GET, "/api/clients") => {
                let clients = self.service.clients();
                let shown = clients.iter().map(|client| {
                    json!({
                        "client_id": client.client_id, "client_type": client.role,
                        "target_id": client.target_id, "metadata": client.metadata,
                    })
                });
                json!({ "online_clients": self.online(), "clients": shown.collect::<Vec<_>>() })
            }
            (&Method::POST, "/api/dispatch") => {
                let most = MOST_BODY.min(self.rules.max_body());
                let body = json_body::read(most, &head.headers, body, Some(&admitted.permit)).await?;
                return self.dispatch(&body).await;
            }
            (&Method::GET, path) => match path.strip_prefix("/api/task_result/") {
                Some(name) => self.task_result(name),
                None => return Ok(detail(StatusCode::NOT_FOUND, "there is no such path")),
            },
            _ => return Ok(detail(StatusCode::NOT_FOUND, "there is no such path")),
        };
        Ok(response(StatusCode::OK, JSON, &answer))
    }

    fn online(&self) -> Vec<String> {
        let clients = self.service.clients().into_iter();
        clients.map(|client| client.client_id).collect()
    }

    async fn dispatch(&self, body: &Value) -> Result<Response, Refusal> {
        let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        let (client_id, asked) = (text("client_id"), text("request"));
        if client_id.is_empty() || asked.is_empty() {
            let text = "client_id and request have to be texts that are not empty";
            return Err(Refusal::new(RefusalKind::Invalid, text));
        }
        let task_name = match text("task_name") {
            "" => uuid::Uuid::new_v4().to_string(),
            name => name.to_owned(),
        };
        Ok(match self.service.dispatch(client_id, asked, &task_name).await {
            Ok(task) => {
                let answer = json!({
                    "status": "dispatched", "task_name": task.task_name, "client_id": client_id,
                    "session_id": task.session_id,
                });
                response(StatusCode::OK, JSON, &answer)
            }
            Err(error @ DispatchError::NotConnected { .. }) => {
                detail(StatusCode::NOT_FOUND, &error.to_string())
            }
            Err(error) => detail(StatusCode::CONFLICT, &error.to_string()),
        })
    }

    fn task_result(&self, name: &str) -> Value {
        match self.service.task_result(&sanitize_task_name(name)) {
            Some(report) => match report.outcome {
                Some(outcome) => json!({
                    "status": "done", "completed": outcome.completed, "result": outcome.result,
                    "error": outcome.error, "session_id": report.session_id,
                }),
                None => json!({ "status": "pending", "session_id": report.session_id }),
            },
            // A task that the device has not taken up has no report yet.
            None => json!({ "status": "pending" }),
        }
    }
}

/// A token in the query or in `X-API-Key` is a bearer token.
fn take_token(request: &mut Request) {
    if request.headers().contains_key(header::AUTHORIZATION) {
        return;
    }
    let query = request.uri().query().unwrap_or_default();
    let from_query = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token");
    let is_socket = request.uri().path() == "/ws";
    let token = if let Some((_, token)) = from_query.filter(|_| is_socket) {
        Some(token.into_owned())
    } else {
        let key = request.headers().get("x-api-key");
        key.and_then(|key| key.to_str().ok()).map(str::to_owned)
    };
    let value = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
    if let Some(value) = value {
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
}

/// A refusal. A socket is refused with 403 where its token is: clients of the protocol look for that.
fn refused(refusal: &Refusal, is_socket: bool) -> Response {
    let mut status = refusal.status();
    let mut answer = detail(status, &refusal.to_string());
    refusal.write_head(&mut status, answer.headers_mut());
    if is_socket && status == StatusCode::UNAUTHORIZED {
        status = StatusCode::FORBIDDEN;
    }
    *answer.status_mut() = status;
    answer
}

fn detail(status: StatusCode, text: &str) -> Response {
    response(status, JSON, &json!({ "detail": text }))
}
