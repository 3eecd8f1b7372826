//! What is asked of an agent outside, as JSON-RPC and REST write it, and how their answers are opened. PURE.

use std::fmt::Write as _;

use agentanycast_daemon_kit::address::join_path;
use agentanycast_front::path_segment::encode;
use http::Method;
use serde_json::{Map, Value, json};

use super::{
    error::{Kind, OutboundError, excerpt, from_a2a},
    interface::{Binding, RemoteInterface},
};
use crate::protocol::{
    v0_3_protojson::{self, FileEncoding},
    version::Version,
};

/// What agents of 0.3 put in the bytes of a file over REST and gRPC: as the servers of the official Python
/// SDK. An agent does not say what it runs on before it is sent the first message.
pub(crate) const FILES: FileEncoding = FileEncoding::Base64;

/// Messages of a task that an agent of 0.3 is asked for. The SDK for JavaScript shows none unless a number is given.
const HISTORY: u32 = 10_000;
/// Why an answer over JSON-RPC is none.
const NEITHER: &str = "its answer has neither result nor error";

/// Tasks of a conversation that are looked through for a message that may have arrived.
pub(crate) const LISTED: usize = 50;

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RemoteCall {
    /// Take a message; answer as soon as the task is there.
    Send {
        message: Value,
        metadata: Option<Map<String, Value>>,
    },
    /// Take a message, and tell what happens.
    Stream {
        message: Value,
        metadata: Option<Map<String, Value>>,
    },
    /// Tell what happens to a task.
    Subscribe { id: String },
    /// Show a task.
    Get { id: String },
    /// Show the newest tasks of a conversation. Only 1.0 has this.
    List { context: String },
    /// End a task.
    Cancel { id: String },
}

/// A request over HTTP.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EncodedRequest {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) body: Option<Value>,
}

impl RemoteCall {
    /// Whether it is answered by a stream.
    pub(crate) fn streams(&self) -> bool {
        matches!(self, Self::Stream { .. } | Self::Subscribe { .. })
    }

    /// The parameters in the words of a version.
    pub(crate) fn params(self, version: Version, tenant: &str) -> Value {
        let mut params = match self {
            Self::Send { message, metadata } => send(version, message, metadata, true),
            Self::Stream { message, metadata } => send(version, message, metadata, false),
            Self::Get { id } if version == Version::V03 => json!({"id": id, "historyLength": HISTORY}),
            Self::Subscribe { id } | Self::Get { id } | Self::Cancel { id } => json!({ "id": id }),
            Self::List { context } => json!({"contextId": context, "pageSize": LISTED}),
        };
        if !tenant.is_empty() {
            params["tenant"] = tenant.into();
        }
        params
    }

    fn method(&self, version: Version) -> &'static str {
        let (old, new) = match self {
            Self::Send { .. } => ("message/send", "SendMessage"),
            Self::Stream { .. } => ("message/stream", "SendStreamingMessage"),
            Self::Subscribe { .. } => ("tasks/resubscribe", "SubscribeToTask"),
            Self::Get { .. } => ("tasks/get", "GetTask"),
            Self::List { .. } => ("", "ListTasks"),
            Self::Cancel { .. } => ("tasks/cancel", "CancelTask"),
        };
        match version {
            Version::V03 => old,
            Version::V10 => new,
        }
    }

    /// The request that asks it.
    pub(crate) fn request(self, interface: &RemoteInterface) -> EncodedRequest {
        match interface.binding {
            Binding::JsonRpc | Binding::Grpc => self.over_json_rpc(interface),
            Binding::Rest if interface.is_rest_v0_3() => self.over_rest_v0_3(interface),
            Binding::Rest => self.over_rest(interface),
        }
    }

    fn over_json_rpc(self, interface: &RemoteInterface) -> EncodedRequest {
        let method = self.method(interface.version);
        let params = self.params(interface.version, &interface.tenant);
        EncodedRequest {
            method: Method::POST,
            url: interface.url.clone(),
            body: Some(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})),
        }
    }

    /// Whether the answer is a task as it is, and not one kind of answer among several.
    pub(crate) fn is_about_a_task(&self) -> bool {
        matches!(
            self,
            Self::Subscribe { .. } | Self::Get { .. } | Self::Cancel { .. }
        )
    }

    fn over_rest_v0_3(self, interface: &RemoteInterface) -> EncodedRequest {
        let (method, path, body) = match self {
            Self::Send { .. } | Self::Stream { .. } => {
                let path = if self.streams() {
                    "message:stream"
                } else {
                    "message:send"
                };
                let params = self.params(interface.version, "");
                (
                    Method::POST,
                    path.to_owned(),
                    Some(v0_3_protojson::to_send(params, FILES)),
                )
            }
            Self::Subscribe { id } => (Method::GET, format!("tasks/{}:subscribe", encode(&id)), None),
            Self::Get { id } => {
                let path = format!("tasks/{}?historyLength={HISTORY}", encode(&id));
                (Method::GET, path, None)
            }
            // Only 1.0 has lists, and nobody asks 0.3 for one.
            Self::List { .. } => (Method::GET, "tasks".to_owned(), None),
            Self::Cancel { id } => {
                let body = json!({ "name": format!("tasks/{id}") });
                (Method::POST, format!("tasks/{}:cancel", encode(&id)), Some(body))
            }
        };
        let url = join_path(&interface.url, &format!("/v1/{path}"));
        EncodedRequest { method, url, body }
    }

    fn over_rest(self, interface: &RemoteInterface) -> EncodedRequest {
        let mut place = String::new();
        if !interface.tenant.is_empty() {
            let _ = write!(place, "/{}", encode(&interface.tenant));
        }
        let (method, path, body) = match self {
            Self::Send { .. } => (Method::POST, "/message:send".to_owned(), true),
            Self::Stream { .. } => (Method::POST, "/message:stream".to_owned(), true),
            Self::Subscribe { ref id } => (Method::GET, format!("/tasks/{}:subscribe", encode(id)), false),
            Self::Get { ref id } => (Method::GET, format!("/tasks/{}", encode(id)), false),
            Self::List { ref context } => {
                let query = format!("/tasks?contextId={}&pageSize={LISTED}", encode(context));
                (Method::GET, query, false)
            }
            Self::Cancel { ref id } => (Method::POST, format!("/tasks/{}:cancel", encode(id)), true),
        };
        place.push_str(&path);
        let url = join_path(&interface.url, &place);
        let is_cancel = matches!(self, Self::Cancel { .. });
        let body = body.then(|| {
            if is_cancel {
                json!({})
            } else {
                self.params(interface.version, "")
            }
        });
        EncodedRequest { method, url, body }
    }
}

