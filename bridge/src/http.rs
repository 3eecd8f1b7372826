//! The HTTP front of the A2A gateway: JSON-RPC of both versions, REST and gRPC of 1.0, cards.
//!
//! One handler stands behind all of them. The one rule: whatever comes in is answered, by a result or by an error in
//! the words of the binding it came by, and is bounded in size and time before it is looked at.

mod body;
mod callers;
mod card;
pub mod connection;
mod extensions;
mod json_rpc;
mod rest;
mod route;
mod sse;
pub mod tls;

use std::{sync::Arc, time::Duration};

use agentanycast_identity::Keypair;
use agentanycast_proto::a2a::a2a_service_server::A2aServiceServer;
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware,
    response::Response,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use crate::{
    a2a::{
        error::{A2aError, Reason},
        mesh::{Address, Handler},
    },
    grpc,
};
pub use callers::Callers;
use card::Shown;
pub(crate) use card::front;
pub(crate) use extensions::declared;
pub(crate) use route::peer;
use route::{Lost, Route, What};

/// The header in which a request says which version it means; also taken as a parameter of the query.
const VERSION: &str = "a2a-version";

/// Where the gRPC binding is.
const GRPC: &str = "/lf.a2a.v1.A2AService/{*method}";

/// What answers of REST are, by the specification.
const A2A_JSON: &str = "application/a2a+json";

/// What answers of JSON-RPC are.
const JSON: &str = "application/json";

/// How long the node may take to show that it is there.
const HEALTH_WITHIN: Duration = Duration::from_secs(2);

/// How the front is to behave.
#[derive(Clone, Debug)]
pub struct FrontConfig {
    /// Where the front is reached, as cards name it; without it, as each request names it.
    pub public_url: Option<String>,
    /// Whether cards have the fields of 0.3 beside those of 1.0.
    pub dual_cards: bool,
    /// Largest body that is read, in bytes.
    pub max_body: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// Whether clients reach it by TLS.
    pub tls: bool,
    /// Who may call.
    pub callers: Callers,
    /// What cards are signed with.
    pub card_key: Option<Keypair>,
    /// Whether the node's own agent has a card for those who are known.
    pub extended_card: bool,
    /// Extensions that agents here understand, and whether a client must declare them.
    pub extensions: Vec<(String, bool)>,
    /// Origins whose pages may call; `*` for any. Pages of the front's own origin always may.
    pub cors_origins: Vec<String>,
}

/// What all requests share.
#[derive(Clone)]
struct Front(Arc<Shared>);

struct Shared {
    handler: Arc<dyn Handler>,
    config: Arc<FrontConfig>,
    shown: Shown,
    stop: CancellationToken,
}

/// The front before this handler. Streams end at `stop`.
pub fn router(handler: Arc<dyn Handler>, config: FrontConfig, stop: CancellationToken) -> Router {
    let config = Arc::new(config);
    let service = grpc::Service::new(Arc::clone(&handler), Arc::clone(&config), stop.clone());
    let service = A2aServiceServer::new(service)
        .max_decoding_message_size(config.max_body)
        .max_encoding_message_size(usize::MAX);
    // A call of gRPC does not show its authority otherwise.
    let service = ServiceBuilder::new()
        .map_request(|mut request: Request| {
            let host = Host(host(&request).to_owned());
            request.extensions_mut().insert(host);
            request
        })
        .service(service);
    let cors = cors(&config.cors_origins);
    let known = middleware::from_fn_with_state(Arc::clone(&config), extensions::answer);
    let front = Front(Arc::new(Shared {
        handler,
        config,
        shown: Shown::default(),
        stop,
    }));
    Router::new()
        .route_service(GRPC, service)
        .fallback(answer)
        .with_state(front)
        .layer(known)
        .layer(cors)
}

/// What browsers are told about pages of other origins. Without origins: nothing, which they take for a no.
fn cors(origins: &[String]) -> CorsLayer {
    let layer = CorsLayer::new();
    if origins.is_empty() {
        return layer;
    }
    let layer = layer
        .allow_methods([http::Method::GET, http::Method::POST, http::Method::DELETE])
        .allow_headers([
            header::CONTENT_TYPE,
            header::AUTHORIZATION,
            HeaderName::from_static(VERSION),
            HeaderName::from_static(extensions::HEADER),
            HeaderName::from_static(extensions::OLD_HEADER),
        ])
        .expose_headers([HeaderName::from_static(extensions::HEADER)]);
    if origins.iter().any(|origin| origin == "*") {
        return layer.allow_origin(Any);
    }
    // The configuration has checked that each is a legal header.
    let origins: Vec<HeaderValue> = origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    layer.allow_origin(AllowOrigin::list(origins))
}

