//! What clients report, in the terms of the mesh: progress as messages, an end as a report and artifacts. PURE. Used by the
//! sessions of the hub.
//!
//! Invariant: a report of a session reads the same for tests and translations ([`Report`]), so that a session is written once.

use agentanycast_gateway::time::{read_time, write_time};
use agentanycast_proto::{json::to_struct, parts::text_part, v1 as mesh};
use agentanycast_uap_hub::v1::{
    Attachment, Payload, Severity, StepReport, StepStatus, Summary, Telemetry, TestResponse, TestResult,
    TestState, TestStatus, TranslationResponse, TranslationResult, TranslationState, TranslationStatus,
    test_response, translation_response,
};
use mesh::part::Content;
use serde_json::{Map, Value, json};

use crate::payloads::{JSON, attachment_part, metadata_json, parts_of};

/// The name of the artifact with the reports of a session.
pub(crate) const REPORT: &str = "report";

/// Where a session is, by what its client says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It works on it, or has said nothing.
    Working,
    /// It is done.
    Completed,
    /// It could not be done.
    Failed,
    /// What was given cannot be done at all.
    Invalid,
}

/// An event of a session's stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Report {
    /// Where it is, and what is said of it.
    Status(State, String),
    /// Something happened.
    Telemetry(Telemetry),
    /// What came of it.
    Result(SessionResult),
    /// Nothing that is known.
    Unknown,
}

/// What came of a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SessionResult {
    /// Where that leaves the session; `None`: nothing is said.
    pub(crate) status: Option<(State, String)>,
    /// Its steps and its summary, as JSON.
    pub(crate) report: Value,
    /// Files and payloads.
    pub(crate) outputs: Vec<Output>,
}

/// One thing that came of a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Output {
    /// A file of a test.
    Attachment(Attachment),
    /// A translated payload.
    Payload(Payload),
}

