//! REST of 1.0: paths and verbs say what is wanted, errors are HTTP statuses.

use axum::{extract::Request, response::Response};
use http::{Method as Verb, StatusCode};
use serde_json::{Map, Value};

use super::{A2A_JSON, Host, JSON, Shared, body, front, query, response, sse, version_asked};
use crate::a2a::{
    error::A2aError,
    mesh::Address,
    render,
    request::{self, Method},
    version::Version,
};

/// What a path names.
pub(super) struct Place {
    pub(super) tenant: String,
    pub(super) id: String,
    pub(super) webhook: String,
}

pub(super) async fn answer(
    shared: &Shared,
    address: &Address,
    base: &str,
    method: Method,
    place: Place,
    request: Request,
) -> Response {
    match carry_out(shared, address, base, method, place, request).await {
        Ok(response) => response,
        Err(error) => failed(&error),
    }
}

async fn carry_out(
    shared: &Shared,
    address: &Address,
    base: &str,
    method: Method,
    place: Place,
    request: Request,
) -> Result<Response, A2aError> {
    let host = Host::of(&request);
    let (head, content) = request.into_parts();
    let query = query::read(&head.uri)?;
    Version::V10.agree(version_asked(&head.headers, &query).as_deref())?;
    let mut params = match head.method {
        Verb::POST => match body::read(shared, &head.headers, content).await? {
            Value::Object(params) => params,
            Value::Null => Map::new(),
            _ => return Err(A2aError::params("the body must be an object")),
        },
        _ => query
            .into_iter()
            .map(|(name, value)| (name, Value::String(value)))
            .collect(),
    };
    // What the path says counts.
    let of_task = match method {
        Method::SetPush | Method::GetPush | Method::ListPush | Method::DeletePush => "taskId",
        _ => "id",
    };
    for (name, said) in [
        (of_task, place.id),
        ("tenant", place.tenant),
        ("id", place.webhook),
    ] {
        if !said.is_empty() {
            params.insert(name.to_owned(), said.into());
        }
    }
    let read = request::read(Version::V10, method, Value::Object(params))?;
    if method.streams() {
        let followed = shared.handler.follow(address, read).await?;
        let error = |error: &A2aError| error.rest();
        return Ok(sse::stream(
            followed,
            Version::V10,
            &shared.stop,
            sse::Frame::NamedErrors,
            |result| result,
            error,
        ));
    }
    if method == Method::ExtendedCard {
        let front = front(&shared.config, &address.target, base, host)?;
        let card = shared
            .handler
            .extended_card(&address.target, &front, Version::V10)
            .await?;
        return Ok(response(StatusCode::OK, A2A_JSON, &card));
    }
    let answer = shared.handler.answer(address, read).await?;
    let body = match render::answer(Version::V10, answer) {
        Value::Null => Value::Object(Map::new()),
        body => body,
    };
    Ok(response(StatusCode::OK, A2A_JSON, &body))
}

fn failed(error: &A2aError) -> Response {
    let status = StatusCode::from_u16(error.reason().http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response(status, JSON, &error.rest())
}