fn send(version: Version, message: Value, metadata: Option<Map<String, Value>>, at_once: bool) -> Value {
    let mut params = Map::from_iter([("message".to_owned(), message)]);
    if at_once {
        let configuration = match version {
            Version::V10 => json!({"returnImmediately": true}),
            Version::V03 => json!({"blocking": false}),
        };
        params.insert("configuration".to_owned(), configuration);
    }
    if let Some(metadata) = metadata {
        params.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Value::Object(params)
}

/// The result of a call, or the data of an event, without what is around it.
pub(crate) fn unwrap_result(binding: Binding, mut answer: Value) -> Result<Value, OutboundError> {
    if let Some(error) = error_in(&answer) {
        return Err(error_from_json(error));
    }
    match binding {
        Binding::Rest | Binding::Grpc => Ok(answer),
        Binding::JsonRpc => match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(OutboundError::permanent(NEITHER)),
        },
    }
}

/// The error that an answer is, whether it names its request or not.
fn error_in(answer: &Value) -> Option<&Value> {
    answer.get("error").filter(|error| !error.is_null())
}

/// The data of an event. `Err(Ok(_))`: it is of no kind that is known here, and is passed over; the failure says what it is.
pub(crate) fn unwrap_event(
    binding: Binding,
    event: Value,
) -> Result<Value, Result<OutboundError, OutboundError>> {
    let is_unknown = match binding {
        Binding::JsonRpc => error_in(&event).is_none() && event.get("result").is_none(),
        Binding::Rest | Binding::Grpc => !event.is_object(),
    };
    match unwrap_result(binding, event) {
        Ok(event) if is_unknown => Err(Ok(OutboundError::permanent(format!(
            "its event is no object: {}",
            excerpt(event.to_string().as_bytes())
        )))),
        Err(fault) if is_unknown => Err(Ok(fault)),
        opened => opened.map_err(Err),
    }
}

/// The failure that an error says, of JSON-RPC or of REST.
pub(crate) fn error_from_json(error: &Value) -> OutboundError {
    let code = error["code"].as_i64().unwrap_or_default();
    let said = error["message"].as_str().or(error.as_str()).unwrap_or_default();
    let mut details = ["data", "details"]
        .into_iter()
        .filter_map(|name| error[name].as_array())
        .flatten();
    let reason = details.find_map(|detail| detail["reason"].as_str());
    let word = reason.or(error["status"].as_str()).unwrap_or_default();
    if word.is_empty() && (100..600).contains(&code) {
        return OutboundError::from_status(code as u16, said);
    }
    from_a2a(code, word, said)
}

/// The failure that an answer with an HTTP status other than success says.
pub(crate) fn error_from_status(status: u16, body: &[u8]) -> OutboundError {
    let answer: Value = serde_json::from_slice(without_bom(body)).unwrap_or_default();
    let said = match answer.get("error") {
        // What cannot have been taken counts before what is said of it.
        Some(error)
            if matches!(
                OutboundError::from_status(status, "").kind(),
                Kind::Refused | Kind::Final | Kind::Unsupported
            ) =>
        {
            return error_from_json(error);
        }
        Some(error) => error["message"].as_str().or(error.as_str()),
        None => answer["detail"].as_str().or(answer["message"].as_str()),
    };
    match said {
        Some(said) => OutboundError::from_status(status, said),
        None => OutboundError::from_status(status, &excerpt(body)),
    }
}

