//! The HTTP binding (UAMP 1.0 §7): `POST /v1/messages`, `GET /v1/stream/{id}` as server-sent events, the
//! documents of discovery, and the way to the WebSocket and gRPC bindings.
//!
//! Invariant: each refusal has the status of its cause and a signed error envelope as its body.

use std::{convert::Infallible, sync::Arc};

use agentanycast_daemon_kit::json_lines;
use agentanycast_front::{
    admission::{AdmittedRequest, RequestPermit},
    front::FrontRules,
    host::RequestHost,
    listener::BODY_TIMEOUT,
    path_segment,
    refusal::Refusal,
    request_body::RequestBody,
    sse,
};
use agentanycast_uamp::{
    error::{UampCode, UampError, shown},
    manifest::MANIFEST_TYPE,
};
use async_stream::stream;
use axum::{
    body::Body,
    extract::Request,
    response::{Response, sse::Event},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;
use url::form_urlencoded;

use super::{
    content::{ENVELOPE_TYPE, JSON},
    grpc::UampGrpc,
    handler::{Rejected, UampHandler, UampSender},
    manifest::{self, HUB_PATH, MANIFEST_PATH},
    refusals,
    stream::{ReadFrom, begin_reading},
    websocket,
};

/// Where envelopes are posted.
const MESSAGES_PATH: &str = "/v1/messages";

/// What paths of streams begin with.
const STREAM_PREFIX: &str = "/v1/stream/";

/// Where the WebSocket is.
const SOCKET_PATH: &str = "/uamp/1/ws";

/// What paths of gRPC begin with.
const GRPC_PREFIX: &str = "/uamp.v1.Agent/";

/// What the port answers. Cheap to clone.
#[derive(Clone)]
pub(super) struct UampFront {
    handler: Arc<UampHandler>,
    rules: Arc<FrontRules>,
    grpc: UampGrpc,
}

impl UampFront {
    pub(super) fn new(handler: Arc<UampHandler>, rules: Arc<FrontRules>) -> Self {
        Self {
            grpc: UampGrpc::new(Arc::clone(&handler)),
            handler,
            rules,
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, mut request: Request) -> Response {
        if self.handler.settings.refuse_http1 && request.version() < Version::HTTP_2 {
            return upgrade_required();
        }
        let path = request.uri().path();
        if request.method() == Method::GET && [MANIFEST_PATH, HUB_PATH].contains(&path) {
            return match self.rules.admit_anonymous(&request) {
                Ok(_permit) => self.discovery(&request),
                Err(refusal) => self.refused_by_front(&refusal),
            };
        }
        let is_grpc = path.starts_with(GRPC_PREFIX);
        let admitted = match self.rules.admit(&request).await {
            Ok(admitted) => admitted,
            Err(refusal) if is_grpc => return UampGrpc::refused(&refusals::of_front(&refusal)),
            Err(refusal) => return self.refused_by_front(&refusal),
        };
        if is_grpc {
            return self.grpc.answer(request, admitted).await;
        }
        let answered = match (request.method(), request.uri().path()) {
            (&Method::POST, MESSAGES_PATH) => self.message(request, admitted).await,
            (&Method::GET, SOCKET_PATH) => {
                let handler = Arc::clone(&self.handler);
                let sender = UampSender::new(&admitted, request.extensions());
                let opened = websocket::open(&mut request, admitted.permit, handler, sender);
                opened.map_err(|refusal| refusals::of_front(&refusal).into())
            }
            (&Method::GET, path) if path.starts_with(STREAM_PREFIX) => {
                let id = path_segment::decode(&path[STREAM_PREFIX.len()..]);
                // Not the request itself, whose body is for one thread at a time.
                let from = first_frame(&request);
                self.stream(from, id, admitted).await.map_err(Rejected::from)
            }
            (method, path) => match method_of(path) {
                Some(allowed) => {
                    let method = shown(method.as_str());
                    Err(UampError::Method { method, allowed }.into())
                }
                None => return plain(StatusCode::NOT_FOUND),
            },
        };
        answered.unwrap_or_else(|rejected| self.refused(&rejected))
    }

    async fn message(&self, request: Request, admitted: AdmittedRequest) -> Result<Response, Rejected> {
        let (head, body) = request.into_parts();
        let sender = UampSender::new(&admitted, &head.extensions);
        if !is_envelope(&head.headers) {
            let mut response = self.refused(&Rejected::from(UampError::field(
                "Content-Type",
                "has to be application/uamp+json;v=1",
            )));
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Ok(response);
        }
        let raw = read(body, &admitted.permit, self.handler.max_envelope()).await?;
        let accepted = self.handler.accept(&sender, &raw).await?;
        let mut response = plain(StatusCode::ACCEPTED);
        if let Some(location) = accepted
            .location()
            .and_then(|location| HeaderValue::from_str(&location).ok())
        {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Ok(response)
    }

    async fn stream(
        &self,
        from: Result<ReadFrom, UampError>,
        id: Option<String>,
        admitted: AdmittedRequest,
    ) -> Result<Response, UampError> {
        let (from, id) = (from?, id.ok_or_else(|| UampError::UnknownStream("?".to_owned()))?);
        let stream = self.handler.open(&(&admitted.caller).into(), &id).await?;
        begin_reading(&stream, from)?;
        let reader = stream.reader();
        let (handler, permit) = (Arc::clone(&self.handler), admitted.permit);
        let lines = stream! {
            let _permit = permit;
            let mut seq = from.seq;
            loop {
                let next = tokio::select! {
                    next = reader.0.next(seq) => next,
                    () = handler.stop.cancelled() => return,
                };
                // A consumer that has fallen behind what is kept comes back and is told so.
                let Ok(Some(delta)) = next else { return };
                handler.counters.delta();
                let line = Event::default().id(seq.to_string()).data(json_lines::escape(&delta.to_json()));
                yield Ok::<_, Infallible>(line);
                seq += 1;
            }
        };
        Ok(sse::events(lines))
    }

    fn discovery(&self, request: &Request) -> Response {
        if request.uri().path() == MANIFEST_PATH {
            let text = manifest::manifest(&self.handler);
            return typed(StatusCode::OK, MANIFEST_TYPE, text);
        }
        let hub = RequestHost::from_request(request)
            .map_err(|refusal| refusals::of_front(&refusal))
            .and_then(|host| manifest::hub(&self.handler, &host));
        match hub {
            Ok(hub) => typed(StatusCode::OK, JSON, hub.to_string()),
            Err(error) => self.refused(&error.into()),
        }
    }

    fn refused_by_front(&self, refusal: &Refusal) -> Response {
        let error = refusals::of_front(refusal);
        self.handler.counters.refused(error.code());
        let mut response = self.refused(&error.into());
        let mut status = response.status();
        refusal.write_head(&mut status, response.headers_mut());
        *response.status_mut() = status;
        response
    }

    /// A refusal with its status, and a signed error envelope.
    fn refused(&self, rejected: &Rejected) -> Response {
        let status = StatusCode::from_u16(rejected.error.status()).unwrap_or(StatusCode::BAD_REQUEST);
        let envelope: Value = self.handler.error_envelope(rejected);
        let mut response = typed(status, ENVELOPE_TYPE, envelope.to_string());
        if let Some(after) = rejected.error.retry_after() {
            let seconds = after.as_secs().max(1);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if let UampError::Method { allowed, .. } = rejected.error {
            let allowed = HeaderValue::from_static(allowed);
            response.headers_mut().insert(header::ALLOW, allowed);
        }
        response
    }
}

/// The method that a path takes; `None` for a path at which there is nothing.
fn method_of(path: &str) -> Option<&'static str> {
    match path {
        MESSAGES_PATH => Some("POST"),
        SOCKET_PATH | MANIFEST_PATH | HUB_PATH => Some("GET"),
        path => path.starts_with(STREAM_PREFIX).then_some("GET"),
    }
}

/// The frame that a consumer wants first: behind `Last-Event-ID`, or `?from=N`.
fn first_frame(request: &Request) -> Result<ReadFrom, UampError> {
    if let Some(last) = request.headers().get("last-event-id") {
        let last = last
            .to_str()
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        return last
            .and_then(|last| ReadFrom::behind("Last-Event-ID:", last))
            .ok_or_else(|| UampError::field("Last-Event-ID", "has to be a delta_seq"));
    }
    let query = request.uri().query().unwrap_or_default();
    let from = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "from");
    match from {
        Some((_, text)) => text
            .parse()
            .map(ReadFrom::at)
            .map_err(|_| UampError::field("from", "has to be a delta_seq")),
        None => Ok(ReadFrom::at(0)),
    }
}

fn is_envelope(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return true;
    };
    let text = kind.to_str().unwrap_or_default().to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let is_version_1 = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if name.trim() == "v" => value.trim().trim_matches('"') == "1",
        _ => true,
    };
    essence == JSON || (essence == ENVELOPE_TYPE && parts.all(is_version_1))
}

