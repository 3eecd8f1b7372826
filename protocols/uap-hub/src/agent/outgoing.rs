//! What an agent sends on the stream of a session, made from what happens in it. PURE. A session's progress
//! and its stream make these messages; tests and translations have the same events, in types of their own.

use std::time::SystemTime;

use prost::Message as _;

use super::{
    endpoint::MAX_MESSAGE,
    proposal::Domain,
    session_end::{EndState, SessionEnd},
};
use crate::v1::{
    Telemetry, TestResponse, TestResult, TestState, TestStatus, TranslationResponse, TranslationResult,
    TranslationState, TranslationStatus, test_response, translation_response,
};

/// What happens in a session.
#[derive(Debug)]
pub(super) enum Event {
    /// The agent has taken it.
    Acknowledged,
    /// It is being carried out; how far it is.
    Running(String),
    /// Something to know of.
    Telemetry(Telemetry),
    /// Its end, without a result.
    Ended(EndState, String),
    /// Its end and its result.
    Result(Box<SessionEnd>),
}

/// A message on a session's stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outgoing {
    /// On Execute.
    Test(TestResponse),
    /// On Translate.
    Translation(TranslationResponse),
}

impl Outgoing {
    /// `event`, which happened at `at`.
    pub(super) fn new(domain: Domain, event: Event, at: SystemTime) -> Self {
        let timestamp = Some(at.into());
        match domain {
            Domain::Test => Self::Test(TestResponse {
                timestamp,
                event: Some(test_event(event)),
            }),
            Domain::Translation => Self::Translation(TranslationResponse {
                timestamp,
                event: Some(translation_event(event)),
            }),
        }
    }

    /// The messages of a session's end: the result, if there is more to it than a state and a text, and the
    /// state by itself, as other agents send both. A result of more than [`MAX_MESSAGE`] bytes makes the
    /// session FAILED.
    pub(super) fn end(domain: Domain, end: SessionEnd, at: SystemTime) -> Vec<Self> {
        Self::end_within(domain, end, at, MAX_MESSAGE)
    }

    fn end_within(domain: Domain, end: SessionEnd, at: SystemTime, limit: usize) -> Vec<Self> {
        let status = Self::new(domain, Event::Ended(end.state, end.message.clone()), at);
        if end.state != EndState::Completed && !end.has_content() {
            return vec![status];
        }
        let result = Self::new(domain, Event::Result(Box::new(end)), at);
        let size = result.encoded_len();
        if size > limit {
            let reason = format!("the result has {size} bytes, which exceeds the limit of {limit}");
            return vec![Self::new(domain, Event::Ended(EndState::Failed, reason), at)];
        }
        vec![result, status]
    }

    fn encoded_len(&self) -> usize {
        match self {
            Self::Test(response) => response.encoded_len(),
            Self::Translation(response) => response.encoded_len(),
        }
    }
}

fn test_event(event: Event) -> test_response::Event {
    let status = |state: TestState, message| TestStatus {
        state: state.into(),
        message,
    };
    match event {
        Event::Acknowledged => test_response::Event::Status(status(TestState::Acknowledged, String::new())),
        Event::Running(message) => test_response::Event::Status(status(TestState::Running, message)),
        Event::Telemetry(telemetry) => test_response::Event::Telemetry(telemetry),
        Event::Ended(state, message) => test_response::Event::Status(status(test_state(state), message)),
        Event::Result(end) => test_response::Event::Result(TestResult {
            status: Some(status(test_state(end.state), end.message)),
            reports: end.reports,
            summary: end.summary,
            attachments: end.attachments,
        }),
    }
}

fn translation_event(event: Event) -> translation_response::Event {
    let status = |state: TranslationState, message| TranslationStatus {
        state: state.into(),
        message,
    };
    match event {
        Event::Acknowledged => {
            translation_response::Event::Status(status(TranslationState::Acknowledged, String::new()))
        }
        Event::Running(message) => {
            translation_response::Event::Status(status(TranslationState::Processing, message))
        }
        Event::Telemetry(telemetry) => translation_response::Event::Telemetry(telemetry),
        Event::Ended(state, message) => {
            translation_response::Event::Status(status(translation_state(state), message))
        }
        Event::Result(end) => translation_response::Event::Result(TranslationResult {
            status: Some(status(translation_state(end.state), end.message)),
            payloads: end.payloads,
            summary: end.summary,
        }),
    }
}

