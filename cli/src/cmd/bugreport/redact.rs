//! PURE: texts without what looks like a secret.

use std::{borrow::Cow, sync::LazyLock};

use agentanycast_daemon_kit::sanitize;
use regex::Regex;
use serde_json::Value;

/// What stands in its place.
const HIDDEN: &str = "***";

/// A value behind a name that says that it is secret: `token=…`, `"api_key": "…"`, `Authorization: Bearer …`.
#[allow(clippy::expect_used, reason = "the test compiles them")]
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)(\b[\w-]*(?:token|password|passwd|auth_pass|secret|api[_-]?key|private[_-]?key|authorization|cookie)\b\\?"?\s*[:=]\s*\\?"?(?:bearer\s+|basic\s+)?)[^\s"\\,;}]+"#,
    )
    .expect("a regular expression")
});

/// A bearer token, and a JSON Web Token, wherever they stand.
#[allow(clippy::expect_used, reason = "the test compiles them")]
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(\bbearer\s+)[\w.~+/=-]{8,}|\beyJ[\w-]+\.[\w-]+\.[\w-]*").expect("a regular expression")
});

/// A key in PEM.
#[allow(clippy::expect_used, reason = "the test compiles them")]
static PEM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)")
        .expect("a regular expression")
});

/// Begin the targets of lines about programs of agents, in which earlier versions had words of these programs.
const OF_PROGRAMS: [&str; 2] = ["agentanycast_runner", "agentanycast_node::configured_agents"];

/// The target of what such a program wrote to its standard error.
const WRITTEN: &str = "agentanycast_runner::piped_child";

/// What is shown of a line about a program, besides its text.
const SHOWN_FIELDS: [&str; 11] = [
    "timestamp",
    "level",
    "message",
    "target",
    "task",
    "agent",
    "attempt",
    "seconds",
    "tools",
    "lines",
    "summary",
];

/// Of a line for people about a program: the time, the level and the target, and the text without its fields.
#[allow(clippy::expect_used, reason = "the test compiles them")]
static ABOUT_PROGRAM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^(\S+\s+[A-Z]+\s+(agentanycast_(?:runner|node::configured_agents)[\w:]*):)\s(.*?)(?:\s\w+=.*)?$",
    )
    .expect("a regular expression")
});

/// A line of a log file without the words of programs.
pub(super) fn log_line(line: &str) -> Cow<'_, str> {
    if let Some(about) = ABOUT_PROGRAM.captures(line) {
        let said = if &about[2] == WRITTEN { HIDDEN } else { &about[3] };
        return format!("{} {said}", &about[1]).into();
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else {
        return line.into();
    };
    let target = fields.get("target").and_then(Value::as_str).unwrap_or_default();
    if !OF_PROGRAMS.iter().any(|of| target.starts_with(of)) {
        return line.into();
    }
    if target == WRITTEN {
        fields.remove("message");
    }
    fields.retain(|name, _| SHOWN_FIELDS.contains(&name.as_str()));
    Value::Object(fields).to_string().into()
}

pub(super) fn text(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(sanitize::without_url_secrets).collect();
    let text = lines.join("\n");
    let text = PEM.replace_all(&text, HIDDEN);
    let text = NAMED.replace_all(&text, format!("${{1}}{HIDDEN}"));
    TOKENS.replace_all(&text, format!("${{1}}{HIDDEN}")).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secrets_are_left_out() {
        for secret in [
            "token=hunter22",
            "Authorization: Bearer hunter22",
            r#"{"authorization":"Bearer hunter22","a":1}"#,
            r#"{"message":"{\"api_key\":\"hunter22\"}"}"#,
            "transport.nats.auth_pass = \"hunter22\"  # file",
            "sent bearer hunter2222 along",
            "http://user:hunter22@host/",
            "client_secret: hunter22, x",
            "-----BEGIN PRIVATE KEY-----\nhunter22\n-----END PRIVATE KEY-----",
            "-----BEGIN EC PRIVATE KEY-----\nhunter22",
            "got eyJhbGciOiJFZERTQSJ9.hunter22.sig in a header",
        ] {
            let left = text(secret);
            assert!(
                !left.contains("hunter22") && left.contains(HIDDEN),
                "{secret} -> {left}"
            );
        }
    }

    #[test]
    fn a_line_about_a_program_has_no_words_of_it() {
        for line in [
            r#"2026-01-01T00:00:00.1Z  WARN agentanycast_runner::runner: a task fails task="t1" error=exit code 1: hunter22 a=b"#,
            r#"2026-01-01T00:00:00.1Z  INFO agentanycast_runner::piped_child: hunter22 program="x""#,
            r#"{"timestamp":"t","level":"WARN","message":"a task fails","task":"t1","error":"hunter22","target":"agentanycast_runner::runner"}"#,
            r#"{"timestamp":"t","level":"INFO","message":"hunter22","target":"agentanycast_runner::piped_child"}"#,
            r#"{"message":"an agent takes tasks","command":"sh -c hunter22","target":"agentanycast_node::configured_agents::enabled"}"#,
        ] {
            let left = log_line(line);
            assert!(
                !left.contains("hunter22") && left.contains("agentanycast_"),
                "{line} -> {left}"
            );
        }
        let other = r#"{"message":"m","error":"no route","target":"agentanycast_net::dial"}"#;
        assert_eq!(log_line(other), other);
        assert_eq!(log_line("hello"), "hello");
        let text =
            log_line("2026-01-01T00:00:00.1Z  WARN agentanycast_runner::runner: a task fails task=\"t1\"");
        assert!(text.ends_with("a task fails"), "{text}");
    }

    #[test]
    fn what_helps_stays() {
        for helps in [
            "peer 12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK connected",
            "task 0197c1d2-7a31-7cc0-8a0a-1f2e3d4c5b6a failed: no route\nnext line",
            r#"grpc_token_file = ""  # default"#,
            "listening on /ip4/127.0.0.1/tcp/4001",
        ] {
            assert_eq!(text(helps), helps);
        }
    }

    proptest! {
        #[test]
        fn a_bearer_token_never_stays(before in "[a-z :=\"]{0,12}", secret in "[A-Za-z0-9]{16,40}", after in "[ ,\"}]") {
            let line = format!("{before} Bearer {secret}{after}");
            prop_assert!(!text(&line).contains(&secret));
        }
    }
}
