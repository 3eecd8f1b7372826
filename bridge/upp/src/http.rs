//! The proxy wire over HTTP: `POST /upp/{target}`, answered as JSON or as server-sent events.
//!
//! Invariant: each answer that is not a turn is an error of UPP with its status; nothing of a request is read
//! before its caller is let in, and not more of it than the front allows.

use std::{convert::Infallible, sync::Arc};

use agentanycast_front::{
    admission::{AdmittedRequest, RequestPermit},
    front::FrontRules,
    json_body::{MAX_VALUES, charge},
    json_scan::JsonScan,
    listener::BODY_TIMEOUT,
    offload,
    refusal::Refusal,
    request_body::RequestBody,
    response_body::bounded_response,
    sse as front_sse,
    trace::trace_headers,
};
use agentanycast_gateway::{
    Target,
    caller::Caller,
    tasks::{CallerMessage, GatewayTasks},
};
use agentanycast_proto::v1;
use agentanycast_upp::{
    ErrorCode, UppError,
    wire::{AnswerForm, MAX_REQUEST_BYTES, error_answer, parse_request, sse, turn_json, turn_of},
};
use async_stream::stream;
use axum::{
    body::Body,
    extract::Request,
    response::{Response, sse::Event},
};
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio_util::sync::CancellationToken;

use crate::{
    LABELS,
    codec::message_of_request,
    failure::of_refusal,
    running_answer::{AnswerPiece, RunningAnswer},
    target::target_of_path,
};

/// What the port answers. Cheap to clone.
#[derive(Clone)]
pub(super) struct UppFront {
    tasks: Arc<GatewayTasks>,
    rules: Arc<FrontRules>,
    stop: CancellationToken,
}

impl UppFront {
    pub(super) fn new(tasks: Arc<GatewayTasks>, rules: Arc<FrontRules>, stop: CancellationToken) -> Self {
        Self { tasks, rules, stop }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: Request) -> Response {
        let admitted = match self.rules.admit(&request).await {
            Ok(admitted) => admitted,
            Err(refusal) => return refused_by_front(&refusal),
        };
        let permit = admitted.permit.clone();
        let response = match self.ask(request, admitted).await {
            Ok(response) => response,
            Err(error) => failed(&error),
        };
        bounded_response(response, permit).unwrap_or_else(|refusal| refused_by_front(&refusal))
    }

    async fn ask(&self, request: Request, admitted: AdmittedRequest) -> Result<Response, UppError> {
        let target = target_of_path(request.uri().path())?;
        if request.method() != Method::POST {
            let shown = request.method();
            let text = format!("{shown} is not served here; use POST");
            return Err(UppError::invalid_request(text).with_status(405));
        }
        let (head, body) = request.into_parts();
        check_head(&head.headers)?;
        let most = self.rules.max_body().min(MAX_REQUEST_BYTES);
        let raw = read(&head.headers, body, &admitted.permit, most).await?;
        let permit = admitted.permit.clone();
        let (message, is_structured) =
            offload::offload(raw.len(), move || message_of_body(&raw, &permit)).await?;
        let form = form_of(&head.headers);
        let running = self.begin(target, message, &admitted, &head.headers).await?;
        let running = running.structured(is_structured);
        // The node has it.
        admitted.permit.release_body();
        match form {
            AnswerForm::Json => {
                let response = running.wait().await?;
                Ok(json(StatusCode::OK, turn_json(&turn_of(response))))
            }
            AnswerForm::EventStream => events(running).await,
        }
    }

    async fn begin(
        &self,
        target: Target,
        message: v1::Message,
        admitted: &AdmittedRequest,
        headers: &HeaderMap,
    ) -> Result<RunningAnswer, UppError> {
        let caller = Caller::with_one_list(LABELS, (&admitted.caller).into());
        let mut sent = CallerMessage::new(target, message);
        sent.trace = trace_headers(headers);
        RunningAnswer::begin(&self.tasks, caller, sent, self.stop.clone()).await
    }
}

