//! JSON metadata in labels (`map<string, string>`), and what has no place of its own. PURE.
//!
//! A text is a label as it is; any other JSON is a label with its JSON as text, and is named in [`TYPES`], so that
//! an agent of the mesh can read it and JSON gets its type back. Names that mean something to the mesh, very long
//! ones and very many go to the annex instead: JSON text under one reserved label beside the others.

use std::collections::BTreeMap;

use agentanycast_gateway::TRACE_LABELS;
use serde_json::{Map, Value};

/// What the labels of this gateway, and of all gateways, begin with.
const RESERVED: [&str; 2] = ["a2a.", "gateway."];

/// The label that lists which others are JSON and not text.
const TYPES: &str = "a2a.types";

/// Names that a daemon reads in a task's labels: a caller must not set them by its metadata.
const MEANINGFUL: [&str; 3] = ["context_id", "task_id", "idempotency_key"];

/// Labels of a task that are made of its metadata, at most: nodes take 256, and keep some for themselves.
const MOST: usize = 128;

/// Longest name that is made a label, in bytes: nodes take 256.
const LONGEST: usize = 128;

/// The field of an annex that holds metadata without a label.
pub(crate) const METADATA: &str = "metadata";

/// What an object says besides what has a place.
pub(crate) type ExtraFields = Map<String, Value>;

/// Whether labels of this name are a gateway's own: JSON metadata neither sets nor shows them.
fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|prefix| name.starts_with(prefix))
}

/// Makes labels of metadata; what does not fit goes to the annex.
pub(crate) fn from_metadata(
    metadata: Option<Map<String, Value>>,
    annex: &mut ExtraFields,
) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let Some(metadata) = metadata else {
        return labels;
    };
    let empty = metadata.is_empty();
    let mut typed = Vec::new();
    let mut misfits = Map::new();
    for (name, value) in metadata {
        let fits = labels.len() < MOST
            && !name.is_empty()
            && name.len() <= LONGEST
            && !is_reserved(&name)
            && !MEANINGFUL.contains(&name.as_str());
        match value {
            value if !fits => {
                misfits.insert(name, value);
            }
            Value::String(text) => {
                labels.insert(name, text);
            }
            other => {
                labels.insert(name.clone(), other.to_string());
                typed.push(Value::String(name));
            }
        }
    }
    if !typed.is_empty() {
        labels.insert(TYPES.to_owned(), Value::Array(typed).to_string());
    }
    if empty || !misfits.is_empty() {
        annex.insert(METADATA.to_owned(), Value::Object(misfits));
    }
    labels
}

/// The metadata that labels were made of, with what the annex has; `None` when there was none.
pub(crate) fn to_metadata(
    labels: &BTreeMap<String, String>,
    annex: &mut ExtraFields,
) -> Option<Map<String, Value>> {
    let misfits = match annex.remove(METADATA) {
        Some(Value::Object(misfits)) => Some(misfits),
        _ => None,
    };
    let typed: Vec<String> = labels
        .get(TYPES)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let mut metadata = Map::new();
    for (name, text) in labels {
        if is_reserved(name) {
            continue;
        }
        let json = typed
            .contains(name)
            .then(|| serde_json::from_str(text).ok())
            .flatten();
        metadata.insert(name.clone(), json.unwrap_or_else(|| Value::String(text.clone())));
    }
    if metadata.is_empty() && misfits.is_none() {
        return None;
    }
    metadata.extend(misfits.unwrap_or_default());
    Some(metadata)
}

/// Of these labels those of the trace: whoever carries a sealed task is told no others.
pub(crate) fn trace_labels(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_of_trace = |(name, _): &(&String, &String)| TRACE_LABELS.contains(&name.as_str());
    let labels = labels.iter().filter(is_of_trace);
    labels
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Notes an annex under its label, if there is anything in it.
pub(crate) fn attach(labels: &mut BTreeMap<String, String>, label: &str, annex: ExtraFields) {
    if !annex.is_empty() {
        labels.insert(label.to_owned(), Value::Object(annex).to_string());
    }
}

/// The annex under a label; empty when there is none that can be read.
pub(crate) fn detach(labels: &BTreeMap<String, String>, label: &str) -> ExtraFields {
    labels
        .get(label)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn round(metadata: &Value) -> (BTreeMap<String, String>, Option<Value>) {
        let mut annex = ExtraFields::new();
        let labels = from_metadata(metadata.as_object().cloned(), &mut annex);
        let back = to_metadata(&labels, &mut annex).map(Value::Object);
        (labels, back)
    }

    #[test]
    fn types_survive_and_agents_read_texts() {
        let metadata = json!({"s": "x", "n": 9_007_199_254_740_993_i64, "o": {"a": [true, null]}, "t": "1"});
        let (labels, back) = round(&metadata);
        assert_eq!(labels["s"], "x");
        assert_eq!(labels["n"], "9007199254740993");
        assert_eq!(back.unwrap(), metadata);
    }

    #[test]
    fn what_a_daemon_would_obey_is_no_label() {
        let metadata =
            json!({"task_id": "somebody's", "a2a.caller": "root", "gateway.state": "x", "": 1, "ok": "1"});
        let (labels, back) = round(&metadata);
        assert_eq!(labels.keys().collect::<Vec<_>>(), ["ok"]);
        assert_eq!(back.unwrap(), metadata);
    }

    #[test]
    fn nothing_and_empty_are_two_things() {
        assert_eq!(round(&Value::Null).1, None);
        assert_eq!(round(&json!({})).1, Some(json!({})));
    }

    #[test]
    fn there_are_not_too_many() {
        let many: Map<String, Value> = (0..1000).map(|n| (format!("k{n}"), json!(n))).collect();
        let (labels, back) = round(&Value::Object(many.clone()));
        assert!(labels.len() <= MOST + 1);
        assert_eq!(back, Some(Value::Object(many)));
    }
}