/// A body of at most so many bytes.
async fn read(body: Body, permit: &RequestPermit, most: usize) -> Result<Bytes, UampError> {
    let body = Limited::new(RequestBody::new(body, permit, BODY_TIMEOUT), most);
    match body.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let text = format!("the envelope has more than {most} bytes");
            Err(UampError::coded(UampCode::PayloadTooLarge, text))
        }
        Err(error) => Err(match error.downcast::<Refusal>() {
            Ok(refusal) => refusals::of_front(&refusal),
            Err(error) => UampError::field("envelope", error.to_string()),
        }),
    }
}

fn typed(status: StatusCode, kind: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn plain(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn upgrade_required() -> Response {
    let mut response = plain(StatusCode::UPGRADE_REQUIRED);
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("HTTP/2.0"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    response
}

#[cfg(test)]
mod tests {
    use agentanycast_front::front::Front;
    use agentanycast_gateways::front::FrontSettings;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_arrives_too_slowly_is_408() {
        let front = Front::new(FrontSettings::default(), Arc::default()).unwrap();
        let permit = front.rules().admit_anonymous(&Request::default()).unwrap();
        let drip = stream! {
            loop {
                yield Ok::<_, Infallible>(Bytes::from_static(b" "));
                tokio::time::sleep(BODY_TIMEOUT / 8).await;
            }
        };
        let begun = tokio::time::Instant::now();
        let refused = read(Body::from_stream(drip), &permit, 1024).await.unwrap_err();
        assert_eq!((refused.status(), refused.code()), (408, None));
        assert!(begun.elapsed() <= BODY_TIMEOUT * 2);
        let text = refused.to_string();
        assert!(text.starts_with("the body took longer than 48 s; send"), "{text}");
    }
}
