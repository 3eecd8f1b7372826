//! Sessions from proposal to end, in each way in which agents tell it.

use std::time::{Duration, Instant};

use agentanycast_gateway::fake::agents::FakeEnd;
use agentanycast_proto::v1 as mesh;
use agentanycast_uap_hub::v1::{
    Attachment, Payload, Severity, StepReport, StepStatus, Telemetry, TestResult, TestState,
    TranslationResponse, TranslationResult, TranslationState, TranslationStatus, test_response::Event,
    translation_response,
};
use mesh::part::Content;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::fixture::{TestClient, TestHub, file, reason, soon, status, task, translator};

fn result(state: Option<TestState>) -> TestResult {
    TestResult {
        status: state.map(|state| status(state, "1 passed")),
        reports: vec![StepReport {
            name: "login".to_owned(),
            status: StepStatus::Passed.into(),
            ..StepReport::default()
        }],
        attachments: vec![Attachment {
            name: "log.txt".to_owned(),
            mime_type: "text/plain".to_owned(),
            data: "all well".into(),
        }],
        ..TestResult::default()
    }
}

fn completed(end: FakeEnd) -> (Vec<mesh::Artifact>, String) {
    let FakeEnd::Completed(artifacts, message) = end else {
        panic!("it has not completed: {end:?}")
    };
    let text = message.and_then(|message| match message.parts.into_iter().next()?.content? {
        Content::TextPart(part) => Some(part.text),
        _ => None,
    });
    (artifacts, text.unwrap_or_default())
}

#[tokio::test]
async fn a_test_goes_to_an_agent_and_its_report_comes_back() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    hub.give("t1", "junit");
    let session = client.accept().await;
    assert!(session.starts_with("JOB-"), "{session}");
    let mut stream = client.execute(&session).await.unwrap();
    // It has said nothing yet, and is told what to do.
    let init = stream.init().await;
    assert_eq!(init.test_type, "junit");
    let attachment = init.payloads[0].attachment.as_ref().unwrap();
    assert_eq!(
        (attachment.name.as_str(), attachment.data.as_ref()),
        ("suite.xml", &b"<suite/>"[..])
    );
    assert!(hub.agents.task("t1").claimed, "before the agent begins");
    stream.status(TestState::Acknowledged, "").await;
    stream.status(TestState::Running, "login").await;
    stream
        .say(Event::Telemetry(Telemetry {
            message: "slow".to_owned(),
            severity: Severity::Warn.into(),
            source: "browser".to_owned(),
            attachments: vec![Attachment::default()],
            ..Telemetry::default()
        }))
        .await;
    stream
        .say(Event::Result(result(Some(TestState::Completed))))
        .await;
    let (artifacts, text) = completed(hub.end_of("t1").await);
    assert_eq!(text, "1 passed");
    let names: Vec<&str> = artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    assert_eq!(names, ["report", "log.txt"]);
    let said = hub.agents.task("t1").progress;
    assert_eq!(said[2].parts[0].metadata["severity"], "WARN");
    assert_eq!(said[2].parts.len(), 2);
    assert_eq!(hub.figure("uap_hub_wait_seconds", ""), 1);
    // Its stream is still open, so it has no room: half-closing makes it free.
    assert_eq!(hub.figure("uap_hub_sessions", "open"), 1);
    drop(stream.says);
    hub.until_figure("uap_hub_sessions", "open", 0).await;
}

#[tokio::test]
async fn an_end_is_read_in_every_order() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    let events = |said: &str| -> Vec<Event> {
        let status = |state| Event::Status(status(state, "end"));
        match said {
            "acknowledged first" => vec![status(TestState::Acknowledged), status(TestState::Completed)],
            "status alone" => vec![status(TestState::Completed)],
            "result and then status" => vec![Event::Result(result(None)), status(TestState::Completed)],
            "result with status, status again" => {
                vec![
                    Event::Result(result(Some(TestState::Completed))),
                    status(TestState::Failed),
                ]
            }
            "status and then result" => vec![status(TestState::Completed), Event::Result(result(None))],
            other => panic!("{other}"),
        }
    };
    for (said, artifacts) in [
        ("acknowledged first", 0),
        ("status alone", 0),
        ("result and then status", 2),
        ("result with status, status again", 2),
        ("status and then result", 2),
    ] {
        hub.give(said, "junit");
        let stream = client.begin().await;
        for event in events(said) {
            stream.say(event).await;
        }
        drop(stream.says);
        let (came, _) = completed(hub.end_of(said).await);
        assert_eq!(came.len(), artifacts, "{said}");
        // The hub ends its side too.
        let mut hears = stream.hears;
        assert!(soon(hears.message()).await.unwrap().is_none(), "{said}");
    }
}

