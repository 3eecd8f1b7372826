//! Callers of gateways, as rules and limits know them. PURE.
//!
//! A caller is `NAME:SUBJECT` by the name of its gateway. Callers of A2A and of MCP are `http:SUBJECT` too: the same one by
//! either way, with one share of everything.

use std::{borrow::Cow, collections::BTreeMap};

use agentanycast_proto::gateway_labels;

use super::{HTTP, TaskSource};

/// Who sends a task from this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallerOfTask {
    /// The agent beside it, or whoever uses the daemon itself.
    Local,
    /// A caller of a gateway, who counts as this node's own.
    Gateway(String),
    /// A caller of a gateway of whom nobody knows who it is, and that may be on another host.
    Stranger(String),
}

impl CallerOfTask {
    /// By the labels of the task. A mark of a stranger with another value than `false` counts.
    pub(crate) fn from_labels(labels: &BTreeMap<String, String>) -> Self {
        let caller = gateway_caller(labels);
        let mark = labels.get(gateway_labels::STRANGER);
        match (caller, mark.is_some_and(|mark| mark != "false")) {
            (caller, true) => Self::Stranger(caller.unwrap_or_else(|| HTTP.to_owned())),
            (Some(caller), false) => Self::Gateway(caller),
            (None, false) => Self::Local,
        }
    }

    /// The name of a gateway's caller.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Gateway(name) | Self::Stranger(name) => Some(name),
        }
    }

    /// As the policy is asked about it.
    pub(crate) fn source(&self) -> TaskSource<'_> {
        match self {
            Self::Local => TaskSource::Local,
            Self::Gateway(name) => TaskSource::Bridge(name),
            Self::Stranger(name) => TaskSource::Stranger(name),
        }
    }

    pub(crate) fn is_stranger(&self) -> bool {
        matches!(self, Self::Stranger(_))
    }
}

/// The label of tasks whose gateway wrote the subject alone.
const FORMER_LABEL: &str = "a2a.caller";

/// What the callers of A2A and of MCP begin with.
pub(super) const HTTP_GATEWAYS: [&str; 2] = ["a2a:", "mcp:"];

/// No names of gateways: what names of other sources begin with.
const OTHER_SOURCES: [&str; 2] = ["did", "invited"];

/// The caller of a gateway that a task with these labels comes from; `None`: the agent beside the node. What has no name of
/// a gateway before it is a caller over HTTP, and never another kind of source.
pub(super) fn gateway_caller(labels: &BTreeMap<String, String>) -> Option<String> {
    if let Some(caller) = labels.get(gateway_labels::CALLER) {
        let has_name = caller.split_once(':').is_some_and(|(name, _)| is_name(name));
        return Some(if has_name {
            caller.clone()
        } else {
            format!("{HTTP}{caller}")
        });
    }
    Some(format!("{HTTP}{}", labels.get(FORMER_LABEL)?))
}

/// The name by which a caller is counted and written down.
pub(crate) fn counted_name(caller: &str) -> Cow<'_, str> {
    let subject = HTTP_GATEWAYS.iter().find_map(|name| caller.strip_prefix(name));
    match subject {
        Some(subject) => Cow::Owned(format!("{HTTP}{subject}")),
        None => Cow::Borrowed(caller),
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    begins && name.bytes().all(is_letter) && !OTHER_SOURCES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(label: &str, value: &str) -> Option<String> {
        gateway_caller(&BTreeMap::from([(label.to_owned(), value.to_owned())]))
    }

    #[test]
    fn a_caller_has_the_name_of_its_gateway() {
        for (label, value, expected, counted) in [
            ("gateway.caller", "a2a:alice", "a2a:alice", "http:alice"),
            ("gateway.caller", "mcp:alice", "mcp:alice", "http:alice"),
            ("gateway.caller", "echo:alice", "echo:alice", "echo:alice"),
            ("a2a.caller", "alice", "http:alice", "http:alice"),
            ("a2a.caller", "echo:alice", "http:echo:alice", "http:echo:alice"),
        ] {
            let caller = of(label, value).unwrap();
            assert_eq!(
                (caller.as_str(), counted_name(&caller).as_ref()),
                (expected, counted)
            );
        }
        assert_eq!(gateway_caller(&BTreeMap::new()), None);
    }

    #[test]
    fn what_is_not_known_of_a_mark_makes_a_stranger() {
        let of = |labels: &[(&str, &str)]| {
            let labels = labels
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            CallerOfTask::from_labels(&labels.collect())
        };
        let caller = ("gateway.caller", "aip:x");
        assert_eq!(of(&[]), CallerOfTask::Local);
        assert_eq!(of(&[caller]), CallerOfTask::Gateway("aip:x".to_owned()));
        assert_eq!(of(&[caller, ("gateway.stranger", "false")]), of(&[caller]));
        for mark in ["true", "1", "", "False"] {
            let stranger = of(&[caller, ("gateway.stranger", mark)]);
            assert_eq!(stranger, CallerOfTask::Stranger("aip:x".to_owned()), "{mark:?}");
            assert!(of(&[("gateway.stranger", mark)]).is_stranger());
        }
    }

    #[test]
    fn no_label_makes_a_caller_another_kind_of_source() {
        for value in [
            "local",
            "did:web:example.org",
            "invited:x",
            "12D3KooWx",
            "",
            ":",
            "A:x",
            "a b:x",
        ] {
            assert_eq!(of("gateway.caller", value).unwrap(), format!("http:{value}"));
        }
    }
}
