//! The HTTP front of the MCP gateway: Streamable HTTP at `/mcp`, without sessions.
//!
//! Callers come in as they do to the A2A front, by the same code. The official SDK speaks the protocol behind it. The one
//! rule: a body is bounded and read here before the SDK sees it, and the SDK is given none of its arguments, which may be
//! large: the call that they are goes around it.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use agentanycast_daemon_kit::json_lines::Escaper;
use agentanycast_front::{
    admission::{AdmittedRequest, RequestAdmission, RequestPermit},
    auth::Authenticator,
    client_connection::ClientConnection,
    cors::cors,
    json_body,
    json_response::{JSON, response},
    offload,
    origin_policy::{BRIDGE_ORIGINS, OriginPolicy},
    refusal::{Refusal, RefusalKind},
    request_body::RequestBody,
    response_body::bounded_response,
    trace,
};
use agentanycast_gateways::front::CallerLimits;
use axum::{Router, body::Body, extract::Request, response::Response};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::cors::CorsLayer;

use crate::{McpCaller, McpContext, McpServer, ParsedCall, ToolHandler, call, tool_name::ToolName};

/// Where it is.
const PATH: &str = "/mcp";

/// Largest body that holds no message for an agent, in bytes.
const CONTROL: usize = 64 << 10;

/// How often a silent stream says that it is alive, so that nobody on the way takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The code of a request that does not come in: the first of those that servers may give a meaning.
const REFUSED: i64 = -32000;

/// Errors of JSON-RPC.
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;

/// How the front is to behave.
#[derive(Clone, Debug)]
pub(crate) struct McpFrontConfig {
    /// Who may call.
    pub authenticator: Authenticator,
    /// How much each of them may have.
    pub limits: CallerLimits,
    /// Largest body that is read, in bytes.
    pub max_body: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// Origins whose pages may call; `*` for any. OriginPolicy of the front's own origin always may.
    pub cors_origins: Vec<String>,
}

/// What all requests share.
#[derive(Clone)]
struct McpFront(Arc<McpFrontState>);

struct McpFrontState {
    config: McpFrontConfig,
    admission: Arc<RequestAdmission>,
    cors: Option<CorsLayer>,
    sdk: StreamableHttpService<McpServer, NeverSessionManager>,
}

/// The front before these tools. Streams end at `stop`.
pub(crate) fn router(tools: Arc<ToolHandler>, config: McpFrontConfig, stop: CancellationToken) -> Router {
    let server = McpServer::over_http(tools);
    // Where requests may come from is checked here. Without sessions there are none to bound.
    let sdk = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_legacy_session_mode(false)
        .with_sse_keep_alive(Some(KEEP_ALIVE))
        .with_sse_retry(None)
        .with_max_request_body_bytes(config.max_body)
        .with_cancellation_token(stop);
    let entry = RequestAdmission::new(
        config.authenticator.clone(),
        config.limits.clone(),
        config.max_body,
    );
    let front = McpFront(Arc::new(McpFrontState {
        admission: Arc::new(entry),
        cors: cors(
            &config.cors_origins,
            &[Method::POST],
            &[
                header::CONTENT_TYPE,
                header::AUTHORIZATION,
                HeaderName::from_static("mcp-protocol-version"),
                HeaderName::from_static("mcp-method"),
                HeaderName::from_static("mcp-name"),
            ],
            &[header::WWW_AUTHENTICATE, header::RETRY_AFTER, header::ALLOW],
        ),
        sdk: StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), sdk),
        config,
    }));
    Router::new().fallback_service(service_fn(move |request: Request| {
        let front = front.clone();
        async move { Ok::<_, Infallible>(front.serve(request).await) }
    }))
}

impl McpFront {
    async fn serve(&self, request: Request) -> Response {
        match &self.0.cors {
            None => answer(&self.0, request).await,
            Some(cors) => {
                let inner = service_fn(|request: Request| async move {
                    Ok::<_, Infallible>(answer(&self.0, request).await)
                });
                let Ok(response) = cors.layer(inner).oneshot(request).await;
                response
            }
        }
    }
}

async fn answer(front: &McpFrontState, request: Request) -> Response {
    let path = request.uri().path();
    if path.strip_suffix('/').unwrap_or(path) != PATH {
        let text = format!("there is nothing at this path; MCP is at {PATH}");
        return failed(StatusCode::NOT_FOUND, INVALID_REQUEST, text);
    }
    if request.method() != Method::POST {
        let text =
            "this path takes POST; there are no sessions, so there is no stream to GET and nothing to DELETE";
        let mut response = failed(StatusCode::METHOD_NOT_ALLOWED, INVALID_REQUEST, text);
        let verbs = HeaderValue::from_static("POST");
        response.headers_mut().insert(header::ALLOW, verbs);
        return response;
    }
    let config = &front.config;
    let pages = OriginPolicy {
        origins: &config.cors_origins,
        setting: BRIDGE_ORIGINS,
        public_url: None,
        requires_credentials: config.authenticator.requires_credentials(),
    };
    if let Err(refusal) = pages.check(&request) {
        return refused(&refusal);
    }
    let peer = request.extensions().get::<ClientConnection>().cloned();
    let AdmittedRequest {
        caller,
        permit: place,
    } = match front.admission.admit(request.headers(), peer.as_ref()).await {
        Ok(admitted) => admitted,
        Err(refusal) => return refused(&refusal),
    };
    let caller = McpCaller {
        identity: (&caller).into(),
        trace: trace::trace_headers(request.headers()),
    };
    let within = config.body_timeout;
    let request = request.map(|body| Body::new(RequestBody::new(body, &place, within)));
    let (mut head, content) = request.into_parts();
    let bytes = match json_body::take(config.max_body, &head.headers, content).await {
        Ok(bytes) => bytes,
        Err(error) => return unreadable(&error),
    };
    let held = place.clone();
    let SplitRequest {
        tool_call: asked,
        rest,
    } = match offload::offload(bytes.len(), move || read(bytes, &held)).await {
        Ok(letter) => letter,
        Err(response) => return *response,
    };
    head.extensions.insert(McpContext {
        caller,
        tool_call: Arc::new(Mutex::new(asked)),
    });
    if takes_anything(&head.headers) {
        let both = HeaderValue::from_static("application/json, text/event-stream");
        head.headers.insert(header::ACCEPT, both);
    }
    let request = http::Request::from_parts(head, Full::new(rest));
    let response = front.sdk.handle(request).await;
    // The SDK writes a JSON document a line here. Other bodies are not framed by lines; they are escaped
    // alike.
    let mut escaper = Escaper::default();
    let response = response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            frame.map_data(|piece: Bytes| {
                let mut escaped = Vec::with_capacity(piece.len());
                escaper.push(&piece, &mut escaped);
                Bytes::from(escaped)
            })
        }))
    });
    bounded_response(response, place).unwrap_or_else(|refusal| refused(&refusal))
}

