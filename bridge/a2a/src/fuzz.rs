//! What fuzzing runs (`fuzz/`): each function takes any bytes, and panics when something does not hold.

#![allow(clippy::expect_used, reason = "what does not hold is told by a panic")]

use serde_json::Value;

use crate::{
    outbound,
    protocol::{
        card,
        message::{self, BadParts},
        request::{self, Method},
        task, v0_3_protojson,
        version::Version,
    },
};

/// The methods of JSON-RPC, of both versions.
const METHODS: [&str; 22] = [
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get",
    "tasks/pushNotificationConfig/list",
    "tasks/pushNotificationConfig/delete",
    "tasks/send",
    "agent/getAuthenticatedExtendedCard",
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
];

/// What a caller sends: a byte that says which method, and its parameters as JSON. They are read or refused; a message
/// that is read is written and read again as the same.
pub fn a2a(data: &[u8]) {
    let Some((which, json)) = data.split_first() else {
        return;
    };
    let Ok(params) = serde_json::from_slice::<Value>(json) else {
        return;
    };
    let name = METHODS[usize::from(*which) % METHODS.len()];
    let (version, method) = Method::from_name(name).expect("a method by its name");
    // The outcome is one of both; neither panics.
    let _ = request::read(version, method, params.clone());
    let old = [
        v0_3_protojson::from_send(params.clone(), v0_3_protojson::FileEncoding::Bytes),
        v0_3_protojson::from_send(params.clone(), v0_3_protojson::FileEncoding::Base64),
        Ok(v0_3_protojson::from_webhook(params.clone())),
    ];
    for params in old.into_iter().flatten() {
        let _ = request::read(Version::V03, method, params);
    }
    for version in [Version::V03, Version::V10] {
        let Ok((read, place)) = message::read(version, params.clone(), "message", BadParts::Refuse) else {
            continue;
        };
        let written = message::write(version, read.clone(), &place);
        let again = message::read(version, written.clone(), "message", BadParts::Refuse);
        let (again, its_place) = again.expect("what was written can be read");
        let twice = message::write(version, again, &its_place);
        assert_eq!(
            (&twice, its_place),
            (&written, place),
            "what is written is read the same"
        );
    }
}

/// What an agent outside answers: a byte that says how it comes, and the rest. A card, a task, an event, a stream of events
/// in pieces: read or refused.
pub fn a2a_answer(data: &[u8]) {
    let Some((piece, bytes)) = data.split_first() else {
        return;
    };
    outbound::fuzz(usize::from(*piece), bytes);
    let Ok(json) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let _ = card::read(json.clone());
    for version in [Version::V03, Version::V10] {
        if let Ok(read) = task::read(version, json.clone()) {
            let written = task::write(version, read, None);
            assert!(
                task::read(version, written.clone()).is_ok(),
                "what was written can be read: {written}"
            );
        }
        let artifact = message::read_artifact(version, json.clone(), "artifact");
        if let Ok(read) = artifact {
            let written = message::write_artifact(version, read);
            assert!(
                message::read_artifact(version, written.clone(), "artifact").is_ok(),
                "{written}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use agentanycast_daemon_kit::fuzz_corpus::{FuzzCorpus, replay};
    use serde_json::Value;

    use super::{METHODS, Method, Version, request};

    /// What is kept under this name, after the byte that says which.
    fn kept(target: &str, name: &str) -> (usize, Value) {
        let corpus = FuzzCorpus::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), target);
        let bytes = corpus.input(name);
        (
            usize::from(bytes[0]),
            serde_json::from_slice(&bytes[1..]).unwrap(),
        )
    }

    /// Otherwise nothing that is tried would ever be read.
    #[test]
    fn the_corpus_has_what_is_read() {
        for (name, method) in [("good-0.3", "message/send"), ("good-1.0", "SendMessage")] {
            let (which, params) = kept("a2a", name);
            assert_eq!(METHODS[which % METHODS.len()], method);
            let (version, method) = Method::from_name(method).unwrap();
            request::read(version, method, params).unwrap();
        }
        for (name, version) in [("good-0.3", Version::V03), ("good-1.0", Version::V10)] {
            let (_, task) = kept("a2a_answer", name);
            super::task::read(version, task).unwrap();
        }
    }

    #[test]
    fn the_corpus_passes() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        replay(&top, "a2a", super::a2a);
        replay(&top, "a2a_answer", super::a2a_answer);
    }
}
