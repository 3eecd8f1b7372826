//! How a session ends: what an agent has to say of a test or a translation when it is over. A
//! [`SessionRunner`] gives it; the connection sends it as the result of the session's domain.
//!
//! [`SessionRunner`]: super::SessionRunner

use crate::v1::{Attachment, Payload, StepReport, Summary};

/// The state in which a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndState {
    /// The test ran, or the translation is made.
    Completed,
    /// It failed, or could not be carried out to its end.
    Failed,
    /// It cannot be carried out with what it was given.
    Invalid,
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEnd {
    /// The state.
    pub state: EndState,
    /// A text for people. May be empty.
    pub message: String,
    /// The steps of a test. A translation has none.
    pub reports: Vec<StepReport>,
    /// Figures of the session as a whole.
    pub summary: Option<Summary>,
    /// Files that a test made. A translation has none.
    pub attachments: Vec<Attachment>,
    /// What a translation made. A test has none.
    pub payloads: Vec<Payload>,
}

impl SessionEnd {
    /// The test ran, or the translation is made.
    pub fn completed() -> Self {
        Self::new(EndState::Completed, String::new())
    }

    /// The session failed, and why.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(EndState::Failed, message.into())
    }

    /// The session cannot be carried out with what it was given, and why.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(EndState::Invalid, message.into())
    }

    /// With a text for people.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// With one more step of a test.
    #[must_use]
    pub fn with_report(mut self, report: StepReport) -> Self {
        self.reports.push(report);
        self
    }

    /// With figures of the session as a whole.
    #[must_use]
    pub fn with_summary(mut self, summary: Summary) -> Self {
        self.summary = Some(summary);
        self
    }

    /// With one more file that a test made.
    #[must_use]
    pub fn with_attachment(mut self, attachment: Attachment) -> Self {
        self.attachments.push(attachment);
        self
    }

    /// With one more payload that a translation made.
    #[must_use]
    pub fn with_payload(mut self, payload: Payload) -> Self {
        self.payloads.push(payload);
        self
    }

    fn new(state: EndState, message: String) -> Self {
        Self {
            state,
            message,
            reports: Vec::new(),
            summary: None,
            attachments: Vec::new(),
            payloads: Vec::new(),
        }
    }

    /// Whether there is anything besides state and message.
    pub(super) fn has_content(&self) -> bool {
        let Self {
            state: _,
            message: _,
            reports,
            summary,
            attachments,
            payloads,
        } = self;
        !(reports.is_empty() && summary.is_none() && attachments.is_empty() && payloads.is_empty())
    }
}