async fn answer(State(front): State<Front>, request: Request) -> Response {
    let Route { target, base, what } = match route::route(request.method(), request.uri().path()) {
        Ok(route) => route,
        Err(lost) => return nowhere(lost),
    };
    if what == What::Health {
        return health(&front.0).await;
    }
    if what == What::Card {
        let host = host(&request).to_owned();
        return card::answer(&front.0, &target, &base, &host, request.headers()).await;
    }
    let Some(caller) = front.0.config.callers.name(request.headers()) else {
        return stranger();
    };
    let address = Address {
        target,
        caller: caller.to_owned(),
        extensions: extensions::declared(&front.0.config, request.headers()),
    };
    let base = base.as_str();
    match what {
        What::Health | What::Card | What::JsonRpc => {
            json_rpc::answer(&front.0, &address, base, request).await
        }
        What::Rest {
            method,
            tenant,
            id,
            webhook,
        } => {
            let place = rest::Place { tenant, id, webhook };
            rest::answer(&front.0, &address, base, method, place, request).await
        }
    }
}

/// Whether the node answers.
async fn health(shared: &Shared) -> Response {
    let checked = tokio::time::timeout(HEALTH_WITHIN, shared.handler.check()).await;
    if matches!(checked, Ok(Ok(()))) {
        return response(StatusCode::OK, JSON, &json!({"status": "ok"}));
    }
    let body = json!({"status": "unavailable", "message": "the daemon does not answer"});
    response(StatusCode::SERVICE_UNAVAILABLE, JSON, &body)
}

/// Where the client of a call thinks it is.
#[derive(Clone, Debug)]
pub(crate) struct Host(pub(crate) String);

/// Where the client thinks it is: HTTP/1.1 says so in a header, HTTP/2 in the request line.
fn host(request: &Request) -> &str {
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let header = || request.headers().get(header::HOST)?.to_str().ok();
    authority.or_else(header).unwrap_or("localhost")
}

/// The answer to whoever may not call.
fn stranger() -> Response {
    let body = json!({"error": {
        "code": 401,
        "status": "UNAUTHENTICATED",
        "message": "this needs a Bearer token that is known here",
    }});
    let mut response = response(StatusCode::UNAUTHORIZED, JSON, &body);
    let scheme = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    response
}

fn nowhere(lost: Lost) -> Response {
    match lost {
        Lost::NoSuchPath => {
            let error = A2aError::new(Reason::MethodNotFound, "there is nothing at this path");
            response(StatusCode::NOT_FOUND, JSON, &error.rest())
        }
        Lost::NotAllowed(verbs) => {
            let body = json!({"error": {
                "code": 405,
                "status": "UNIMPLEMENTED",
                "message": format!("this path takes {verbs}"),
            }});
            let mut response = response(StatusCode::METHOD_NOT_ALLOWED, JSON, &body);
            if let Ok(verbs) = HeaderValue::from_str(verbs) {
                response.headers_mut().insert(header::ALLOW, verbs);
            }
            response
        }
    }
}

/// A response of JSON.
fn response(status: StatusCode, media_type: &'static str, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

/// Which version a request says it means.
fn version_asked(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    // What is no text is no version either.
    let in_header = headers
        .get(VERSION)
        .map(|value| value.to_str().unwrap_or("?").to_owned());
    in_header.or_else(|| {
        let mut pairs = query(uri).into_iter();
        pairs
            .find(|(name, _)| name.eq_ignore_ascii_case(VERSION))
            .map(|(_, value)| value)
    })
}

/// The parameters of a query; what is no text is left out.
fn query(uri: &Uri) -> Vec<(String, String)> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let decoded = pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let text = |coded: &str| route::decode(&coded.replace('+', " "));
        Some((text(name)?, text(value)?)).filter(|(name, _)| !name.is_empty())
    });
    decoded.collect()
}

#[cfg(test)]
mod tests;
