//! The HTTP front of the A2A gateway: JSON-RPC, REST and gRPC of both versions, cards.
//!
//! One handler stands behind all of them. The one rule: whatever comes in is answered, by a result or by an error in
//! the words of the binding it came by, and is bounded in size and time before it is looked at.

mod card;
mod did;
mod directory;
mod health;
mod json_rpc;
mod query;
mod refusal;
mod rest;
mod route;
mod sse;

use std::{convert::Infallible, sync::Arc};

use agentanycast_front::{
    admission::{AdmittedRequest, RequestAdmission},
    client_connection::ClientConnection,
    cors::cors,
    host::RequestHost,
    json_response::{JSON, response},
    refusal::whole_seconds,
    request_body::RequestBody,
    request_counts::RequestCounts,
    response_body::bounded_response,
    trace,
};
use axum::{Router, body::Body, extract::Request, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::cors::CorsLayer;

use crate::{
    client_files::ClientFiles,
    extensions,
    front_config::{A2aFrontConfig, IDEMPOTENCY_KEY, VERSION, idempotency_key, single_value},
    grpc::{
        self,
        mux::{self, GrpcMux},
    },
    handler::{A2aHandler, CallContext},
    protocol::{
        error::{A2aError, Reason},
        version::Version,
    },
};
use card::CardTimes;
use directory::AgentDirectory;
use health::HealthCache;
use refusal::ErrorFormat;
use route::{Resource, Route, RouteError};

/// The header in which a client that lost a stream names the last event that it has read.
const LAST_EVENT: &str = "last-event-id";

/// What answers of REST are, by the specification.
const A2A_JSON: &str = "application/a2a+json";

/// What all requests share.
#[derive(Clone)]
struct A2aFront(Arc<A2aFrontState>);

struct A2aFrontState {
    handler: Arc<dyn A2aHandler>,
    config: Arc<A2aFrontConfig>,
    admission: Arc<RequestAdmission>,
    client_files: Arc<ClientFiles>,
    card_times: CardTimes,
    health: HealthCache,
    directory: AgentDirectory,
    cors: Option<CorsLayer>,
    request_counts: Arc<RequestCounts>,
    grpc: GrpcMux,
    stop: CancellationToken,
}

/// The front before this handler. Streams end at `stop`; how requests went is counted in `requests`.
pub(crate) fn router(
    handler: Arc<dyn A2aHandler>,
    config: A2aFrontConfig,
    requests: Arc<RequestCounts>,
    stop: CancellationToken,
) -> Router {
    let config = Arc::new(config);
    let client_files = Arc::<ClientFiles>::default();
    let grpc = grpc::GrpcService::new(
        Arc::clone(&handler),
        Arc::clone(&config),
        Arc::clone(&client_files),
        stop.clone(),
    );
    let grpc = GrpcMux::new(grpc, config.max_body);
    let entry = RequestAdmission::new(
        config.authenticator.clone(),
        config.limits.clone(),
        config.max_body,
    )
    .with_public_url(config.public_url.as_deref().unwrap_or_default());
    let front = A2aFront(Arc::new(A2aFrontState {
        handler,
        admission: Arc::new(entry),
        client_files,
        card_times: CardTimes::default(),
        health: HealthCache::default(),
        directory: AgentDirectory::default(),
        cors: cors(
            &config.cors_origins,
            &[Method::GET, Method::POST, Method::DELETE],
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
        let response = match &self.0.cors {
            None => self.extended(request).await,
            Some(cors) => {
                let inner = service_fn(|request: Request| async move {
                    Ok::<_, Infallible>(self.extended(request).await)
                });
                let Ok(response) = cors.layer(inner).oneshot(request).await;
                response
            }
        };
        self.0.request_counts.count(&response);
        response
    }

    /// Answers, and says which extensions that activated.
    async fn extended(&self, request: Request) -> Response {
        let activated = extensions::activated(&self.0.config, request.headers());
        let front = &self.0;
        let mut response = match mux::version(&request) {
            Some(version) => {
                let call = front
                    .grpc
                    .answer(&front.config, &front.admission, version, request);
                Box::pin(call).await
            }
            None => answer(self, request).await,
        };
        response.headers_mut().extend(activated);
        response
    }
}

async fn answer(front: &A2aFront, request: Request) -> Response {
    if did::is_asked_for(&request) {
        let peer = request.extensions().get::<ClientConnection>().cloned();
        let place = match front.0.admission.admit_anonymous(peer.as_ref()) {
            Ok(place) => place,
            Err(refusal) => return ErrorFormat::Rest(Version::V10).refuse(&refusal),
        };
        if let Some(document) = Box::pin(did::answer(&front.0, request.uri().path())).await {
            return bounded_response(document, place)
                .unwrap_or_else(|refusal| ErrorFormat::Rest(Version::V10).refuse(&refusal));
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
        let admitted = front
            .0
            .admission
            .admit_any(request.headers(), peer.as_ref())
            .await;
        let AdmittedRequest {
            caller,
            permit: place,
        } = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => return words.refuse(&refusal),
        };
        let response = if what == Resource::Health {
            front.0.health.answer(&*front.0.handler).await
        } else {
            let host = RequestHost::from_request(&request).map_err(A2aError::from);
            let asker = (request.headers(), &caller);
            Box::pin(card::answer(&front.0, &target, &base, host, asker)).await
        };
        return bounded_response(response, place).unwrap_or_else(|refusal| words.refuse(&refusal));
    }
    if let Err(refusal) = front.0.config.origin_policy().check(&request) {
        return words.refuse(&refusal);
    }
    let AdmittedRequest {
        caller,
        permit: place,
    } = match front.0.admission.admit(request.headers(), peer.as_ref()).await {
        Ok(admitted) => admitted,
        Err(refusal) => return words.refuse(&refusal),
    };
    let within = front.0.config.body_timeout;
    let mut request = request.map(|body| Body::new(RequestBody::new(body, &place, within)));
    request.extensions_mut().insert(place.clone());
    let address = CallContext {
        target,
        caller: (&caller).into(),
        extensions: extensions::declared(&front.0.config, request.headers()),
        trace: trace::trace_headers(request.headers()),
        idempotency_key: idempotency_key(request.headers()),
        last_event: last_event(request.headers()),
    };
    let base = base.as_str();
    let response = match what {
        Resource::Agents | Resource::Skills | Resource::Page => {
            front
                .0
                .directory
                .answer(&*front.0.handler, &what, &address.caller)
                .await
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
    bounded_response(response, place).unwrap_or_else(|refusal| words.refuse(&refusal))
}

/// The number of the last event that a client has read of a stream; none if it is not one of ours.
fn last_event(headers: &HeaderMap) -> Option<u64> {
    headers.get(LAST_EVENT)?.to_str().ok()?.trim().parse().ok()
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
        headers.insert(header::RETRY_AFTER, whole_seconds(wait).into());
    }
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

#[cfg(test)]
mod tests;