#[tokio::test]
async fn a_result_without_an_end_state_is_no_success() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    for (id, state) in [("none", None), ("running", Some(TestState::Running))] {
        hub.give(id, "junit");
        let stream = client.begin().await;
        stream.say(Event::Result(result(state))).await;
        drop(stream.says);
        let told = reason(hub.end_of(id).await);
        assert_eq!(told, "the agent gave a result without an end state", "{id}");
    }
}

#[tokio::test]
async fn a_status_without_a_result_is_waited_for_five_seconds_at_most() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    hub.give("t", "junit");
    let stream = client.begin().await;
    stream.status(TestState::Failed, "no browser").await;
    let begun = Instant::now();
    assert_eq!(reason(hub.end_of("t").await), "no browser");
    assert!(
        begun.elapsed() >= Duration::from_secs(4),
        "its stream is open: a result may still come"
    );
}

#[tokio::test]
async fn failures_and_invalid_payloads_are_told_with_their_reports() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    hub.give("failed", "junit");
    let stream = client.begin().await;
    stream.say(Event::Result(result(Some(TestState::Failed)))).await;
    drop(stream.says);
    assert_eq!(reason(hub.end_of("failed").await), "1 passed");
    let streamed: Vec<_> = hub
        .agents
        .task("failed")
        .streams
        .into_iter()
        .map(|(name, kind, _)| (name, kind))
        .collect();
    let stream = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
    assert_eq!(
        streamed,
        [
            stream("report", "application/json"),
            stream("log.txt", "text/plain")
        ]
    );
    hub.give("invalid", "junit");
    let stream = client.begin().await;
    stream.status(TestState::Invalid, "no suite in it").await;
    drop(stream.says);
    let told = reason(hub.end_of("invalid").await);
    assert_eq!(
        told,
        "rejected: the agent says that the payloads are invalid: no suite in it"
    );
    assert_eq!(hub.figure("uap_hub_sessions_ended", "invalid"), 1);
}

#[tokio::test]
async fn large_results_are_streamed() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    hub.give("t", "junit");
    let stream = client.begin().await;
    let mut large = result(Some(TestState::Completed));
    let video = vec![7; 5 << 20];
    large.attachments.push(Attachment {
        name: "video.mp4".to_owned(),
        mime_type: "video/mp4".to_owned(),
        data: video.clone().into(),
    });
    let mut telemetry = Telemetry::default();
    telemetry.attachments.push(Attachment {
        name: "trace.zip".to_owned(),
        data: video.clone().into(),
        ..Attachment::default()
    });
    stream.say(Event::Telemetry(telemetry)).await;
    stream.say(Event::Result(large)).await;
    let (artifacts, _) = completed(hub.end_of("t").await);
    assert_eq!(artifacts.len(), 2);
    let streams = hub.agents.task("t").streams;
    assert_eq!(
        streams[0],
        (
            "trace.zip".to_owned(),
            "application/octet-stream".to_owned(),
            video.clone()
        )
    );
    assert_eq!(
        streams[1],
        ("video.mp4".to_owned(), "video/mp4".to_owned(), video)
    );
}

#[tokio::test]
async fn a_translation_goes_to_an_agent_and_its_payloads_come_back() {
    let hub = TestHub::start().await;
    let mut client = TestClient::register(hub.connect().await, translator("t", "playwright-py")).await;
    client.listen().await;
    let skill = hub.has_skill("uap:translate:playwright-py").await;
    assert_eq!(skill.tags["protocol"], "uap-v1");
    hub.agents.give(task(
        "t",
        "uap:translate:playwright-py",
        vec![file("login.java", b"class Login {}")],
    ));
    let session = client.accept().await;
    assert!(session.starts_with("TRN-"), "{session}");
    // A test it is not.
    let refused = client.execute(&session).await.err().unwrap();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let (says, said) = mpsc::channel(4);
    let request = client.named(&session, ReceiverStream::new(said));
    let mut hears = soon(client.hub.translate(request)).await.unwrap().into_inner();
    let init = soon(hears.message()).await.unwrap().unwrap();
    assert_eq!(init.target_format, "playwright-py");
    let translated = TranslationResult {
        status: Some(TranslationStatus {
            state: TranslationState::Completed.into(),
            message: String::new(),
        }),
        payloads: vec![Payload {
            r#type: "script".to_owned(),
            attachment: Some(Attachment {
                name: "login.py".to_owned(),
                mime_type: "text/x-python".to_owned(),
                data: "pass".into(),
            }),
            metadata: None,
        }],
        summary: None,
    };
    let event = Some(translation_response::Event::Result(translated));
    says.send(TranslationResponse {
        timestamp: None,
        event,
    })
    .await
    .unwrap();
    let (artifacts, _) = completed(hub.end_of("t").await);
    assert_eq!(artifacts[1].name, "login.py");
    assert_eq!(artifacts[1].parts[0].metadata["uap.type"], "script");
}

