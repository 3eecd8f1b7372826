//! Why a call to an agent outside failed: what to do about it, and what the sender of the task is told. PURE.

use std::time::Duration;

use agentanycast_daemon_kit::sanitize::without_url_secrets;
use agentanycast_proto::{json::NotJson, v1::ExternalFailure};
use agentanycast_readers::excerpt::text_of_page;

/// Where it is set what a host wants of callers, in reasons; a gateway with settings of its own names those instead.
pub const CALLER_SETTING: &str = "set in [bridge.outbound.HOST]";

/// As [`CALLER_SETTING`], of further roots of certificates.
pub const ROOTS_SETTING: &str = "set as ca in [bridge.outbound.HOST]";

/// As [`CALLER_SETTING`], of hosts in private networks.
pub const PRIVATE_SETTING: &str = "set allow_private for it in [bridge.outbound]";

/// Most that a reason may have, in characters: one line for people.
const LONGEST: usize = 400;

/// Most of an answer that is shown as it came, in bytes.
pub const EXCERPT: usize = 200;

/// What a failure allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nobody was reached, so nothing was taken.
    Unreached,
    /// The agent takes nothing now, and has not taken this.
    Busy,
    /// It broke off: nobody knows whether it was taken.
    Broken,
    /// The agent does not know the task.
    TaskGone,
    /// The agent does not have this method, or not for this task.
    Unsupported,
    /// The agent wants to know who calls; nothing was taken.
    Unauthorized,
    /// The agent answered that it does not take this.
    Refused,
    /// Trying again changes nothing.
    Final,
}

impl Kind {
    /// As it is told to whoever asks how an errand goes.
    pub fn wire_code(self) -> ExternalFailure {
        match self {
            Self::Unreached => ExternalFailure::Unreached,
            Self::Busy => ExternalFailure::Busy,
            Self::Broken => ExternalFailure::Broken,
            Self::TaskGone => ExternalFailure::TaskGone,
            Self::Unsupported => ExternalFailure::Unsupported,
            Self::Unauthorized => ExternalFailure::Unauthorized,
            Self::Refused => ExternalFailure::Refused,
            Self::Final => ExternalFailure::Final,
        }
    }

    /// What helps, where that is in the settings.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Unauthorized => " (what it wants of callers is set in [bridge.outbound.HOST])",
            _ => "",
        }
    }
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct OutboundError {
    kind: Kind,
    reason: String,
    /// When the agent wants to be asked again.
    after: Option<Duration>,
}

impl From<NotJson> for OutboundError {
    fn from(error: NotJson) -> Self {
        Self::permanent(format!("its answer cannot be kept: {error}"))
    }
}

impl OutboundError {
    /// Of this kind, with this reason for people.
    pub fn new(kind: Kind, reason: impl AsRef<str>) -> Self {
        Self {
            kind,
            reason: one_line(reason.as_ref()),
            after: None,
        }
    }

    /// One that trying again does not change.
    pub fn permanent(reason: impl AsRef<str>) -> Self {
        Self::new(Kind::Final, reason)
    }

    /// What it allows.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it may be over in a moment.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, Kind::Unreached | Kind::Busy | Kind::Broken)
    }

    /// When the agent wants to be asked again, if it said so.
    pub fn after(&self) -> Option<Duration> {
        self.after
    }

    /// The same in other words.
    #[must_use]
    pub fn with_reason(self, reason: String) -> Self {
        Self { reason, ..self }
    }

    /// The same, with the time after which the host wants to be asked again.
    #[must_use]
    pub fn with_retry_after(mut self, after: Option<Duration>) -> Self {
        self.after = after;
        self
    }

    /// Of an answer with this HTTP status that says no more than this of itself.
    pub fn from_status(status: u16, said: &str) -> Self {
        let kind = match status {
            401 | 403 => Kind::Unauthorized,
            408 | 502 | 504 => Kind::Broken,
            425 | 429 | 503 => Kind::Busy,
            405 | 501 => Kind::Unsupported,
            400..=499 => Kind::Refused,
            _ => Kind::Final,
        };
        let said = if said.is_empty() {
            String::new()
        } else {
            format!(": {said}")
        };
        Self::new(kind, format!("it answered HTTP {status}{}{said}", kind.hint()))
    }
}

/// A text of somebody else as one line, cut short, without what may be secret in URLs.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in without_url_secrets(text).split(|letter: char| letter.is_whitespace() || letter.is_control())
    {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.chars().count() > LONGEST {
        line = line.chars().take(LONGEST).chain(['…']).collect();
    }
    line
}

/// The beginning of an answer that is not as it should be, in one line; empty: it has no text. Of a page of HTML or XML
/// only its text.
pub fn excerpt(answer: &[u8]) -> String {
    if answer.trim_ascii_start().starts_with(b"<")
        && let Some(page) = text_of_page(answer)
    {
        return begin(page.as_bytes());
    }
    begin(answer)
}

fn begin(answer: &[u8]) -> String {
    let begin = String::from_utf8_lossy(&answer[..answer.len().min(EXCERPT)]);
    if answer.len() <= EXCERPT {
        return one_line(&begin);
    }
    // A letter may be cut.
    match one_line(begin.trim_end_matches(char::REPLACEMENT_CHARACTER)) {
        line if line.is_empty() => line,
        line => line + "…",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_is_one_short_line() {
        assert_eq!(one_line(" a\r\n b\u{7}\t c "), "a b c");
        assert_eq!(one_line(&"x".repeat(10_000)).chars().count(), LONGEST + 1);
    }

    #[test]
    fn a_reason_has_no_secrets_of_urls() {
        let error = OutboundError::permanent("no token from https://u:hunter22@id/token?key=hunter22: no");
        assert_eq!(
            error.to_string(),
            "no token from https://***@id/token?key=***: no"
        );
    }

    #[test]
    fn an_answer_is_shown_in_part() {
        assert_eq!(excerpt(b" <h1>\r\nOops\x1b[2J</h1> "), "Oops [2J");
        assert_eq!(excerpt(b"<p>I can&#39;t</p>"), "I can't");
        assert_eq!(excerpt(b"<img>"), "<img>");
        assert_eq!(excerpt(b""), "");
        assert_eq!(excerpt(b"a\xff"), "a\u{fffd}");
        let long = format!("x{}", "é".repeat(EXCERPT));
        assert_eq!(
            excerpt(long.as_bytes()),
            format!("x{}…", "é".repeat(EXCERPT / 2 - 1))
        );
    }

    #[test]
    fn only_what_was_surely_not_taken_may_be_sent_again() {
        assert_eq!(OutboundError::from_status(503, "").kind(), Kind::Busy);
        assert_eq!(OutboundError::from_status(504, "").kind(), Kind::Broken);
        assert_eq!(OutboundError::from_status(500, "").kind(), Kind::Final);
        assert_eq!(OutboundError::from_status(400, "").kind(), Kind::Refused);
    }
}
