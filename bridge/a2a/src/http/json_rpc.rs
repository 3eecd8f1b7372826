//! JSON-RPC: a method name with a slash is 0.3, any other is 1.0. Errors are answers (HTTP 200); that of a
//! method of 0.3 that streams is an event, since its clients read nothing else.

use agentanycast_front::{
    admission::RequestPermit,
    host::RequestHost,
    json_body,
    json_response::{JSON, response},
    offload,
    sse::single_event,
};
use axum::{extract::Request, response::Response};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{A2aFrontState, query, sse, version_asked};
use crate::{
    card_endpoint::card_endpoint,
    handler::CallContext,
    protocol::{
        encode::{self, A2aResponse},
        error::{A2aError, Reason},
        request::{self, Method},
        version::Version,
    },
};

/// A call that could be read.
struct RpcCall {
    id: Value,
    version: Version,
    method: Method,
    request: request::Request,
}

/// A call that could not, with what its answer needs.
struct RpcFailure {
    id: Value,
    version: Version,
    /// The method answers with a stream.
    streams: bool,
    error: A2aError,
}

pub(super) async fn answer(
    shared: &A2aFrontState,
    address: CallContext,
    base: &str,
    request: Request,
) -> Response {
    let host = RequestHost::from_request(&request).map_err(A2aError::from);
    let (head, content) = request.into_parts();
    let reads_events = takes_events(&head.headers);
    let failed = |failed: RpcFailure| {
        let RpcFailure {
            id,
            version,
            streams,
            error,
        } = failed;
        let body = error_response(&id, version, &error);
        if streams && version == Version::V03 && reads_events {
            return single_event(&body);
        }
        response(StatusCode::OK, JSON, &body)
    };
    let body = match json_body::take(shared.config.max_body, &head.headers, content).await {
        Ok(body) => body,
        Err(error) => return failed(without_id(error.into())),
    };
    let asked = match query::read(&head.uri) {
        Ok(query) => version_asked(&head.headers, &query),
        Err(error) => return failed(without_id(error)),
    };
    let place = head.extensions.get::<RequestPermit>().cloned();
    let call = offload::offload(body.len(), move || parse(&body, place.as_ref(), asked.as_deref()));
    let RpcCall {
        id,
        version,
        method,
        request: read,
    } = match call.await {
        Ok(call) => call,
        Err(error) => return failed(error),
    };
    let (address, read) = address.resolve_tenant(read);
    if method.streams() {
        return match shared.handler.follow(&address, read).await {
            Ok(followed) => {
                let (of_result, of_error) = (id.clone(), id);
                let result = move |result: Value| success(&of_result, result);
                let error = move |error: &A2aError| error_response(&of_error, version, error);
                sse::stream(
                    followed,
                    version,
                    &shared.stop,
                    sse::SseFraming::Plain,
                    result,
                    error,
                )
            }
            Err(error) => failed(RpcFailure {
                id,
                version,
                streams: true,
                error,
            }),
        };
    }
    let answer = if method == Method::ExtendedCard {
        match card_endpoint(&shared.config, &address.target, base, host) {
            Ok(front) => {
                let card = shared
                    .handler
                    .extended_card(&address.target, &front, version, &address.caller)
                    .await;
                card.map(A2aResponse::Card)
            }
            Err(error) => Err(error),
        }
    } else {
        shared.handler.answer(&address, read).await
    };
    match answer {
        Ok(answer) => {
            offload::offload(answer.bytes(), move || {
                let result = encode::answer(version, answer);
                response(StatusCode::OK, JSON, &success(&id, result))
            })
            .await
        }
        Err(error) => failed(RpcFailure {
            id,
            version,
            streams: false,
            error,
        }),
    }
}

