//! What the port answers: the WebSocket at `/ws`, and the REST routes beside it.
//!
//! Invariant: a client that is not admitted is refused before its socket is opened.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentanycast_aip::{
    endpoints::{ClientCaller, ConnectedClient, DeviceService, DispatchError},
    messages::{ClientRole, MAX_MESSAGE, sanitize_task_name},
};
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
use lru::LruCache;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::{client_keys::ClientKeys, socket};

/// Largest body of a REST request, in bytes.
const MOST_BODY: usize = 1 << 20;

/// Tasks of strangers that are remembered, as many as have results.
const MOST_OF_STRANGERS: NonZeroUsize = NonZeroUsize::new(1000).expect("not zero");

/// What the port answers. Cheap to clone.
#[derive(Clone)]
pub(super) struct AipFront {
    service: DeviceService,
    rules: Arc<FrontRules>,
    keys: Arc<ClientKeys>,
    /// The sessions of tasks that strangers gave devices: of other tasks they are not told.
    of_strangers: Arc<Mutex<LruCache<String, ()>>>,
}

impl AipFront {
    pub(super) fn new(service: DeviceService, rules: Arc<FrontRules>, keys: Arc<ClientKeys>) -> Self {
        Self {
            service,
            rules,
            keys,
            of_strangers: Arc::new(Mutex::new(LruCache::new(MOST_OF_STRANGERS))),
        }
    }

    fn of_strangers(&self) -> MutexGuard<'_, LruCache<String, ()>> {
        self.of_strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request.
    pub(super) async fn answer(&self, mut request: Request) -> Response {
        take_token(&mut request);
        let is_socket = request.uri().path() == "/ws";
        let answered = if is_socket {
            self.open(request).await
        } else {
            self.rest(request).await
        };
        answered.unwrap_or_else(|refusal| refused(&refusal, is_socket))
    }

    async fn open(&self, mut request: Request) -> Result<Response, Refusal> {
        let bound = self.bound(&request)?;
        let (admitted, client_id) = match bound {
            Some((admitted, client_id)) => (admitted, Some(client_id)),
            None => (self.rules.admit(&request).await?, None),
        };
        let service = self.service.clone();
        let caller = ClientCaller {
            name: admitted.caller.as_str().to_owned(),
            client_id,
            is_stranger: admitted.caller.is_stranger(),
        };
        let place = admitted.permit.clone();
        websocket::upgrade(&mut request, admitted.permit, MAX_MESSAGE, async move |socket| {
            // The service bounds its clients, and the listener the connections of an address.
            place.leave_place();
            drop(place);
            service
                .serve_caller(socket::transport(socket), Some(caller))
                .await;
        })
    }

    /// A client with the token of its own key, and the id that it may register.
    fn bound(&self, request: &Request) -> Result<Option<(AdmittedRequest, String)>, Refusal> {
        let shown = request.headers().get(header::AUTHORIZATION);
        let shown = shown.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let Some((token, claimed)) = shown.and_then(|token| Some((token, self.keys.claimed(token)?))) else {
            return Ok(None);
        };
        let admitted = self.rules.admit_proven(request, || claimed.verify(token))?;
        Ok(Some((admitted, claimed.client_id)))
    }

    async fn rest(&self, request: Request) -> Result<Response, Refusal> {
        let admitted = self.rules.admit(&request).await?;
        let caller = ClientCaller {
            name: admitted.caller.as_str().to_owned(),
            client_id: None,
            is_stranger: admitted.caller.is_stranger(),
        };
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let answer = match (&head.method, path) {
            (&Method::GET, "/api/health") => {
                let clients = self.clients(&caller).await;
                let ids: Vec<_> = clients.iter().map(|client| &client.client_id).collect();
                json!({ "status": "healthy", "online_clients": ids })
            }
            (&Method::GET, "/api/clients") => {
                let clients = self.clients(&caller).await;
                let ids: Vec<_> = clients.iter().map(|client| &client.client_id).collect();
                let shown = clients.iter().map(|client| {
                    json!({
                        "client_id": client.client_id, "client_type": client.role,
                        "target_id": client.target_id, "metadata": client.metadata,
                    })
                });
                json!({ "online_clients": ids, "clients": shown.collect::<Vec<_>>() })
            }
            (&Method::POST, "/api/dispatch") => {
                let most = MOST_BODY.min(self.rules.max_body());
                let body = json_body::read(most, &head.headers, body, Some(&admitted.permit)).await?;
                return self.dispatch(&body, &caller).await;
            }
            (&Method::GET, path) => match path.strip_prefix("/api/task_result/") {
                Some(name) => match self.task_result(name, &caller) {
                    Some(result) => result,
                    None => return Ok(detail(StatusCode::NOT_FOUND, "no task has this name")),
                },
                None => return Ok(detail(StatusCode::NOT_FOUND, "there is no such path")),
            },
            _ => return Ok(detail(StatusCode::NOT_FOUND, "there is no such path")),
        };
        Ok(response(StatusCode::OK, JSON, &answer))
    }

    /// The clients that are connected; a stranger sees the devices alone that it may use.
    async fn clients(&self, caller: &ClientCaller) -> Vec<ConnectedClient> {
        let clients = self.service.clients();
        if !caller.is_stranger {
            return clients;
        }
        let mut shown = Vec::new();
        for client in clients {
            if client.role == ClientRole::Device && self.service.may_use(&client.client_id, caller).await {
                shown.push(client);
            }
        }
        shown
    }

    async fn dispatch(&self, body: &Value, caller: &ClientCaller) -> Result<Response, Refusal> {
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
        if self.service.client(client_id).is_some() && !self.service.may_use(client_id, caller).await {
            let text = format!("device '{client_id}' is private; ask its owner for an invite");
            return Ok(detail(StatusCode::FORBIDDEN, &text));
        }
        Ok(match self.service.dispatch(client_id, asked, &task_name).await {
            Ok(task) => {
                if caller.is_stranger {
                    self.of_strangers().put(task.session_id.clone(), ());
                }
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

    fn task_result(&self, name: &str, caller: &ClientCaller) -> Option<Value> {
        let report = self.service.task_result(&sanitize_task_name(name))?;
        if caller.is_stranger && !self.of_strangers().contains(&report.session_id) {
            return None;
        }
        Some(match report.outcome {
            Some(outcome) => json!({
                "status": "done", "completed": outcome.completed, "result": outcome.result,
                "error": outcome.error, "session_id": report.session_id,
            }),
            None => json!({ "status": "pending", "session_id": report.session_id }),
        })
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