#[tokio::test]
async fn a_task_that_is_canceled_resets_the_stream_and_frees_the_agent() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    hub.give("t", "junit");
    let mut stream = client.begin().await;
    hub.agents.cancel("t");
    let told = soon(stream.hears.message()).await.unwrap_err();
    assert_eq!(
        (told.code(), told.message()),
        (Code::Cancelled, "the task was canceled")
    );
    assert_eq!(hub.figure("uap_hub_sessions_ended", "canceled"), 1);
    hub.give("next", "junit");
    client.complete().await;
    completed(hub.end_of("next").await);
}

#[tokio::test]
async fn an_agent_that_is_lost_fails_its_sessions_within_a_second() {
    let hub = TestHub::start().await;
    for phase in ["accepted", "open", "running"] {
        let mut client = hub.client("runner", "junit").await;
        hub.give(phase, "junit");
        let session = client.accept().await;
        let mut stream = None;
        if phase != "accepted" {
            let mut opened = client.execute(&session).await.unwrap();
            opened.init().await;
            if phase == "running" {
                opened.status(TestState::Running, "on it").await;
            }
            stream = Some(opened);
        }
        let begun = Instant::now();
        // Its Listen alone: the stream of the session stands.
        drop((client.says.take(), client.hears.take()));
        let told = reason(hub.end_of(phase).await);
        assert_eq!(told, "agent disconnected: runner", "{phase}");
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{phase}: {:?}",
            begun.elapsed()
        );
        if let Some(stream) = &mut stream {
            let ended = soon(stream.hears.message()).await.unwrap_err();
            assert_eq!(ended.code(), Code::Aborted);
        }
        soon(
            hub.agents
                .until(|agents| agents.card().skills.is_empty().then_some(())),
        )
        .await;
    }
}

#[tokio::test]
async fn an_agent_that_is_lost_with_a_proposal_gives_way_to_the_next() {
    let hub = TestHub::start().await;
    let mut first = hub.client("first", "junit").await;
    hub.give("t", "junit");
    first.proposal().await;
    let mut second = hub.client("second", "junit").await;
    hub.until_figure("uap_hub_clients", "", 2).await;
    drop((first.says.take(), first.hears.take(), first.hub));
    second.complete().await;
    completed(hub.end_of("t").await);
}

#[tokio::test]
async fn a_stream_that_breaks_off_or_ends_without_a_word_fails_the_session() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    hub.give("ends", "junit");
    let stream = client.begin().await;
    drop(stream.says);
    assert_eq!(
        reason(hub.end_of("ends").await),
        "runner closed its stream without a result"
    );
    hub.give("breaks", "junit");
    let mut other = TestClient {
        hub: hub.connect().await,
        id: client.id.clone(),
        says: None,
        hears: None,
    };
    let session = client.accept().await;
    let stream = other.execute(&session).await.unwrap();
    drop((stream, other));
    let told = reason(hub.end_of("breaks").await);
    assert!(
        told.starts_with("Stream error: ") || told.ends_with("closed its stream without a result"),
        "{told}"
    );
    // The client has its Listen, and its next session.
    hub.give("next", "junit");
    client.complete().await;
    completed(hub.end_of("next").await);
}

#[tokio::test]
async fn a_report_says_how_its_session_ended() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    hub.give("t", "junit");
    let stream = client.begin().await;
    stream.say(Event::Result(result(Some(TestState::Running)))).await;
    stream.status(TestState::Completed, "all passed").await;
    let (artifacts, text) = completed(hub.end_of("t").await);
    assert_eq!(text, "all passed");
    let Some(Content::DataPart(data)) = &artifacts[0].parts[0].content else {
        panic!("{artifacts:?}")
    };
    let report = agentanycast_proto::json::from_struct(data.data.as_ref().unwrap());
    assert_eq!(report["status"], "COMPLETED");
}

#[tokio::test]
async fn many_telemetries_are_told_together_and_none_is_lost() {
    const MANY: usize = 3000;
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    hub.give("t", "junit");
    let stream = client.begin().await;
    for number in 0..MANY {
        let telemetry = Telemetry {
            message: number.to_string(),
            ..Telemetry::default()
        };
        stream.say(Event::Telemetry(telemetry)).await;
        // So that none gives way: 1000 may wait.
        if number % 500 == 499 {
            let told = hub.agents.until(|agents| {
                let said = agents.task("t").progress;
                let told = said.iter().flat_map(|said| &said.parts).count();
                (told > number - 400).then_some(())
            });
            soon(told).await;
        }
    }
    stream.status(TestState::Completed, "done").await;
    completed(hub.end_of("t").await);
    let said = hub.agents.task("t").progress;
    // The first one says to whom it was given.
    let parts = said[1..].iter().flat_map(|said| &said.parts);
    let told: Vec<String> = parts
        .map(|part| agentanycast_proto::parts::text_of([part]))
        .collect();
    let wanted: Vec<String> = (0..MANY).map(|number| number.to_string()).collect();
    assert_eq!(told, wanted);
    assert!(said.len() < 300, "{} messages", said.len());
}