/// Whether a client names event streams among what it takes.
fn takes_events(headers: &HeaderMap) -> bool {
    let mut given = headers.get_all(header::ACCEPT).iter();
    given.any(|given| {
        let mut ranges = given.to_str().unwrap_or_default().split(',');
        ranges.any(|range| {
            let mut parameters = range.split(';').map(str::trim);
            let named = parameters.next().unwrap_or_default();
            let refused = |parameter: &str| {
                let weight = parameter
                    .strip_prefix("q=")
                    .and_then(|weight| weight.parse::<f32>().ok());
                weight == Some(0.0)
            };
            named.eq_ignore_ascii_case("text/event-stream") && !parameters.any(refused)
        })
    })
}

/// Reads a call.
fn parse(body: &[u8], place: Option<&RequestPermit>, asked: Option<&str>) -> Result<RpcCall, RpcFailure> {
    let call = json_body::parse(body, place).map_err(|error| refused(body, error.into()))?;
    read(call, asked)
}

/// Reads the envelope and what is in it. The version is what the method is written in, as far as it is known.
fn read(body: Value, asked: Option<&str>) -> Result<RpcCall, RpcFailure> {
    let invalid = |text: &str| without_id(A2aError::new(Reason::InvalidRequest, text));
    let mut call: Map<String, Value> = match body {
        Value::Object(call) => call,
        Value::Array(_) => return Err(invalid("batches are not taken; send one request at a time")),
        Value::Null => return Err(without_id(A2aError::new(Reason::ParseError, "the body is empty"))),
        _ => return Err(invalid("a request is an object")),
    };
    let id = match call.remove("id") {
        None => Value::Null,
        Some(id @ (Value::Null | Value::String(_) | Value::Number(_))) => id,
        Some(_) => return Err(invalid("id must be a text, a number or null")),
    };
    let streams = std::cell::Cell::new(false);
    let failed = |version, error| RpcFailure {
        id: id.clone(),
        version,
        streams: streams.get(),
        error,
    };
    let invalid = |text| failed(Version::V10, A2aError::new(Reason::InvalidRequest, text));
    let Some(Value::String(name)) = call.remove("method") else {
        return Err(invalid("method must be a text"));
    };
    let named = Method::from_name(&name);
    streams.set(named.is_some_and(|(_, method)| method.streams()));
    if call.get("jsonrpc") != Some(&json!("2.0")) {
        return Err(invalid("jsonrpc must be \"2.0\""));
    }
    let written = if name.contains('/') {
        Version::V03
    } else {
        Version::V10
    };
    let Some((version, method)) = named else {
        let error = Version::from_header(asked)
            .err()
            .unwrap_or_else(|| request::unknown_method(&name));
        return Err(failed(written, error));
    };
    version
        .check_header(asked)
        .map_err(|error| failed(version, error))?;
    let params = call.remove("params").unwrap_or_default();
    let request = request::read(version, method, params).map_err(|error| failed(version, error))?;
    Ok(RpcCall {
        id,
        version,
        method,
        request,
    })
}

/// The failure of a request whose values are not taken: its id is read without them, if it is JSON.
fn refused(body: &[u8], error: A2aError) -> RpcFailure {
    let Ok(envelope) = serde_json::from_slice::<RpcEnvelope>(body) else {
        return without_id(error);
    };
    let name = envelope.method.unwrap_or_default();
    let is_old = name.contains('/');
    RpcFailure {
        id: envelope.id.map_or(Value::Null, Value::from),
        version: if is_old { Version::V03 } else { Version::V10 },
        streams: Method::from_name(&name).is_some_and(|(_, method)| method.streams()),
        error,
    }
}

/// What of a request its answer needs.
#[derive(Deserialize)]
struct RpcEnvelope {
    id: Option<RpcId>,
    method: Option<String>,
}

/// An id that comes back as it was.
#[derive(Deserialize)]
#[serde(untagged)]
enum RpcId {
    Text(String),
    Natural(u64),
    Negative(i64),
}

impl From<RpcId> for Value {
    fn from(id: RpcId) -> Self {
        match id {
            RpcId::Text(id) => id.into(),
            RpcId::Natural(id) => id.into(),
            RpcId::Negative(id) => id.into(),
        }
    }
}