/// Whether the client takes an answer of any media type. The SDK wants both of the protocol's types by their names.
fn takes_anything(headers: &http::HeaderMap) -> bool {
    let mut accepts = headers.get_all(header::ACCEPT).into_iter();
    let any = |accept: &HeaderValue| {
        let types = accept.to_str().unwrap_or_default().split(',');
        let mut types = types.map(|given| given.split(';').next().unwrap_or_default().trim());
        types.any(|given| given == "*/*")
    };
    !headers.contains_key(header::ACCEPT) || accepts.any(any)
}

/// A request that was read.
struct SplitRequest {
    /// The call of a tool in it.
    tool_call: Option<ParsedCall>,
    /// What of it is the SDK's matter.
    rest: Bytes,
}

/// The room of a body in memory, until it is dropped.
struct BodyPermit(RequestPermit);

impl Drop for BodyPermit {
    fn drop(&mut self) {
        self.0.release_body();
    }
}

/// Reads a body.
fn read(bytes: Vec<u8>, place: &RequestPermit) -> Result<SplitRequest, Box<Response>> {
    let length = bytes.len();
    let parsed = json_body::parse(&bytes, Some(place));
    drop(bytes);
    let held = BodyPermit(place.clone());
    let value = parsed.map_err(|error| Box::new(unreadable(&error)))?;
    let invalid = |text: &str| {
        let text = text.to_owned();
        Box::new(failed(StatusCode::BAD_REQUEST, INVALID_REQUEST, text))
    };
    let mut message = match value {
        Value::Object(message) => message,
        Value::Array(_) => return Err(invalid("batches are not taken; send one message at a time")),
        _ => return Err(invalid("a message of JSON-RPC is an object")),
    };
    if message.get("jsonrpc") != Some(&json!("2.0")) {
        return Err(invalid("jsonrpc must be \"2.0\""));
    }
    let call = take_call(&mut message);
    let is_large = length > CONTROL;
    if is_large && !call.as_ref().is_some_and(|(tool, _)| tool.takes_message()) {
        let text =
            format!("the body has {length} bytes; only ask_agent and reply_to_task take more than {CONTROL}");
        return Err(Box::new(failed(
            StatusCode::PAYLOAD_TOO_LARGE,
            INVALID_REQUEST,
            text,
        )));
    }
    let rest = Bytes::from(Value::Object(message).to_string());
    let asked = call.map(|(tool, arguments)| ParsedCall {
        call: arguments.and_then(|arguments| call::read(tool, arguments)),
        memory: Box::new(held),
    });
    Ok(SplitRequest {
        tool_call: asked,
        rest,
    })
}

/// The call of a tool in a message, if there is one, without which the message stays.
type ExtractedCall = (ToolName, Result<Map<String, Value>, String>);

fn take_call(message: &mut Map<String, Value>) -> Option<ExtractedCall> {
    if message.get("method") != Some(&json!("tools/call")) {
        return None;
    }
    let params = message.get_mut("params")?.as_object_mut()?;
    let tool = ToolName::named(params.get("name")?.as_str()?)?;
    let arguments = match params.remove("arguments") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(arguments)) => Ok(arguments),
        Some(_) => Err("arguments must be an object".to_owned()),
    };
    Some((tool, arguments))
}

/// A body that cannot be read.
fn unreadable(error: &Refusal) -> Response {
    let code = match error.kind() {
        RefusalKind::Malformed => PARSE_ERROR,
        _ => INVALID_REQUEST,
    };
    let status = match error.kind() {
        RefusalKind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        RefusalKind::Exhausted => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::BAD_REQUEST,
    };
    failed(status, code, error.to_string())
}

/// A request that does not come in.
fn refused(refusal: &Refusal) -> Response {
    let mut status = refusal.status();
    let mut response = failed(status, REFUSED, refusal.to_string());
    refusal.write_head(&mut status, response.headers_mut());
    *response.status_mut() = status;
    response
}

/// An error of the protocol, before it is known of which request.
fn failed(status: StatusCode, code: i64, text: impl Into<String>) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": text.into()}});
    response(status, JSON, &body)
}

#[cfg(test)]
mod tests;
