//! 0.3 as REST and gRPC say it: JSON of its protobuf (package `a2a.v1`), which is neither 0.3's own JSON nor that of 1.0. PURE.
//!
//! The one rule: what goes out has no field that the protobuf lacks, since its readers refuse such; what comes in keeps
//! whatever it has.

mod file_bytes;
mod file_evidence;
mod read;
mod write;

use serde_json::Value;

pub(crate) use file_bytes::FileEncoding;
pub(crate) use file_evidence::evidence;
pub(crate) use read::{from_event, from_send, from_task, from_webhook};
pub(crate) use write::{answer, to_event, to_send};

/// States whose word is not the protobuf's in small letters.
const STATES: [(&str, &str); 2] = [
    ("canceled", "TASK_STATE_CANCELLED"),
    ("unknown", "TASK_STATE_UNSPECIFIED"),
];

/// What every state begins with.
const STATE: &str = "TASK_STATE_";

/// Changes the items of a list that are objects.
fn each(value: &mut Value, name: &str, change: fn(Value) -> Value) {
    if let Some(Value::Array(items)) = value.get_mut(name) {
        for item in items.iter_mut().filter(|item| item.is_object()) {
            *item = change(item.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_written_as_the_protobuf_has_it() {
        let message = json!({"kind": "message", "messageId": "m", "role": "user", "contextId": "c", "later": 1, "parts": [
            {"kind": "text", "text": "hi", "metadata": {"k": 1}},
            {"kind": "file", "file": {"bytes": "AP8Q", "name": "a.bin", "mimeType": "x/y"}},
            {"kind": "file", "file": {"uri": "https://h/x"}},
            {"kind": "data", "data": {"a": [1]}},
        ]});
        let sent = to_send(
            json!({"message": message, "configuration": {"blocking": false}, "metadata": {"x": 1}}),
            FileEncoding::Base64,
        );
        assert_eq!(
            sent,
            json!({"configuration": {"blocking": false}, "metadata": {"x": 1}, "message": {
            "messageId": "m", "role": "ROLE_USER", "contextId": "c", "content": [
                {"text": "hi", "metadata": {"k": 1}},
                {"file": {"fileWithBytes": "QVA4UQ==", "name": "a.bin", "mimeType": "x/y"}},
                {"file": {"fileWithUri": "https://h/x"}},
                {"data": {"data": {"a": [1]}}},
            ]}})
        );
    }

    #[test]
    fn what_comes_is_0_3() {
        let message = json!({"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": "hi"}]});
        let read = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]});
        for name in ["message", "msg"] {
            assert_eq!(from_event(json!({ name: message }), FileEncoding::Base64), read);
        }
        for name in ["update", "message"] {
            let status = json!({"state": "TASK_STATE_INPUT_REQUIRED", name: message});
            let event = from_event(
                json!({"statusUpdate": {"taskId": "t", "status": status, "final": true}}),
                FileEncoding::Base64,
            );
            let status = json!({"state": "input-required", "message": read});
            assert_eq!(
                event,
                json!({"kind": "status-update", "taskId": "t", "status": status, "final": true})
            );
        }
        let artifact = json!({"artifactId": "a", "parts": [{"file": {"fileWithBytes": "QVA4UQ=="}}, {"data": {"data": {"a": 1}}}]});
        let event = from_event(
            json!({"artifactUpdate": {"taskId": "t", "artifact": artifact, "append": true}}),
            FileEncoding::Base64,
        );
        assert_eq!(event["kind"], "artifact-update");
        assert_eq!(
            event["artifact"]["parts"],
            json!([{"kind": "file", "file": {"bytes": "AP8Q"}}, {"kind": "data", "data": {"a": 1}}])
        );
        for (theirs, ours) in [
            ("TASK_STATE_CANCELLED", "canceled"),
            ("TASK_STATE_CANCELED", "canceled"),
            ("TASK_STATE_UNSPECIFIED", "unknown"),
            ("TASK_STATE_AUTH_REQUIRED", "auth-required"),
            ("later", "later"),
        ] {
            assert_eq!(
                from_task(json!({"status": {"state": theirs}}), FileEncoding::Bytes)["status"]["state"],
                ours
            );
        }
    }

    #[test]
    fn a_message_that_comes_is_0_3() {
        let webhook = json!({"url": "https://h"});
        let body = json!({
            "message": {"messageId": "m", "role": "ROLE_USER", "content": [
                {"file": {"fileWithBytes": "QVA4UQ==", "mimeType": "x/y"}},
                {"data": {"data": {"a": 1}}},
                {"kind": "data", "data": {"data": 7}},
            ]},
            "configuration": {"pushNotification": webhook},
            "metadata": {"x": 1},
        });
        let parts = json!([
            {"kind": "file", "file": {"bytes": "AP8Q", "mimeType": "x/y"}},
            {"kind": "data", "data": {"a": 1}},
            {"kind": "data", "data": {"data": 7}},
        ]);
        let read = json!({
            "message": {"kind": "message", "messageId": "m", "role": "user", "parts": parts},
            "configuration": {"blocking": false, "pushNotificationConfig": webhook},
            "metadata": {"x": 1},
        });
        assert_eq!(from_send(body.clone(), FileEncoding::Base64).unwrap(), read);
        // As protobuf names the fields.
        let mut named = body;
        named["request"] = named["message"].take();
        named["configuration"]["push_notification"] = named["configuration"]["pushNotification"].take();
        named["configuration"]["blocking"] = true.into();
        let waits = from_send(named, FileEncoding::Base64).unwrap();
        assert_eq!(waits["message"], read["message"]);
        assert_eq!(waits["configuration"]["pushNotificationConfig"], webhook);
        assert_eq!(waits["configuration"]["blocking"], true);
    }

    #[test]
    fn what_says_nothing_is_refused_by_the_names_that_0_3_has() {
        for (content, said) in [
            (json!(null), "message.content is missing"),
            (json!([]), "message.content is empty"),
            (json!("x"), "message.content must be a list"),
            (
                json!([{"text": "x"}, {"metadata": {}}]),
                "message.content[1] has neither text nor a file nor data",
            ),
            (
                json!([7]),
                "message.content[0] has neither text nor a file nor data",
            ),
        ] {
            let body = json!({"message": {"messageId": "m", "role": "ROLE_USER", "content": content}});
            assert_eq!(
                from_send(body, FileEncoding::Bytes).unwrap_err().to_string(),
                said
            );
        }
    }

    #[test]
    fn a_webhook_comes_in_three_forms() {
        let webhook = json!({"id": "w", "url": "https://h"});
        let params = json!({ "pushNotificationConfig": webhook });
        let named = json!({"name": "tasks/t/pushNotificationConfigs/w", "pushNotificationConfig": webhook});
        for body in [
            webhook.clone(),
            named.clone(),
            json!({"parent": "tasks/t", "configId": "x", "config": named}),
            json!({"configId": "w", "config": {"pushNotificationConfig": {"url": "https://h"}}}),
        ] {
            assert_eq!(from_webhook(body.clone()), params, "{body}");
        }
    }

    fn text() -> impl Strategy<Value = String> {
        "\\PC{0,8}"
    }

    fn a_part() -> impl Strategy<Value = Value> {
        prop_oneof![
            text().prop_map(|text| json!({"kind": "text", "text": text, "metadata": {"k": 1}})),
            text().prop_map(|text| json!({"kind": "data", "data": {text: [null, true]}})),
            text().prop_map(|name| json!({"kind": "file", "file": {"uri": "https://h/x", "name": name}})),
            proptest::collection::vec(any::<u8>(), 0..20).prop_map(
                |bytes| json!({"kind": "file", "file": {"bytes": STANDARD.encode(bytes), "mimeType": "x/y"}})
            ),
        ]
    }

    fn a_message() -> impl Strategy<Value = Value> {
        let parts = proptest::collection::vec(a_part(), 0..3);
        (text(), any::<bool>(), parts).prop_map(|(id, of_user, parts)| {
            let role = if of_user { "user" } else { "agent" };
            json!({"kind": "message", "messageId": id, "role": role, "parts": parts, "extensions": ["urn:x"]})
        })
    }

    fn a_status() -> impl Strategy<Value = Value> {
        let states = [
            "submitted",
            "working",
            "input-required",
            "auth-required",
            "completed",
            "canceled",
            "unknown",
        ];
        (proptest::sample::select(states.to_vec()), a_message()).prop_map(|(state, message)| {
            json!({"state": state, "message": message, "timestamp": "2025-01-02T03:04:05.678Z"})
        })
    }

    fn an_artifact() -> impl Strategy<Value = Value> {
        (text(), proptest::collection::vec(a_part(), 0..3))
            .prop_map(|(id, parts)| json!({"artifactId": id, "parts": parts, "metadata": {"n": 1.5}}))
    }

    /// What is told of a task, in 0.3's own words.
    fn an_event() -> impl Strategy<Value = Value> {
        prop_oneof![
            a_message(),
            (a_status(), any::<bool>()).prop_map(|(status, last)| {
                json!({"kind": "status-update", "taskId": "t", "contextId": "c", "status": status, "final": last})
            }),
            (an_artifact(), any::<bool>()).prop_map(|(artifact, more)| {
                json!({"kind": "artifact-update", "taskId": "t", "contextId": "c", "artifact": artifact, "append": more,
                    "lastChunk": !more})
            }),
            (a_status(), an_artifact(), a_message()).prop_map(|(status, artifact, message)| {
                json!({"kind": "task", "id": "t", "contextId": "c", "status": status, "artifacts": [artifact],
                    "history": [message], "metadata": {"k": {}}})
            }),
        ]
    }

    proptest! {
        /// What is written is read as it was: nothing that both forms have is lost between them.
        #[test]
        fn events_come_back(event in an_event()) {
            for files in [FileEncoding::Bytes, FileEncoding::Base64] {
                prop_assert_eq!(&from_event(to_event(event.clone(), files), files), &event);
            }
        }

        /// A file comes back as it was sent, whatever it says: a file may be base64 itself.
        #[test]
        fn files_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..40), encoded in any::<bool>()) {
            let bytes = if encoded { STANDARD.encode(bytes).into_bytes() } else { bytes };
            let message = json!({"kind": "message", "messageId": "m", "role": "user", "parts": [
                {"kind": "file", "file": {"bytes": STANDARD.encode(bytes)}},
            ]});
            for files in [FileEncoding::Bytes, FileEncoding::Base64] {
                let sent = to_send(json!({ "message": message }), files);
                prop_assert_eq!(&from_send(sent, files).unwrap()["message"], &message);
            }
        }

        /// Whatever somebody sends, it is read without a panic.
        #[test]
        fn odd_answers_are_no_harm(name in "(task|msg|message|statusUpdate|artifactUpdate|x)", inner in "(null|7|\"x\"|\\[1,null\\]|\\{\\})") {
            let inner: Value = serde_json::from_str(&inner).unwrap();
            let status = json!({"state": inner, "update": inner});
            for body in [
                inner.clone(),
                json!({"status": inner, "history": inner, "artifacts": [inner], "artifact": {"parts": [inner]}}),
                json!({"status": status, "parts": [{"file": inner}, {"data": inner}], "content": inner}),
            ] {
                let event = from_event(json!({ name.as_str(): body }), FileEncoding::Base64);
                let _ = to_event(event, FileEncoding::Base64);
                let _ = from_send(json!({ name.as_str(): body, "configuration": inner, "message": inner }), FileEncoding::Base64);
                let _ = from_webhook(json!({"config": body, "configId": inner}));
            }
        }
    }
}