/// A failure before anything is known of the request.
fn without_id(error: A2aError) -> RpcFailure {
    RpcFailure {
        id: Value::Null,
        version: Version::V10,
        streams: false,
        error,
    }
}

fn success(id: &Value, result: Value) -> Value {
    encode::object([("jsonrpc", "2.0".into()), ("id", id.clone()), ("result", result)])
}

fn error_response(id: &Value, version: Version, error: &A2aError) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": error.json_rpc(version)})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(body: Value, asked: Option<&str>) -> Reason {
        read(body, asked).err().expect("it is refused").error.reason()
    }

    #[test]
    fn an_envelope_is_checked() {
        let call = |method: &str| json!({"jsonrpc": "2.0", "id": 7, "method": method});
        assert_eq!(reason(json!([]), None), Reason::InvalidRequest);
        assert_eq!(reason(Value::Null, None), Reason::ParseError);
        assert_eq!(reason(json!({"id": 1}), None), Reason::InvalidRequest);
        assert_eq!(
            reason(json!({"jsonrpc": "2.0", "id": {}}), None),
            Reason::InvalidRequest
        );
        assert_eq!(reason(call("tasks/paint"), None), Reason::MethodNotFound);
        assert_eq!(reason(call("GetTask"), None), Reason::VersionNotSupported);
        assert_eq!(
            reason(call("tasks/get"), Some("1.0")),
            Reason::VersionNotSupported
        );
        assert_eq!(
            reason(call("PaintTask"), Some("2.0")),
            Reason::VersionNotSupported
        );
    }

    #[test]
    fn a_request_that_is_not_taken_is_answered_by_its_id() {
        let of = |body: &str| {
            let error = A2aError::from(json_body::parse(body.as_bytes(), None).unwrap_err());
            let RpcFailure { id, version, .. } = refused(body.as_bytes(), error);
            (id, version)
        };
        for id in [json!(5), json!(-5), json!("x"), json!(u64::MAX)] {
            let body = format!("{{\"params\":{{\"n\":1e999}},\"method\":\"GetTask\",\"id\":{id}}}");
            assert_eq!(of(&body), (id, Version::V10));
        }
        let old = "{\"id\":1,\"method\":\"tasks/get\",\"params\":[99999999999999999999]}";
        assert_eq!(of(old), (json!(1), Version::V03));
        let deep = format!("{{\"id\":7,\"params\":{}{}}}", "[".repeat(120), "]".repeat(120));
        assert_eq!(of(&deep).0, json!(7));
        for nameless in [
            "{\"id\":18446744073709551616}",
            "{\"id\":[1e999]}",
            "{\"id\":1,\"id\":2,\"n\":1e999}",
            "{\"id\":1",
            "[1e999]",
        ] {
            assert_eq!(of(nameless), (Value::Null, Version::V10), "{nameless}");
        }
    }

    #[test]
    fn a_client_reads_events_if_it_says_so() {
        for (accept, expected) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream; q=0.5", true),
            ("application/json, text/event-stream;q=0", false),
            ("application/json", false),
            ("*/*", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            assert_eq!(takes_events(&headers), expected, "{accept}");
        }
    }

    #[test]
    fn a_failed_call_knows_whether_it_was_for_a_stream() {
        let of = |method: &str| {
            let call = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": []});
            read(call, None).err().expect("it is refused").streams
        };
        assert!(of("message/stream") && of("tasks/resubscribe"));
        assert!(!of("message/send") && !of("tasks/paint"));
    }

    #[test]
    fn ids_come_back_as_they_are() {
        for id in [json!(9_007_199_254_740_993_u64), json!("x"), json!(null)] {
            let body = json!({"jsonrpc": "2.0", "id": id, "method": "tasks/get", "params": {"id": "t"}});
            assert_eq!(read(body, None).ok().unwrap().id, id);
        }
    }
}
