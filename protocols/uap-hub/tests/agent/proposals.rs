//! How an agent registers, and how it answers proposals.

use std::num::NonZeroUsize;

use agentanycast_uap_hub::{
    agent::{AgentSession, BoxError, Domain, ExecutionAgent, SessionEnd},
    v1::{
        AgentRegistration, Capability, PayloadRequirement, TestCapability, TestState, TranslationCapability,
        capability, listen_request,
    },
};

use crate::scripted_hub::{RunningAgent, ScriptedHub};

async fn completes(_: AgentSession) -> Result<SessionEnd, BoxError> {
    Ok(SessionEnd::completed())
}

async fn until_cancelled(session: AgentSession) -> Result<SessionEnd, BoxError> {
    session.cancelled.cancelled().await;
    Ok(SessionEnd::failed("cancelled"))
}

#[tokio::test]
async fn registers_what_it_can_do() {
    let mut hub = ScriptedHub::start();
    let source = PayloadRequirement::optional("recording").with_mime_type("application/json");
    let agent = ExecutionAgent::new("my runner")
        .test(
            "junit",
            [PayloadRequirement::required("jar").repeatable()],
            completes,
        )
        .translation(
            "playwright-py",
            [source.clone()],
            [PayloadRequirement::required("script")],
            completes,
        );
    let _agent = RunningAgent::start(agent, &hub);
    let test = TestCapability {
        r#type: "junit".to_owned(),
        payloads: vec![PayloadRequirement {
            r#type: "jar".to_owned(),
            is_required: true,
            is_repeatable: true,
            accepted_mime_types: Vec::new(),
        }],
    };
    let translation = TranslationCapability {
        r#type: "playwright-py".to_owned(),
        source_payloads: vec![source],
        target_payloads: vec![PayloadRequirement::required("script")],
    };
    let expected = AgentRegistration {
        display_name: "my runner".to_owned(),
        capabilities: vec![
            Capability {
                format: Some(capability::Format::Test(test)),
            },
            Capability {
                format: Some(capability::Format::Translation(translation)),
            },
        ],
    };
    assert_eq!(hub.registration().await.0, expected);
}

/// A server may send its response headers with its first message: the agent must not wait for them.
#[tokio::test]
async fn is_ready_before_the_hub_says_anything() {
    let mut hub = ScriptedHub::start();
    let _agent = RunningAgent::start(ExecutionAgent::new("a").test("junit", [], completes), &hub);
    let (_, client_id) = hub.registration().await;
    let mut listen = hub.listen().await;
    assert_eq!(listen.header("x-client-id"), client_id);
    let first = listen.next().await.unwrap();
    assert_eq!(first.event, Some(listen_request::Event::Ready(())));
    listen.accept();
}

#[tokio::test]
async fn accepts_what_it_has_a_processor_for() {
    let mut hub = ScriptedHub::start();
    let agent = ExecutionAgent::new("a")
        .slots(NonZeroUsize::new(8).unwrap())
        .test("junit", [], completes)
        .translation("playwright-py", [], [], completes);
    let _agent = RunningAgent::start(agent, &hub);
    let mut agent = hub.agent().await;
    for (id, domain, kind) in [
        ("JOB-1", Domain::Test, "junit"),
        ("TRN-1", Domain::Translation, "playwright-py"),
    ] {
        let answer = agent.propose(id, domain, kind).await;
        assert!(answer.accepted, "{}", answer.reason);
    }
    for (domain, kind) in [
        (Domain::Test, "playwright-py"),
        (Domain::Translation, "junit"),
        (Domain::Test, "JUnit"),
        (Domain::Test, ""),
    ] {
        let answer = agent.propose("JOB-2", domain, kind).await;
        assert!(!answer.accepted);
        let expected = format!("the agent has no processor for the {domain} {kind:?}");
        assert_eq!(answer.reason, expected);
    }
    let answer = agent.propose_details("JOB-3", None).await;
    assert!(!answer.accepted);
    assert!(
        answer.reason.contains("neither a test nor a translation"),
        "{}",
        answer.reason
    );
    for id in ["", "line\nbreak", "\u{e9}"] {
        let answer = agent.propose(id, Domain::Test, "junit").await;
        assert!(!answer.accepted);
        assert!(answer.reason.contains("session id"), "{}", answer.reason);
    }
    let answer = agent.propose("JOB-1", Domain::Test, "junit").await;
    assert!(!answer.accepted);
    assert!(
        answer.reason.contains("has this session already"),
        "{}",
        answer.reason
    );
}

#[tokio::test]
async fn refuses_what_it_has_no_slot_for() {
    let mut hub = ScriptedHub::start();
    let agent = ExecutionAgent::new("a")
        .slots(NonZeroUsize::new(2).unwrap())
        .test("junit", [], until_cancelled);
    let _agent = RunningAgent::start(agent, &hub);
    let mut agent = hub.agent().await;
    let first = hub.begin_test(&mut agent, "JOB-1", "junit").await;
    let _second = hub.begin_test(&mut agent, "JOB-2", "junit").await;
    let answer = agent.propose("JOB-3", Domain::Test, "junit").await;
    assert!(!answer.accepted);
    assert!(answer.reason.starts_with("busy: "), "{}", answer.reason);
    drop(first);
    // The agent hears of it in its own time.
    while !agent.propose("JOB-3", Domain::Test, "junit").await.accepted {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn is_free_for_the_next_session_when_the_hub_has_the_end() {
    let mut hub = ScriptedHub::start();
    let _agent = RunningAgent::start(ExecutionAgent::new("a").test("junit", [], completes), &hub);
    let mut agent = hub.agent().await;
    for number in 0..50 {
        let mut session = hub
            .begin_test(&mut agent, &format!("JOB-{number}"), "junit")
            .await;
        assert_eq!(session.end().await.0, TestState::Completed);
        // Neither has closed its side.
        std::mem::forget(session);
    }
}

#[tokio::test]
async fn begins_only_what_it_has_accepted() {
    let mut hub = ScriptedHub::start();
    let _agent = RunningAgent::start(ExecutionAgent::new("a").test("junit", [], completes), &hub);
    let mut agent = hub.agent().await;
    agent.ready("JOB-0").await;
    assert!(!agent.propose("JOB-1", Domain::Test, "other").await.accepted);
    agent.ready("JOB-1").await;
    // The first stream is that of the session that was accepted.
    hub.begin_test(&mut agent, "JOB-2", "junit").await;
}