fn test_state(state: EndState) -> TestState {
    match state {
        EndState::Completed => TestState::Completed,
        EndState::Failed => TestState::Failed,
        EndState::Invalid => TestState::Invalid,
    }
}

fn translation_state(state: EndState) -> TranslationState {
    match state {
        EndState::Completed => TranslationState::Completed,
        EndState::Failed => TranslationState::Failed,
        EndState::Invalid => TranslationState::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{Attachment, Payload, StepReport};

    fn end_of(domain: Domain, end: SessionEnd) -> Vec<Outgoing> {
        Outgoing::end_within(domain, end, SystemTime::UNIX_EPOCH, 1000)
    }

    fn test(event: test_response::Event) -> Outgoing {
        Outgoing::Test(TestResponse {
            timestamp: Some(SystemTime::UNIX_EPOCH.into()),
            event: Some(event),
        })
    }

    fn test_status(state: TestState, message: &str) -> TestStatus {
        TestStatus {
            state: state.into(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn a_completed_test_has_a_result_and_a_state() {
        let report = StepReport {
            name: "step".to_owned(),
            ..StepReport::default()
        };
        let attachment = Attachment {
            name: "log".to_owned(),
            ..Attachment::default()
        };
        let end = SessionEnd::completed()
            .with_message("all passed")
            .with_report(report.clone())
            .with_attachment(attachment.clone());
        let status = test_status(TestState::Completed, "all passed");
        let result = TestResult {
            status: Some(status.clone()),
            reports: vec![report],
            summary: None,
            attachments: vec![attachment],
        };
        assert_eq!(
            end_of(Domain::Test, end),
            [
                test(test_response::Event::Result(result)),
                test(test_response::Event::Status(status))
            ]
        );
    }

    #[test]
    fn a_failure_without_a_report_is_a_state_alone() {
        for (end, state) in [
            (SessionEnd::failed("why"), TestState::Failed),
            (SessionEnd::invalid("why"), TestState::Invalid),
        ] {
            let status = test_status(state, "why");
            assert_eq!(
                end_of(Domain::Test, end),
                [test(test_response::Event::Status(status))]
            );
        }
        let with_report = SessionEnd::failed("why").with_report(StepReport::default());
        assert_eq!(end_of(Domain::Test, with_report).len(), 2);
    }

    #[test]
    fn a_translation_has_states_of_its_own() {
        let payload = Payload {
            r#type: "script".to_owned(),
            ..Payload::default()
        };
        let messages = end_of(
            Domain::Translation,
            SessionEnd::completed().with_payload(payload.clone()),
        );
        let status = TranslationStatus {
            state: TranslationState::Completed.into(),
            message: String::new(),
        };
        let result = TranslationResult {
            status: Some(status.clone()),
            payloads: vec![payload],
            summary: None,
        };
        let translation = |event| {
            Outgoing::Translation(TranslationResponse {
                timestamp: Some(SystemTime::UNIX_EPOCH.into()),
                event: Some(event),
            })
        };
        assert_eq!(
            messages,
            [
                translation(translation_response::Event::Result(result)),
                translation(translation_response::Event::Status(status))
            ]
        );
        let running = Outgoing::new(
            Domain::Translation,
            Event::Running("half".to_owned()),
            SystemTime::UNIX_EPOCH,
        );
        let processing = TranslationStatus {
            state: TranslationState::Processing.into(),
            message: "half".to_owned(),
        };
        assert_eq!(
            running,
            translation(translation_response::Event::Status(processing))
        );
    }

    #[test]
    fn a_result_that_is_too_large_fails_the_session() {
        let attachment = Attachment {
            data: vec![0; 1001].into(),
            ..Attachment::default()
        };
        let messages = end_of(Domain::Test, SessionEnd::completed().with_attachment(attachment));
        let [
            Outgoing::Test(TestResponse {
                event: Some(test_response::Event::Status(status)),
                ..
            }),
        ] = messages.as_slice()
        else {
            panic!("{messages:?}");
        };
        assert_eq!(status.state(), TestState::Failed);
        assert!(status.message.contains("the limit of 1000"), "{}", status.message);
    }
}
