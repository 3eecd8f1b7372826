//! Nothing is lost on the way: random tasks from JSON to the protobuf and back, and from the protobuf to JSON and
//! back, in both versions.

use agentanycast_proto::struct_json;
use agentanycast_proto::v1::{self, DataPart, RawPart, TextPart, UrlPart, part::Content};
use proptest::{collection::vec, option, prelude::*};
use serde_json::{Map, Value, json};

use super::{
    message::{self, BadParts},
    task,
    version::Version,
};

/// Any JSON, with integers of all sizes. Numbers with a fraction have few digits, so that they are one number
/// in text and in memory.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1000..1000_i32).prop_map(|n| json!(f64::from(n) + 0.5)),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("\\PC{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Metadata: any names, some of them ours.
fn metadata() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        4 => "[a-z]{1,6}",
        1 => Just("a2a.caller".to_owned()),
        1 => Just("task_id".to_owned()),
        1 => Just("agentanycast".to_owned()),
    ];
    proptest::collection::btree_map(name, any_json(), 0..4)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// An object of these fields; those that are none are left out.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields.into_iter();
    given
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect::<Map<_, _>>()
        .into()
}

fn text() -> impl Strategy<Value = Value> {
    "\\PC{1,12}".prop_map(Value::from)
}

fn base64() -> impl Strategy<Value = Value> {
    use base64::Engine as _;
    vec(any::<u8>(), 0..20).prop_map(|bytes| base64::engine::general_purpose::STANDARD.encode(bytes).into())
}

fn part_v10() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        "\\PC{0,12}".prop_map(|text| ("text", Value::from(text))),
        base64().prop_map(|raw| ("raw", raw)),
        text().prop_map(|url| ("url", url)),
        any_json().prop_map(|data| ("data", data)),
    ];
    (
        content,
        option::of(text()),
        option::of(text()),
        option::of(metadata()),
        option::of(any_json()),
    )
        .prop_map(|((name, value), media, file, metadata, unknown)| {
            object([
                (name, Some(value)),
                ("mediaType", media),
                ("filename", file),
                ("metadata", metadata),
                ("later", unknown),
            ])
        })
}

fn part_v03() -> impl Strategy<Value = Value> {
    let file = (
        prop_oneof![
            base64().prop_map(|b| ("bytes", b)),
            text().prop_map(|u| ("uri", u))
        ],
        option::of(text()),
        option::of(text()),
    )
        .prop_map(|((name, value), mime, file)| {
            object([(name, Some(value)), ("mimeType", mime), ("name", file)])
        });
    let content = prop_oneof![
        "\\PC{0,12}".prop_map(|text| ("text", "text", Value::from(text))),
        file.prop_map(|file| ("file", "file", file)),
        metadata().prop_map(|data| ("data", "data", data)),
    ];
    (content, option::of(metadata()), option::of(any_json())).prop_map(
        |((kind, name, value), metadata, unknown)| {
            object([
                ("kind", Some(kind.into())),
                (name, Some(value)),
                ("metadata", metadata),
                ("later", unknown),
            ])
        },
    )
}

fn parts(version: Version) -> BoxedStrategy<Value> {
    match version {
        Version::V10 => vec(part_v10(), 0..3).prop_map(Value::from).boxed(),
        Version::V03 => vec(part_v03(), 0..3).prop_map(Value::from).boxed(),
    }
}

fn a_message(version: Version) -> impl Strategy<Value = Value> {
    let role = match version {
        Version::V10 => vec!["ROLE_USER", "ROLE_AGENT", "ROLE_UNSPECIFIED"],
        Version::V03 => vec!["user", "agent"],
    };
    let ids = || prop_oneof![Just("own"), Just("other")];
    (
        (
            text(),
            proptest::sample::select(role),
            parts(version),
            ids(),
            ids(),
        ),
        option::of(metadata()),
        option::of(vec(text(), 1..3).prop_map(Value::from)),
        option::of(any_json()),
    )
        .prop_map(
            move |((id, role, parts, context, task), metadata, list, unknown)| {
                object([
                    ("kind", (version == Version::V03).then(|| "message".into())),
                    ("messageId", Some(id)),
                    ("role", Some(role.into())),
                    ("parts", Some(parts)),
                    ("contextId", Some(format!("{context}-context").into())),
                    ("taskId", Some(format!("{task}-task").into())),
                    ("metadata", metadata),
                    ("extensions", list.clone()),
                    ("referenceTaskIds", list),
                    ("later", unknown),
                ])
            },
        )
}