impl Output {
    /// As an artifact.
    pub(crate) fn artifact(self, number: usize) -> mesh::Artifact {
        let (name, parts) = match self {
            Self::Attachment(attachment) => (attachment.name.clone(), vec![attachment_part(attachment)]),
            Self::Payload(payload) => {
                let attached = payload
                    .attachment
                    .as_ref()
                    .map(|attachment| attachment.name.clone());
                let name = attached.unwrap_or_else(|| payload.r#type.clone());
                (name, parts_of(payload))
            }
        };
        let name = if name.is_empty() {
            format!("result-{number}")
        } else {
            name
        };
        mesh::Artifact {
            name,
            parts,
            ..mesh::Artifact::default()
        }
    }
}

impl From<TestResponse> for Report {
    fn from(response: TestResponse) -> Self {
        match response.event {
            Some(test_response::Event::Status(status)) => {
                let (state, message) = test_status(status);
                Self::Status(state, message)
            }
            Some(test_response::Event::Telemetry(telemetry)) => Self::Telemetry(telemetry),
            Some(test_response::Event::Result(result)) => Self::Result(test_result(result)),
            None => Self::Unknown,
        }
    }
}

impl From<TranslationResponse> for Report {
    fn from(response: TranslationResponse) -> Self {
        match response.event {
            Some(translation_response::Event::Status(status)) => {
                let (state, message) = translation_status(status);
                Self::Status(state, message)
            }
            Some(translation_response::Event::Telemetry(telemetry)) => Self::Telemetry(telemetry),
            Some(translation_response::Event::Result(result)) => Self::Result(translation_result(result)),
            None => Self::Unknown,
        }
    }
}

/// What is said of a state that the protocol does not have: it is no end.
fn unknown_state(state: i32, message: &str) -> (State, String) {
    let said = format!("state {state}, which this hub does not know");
    let text = match message {
        "" => said,
        message => format!("{said}: {message}"),
    };
    (State::Working, text)
}

fn test_status(status: TestStatus) -> (State, String) {
    if TestState::try_from(status.state).is_err() {
        return unknown_state(status.state, &status.message);
    }
    let state = match status.state() {
        TestState::Unspecified | TestState::Acknowledged | TestState::Running => State::Working,
        TestState::Completed => State::Completed,
        TestState::Failed => State::Failed,
        TestState::Invalid => State::Invalid,
    };
    (state, status.message)
}

fn translation_status(status: TranslationStatus) -> (State, String) {
    if TranslationState::try_from(status.state).is_err() {
        return unknown_state(status.state, &status.message);
    }
    let state = match status.state() {
        TranslationState::Unspecified | TranslationState::Acknowledged | TranslationState::Processing => {
            State::Working
        }
        TranslationState::Completed => State::Completed,
        TranslationState::Failed => State::Failed,
        TranslationState::Invalid => State::Invalid,
    };
    (state, status.message)
}

fn test_result(result: TestResult) -> SessionResult {
    let status = result.status.map(test_status);
    let report = report(status.as_ref(), Some(result.reports), result.summary);
    SessionResult {
        report,
        status,
        outputs: result.attachments.into_iter().map(Output::Attachment).collect(),
    }
}

fn translation_result(result: TranslationResult) -> SessionResult {
    let status = result.status.map(translation_status);
    let report = report(status.as_ref(), None, result.summary);
    SessionResult {
        report,
        status,
        outputs: result.payloads.into_iter().map(Output::Payload).collect(),
    }
}

fn report(
    status: Option<&(State, String)>,
    steps: Option<Vec<StepReport>>,
    summary: Option<Summary>,
) -> Value {
    let mut report = Map::new();
    if let Some((state, message)) = status {
        report.insert("status".to_owned(), state.name().into());
        if !message.is_empty() {
            report.insert("message".to_owned(), message.as_str().into());
        }
    }
    if let Some(steps) = steps {
        report.insert("reports".to_owned(), steps.into_iter().map(step).collect());
    }
    if let Some(summary) = summary {
        report.insert("summary".to_owned(), summary_json(&summary));
    }
    Value::Object(report)
}

/// Makes a report say how its session has ended.
pub(crate) fn set_end(report: &mut Value, state: State, text: &str) {
    let Value::Object(report) = report else { return };
    report.insert("status".to_owned(), state.name().into());
    if !text.is_empty() && !report.contains_key("message") {
        report.insert("message".to_owned(), text.into());
    }
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Working => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Invalid => "INVALID",
        }
    }
}

fn step(report: StepReport) -> Value {
    let status = match report.status() {
        StepStatus::Unspecified => "UNSPECIFIED",
        StepStatus::Passed => "PASSED",
        StepStatus::Failed => "FAILED",
        StepStatus::Skipped => "SKIPPED",
    };
    let mut said = json!({"name": report.name, "status": status});
    if let Some(summary) = &report.summary {
        said["summary"] = summary_json(summary);
    }
    if !report.steps.is_empty() {
        said["steps"] = report.steps.into_iter().map(step).collect();
    }
    said
}

fn summary_json(summary: &Summary) -> Value {
    let mut said = Map::new();
    if let Some(duration) = &summary.total_duration {
        let seconds = duration.seconds as f64 + f64::from(duration.nanos) / 1e9;
        said.insert("total_duration_seconds".to_owned(), json!(seconds));
    }
    if let Some(time) = summary.start_time.as_ref().and_then(write_time) {
        said.insert("start_time".to_owned(), time.into());
    }
    if let Some(metadata) = &summary.metadata {
        said.insert("metadata".to_owned(), metadata_json(metadata));
    }
    Value::Object(said)
}

/// The report as an artifact.
pub(crate) fn report_artifact(report: &Value) -> mesh::Artifact {
    let data = match report {
        Value::Object(object) => to_struct(object.clone()),
        _ => prost_types::Struct::default(),
    };
    mesh::Artifact {
        name: REPORT.to_owned(),
        parts: vec![mesh::Part {
            content: Some(Content::DataPart(mesh::DataPart { data: Some(data) })),
            media_type: JSON.to_owned(),
            ..mesh::Part::default()
        }],
        ..mesh::Artifact::default()
    }
}