/// JSON without the mark that some editors and servers put before a text.
pub(crate) fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(binding: Binding, version: Version) -> RemoteInterface {
        RemoteInterface {
            url: "https://h/a".to_owned(),
            binding,
            version,
            tenant: "t/1".to_owned(),
        }
    }

    #[test]
    fn each_binding_asks_its_way() {
        let get = || RemoteCall::Get { id: "a b".to_owned() };
        let rpc = get().request(&interface(Binding::JsonRpc, Version::V10));
        let body = rpc.body.unwrap();
        assert_eq!(
            (rpc.url.as_str(), &body["method"]),
            ("https://h/a", &json!("GetTask"))
        );
        assert_eq!(body["params"], json!({"id": "a b", "tenant": "t/1"}));
        let old = get().request(&interface(Binding::JsonRpc, Version::V03));
        let old = old.body.unwrap();
        assert_eq!(old["method"], "tasks/get");
        assert_eq!(
            old["params"],
            json!({"id": "a b", "tenant": "t/1", "historyLength": 10_000})
        );
        let rest = get().request(&interface(Binding::Rest, Version::V10));
        assert_eq!(
            (rest.url.as_str(), rest.body),
            ("https://h/a/t%2F1/tasks/a%20b", None)
        );
        let send = RemoteCall::Send {
            message: json!({"messageId": "m"}),
            metadata: None,
        };
        let rest = send.request(&interface(Binding::Rest, Version::V10));
        let body = json!({"message": {"messageId": "m"}, "configuration": {"returnImmediately": true}});
        assert_eq!(
            (rest.url.as_str(), rest.body),
            ("https://h/a/t%2F1/message:send", Some(body))
        );
    }

    #[test]
    fn a_urls_slash_and_query_are_kept() {
        let rpc = RemoteInterface {
            url: "https://h/a/?k=v".to_owned(),
            ..interface(Binding::JsonRpc, Version::V10)
        };
        let get = RemoteCall::Get { id: "t".to_owned() };
        assert_eq!(get.request(&rpc).url, "https://h/a/?k=v");
    }

    #[test]
    fn rest_of_0_3_is_asked_its_way() {
        let ask = |ask: RemoteCall| ask.request(&interface(Binding::Rest, Version::V03));
        let send = ask(RemoteCall::Send {
            message: json!({"messageId": "m", "role": "user", "parts": []}),
            metadata: None,
        });
        assert_eq!(send.url, "https://h/a/v1/message:send");
        assert_eq!(
            send.body.unwrap(),
            json!({"message": {"messageId": "m", "role": "ROLE_USER", "content": []}, "configuration": {"blocking": false}})
        );
        let id = || "a/b".to_owned();
        let cancel = ask(RemoteCall::Cancel { id: id() });
        assert_eq!(
            (cancel.url.as_str(), cancel.body.unwrap()),
            ("https://h/a/v1/tasks/a%2Fb:cancel", json!({"name": "tasks/a/b"}))
        );
        let get = ask(RemoteCall::Get { id: id() });
        assert_eq!(get.url, "https://h/a/v1/tasks/a%2Fb?historyLength=10000");
        let subscribe = ask(RemoteCall::Subscribe { id: id() });
        assert_eq!(
            (subscribe.method, subscribe.url.as_str()),
            (Method::GET, "https://h/a/v1/tasks/a%2Fb:subscribe")
        );
    }

    #[test]
    fn errors_are_found_wherever_they_are() {
        let rpc = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "no task"}});
        assert_eq!(
            unwrap_result(Binding::JsonRpc, rpc).unwrap_err().kind(),
            Kind::TaskGone
        );
        let rest = json!({"error": {"code": 400, "status": "FAILED_PRECONDITION", "message": "no",
            "details": [{"reason": "UNSUPPORTED_OPERATION"}]}});
        assert_eq!(
            unwrap_result(Binding::Rest, rest.clone()).unwrap_err().kind(),
            Kind::Unsupported
        );
        assert_eq!(
            error_from_status(400, rest.to_string().as_bytes()).kind(),
            Kind::Unsupported
        );
        assert_eq!(
            error_from_status(503, rest.to_string().as_bytes()).kind(),
            Kind::Busy
        );
        let said = error_from_status(401, br#"{"detail": "who are you?"}"#);
        assert_eq!(
            (said.kind(), said.to_string().as_str()),
            (
                Kind::Unauthorized,
                "it answered HTTP 401 (what it wants of callers is set in [bridge.outbound.HOST]): who are you?"
            )
        );
        for (body, told) in [
            ("", "it answered HTTP 500"),
            ("<h1>\nOops</h1>", "it answered HTTP 500: Oops"),
            ("{\"why\": 7}", "it answered HTTP 500: {\"why\": 7}"),
        ] {
            assert_eq!(error_from_status(500, body.as_bytes()).to_string(), told);
        }
        assert!(unwrap_result(Binding::JsonRpc, json!({})).is_err());
        assert!(unwrap_result(Binding::JsonRpc, json!([])).is_err());
    }
}
