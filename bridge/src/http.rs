//! The HTTP front of the A2A gateway: JSON-RPC, REST and gRPC of both versions, cards.
//!
//! One handler stands behind all of them. The one rule: whatever comes in is answered, by a result or by an error in
//! the words of the binding it came by, and is bounded in size and time before it is looked at.

mod admission;
mod card;
pub mod connection;
mod did;
mod directory;
mod drain;
mod extensions;
mod grpc_mux;
mod grpc_size;
mod health;
mod host;
mod json_body;
mod json_rpc;
pub mod mcp;
mod offload;
mod query;
mod refusal;
mod request_body;
mod request_counts;
mod response_body;
mod rest;
mod route;
mod sse;
mod task_events;
pub mod tls;
pub(crate) mod trace;

use std::{convert::Infallible, sync::Arc, time::Duration};

use agentanycast_identity::Keypair;
use axum::{Router, body::Body, extract::Request, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use crate::{
    a2a::{
        error::{A2aError, Reason},
        handler::{A2aHandler, CallContext},
        version::Version,
    },
    auth::Authenticator,
    config::{CallerLimits, CardGrpc},
    grpc,
};
use admission::{AdmittedRequest, ClientConnection, RequestAdmission};
use card::CardTimes;
pub(crate) use card::{card_endpoint, card_v0_3};
use directory::AgentDirectory;
pub(crate) use extensions::declared;
use grpc_mux::GrpcMux;
use health::HealthCache;
pub(crate) use host::RequestHost;
use refusal::{ErrorFormat, HttpRefusal};
use request_body::RequestBody;
pub use request_counts::RequestCounts;
use response_body::bounded_response;
use route::{Resource, Route, RouteError};
pub(crate) use task_events::task_events;

/// The header in which a request says which version it means; also taken as a parameter of the query.
const VERSION: &str = "a2a-version";

/// The header, and the metadata of gRPC, with which a client asks again and has nothing done twice.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The header in which a client that lost a stream names the last event that it has read.
const LAST_EVENT: &str = "last-event-id";

/// What answers of REST are, by the specification.
const A2A_JSON: &str = "application/a2a+json";

/// What answers of JSON-RPC are.
const JSON: &str = "application/json";

/// How the front is to behave.
#[derive(Clone, Debug)]
pub struct A2aFrontConfig {
    /// Where the front is reached, as cards name it; without it, as each request names it.
    pub public_url: Option<String>,
    /// Whether cards have the fields of 0.3 beside those of 1.0.
    pub dual_cards: bool,
    /// How cards list gRPC.
    pub card_grpc: CardGrpc,
    /// Largest body that is read, in bytes.
    pub max_body: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// Whether clients reach it by TLS.
    pub tls: bool,
    /// Who may call.
    pub authenticator: Authenticator,
    /// How much each of them may have.
    pub limits: CallerLimits,
    /// What cards are signed with.
    pub card_key: Option<Keypair>,
    /// Whether the node's own agent has a card for those who are known.
    pub extended_card: bool,
    /// Extensions that agents here understand, and whether a client must declare them.
    pub extensions: Vec<(String, bool)>,
    /// Origins whose pages may call; `*` for any. OriginPolicy of the front's own origin always may.
    pub cors_origins: Vec<String>,
}

/// What all requests share.
#[derive(Clone)]
struct A2aFront(Arc<A2aFrontState>);

struct A2aFrontState {
    handler: Arc<dyn A2aHandler>,
    config: Arc<A2aFrontConfig>,
    admission: Arc<RequestAdmission>,
    card_times: CardTimes,
    health: HealthCache,
    directory: AgentDirectory,
    cors: Option<CorsLayer>,
    request_counts: Arc<RequestCounts>,
    grpc: GrpcMux,
    stop: CancellationToken,
}

/// The front before this handler. Streams end at `stop`; how requests went is counted in `requests`.
pub fn router(
    handler: Arc<dyn A2aHandler>,
    config: A2aFrontConfig,
    requests: Arc<RequestCounts>,
    stop: CancellationToken,
) -> Router {
    let config = Arc::new(config);
    let grpc = grpc::GrpcService::new(Arc::clone(&handler), Arc::clone(&config), stop.clone());
    let grpc = GrpcMux::new(grpc, config.max_body);
    let entry = RequestAdmission::new(
        config.authenticator.clone(),
        config.limits.clone(),
        config.max_body,
    );
    let front = A2aFront(Arc::new(A2aFrontState {
        handler,
        admission: Arc::new(entry),
        card_times: CardTimes::default(),
        health: HealthCache::default(),
        directory: AgentDirectory::default(),
        cors: cors(
            &config.cors_origins,
            &[http::Method::GET, http::Method::POST, http::Method::DELETE],
            &[
                header::CONTENT_TYPE,
                header::AUTHORIZATION,
                HeaderName::from_static(VERSION),
                HeaderName::from_static(IDEMPOTENCY_KEY),
                HeaderName::from_static(LAST_EVENT),
                HeaderName::from_static(extensions::HEADER),
                HeaderName::from_static(extensions::OLD_HEADER),
                header::IF_NONE_MATCH,
                header::IF_MODIFIED_SINCE,
            ],
            &[
                HeaderName::from_static(VERSION),
                HeaderName::from_static(extensions::HEADER),
                HeaderName::from_static(extensions::OLD_HEADER),
                header::WWW_AUTHENTICATE,
                header::RETRY_AFTER,
                header::ETAG,
                header::LAST_MODIFIED,
                header::LOCATION,
                header::ALLOW,
            ],
        ),
        config,
        request_counts: requests,
        grpc,
        stop,
    }));
    // One service, not a stack of layers: each layer of axum costs allocations for every request, and a poll whenever one
    // goes on, together more than what is done here.
    Router::new().fallback_service(service_fn(move |request: Request| {
        let front = front.clone();
        async move { Ok::<_, Infallible>(front.serve(request).await) }
    }))
}

impl A2aFront {
    /// Answers a request, and sees to what surrounds an answer.
    async fn serve(&self, request: Request) -> Response {
        let response = drain::answer(request, async |request| match &self.0.cors {
            None => self.extended(request).await,
            Some(cors) => {
                let inner = service_fn(|request: Request| async move {
                    Ok::<_, Infallible>(self.extended(request).await)
                });
                let Ok(response) = cors.layer(inner).oneshot(request).await;
                response
            }
        })
        .await;
        self.0.request_counts.count(&response);
        response
    }

    /// Answers, and says which extensions that activated.
    async fn extended(&self, request: Request) -> Response {
        let activated = extensions::activated(&self.0.config, request.headers());
        let mut response = match grpc_mux::version(&request) {
            Some(version) => Box::pin(grpc_mux::answer(self, version, request)).await,
            None => answer(self, request).await,
        };
        response.headers_mut().extend(activated);
        response
    }
}

/// What browsers are told about pages of other origins: which methods and headers they may send, which headers read.
/// Without origins: nothing, which they take for a no.
fn cors(
    origins: &[String],
    methods: &[http::Method],
    sent: &[HeaderName],
    read: &[HeaderName],
) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let layer = CorsLayer::new()
        .allow_methods(methods.to_vec())
        .allow_headers(sent.to_vec())
        .expose_headers(read.to_vec());
    if origins.iter().any(|origin| origin == "*") {
        return Some(layer.allow_origin(Any));
    }
    // The configuration has checked that each is a legal header.
    let origins: Vec<HeaderValue> = origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    Some(layer.allow_origin(AllowOrigin::list(origins)))
}