fn an_artifact(version: Version) -> impl Strategy<Value = Value> {
    (
        (text(), option::of(text()), option::of(text()), parts(version)),
        option::of(metadata()),
        option::of(vec(text(), 1..3).prop_map(Value::from)),
        option::of(any_json()),
    )
        .prop_map(
            |((id, name, description, parts), metadata, extensions, unknown)| {
                object([
                    ("artifactId", Some(id)),
                    ("name", name),
                    ("description", description),
                    ("parts", Some(parts)),
                    ("metadata", metadata),
                    ("extensions", extensions),
                    ("later", unknown),
                ])
            },
        )
}

fn timestamp() -> impl Strategy<Value = Value> {
    (0..4_000_000_000_i64, 0..1000_i32).prop_map(|(seconds, millis)| {
        let nanos = millis * 1_000_000;
        super::time::write_time(&prost_types::Timestamp { seconds, nanos })
            .unwrap()
            .into()
    })
}

fn a_task(version: Version) -> impl Strategy<Value = Value> {
    let states = match version {
        Version::V10 => vec![
            "TASK_STATE_SUBMITTED",
            "TASK_STATE_WORKING",
            "TASK_STATE_COMPLETED",
            "TASK_STATE_FAILED",
            "TASK_STATE_CANCELED",
            "TASK_STATE_INPUT_REQUIRED",
            "TASK_STATE_REJECTED",
            "TASK_STATE_AUTH_REQUIRED",
            "TASK_STATE_UNSPECIFIED",
            "TASK_STATE_OF_TOMORROW",
        ],
        Version::V03 => vec![
            "submitted",
            "working",
            "completed",
            "failed",
            "canceled",
            "input-required",
            "rejected",
            "auth-required",
            "unknown",
            "of-tomorrow",
        ],
    };
    let status = (
        proptest::sample::select(states),
        option::of(a_message(version)),
        option::of(prop_oneof![9 => timestamp(), 1 => Just(json!("yesterday"))]),
        option::of(any_json()),
    )
        .prop_map(|(state, message, timestamp, unknown)| {
            object([
                ("state", Some(state.into())),
                ("message", message),
                ("timestamp", timestamp),
                ("later", unknown),
            ])
        });
    // An empty list is a list that is not there.
    let list = |values: Vec<Value>| (!values.is_empty()).then(|| Value::from(values));
    (
        status,
        vec(a_message(version), 0..3),
        vec(an_artifact(version), 0..3),
        option::of(metadata()),
        option::of(any_json()),
    )
        .prop_map(move |(status, history, artifacts, metadata, unknown)| {
            object([
                ("kind", (version == Version::V03).then(|| "task".into())),
                ("id", Some("own-task".into())),
                ("contextId", Some("own-context".into())),
                ("status", Some(status)),
                ("history", list(history)),
                ("artifacts", list(artifacts)),
                ("metadata", metadata),
                ("later", unknown),
            ])
        })
}

/// What is no null; a field that is null is one that is not there, where it has a meaning.
fn same(version: Version, json: Value) -> Result<(), TestCaseError> {
    let carried =
        task::read(version, json.clone()).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(task::write(version, carried, None), json);
    Ok(())
}

fn proto_part() -> impl Strategy<Value = v1::Part> {
    let file = "\\PC{0,6}";
    let content = prop_oneof![
        "\\PC{0,12}".prop_map(|text| Content::TextPart(TextPart { text })),
        metadata().prop_map(|value| {
            let (data, _) = struct_json::carry(&value).unwrap();
            Content::DataPart(DataPart { data: Some(data) })
        }),
        ("\\PC{0,12}", file).prop_map(|(url, filename)| Content::UrlPart(UrlPart { url, filename })),
        (vec(any::<u8>(), 0..20), file)
            .prop_map(|(data, filename)| Content::RawPart(RawPart { data, filename })),
    ];
    let labels = proptest::collection::btree_map("[b-z]{1,6}", "\\PC{0,8}", 0..3);
    (content, "\\PC{0,8}", labels).prop_map(|(content, media_type, metadata)| v1::Part {
        content: Some(content),
        media_type,
        metadata,
    })
}

fn proto_time() -> impl Strategy<Value = Option<prost_types::Timestamp>> {
    option::of(
        (0..4_000_000_000_i64, 0..1_000_000_000_i32)
            .prop_map(|(seconds, nanos)| prost_types::Timestamp { seconds, nanos }),
    )
}

fn proto_message() -> impl Strategy<Value = v1::Message> {
    ("\\PC{0,8}", 1..3_i32, vec(proto_part(), 0..3), proto_time()).prop_map(
        |(message_id, role, parts, created_at)| v1::Message {
            message_id,
            role,
            parts,
            created_at,
        },
    )
}

