//! A session from its first message to its result.

use agentanycast_uap_hub::{
    agent::{AgentSession, BoxError, Domain, ExecutionAgent, SessionEnd, SessionOver},
    v1::{
        Attachment, Payload, Severity, StepReport, Telemetry, TestInit, TestResponse, TestResult, TestState,
        TestStatus, TranslationInit, TranslationState, test_response, translation_response,
    },
};
use tokio::sync::mpsc;

use crate::scripted_hub::{HubCall, RunningAgent, ScriptedHub, within};

fn script(name: &str, text: &'static str) -> Payload {
    Payload::of_file("script", Attachment::new(name, "text/x-shellscript", text))
}

#[tokio::test]
async fn a_test_with_progress_telemetry_and_result() {
    async fn test(session: AgentSession) -> Result<SessionEnd, BoxError> {
        assert_eq!(session.session_id, "JOB-1");
        assert_eq!((session.domain, session.kind.as_str()), (Domain::Test, "junit"));
        let file = session.payloads[0].attachment.clone().unwrap();
        session.progress.running("1 of 1").await?;
        let picture = Attachment::new("screen.png", "image/png", vec![1, 2, 3]);
        let telemetry = Telemetry::new(Severity::Warn, "slow")
            .with_source("browser")
            .with_attachment(picture);
        session.progress.telemetry(telemetry).await?;
        session.progress.log(Severity::Debug, "done").await?;
        Ok(SessionEnd::completed()
            .with_message("1 passed")
            .with_report(StepReport::from_steps("all", vec![StepReport::passed(file.name)]))
            .with_attachment(Attachment::new("report.xml", "application/xml", file.data)))
    }
    let mut hub = ScriptedHub::start();
    let _agent = RunningAgent::start(ExecutionAgent::new("a").test("junit", [], test), &hub);
    let mut agent = hub.agent().await;
    agent.begin("JOB-1", Domain::Test, "junit").await;
    let mut session = hub.execute().await;
    assert_eq!(session.header("x-session-id"), "JOB-1");
    assert_eq!(session.header("x-client-id"), agent.client_id);
    // Before the hub sends anything, its headers too.
    assert_eq!(session.status().await, (TestState::Acknowledged, String::new()));
    session
        .send(TestInit {
            test_type: "junit".to_owned(),
            payloads: vec![script("a.sh", "true")],
        })
        .await;

    assert_eq!(session.status().await, (TestState::Running, "1 of 1".to_owned()));
    let (first, second) = (telemetry(session.next().await), telemetry(session.next().await));
    assert_eq!(
        (first.message.as_str(), first.source.as_str()),
        ("slow", "browser")
    );
    assert_eq!(first.severity(), Severity::Warn);
    assert_eq!(first.attachments[0].name, "screen.png");
    assert!(first.timestamp.is_some());
    assert_eq!(
        (second.message.as_str(), second.severity()),
        ("done", Severity::Debug)
    );

    let last = session.next().await.unwrap();
    assert!(last.timestamp.is_some());
    let result = TestResult {
        status: Some(TestStatus {
            state: TestState::Completed.into(),
            message: "1 passed".to_owned(),
        }),
        reports: vec![StepReport::from_steps("all", vec![StepReport::passed("a.sh")])],
        summary: None,
        attachments: vec![Attachment::new("report.xml", "application/xml", "true")],
    };
    assert_eq!(last.event, Some(test_response::Event::Result(result)));
    assert_eq!(
        session.status().await,
        (TestState::Completed, "1 passed".to_owned())
    );
    // The agent closes its side.
    assert_eq!(session.next().await, None);
}

fn telemetry(message: Option<TestResponse>) -> Telemetry {
    match message.unwrap().event {
        Some(test_response::Event::Telemetry(telemetry)) => telemetry,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_translation_with_its_payloads() {
    async fn translate(session: AgentSession) -> Result<SessionEnd, BoxError> {
        session.progress.running("").await?;
        let kind = session.kind.clone();
        Ok(SessionEnd::completed().with_payload(Payload::of_file(
            "script",
            Attachment::new("out.py", "text/x-python", kind),
        )))
    }
    let mut hub = ScriptedHub::start();
    let agent = ExecutionAgent::new("a").translation("playwright-py", [], [], translate);
    let _agent = RunningAgent::start(agent, &hub);
    let mut agent = hub.agent().await;
    agent.begin("TRN-1", Domain::Translation, "playwright-py").await;
    let HubCall::Translate(mut session) = hub.call().await else {
        panic!("no Translate");
    };
    assert_eq!(session.header("x-session-id"), "TRN-1");
    session
        .send(TranslationInit {
            target_format: "playwright-py".to_owned(),
            payloads: vec![script("in.java", "x")],
        })
        .await;
    let mut states = Vec::new();
    let mut payloads = Vec::new();
    while let Some(message) = session.next().await {
        match message.event.unwrap() {
            translation_response::Event::Status(status) => states.push(status.state()),
            translation_response::Event::Result(result) => {
                states.push(result.status.as_ref().unwrap().state());
                payloads.extend(result.payloads);
            }
            translation_response::Event::Telemetry(telemetry) => panic!("{telemetry:?}"),
        }
    }
    assert_eq!(
        states,
        [
            TranslationState::Acknowledged,
            TranslationState::Processing,
            TranslationState::Completed,
            TranslationState::Completed
        ]
    );
    assert_eq!(payloads[0].attachment.as_ref().unwrap().data, "playwright-py");
}

#[tokio::test]
async fn payloads_of_many_megabytes_go_both_ways() {
    const SIZE: usize = 48 << 20;
    async fn echo(session: AgentSession) -> Result<SessionEnd, BoxError> {
        let file = session.payloads[0].attachment.clone().unwrap();
        Ok(SessionEnd::completed().with_attachment(file))
    }
    let mut hub = ScriptedHub::start();
    let _agent = RunningAgent::start(ExecutionAgent::new("a").test("echo", [], echo), &hub);
    let mut agent = hub.agent().await;
    agent.begin("JOB-1", Domain::Test, "echo").await;
    let mut session = hub.execute().await;
    let file = Attachment::new("large", "application/octet-stream", vec![7; SIZE]);
    session
        .send(TestInit {
            test_type: "echo".to_owned(),
            payloads: vec![Payload::of_file("file", file.clone())],
        })
        .await;
    assert_eq!(session.status().await.0, TestState::Acknowledged);
    match session.next().await.unwrap().event {
        Some(test_response::Event::Result(result)) => assert!(result.attachments == [file]),
        _ => panic!("no result"),
    }
}

#[tokio::test]
async fn nothing_more_is_sent_after_the_end() {
    let (kept, mut progress) = mpsc::unbounded_channel();
    let handler = move |session: AgentSession| {
        let kept = kept.clone();
        async move {
            kept.send(session.progress.clone())?;
            Ok(SessionEnd::completed())
        }
    };
    let mut hub = ScriptedHub::start();
    let _agent = RunningAgent::start(ExecutionAgent::new("a").test("junit", [], handler), &hub);
    let mut agent = hub.agent().await;
    let mut session = hub.begin_test(&mut agent, "JOB-1", "junit").await;
    assert_eq!(session.end().await.0, TestState::Completed);
    // The progress that is still held does not keep the stream open.
    let progress = within(progress.recv()).await.unwrap();
    assert_eq!(session.next().await, None);
    assert_eq!(within(progress.running("late")).await, Err(SessionOver));
}