async fn answer(front: &A2aFront, request: Request) -> Response {
    if did::is_asked_for(&request) {
        let peer = request.extensions().get::<ClientConnection>().cloned();
        let place = match front.0.admission.admit_anonymous(peer.as_ref()) {
            Ok(place) => place,
            Err(refusal) => return refusal.http(ErrorFormat::Rest(Version::V10)),
        };
        if let Some(document) = Box::pin(did::answer(&front.0, request.uri().path())).await {
            return bounded_response(document, place)
                .unwrap_or_else(|refusal| refusal.http(ErrorFormat::Rest(Version::V10)));
        }
    }
    let Route {
        target,
        base,
        resource: what,
    } = match route::route(request.method(), request.uri().path()) {
        Ok(route) => route,
        Err(lost) => return not_found(lost),
    };
    let peer = request.extensions().get::<ClientConnection>().cloned();
    let words = what.error_format();
    if matches!(what, Resource::Health | Resource::Card) {
        let place = match front.0.admission.admit_anonymous(peer.as_ref()) {
            Ok(place) => place,
            Err(refusal) => return refusal.http(words),
        };
        let response = if what == Resource::Health {
            front.0.health.answer(&*front.0.handler).await
        } else {
            let host = RequestHost::from_request(&request);
            Box::pin(card::answer(&front.0, &target, &base, host, request.headers())).await
        };
        return bounded_response(response, place).unwrap_or_else(|refusal| refusal.http(words));
    }
    if let Err(refusal) = front.0.config.origin_policy().check(&request) {
        return refusal.http(words);
    }
    let AdmittedRequest {
        caller,
        permit: place,
    } = match front.0.admission.admit(request.headers(), peer.as_ref()).await {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.http(words),
    };
    let within = front.0.config.body_timeout;
    let mut request = request.map(|body| Body::new(RequestBody::new(body, &place, within)));
    request.extensions_mut().insert(place.clone());
    let address = CallContext {
        target,
        caller: caller.as_str().to_owned(),
        extensions: extensions::declared(&front.0.config, request.headers()),
        trace: trace::trace_headers(request.headers()),
        idempotency_key: idempotency_key(request.headers()),
        last_event: last_event(request.headers()),
    };
    let base = base.as_str();
    let response = match what {
        Resource::Agents | Resource::Skills | Resource::Page => {
            front.0.directory.answer(&*front.0.handler, &what).await
        }
        Resource::Health | Resource::Card | Resource::JsonRpc => {
            json_rpc::answer(&front.0, address, base, request).await
        }
        Resource::Rest {
            version,
            method,
            tenant,
            id,
            webhook,
        } => {
            let place = rest::RestPath {
                version,
                tenant,
                id,
                webhook,
            };
            rest::answer(&front.0, address, base, method, place, request).await
        }
    };
    place.release_body();
    bounded_response(response, place).unwrap_or_else(|refusal| refusal.http(words))
}