fn proto_task() -> impl Strategy<Value = v1::Task> {
    let artifact = ("\\PC{0,8}", "\\PC{0,8}", vec(proto_part(), 0..3), any::<u64>()).prop_map(
        |(artifact_id, name, parts, size_bytes)| v1::Artifact {
            artifact_id,
            name,
            parts,
            size_bytes,
        },
    );
    let attempt =
        ("\\PC{0,8}", "\\PC{0,8}").prop_map(|(peer_id, reason)| v1::TaskAttempt { peer_id, reason });
    let attempts = vec(attempt, 0..3);
    let labels = proptest::collection::btree_map("[b-z]{1,6}", "\\PC{0,8}", 0..3);
    (
        (
            0..8_i32,
            vec(proto_message(), 0..3),
            any::<bool>(),
            vec(artifact, 0..3),
        ),
        (proto_time(), proto_time(), labels, attempts),
        (
            "\\PC{0,8}",
            "\\PC{0,8}",
            "\\PC{0,8}",
            "\\PC{0,8}",
            "\\PC{0,8}",
            "\\PC{0,8}",
        ),
    )
        .prop_map(
            |((status, messages, said, artifacts), (created_at, updated_at, metadata, attempts), ids)| {
                v1::Task {
                    task_id: ids.0,
                    context_id: ids.1,
                    status,
                    // That of the state is the last of all, as nodes keep it.
                    status_message: messages.last().filter(|_| said).cloned(),
                    messages,
                    artifacts,
                    created_at,
                    updated_at,
                    target_skill_id: ids.2,
                    originator_peer_id: ids.3,
                    metadata,
                    assignee_peer_id: ids.4,
                    agent: ids.5,
                    attempts,
                }
            },
        )
}

proptest! {
    #[test]
    fn from_1_0_and_back(json in a_task(Version::V10)) {
        same(Version::V10, json)?;
    }

    #[test]
    fn from_0_3_and_back(json in a_task(Version::V03)) {
        same(Version::V03, json)?;
    }

    #[test]
    fn from_the_mesh_and_back(given in proto_task()) {
        for version in [Version::V10, Version::V03] {
            let json = task::write(version, given.clone(), None);
            let text = json.to_string();
            let back = task::read(version, serde_json::from_str(&text).unwrap());
            prop_assert_eq!(back.unwrap(), given.clone(), "{}", text);
        }
    }

    /// Whatever JSON comes, it is read or refused.
    #[test]
    fn no_json_is_too_odd(json in any_json(), version in prop_oneof![Just(Version::V10), Just(Version::V03)]) {
        let _ = task::read(version, json.clone());
        let _ = message::read(version, json, "message", BadParts::Refuse);
    }
}

#[test]
fn one_version_reads_as_the_other() {
    let json = json!({
        "kind": "task", "id": "t", "contextId": "c",
        "status": {"state": "auth-required", "timestamp": "2025-01-01T00:00:00.000Z"},
        "history": [{
            "kind": "message", "messageId": "m", "role": "user", "taskId": "t", "contextId": "c",
            "parts": [
                {"kind": "text", "text": "hi"},
                {"kind": "file", "file": {"bytes": "aGk=", "mimeType": "text/plain", "name": "a.txt"}},
                {"kind": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": true}},
            ],
        }],
    });
    let carried = task::read(Version::V03, json.clone()).unwrap();
    let new = task::write(Version::V10, carried, None);
    assert_eq!(
        new,
        json!({
            "id": "t", "contextId": "c",
            "status": {"state": "TASK_STATE_AUTH_REQUIRED", "timestamp": "2025-01-01T00:00:00.000Z"},
            "history": [{
                "messageId": "m", "role": "ROLE_USER", "taskId": "t", "contextId": "c",
                "parts": [
                    {"text": "hi"},
                    {"raw": "aGk=", "mediaType": "text/plain", "filename": "a.txt"},
                    {"data": [1]},
                ],
            }],
        })
    );
    let old = task::write(Version::V03, task::read(Version::V10, new).unwrap(), None);
    assert_eq!(old, json);
}

#[test]
fn the_newest_of_the_history() {
    let said = |id: &str| v1::Message {
        message_id: id.to_owned(),
        ..v1::Message::default()
    };
    let task = v1::Task {
        messages: vec![said("1"), said("2"), said("3")],
        status_message: Some(said("3")),
        ..v1::Task::default()
    };
    let shown = |history| {
        let json = task::write(Version::V10, task.clone(), history);
        let list = json["history"].as_array().cloned().unwrap_or_default();
        list.iter()
            .map(|message| message["messageId"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(None), ["1", "2"]);
    assert_eq!(shown(Some(1)), ["2"]);
    assert!(shown(Some(0)).is_empty());
}