/// The message of a task for this body, and whether a structured answer is asked for.
fn message_of_body(raw: &[u8], permit: &RequestPermit) -> Result<(v1::Message, bool), UppError> {
    let scan = JsonScan::new(raw);
    if scan.values > MAX_VALUES {
        let text = format!("the request has more than {MAX_VALUES} values of JSON");
        return Err(UppError::new(ErrorCode::ContextLengthExceeded, text));
    }
    scan.check_numbers().map_err(|refusal| of_refusal(&refusal))?;
    charge(permit, raw.len(), scan.values).map_err(|refusal| of_refusal(&refusal))?;
    let request = parse_request(raw)?;
    Ok((message_of_request(&request)?, request.structure.is_some()))
}

fn form_of(headers: &HeaderMap) -> AnswerForm {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    AnswerForm::from_accept(accept.unwrap_or_default())
}

/// Refuses a body that says it is not JSON, or that is packed.
fn check_head(headers: &HeaderMap) -> Result<(), UppError> {
    let unsupported = |text: String| Err(UppError::invalid_request(text).with_status(415));
    if let Some(coding) = headers.get(header::CONTENT_ENCODING)
        && coding != "identity"
    {
        return unsupported("`Content-Encoding`: send the body without one".to_owned());
    }
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let kind = kind.to_str().unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let shown: String = kind.chars().take(80).collect();
    unsupported(format!(
        "`Content-Type`: {shown:?} is not taken; send application/json"
    ))
}

/// A body of at most so many bytes. One that says that it has more is refused unread.
async fn read(
    headers: &HeaderMap,
    body: Body,
    permit: &RequestPermit,
    most: usize,
) -> Result<Bytes, UppError> {
    let too_long = || {
        let text = format!("the request has more than {most} bytes");
        UppError::new(ErrorCode::ContextLengthExceeded, text)
    };
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| usize::try_from(length).is_ok_and(|length| length > most)) {
        return Err(too_long());
    }
    let body = Limited::new(RequestBody::new(body, permit, BODY_TIMEOUT), most);
    match body.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_long()),
        Err(error) => Err(match error.downcast::<Refusal>() {
            Ok(refusal) => of_refusal(&refusal),
            Err(error) => UppError::invalid_request(error.to_string()),
        }),
    }
}

/// The answer as events: those of the agent, the turn, and the mark of the end. An error ends it without the
/// mark; one before the first event is the error of the request.
async fn events(running: RunningAnswer) -> Result<Response, UppError> {
    let mut pieces = running.pieces().boxed();
    let first = pieces.next().await.transpose()?;
    let lines = stream! {
        let mut first = first.map(Ok);
        while let Some(piece) = match first.take() {
            Some(first) => Some(first),
            None => pieces.next().await,
        } {
            match piece {
                Ok(AnswerPiece::Event(event)) => yield Ok::<_, Infallible>(line(&sse::event(&event))),
                Ok(AnswerPiece::Done(response)) => {
                    yield Ok(line(&sse::turn(&turn_of(*response))));
                    yield Ok(line(sse::DONE));
                }
                Err(error) => {
                    yield Ok(line(&sse::error(&error)));
                    return;
                }
            }
        }
    };
    Ok(front_sse::events(lines))
}

/// A frame of the wire as an event of the response, which adds the field's name and the blank line.
fn line(frame: &str) -> Event {
    let data = frame.strip_prefix("data: ").unwrap_or(frame);
    Event::default().data(data.trim_end_matches('\n'))
}

fn refused_by_front(refusal: &Refusal) -> Response {
    let mut response = failed(&of_refusal(refusal));
    let mut status = response.status();
    refusal.write_head(&mut status, response.headers_mut());
    *response.status_mut() = status;
    response
}

/// An error with its status.
fn failed(error: &UppError) -> Response {
    let answer = error_answer(error);
    let status = error.status().unwrap_or(answer.status);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = json(status, answer.body);
    if let Some(seconds) = answer.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = HeaderValue::from_static("POST");
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

fn json(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