/// The steps and the summary of a report that came as an artifact of these parts; `None`: it is another thing of that name.
pub(crate) fn read_report(parts: &[mesh::Part]) -> Option<(Vec<StepReport>, Option<Summary>)> {
    let [part] = parts else { return None };
    let report = match &part.content {
        Some(Content::DataPart(data)) => metadata_json(data.data.as_ref()?),
        Some(Content::RawPart(raw)) => agentanycast_readers::json::value(&raw.data).ok()?,
        _ => return None,
    };
    let reports = report.get("reports")?.as_array()?;
    let steps = reports.iter().map(read_step).collect::<Option<_>>()?;
    Some((steps, report.get("summary").map(read_summary)))
}

fn read_step(said: &Value) -> Option<StepReport> {
    let status = match said.get("status")?.as_str()? {
        "PASSED" => StepStatus::Passed,
        "FAILED" => StepStatus::Failed,
        "SKIPPED" => StepStatus::Skipped,
        _ => StepStatus::Unspecified,
    };
    let steps = said.get("steps").and_then(Value::as_array);
    Some(StepReport {
        name: said.get("name")?.as_str()?.to_owned(),
        status: status.into(),
        summary: said.get("summary").map(read_summary),
        steps: steps
            .into_iter()
            .flatten()
            .map(read_step)
            .collect::<Option<_>>()?,
    })
}

fn read_summary(said: &Value) -> Summary {
    let seconds = said.get("total_duration_seconds").and_then(Value::as_f64);
    let duration = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    Summary {
        total_duration: duration.and_then(|duration| duration.try_into().ok()),
        start_time: said.get("start_time").and_then(Value::as_str).and_then(read_time),
        metadata: said
            .get("metadata")
            .and_then(Value::as_object)
            .cloned()
            .map(to_struct),
    }
}

/// How deep steps are inside each other.
pub(crate) fn depth(report: &Value) -> usize {
    agentanycast_proto::struct_json::depth(report)
}

/// What a client says while it works, as a message; its attachments are parts.
pub(crate) fn telemetry_message(telemetry: Telemetry) -> mesh::Message {
    let severity = match telemetry.severity() {
        Severity::Unspecified => "UNSPECIFIED",
        Severity::Trace => "TRACE",
        Severity::Debug => "DEBUG",
        Severity::Info => "INFO",
        Severity::Warn => "WARN",
        Severity::Error => "ERROR",
        Severity::Fatal => "FATAL",
    };
    let mut text = text_part(&telemetry.message);
    text.metadata.insert("severity".to_owned(), severity.to_owned());
    if !telemetry.source.is_empty() {
        text.metadata.insert("source".to_owned(), telemetry.source);
    }
    if let Some(time) = telemetry.timestamp.as_ref().and_then(write_time) {
        text.metadata.insert("timestamp".to_owned(), time);
    }
    let attached = telemetry.attachments.into_iter().map(attachment_part);
    mesh::Message {
        parts: std::iter::once(text).chain(attached).collect(),
        ..mesh::Message::default()
    }
}

