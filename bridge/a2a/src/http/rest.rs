//! REST of both versions: paths and verbs say what is wanted, errors are HTTP statuses. 0.3 writes the JSON of its protobuf.

use agentanycast_front::{
    host::RequestHost,
    json_body,
    json_response::{JSON, response},
    offload,
};
use axum::{extract::Request, response::Response};
use http::{Method as Verb, StatusCode, header, request::Parts};
use serde_json::{Map, Value};

use super::{A2A_JSON, A2aFrontState, failed, query, sse, version_asked};
use crate::{
    card_endpoint::{card_endpoint, card_v0_3},
    client_files::FileClient,
    handler::CallContext,
    protocol::{
        encode,
        error::A2aError,
        request::{self, Method},
        v0_3_protojson::{self, FileEncoding},
        version::Version,
    },
};

/// What a path names.
pub(super) struct RestPath {
    pub(super) version: Version,
    pub(super) tenant: String,
    pub(super) id: String,
    pub(super) webhook: String,
}

pub(super) async fn answer(
    shared: &A2aFrontState,
    address: CallContext,
    base: &str,
    method: Method,
    place: RestPath,
    request: Request,
) -> Response {
    let version = place.version;
    match carry_out(shared, address, base, method, place, request).await {
        Ok(response) => response,
        Err(error) => failed(version, &error),
    }
}

async fn carry_out(
    shared: &A2aFrontState,
    address: CallContext,
    base: &str,
    method: Method,
    place: RestPath,
    request: Request,
) -> Result<Response, A2aError> {
    let host = RequestHost::from_request(&request).map_err(A2aError::from);
    let (head, content) = request.into_parts();
    let query = query::read(&head.uri)?;
    let version = place.version;
    version.check_header(version_asked(&head.headers, &query).as_deref())?;
    let (mut params, files) = if head.method == Verb::POST {
        let place = head.extensions.get();
        let body = json_body::read(shared.config.max_body, &head.headers, content, place).await?;
        let files = files(shared, version, &address, &head, Some(&body));
        match params(version, method, files, body)? {
            Value::Object(params) => (params, files),
            Value::Null => (Map::new(), files),
            _ => return Err(A2aError::params("the body must be an object")),
        }
    } else {
        let pairs = query
            .into_iter()
            .map(|(name, value)| (name, Value::String(value)));
        (pairs.collect(), files(shared, version, &address, &head, None))
    };
    // What the path says counts.
    let (of_task, of_webhook) = match (version, method) {
        (_, Method::SetPush) | (Version::V10, Method::GetPush | Method::ListPush | Method::DeletePush) => {
            ("taskId", "id")
        }
        _ => ("id", "pushNotificationConfigId"),
    };
    for (name, said) in [
        (of_task, place.id),
        ("tenant", place.tenant),
        (of_webhook, place.webhook),
    ] {
        if !said.is_empty() {
            params.insert(name.to_owned(), said.into());
        }
    }
    let read = request::read(version, method, Value::Object(params))?;
    let (address, read) = address.resolve_tenant(read);
    if method.streams() {
        let followed = shared.handler.follow(&address, read).await?;
        let result = move |result| match version {
            Version::V03 => v0_3_protojson::to_event(result, files),
            Version::V10 => result,
        };
        let error = move |error: &A2aError| error.rest(version);
        let frame = sse::SseFraming::NamedErrors;
        return Ok(sse::stream(followed, version, &shared.stop, frame, result, error));
    }
    let media_type = match version {
        Version::V03 => JSON,
        Version::V10 => A2A_JSON,
    };
    if method == Method::ExtendedCard {
        let front = card_endpoint(&shared.config, &address.target, base, host)?;
        let card = match version {
            Version::V03 => card_v0_3(&*shared.handler, &address.target, front, &address.caller).await?,
            Version::V10 => {
                let handler = &shared.handler;
                let caller = &address.caller;
                handler
                    .extended_card(&address.target, &front, version, caller)
                    .await?
            }
        };
        return Ok(response(StatusCode::OK, media_type, &card));
    }
    let answer = shared.handler.answer(&address, read).await?;
    let written = offload::offload(answer.bytes(), move || {
        let body = match version {
            Version::V03 => v0_3_protojson::answer(answer, files),
            Version::V10 => encode::answer(version, answer),
        };
        let body = if body.is_null() {
            Value::Object(Map::new())
        } else {
            body
        };
        response(StatusCode::OK, media_type, &body)
    });
    Ok(written.await)
}

/// What the client puts in the bytes of a file, and reads, after the body that it has `sent`. Only 0.3 has two ways.
fn files(
    shared: &A2aFrontState,
    version: Version,
    address: &CallContext,
    head: &Parts,
    sent: Option<&Value>,
) -> FileEncoding {
    if version == Version::V10 {
        return FileEncoding::Bytes;
    }
    let agent = head.headers.get(header::USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok());
    let client = FileClient::new(
        address.caller.name().unwrap_or_default(),
        head.extensions.get(),
        agent,
    );
    shared.client_files.encoding(client, sent)
}

/// The parameters that a body has, as JSON-RPC of the version has them.
fn params(version: Version, method: Method, files: FileEncoding, body: Value) -> Result<Value, A2aError> {
    match (version, method) {
        (Version::V03, Method::Send | Method::Stream) => v0_3_protojson::from_send(body, files),
        (Version::V03, Method::SetPush) => Ok(v0_3_protojson::from_webhook(body)),
        _ => Ok(body),
    }
}
