//! The bytes of files in the protobuf of 0.3. PURE.
//!
//! The protobuf has a field of bytes (`fileWithBytes`), and 0.3's own JSON has the file as a text of base64.
//! Clients disagree on what the field has. ProtoJSON, and `@a2a-js/sdk` with it, puts the file's bytes there.
//! The official SDKs for Python and Go put the text of base64 there, so that the file is encoded twice. A client is
//! known by its `User-Agent`, or by its files (`file_evidence`).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

/// The fields of an object that lead to parts: those with one object, and those with a list.
const ONE: [&str; 9] = [
    "task",
    "message",
    "msg",
    "request",
    "statusUpdate",
    "artifactUpdate",
    "status",
    "update",
    "artifact",
];
const MANY: [&str; 5] = ["history", "artifacts", "tasks", "parts", "content"];

/// The names of the field.
pub(super) const BYTES: [&str; 2] = ["fileWithBytes", "file_with_bytes"];

/// What is in the `User-Agent` of clients that put the text of base64 there: the official Python SDK over REST and over
/// gRPC, which names the library behind what the caller says of itself, and nodes of this product, which speak to agents
/// of 0.3 as that SDK does.
const BASE64_CLIENTS: [&str; 3] = ["python-httpx/", "grpc-python", "agentanycast/"];

/// What the field of bytes has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileEncoding {
    /// The bytes of the file.
    Bytes,
    /// The text of base64 that stands for the file in 0.3's own JSON.
    Base64,
}

impl FileEncoding {
    /// What a client with this `User-Agent` puts there, and reads; `None` if the name does not tell.
    pub(crate) fn from_user_agent(user_agent: Option<&str>) -> Option<Self> {
        let agent = user_agent?;
        let puts_base64 = BASE64_CLIENTS.iter().any(|name| agent.contains(name));
        puts_base64.then_some(Self::Base64)
    }

    /// Makes what came the JSON of [`FileEncoding::Bytes`]. A text that is not UTF-8 stays unreadable as base64, and
    /// so the file is refused by its field's name.
    pub(super) fn normalize(self, json: &mut Value) {
        if self == Self::Base64 {
            each(json, &|field| {
                let text = STANDARD.decode(&*field).ok();
                if let Some(text) = text {
                    *field = String::from_utf8_lossy(&text).into_owned();
                }
            });
        }
    }

    /// Makes JSON of [`FileEncoding::Bytes`] what goes out.
    pub(super) fn encode(self, mut json: Value) -> Value {
        if self == Self::Base64 {
            each(&mut json, &|field| *field = STANDARD.encode(&*field));
        }
        json
    }
}

/// Changes the field of each file in what this object leads to.
fn each(json: &mut Value, change: &dyn Fn(&mut String)) {
    let Value::Object(fields) = json else { return };
    for name in ONE {
        if let Some(inner) = fields.get_mut(name) {
            each(inner, change);
        }
    }
    for name in MANY {
        if let Some(Value::Array(items)) = fields.get_mut(name) {
            for item in items {
                if let Some(Value::Object(file)) = item.get_mut("file") {
                    in_file(file, change);
                }
                each(item, change);
            }
        }
    }
}

fn in_file(file: &mut Map<String, Value>, change: &dyn Fn(&mut String)) {
    for name in BYTES {
        if let Some(Value::String(field)) = file.get_mut(name) {
            change(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_client_of_a_known_library_is_known_by_its_name() {
        let base64 = Some(FileEncoding::Base64);
        for (agent, expected) in [
            (Some("python-httpx/0.28.1"), base64),
            (
                Some("grpc-python-asyncio/1.85.1 grpc-c/53.0.0 (linux; chttp2)"),
                base64,
            ),
            (Some("agentanycast/0.1.0"), base64),
            (Some("node"), None),
            (Some("my-app/1.0 grpc-python/1.85.1 grpc-c/53.0.0"), base64),
            (Some("my-app/1.0 python-httpx/0.28.1"), base64),
            (Some("my-app/1.0"), None),
            (None, None),
        ] {
            assert_eq!(FileEncoding::from_user_agent(agent), expected, "{agent:?}");
        }
    }

    #[test]
    fn files_are_found_wherever_parts_are_and_data_is_left_alone() {
        let parts = |base64: &str| {
            json!([
                {"file": {"fileWithBytes": base64, "name": "a"}},
                {"data": {"data": {"file": {"fileWithBytes": "dGVzdA=="}}}},
                {"text": "x", "metadata": {"file": {"fileWithBytes": "dGVzdA=="}}},
            ])
        };
        let task = |base64: &str| {
            json!({"task": {
                "status": {"message": {"content": parts(base64)}},
                "history": [{"content": parts(base64)}],
                "artifacts": [{"parts": parts(base64)}],
            }})
        };
        let (once, twice) = ("dGVzdA==", "ZEdWemRBPT0=");
        assert_eq!(FileEncoding::Base64.encode(task(once)), task(twice));
        assert_eq!(FileEncoding::Bytes.encode(task(once)), task(once));
        let mut came = task(twice);
        FileEncoding::Base64.normalize(&mut came);
        assert_eq!(came, task(once));
        FileEncoding::Bytes.normalize(&mut came);
        assert_eq!(came, task(once));
    }
}
