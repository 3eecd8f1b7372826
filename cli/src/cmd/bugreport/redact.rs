//! PURE: texts without what looks like a secret.

use std::sync::LazyLock;

use agentanycast_daemon_kit::sanitize;
use regex::Regex;

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

pub(super) fn text(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(sanitize::without_passwords).collect();
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