/// The number of the last event that a client has read of a stream; none if it is not one of ours.
fn last_event(headers: &HeaderMap) -> Option<u64> {
    headers.get(LAST_EVENT)?.to_str().ok()?.trim().parse().ok()
}

/// The idempotency key of a request; several that differ are made one that is refused.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Option<String> {
    let given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let mut given: Vec<&str> = given.map(|value| value.to_str().unwrap_or("\n")).collect();
    given.dedup();
    (!given.is_empty()).then(|| given.join("\n"))
}

/// Whose pages may call.
struct OriginPolicy<'a> {
    /// Origins that are listed.
    origins: &'a [String],
    /// Where the front is, if that is configured.
    public_url: Option<&'a str>,
    /// Whether callers must say who they are.
    requires_credentials: bool,
}

impl A2aFrontConfig {
    fn origin_policy(&self) -> OriginPolicy<'_> {
        OriginPolicy {
            origins: &self.cors_origins,
            public_url: self.public_url.as_deref(),
            requires_credentials: self.authenticator.requires_credentials(),
        }
    }
}

impl OriginPolicy<'_> {
    /// Checks that the page that a browser may send a request for may call.
    ///
    /// Browsers keep answers from pages of other origins, but not requests from us. Where everybody may call, the name of
    /// the host proves nothing either: a page can have a name of its own lead to this host. What only reads, and comes
    /// without an origin, may be from such a page: browsers leave it out where a page reads from its own one.
    fn check(&self, request: &Request) -> Result<(), HttpRefusal> {
        if let Some(origin) = request.headers().get(header::ORIGIN) {
            return if self.allows_origin(origin.to_str().unwrap_or_default(), request) {
                Ok(())
            } else {
                Err(HttpRefusal::foreign_origin())
            };
        }
        let only_reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if self.requires_credentials || !only_reads {
            return Ok(());
        }
        match RequestHost::from_request(request) {
            Ok(host) if !host.is_literal() && !host.is_unregistrable() && !self.is_public(host.as_str()) => {
                Err(HttpRefusal::foreign_host(host.as_str()))
            }
            _ => Ok(()),
        }
    }

    /// Whether this is the host of the configured URL.
    fn is_public(&self, host: &str) -> bool {
        let authority = self.public_url.and_then(|url| url.split('/').nth(2));
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    }

    /// Whether pages of this origin may call.
    fn allows_origin(&self, origin: &str, request: &Request) -> bool {
        if self
            .origins
            .iter()
            .any(|allowed| allowed == "*" || allowed == origin)
        {
            return true;
        }
        if self
            .public_url
            .is_some_and(|url| url.split('/').take(3).eq(origin.split('/')))
        {
            return true;
        }
        let Ok(host) = RequestHost::from_request(request) else {
            return false;
        };
        let is_own = origin
            .split_once("://")
            .is_some_and(|(_, authority)| authority == host.as_str());
        is_own && (self.requires_credentials || host.is_literal())
    }
}