/// What a client says of its state, as a message; `None` if it says nothing.
pub(crate) fn status_message(text: &str) -> Option<mesh::Message> {
    (!text.trim().is_empty()).then(|| mesh::Message {
        parts: vec![text_part(text)],
        ..mesh::Message::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> TestResult {
        TestResult {
            status: Some(TestStatus {
                state: TestState::Completed.into(),
                message: "3 passed".to_owned(),
            }),
            reports: vec![StepReport {
                name: "login".to_owned(),
                status: StepStatus::Passed.into(),
                summary: Some(Summary {
                    total_duration: Some(prost_types::Duration {
                        seconds: 1,
                        nanos: 500_000_000,
                    }),
                    start_time: Some(prost_types::Timestamp { seconds: 0, nanos: 0 }),
                    metadata: Some(to_struct(json!({"retries": 2}).as_object().unwrap().clone())),
                }),
                steps: vec![StepReport {
                    name: "type".to_owned(),
                    status: StepStatus::Skipped.into(),
                    ..StepReport::default()
                }],
            }],
            summary: None,
            attachments: vec![Attachment {
                name: "log.txt".to_owned(),
                mime_type: String::new(),
                data: "ok".into(),
            }],
        }
    }

    #[test]
    fn a_result_is_a_report_and_files() {
        let Report::Result(read) = Report::from(TestResponse {
            event: Some(test_response::Event::Result(result())),
            ..TestResponse::default()
        }) else {
            panic!("no result")
        };
        assert_eq!(read.status, Some((State::Completed, "3 passed".to_owned())));
        assert_eq!(
            read.report,
            json!({
                "status": "COMPLETED",
                "message": "3 passed",
                "reports": [{
                    "name": "login",
                    "status": "PASSED",
                    "summary": {"total_duration_seconds": 1.5, "start_time": "1970-01-01T00:00:00.000Z", "metadata": {"retries": 2}},
                    "steps": [{"name": "type", "status": "SKIPPED"}],
                }],
            })
        );
        let artifact = read.outputs.into_iter().next().unwrap().artifact(1);
        assert_eq!(
            (artifact.name.as_str(), artifact.parts[0].media_type.as_str()),
            ("log.txt", "application/octet-stream")
        );
    }

    #[test]
    fn a_report_reads_back() {
        let Report::Result(read) = Report::from(TestResponse {
            event: Some(test_response::Event::Result(result())),
            ..TestResponse::default()
        }) else {
            panic!("no result")
        };
        let (steps, summary) = read_report(&report_artifact(&read.report).parts).unwrap();
        assert_eq!((steps, summary), (result().reports, None));
        assert_eq!(read_report(&[text_part("report")]), None);
    }

    #[test]
    fn a_translated_payload_is_an_artifact_with_its_type() {
        let payload = Payload {
            r#type: "script".to_owned(),
            attachment: Some(Attachment {
                name: "test.py".to_owned(),
                mime_type: "text/x-python".to_owned(),
                data: "pass".into(),
            }),
            metadata: None,
        };
        let artifact = Output::Payload(payload).artifact(1);
        assert_eq!(artifact.name, "test.py");
        assert_eq!(artifact.parts[0].metadata[crate::payloads::TYPE], "script");
        assert_eq!(Output::Payload(Payload::default()).artifact(2).name, "result-2");
    }

    #[test]
    fn states_of_both_domains_read_the_same() {
        let test = |state: TestState| {
            test_status(TestStatus {
                state: state.into(),
                message: String::new(),
            })
            .0
        };
        let translation = |state: TranslationState| {
            translation_status(TranslationStatus {
                state: state.into(),
                message: String::new(),
            })
            .0
        };
        assert_eq!(test(TestState::Running), State::Working);
        assert_eq!(test(TestState::Invalid), State::Invalid);
        assert_eq!(translation(TranslationState::Processing), State::Working);
        assert_eq!(translation(TranslationState::Failed), State::Failed);
        let unknown = TestStatus {
            state: 99,
            message: String::new(),
        };
        let (state, said) = test_status(unknown);
        assert_eq!(state, State::Working, "a state of a later version is no end");
        assert_eq!(said, "state 99, which this hub does not know");
    }

    #[test]
    fn telemetry_says_how_bad_it_is_and_whence() {
        let message = telemetry_message(Telemetry {
            message: "disk is full".to_owned(),
            attachments: vec![Attachment::default()],
            timestamp: Some(prost_types::Timestamp { seconds: 0, nanos: 0 }),
            severity: Severity::Error.into(),
            source: "runner".to_owned(),
        });
        let labels = &message.parts[0].metadata;
        assert_eq!(
            (labels["severity"].as_str(), labels["source"].as_str()),
            ("ERROR", "runner")
        );
        assert_eq!(labels["timestamp"], "1970-01-01T00:00:00.000Z");
        assert_eq!(message.parts.len(), 2);
        assert_eq!(status_message(" "), None);
    }
}