fn not_found(lost: RouteError) -> Response {
    match lost {
        RouteError::NoSuchPath(version) => {
            let text = match version {
                Version::V10 => "there is nothing at this path",
                Version::V03 => {
                    "REST of 0.3 has nothing at this path; it has /v1/message:send, /v1/message:stream, /v1/tasks, \
                     /v1/tasks/ID, with :cancel, :subscribe and /pushNotificationConfigs, and /v1/card"
                }
            };
            failed(version, &A2aError::new(Reason::MethodNotFound, text))
        }
        RouteError::NotAllowed(version, verbs) => {
            let text = format!("this path takes {verbs}");
            let mut body = A2aError::new(Reason::MethodNotFound, text).rest(version);
            if version == Version::V10 {
                body["error"]["code"] = 405.into();
                body["error"]["status"] = "UNIMPLEMENTED".into();
            }
            let mut response = response(StatusCode::METHOD_NOT_ALLOWED, JSON, &body);
            if let Ok(verbs) = HeaderValue::from_str(verbs) {
                response.headers_mut().insert(header::ALLOW, verbs);
            }
            response
        }
    }
}

/// A failure in the words of REST.
fn failed(version: Version, error: &A2aError) -> Response {
    let mut response = response(status_of(version, error), JSON, &error.rest(version));
    set_retry_after(&mut response, error.reason());
    response
}

fn status_of(version: Version, error: &A2aError) -> StatusCode {
    StatusCode::from_u16(error.reason().http(version)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Says when to ask again, if that helps.
fn set_retry_after(response: &mut Response, reason: Reason) {
    if let Some(wait) = reason.retry_after() {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, admission::seconds(wait).into());
    }
}

/// A response of JSON.
fn response(status: StatusCode, media_type: &'static str, body: &Value) -> Response {
    // Not by `Display`, which has each piece pass through a formatter. A `Value` is always JSON.
    let mut response = Response::new(Body::from(serde_json::to_vec(body).unwrap_or_default()));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

/// Which version a request says it means.
fn version_asked(headers: &HeaderMap, query: &[(String, String)]) -> Option<String> {
    let given = headers.get_all(VERSION).iter();
    // What is no text is no version either.
    let in_header = single_value(given.map(|value| value.to_str().unwrap_or("?")));
    in_header.or_else(|| {
        let mut pairs = query.iter();
        pairs
            .find(|(name, _)| name.eq_ignore_ascii_case(VERSION))
            .map(|(_, value)| value.clone())
    })
}

/// What lines of a header say that is to say one thing; those that differ, as HTTP joins lines, are nothing that is known.
pub(crate) fn single_value<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut said = lines.next()?.to_owned();
    for line in lines {
        if said != line && said.len() < 64 {
            said = format!("{said}, {line}");
        }
    }
    Some(said)
}

#[cfg(test)]
mod tests;
