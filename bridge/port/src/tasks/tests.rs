//! What a caller may see and do, before a node of tests.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use agentanycast_proto::v1::{Message, MessageRole, Part, TaskStatus, TextPart, part::Content};

use super::*;
use crate::{
    caller::{CallerIdentity, GatewayLabels, LabelNames},
    fake::{FakeGateway, TWO_AGENTS},
    labels::group_of,
};

const LABELS: GatewayLabels = GatewayLabels::new("echo").with_former(LabelNames {
    caller: "old.caller",
    context: "old.context",
    target: "old.target",
});

fn said(text: &str) -> Message {
    let text = text.to_owned();
    Message {
        role: MessageRole::User.into(),
        parts: vec![Part {
            content: Some(Content::TextPart(TextPart { text })),
            ..Part::default()
        }],
        ..Message::default()
    }
}

fn shared() -> GatewayTasks {
    GatewayTasks::new(Arc::new(FakeGateway::default()), 1)
}

fn of<'a>(shared: &'a GatewayTasks, name: &str) -> CallerTasks<'a> {
    shared.of_caller(Caller::with_target(
        LABELS,
        CallerIdentity::identified(name),
        &Target::Own,
    ))
}

async fn begin(tasks: &CallerTasks<'_>, text: &str) -> String {
    let sent = tasks.send(CallerMessage::new(Target::Own, said(text))).await;
    sent.unwrap().id().to_owned()
}

fn answer(text: &str) -> CallerReply {
    CallerReply {
        message: said(text),
        context: String::new(),
        note: None,
        key: None,
    }
}

#[tokio::test]
async fn a_caller_sees_what_it_began_and_nothing_else() {
    let shared = shared();
    let (alice, bob) = (of(&shared, "alice"), of(&shared, "bob"));
    let id = begin(&alice, "ask").await;
    assert_eq!(alice.get(&id).await.unwrap().task.task_id, id);
    let query = || CallerQuery {
        limit: 10,
        ..CallerQuery::default()
    };
    assert_eq!(alice.list(query()).await.unwrap().tasks.len(), 1);
    assert_eq!(bob.list(query()).await.unwrap().tasks, []);
    let unknown = TaskRefusal::NotFound(id.clone());
    assert_eq!(bob.get(&id).await.err(), Some(unknown.clone()));
    assert_eq!(bob.reply(&id, answer("blue")).await.err(), Some(unknown.clone()));
    assert_eq!(bob.cancel(&id).await.err(), Some(unknown));
    alice.reply(&id, answer("blue")).await.unwrap();
    let ended = TaskRefusal::Ended(id.clone(), TaskStatus::Completed);
    assert_eq!(alice.reply(&id, answer("red")).await.err(), Some(ended.clone()));
    assert_eq!(alice.cancel(&id).await.err(), Some(ended));
    let waits = begin(&alice, "wait").await;
    let refused = alice.reply(&waits, answer("x")).await.err();
    assert_eq!(refused, Some(TaskRefusal::AsksNothing(waits.clone())));
    assert_eq!(alice.cancel(&waits).await.unwrap().status(), TaskStatus::Canceled);
}

#[tokio::test]
async fn a_task_of_before_stays_its_callers() {
    let shared = shared();
    let labels = [("old.caller", "alice"), ("old.target", "own")];
    let mut metadata: BTreeMap<String, String> = labels
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let group = group_of(&metadata);
    metadata.insert("old.context".to_owned(), "c".to_owned());
    let alice = of(&shared, "alice");
    let outgoing = NewTask {
        target: Target::Own,
        message: said("ask"),
        context_id: alice.caller().mesh_context("c"),
        metadata,
        group,
        note: None,
        idempotency_key: None,
    };
    let id = shared.node().send(outgoing).await.unwrap().id().to_owned();
    // A task of today is in the same conversation.
    let mut sent = CallerMessage::new(Target::Own, said("hi"));
    sent.context = "c".to_owned();
    let new = alice.send(sent).await.unwrap();
    let query = CallerQuery {
        context: "c".to_owned(),
        limit: 10,
        ..CallerQuery::default()
    };
    let listed = alice.list(query).await.unwrap().tasks;
    let ids: Vec<&str> = listed.iter().map(|task| task.task_id.as_str()).collect();
    assert_eq!(ids, [new.id(), &id]);
    assert!(alice.get(&id).await.is_ok());
    assert!(of(&shared, "bob").get(&id).await.is_err());
    let mut further = answer("blue");
    further.context = "d".to_owned();
    let refused = alice.reply(&id, further).await.err();
    let context = "c".to_owned();
    assert_eq!(
        refused,
        Some(TaskRefusal::OtherContext {
            id: id.clone(),
            context
        })
    );
    alice.reply(&id, answer("blue")).await.unwrap();
}

#[tokio::test]
async fn a_key_names_one_message_of_one_caller() {
    let shared = shared();
    let (alice, bob) = (of(&shared, "alice"), of(&shared, "bob"));
    let keyed = |text: &str| {
        let mut sent = CallerMessage::new(Target::Own, said(text));
        sent.key = Some("k".to_owned());
        sent
    };
    let first = alice.send(keyed("hi")).await.unwrap();
    assert_eq!(alice.send(keyed("hi")).await.unwrap().id(), first.id());
    let reused = alice.send(keyed("ho")).await.err();
    assert_eq!(reused, Some(TaskRefusal::KeyReused("k".to_owned())));
    assert_ne!(bob.send(keyed("hi")).await.unwrap().id(), first.id());
    let mut odd = keyed("hi");
    odd.key = Some("a b".to_owned());
    assert!(matches!(
        alice.send(odd).await.err(),
        Some(TaskRefusal::BadKey(_))
    ));
}

#[tokio::test]
async fn each_agent_of_a_peer_has_a_list_and_keys_of_its_own() {
    let shared = shared();
    let target = |agent: &str| Target::from_peer_and_agent(TWO_AGENTS, agent);
    let tasks = |agent: &str| {
        shared.of_caller(Caller::with_target(
            LABELS,
            CallerIdentity::identified("alice"),
            &target(agent),
        ))
    };
    let keyed = |agent: &str| {
        let mut sent = CallerMessage::new(target(agent), said("hi"));
        sent.key = Some("k".to_owned());
        sent
    };
    let first = tasks("one").send(keyed("one")).await.unwrap();
    assert_eq!(tasks("one").send(keyed("one")).await.unwrap().id(), first.id());
    assert!(tasks("one").get(first.id()).await.is_ok());
    for other in ["two", ""] {
        assert!(tasks(other).get(first.id()).await.is_err(), "{other}");
        assert!(tasks(other).send(keyed(other)).await.is_err(), "{other}");
    }
    let unknown = CallerMessage::new(target("three"), said("hi"));
    let Some(TaskRefusal::Node(error)) = tasks("three").send(unknown).await.err() else {
        panic!("there is no such agent");
    };
    assert_eq!(error.kind(), ErrorKind::AgentNotFound);
    assert!(error.to_string().contains("there are: one, two"), "{error}");
}

#[test]
fn a_key_means_the_agent_that_it_was_used_with() {
    let task = |assignee: &str, agent: &str| v1::Task {
        originator_peer_id: "me".to_owned(),
        assignee_peer_id: assignee.to_owned(),
        agent: agent.to_owned(),
        ..v1::Task::default()
    };
    let at = Target::from_peer_and_agent;
    assert!(is_for(&task("peer", "one"), &at("peer", "one")));
    assert!(!is_for(&task("peer", "one"), &at("peer", "two")));
    assert!(!is_for(&task("peer", "one"), &at("else", "one")));
    assert!(!is_for(&task("peer", "one"), &at("peer", "")));
    assert!(!is_for(&task("peer", ""), &at("peer", "one")));
    assert!(is_for(&task("peer", ""), &at("peer", "")));
    // No name is written with the tasks of this node's primary agent.
    assert!(is_for(&task("me", ""), &at("self", "one")));
    assert!(is_for(&task("me", ""), &at("me", "one")));
    assert!(!is_for(&task("me", "two"), &at("self", "one")));
}

#[tokio::test]
async fn what_nobody_can_pass_on_is_not_sent() {
    let shared = shared();
    let large = "x".repeat(MOST + 1);
    let skill = Target::Skill("echo".to_owned());
    let refused = of(&shared, "alice")
        .send(CallerMessage::new(skill, said(&large)))
        .await;
    assert!(matches!(refused.err(), Some(TaskRefusal::TooLarge { .. })));
    let url = || CallerMessage::new(Target::Url("https://agent.example".to_owned()), said("hi"));
    let anonymous = of(&shared, "anonymous").send(url()).await;
    assert_eq!(anonymous.err(), Some(TaskRefusal::UrlForUnknown));
    assert!(of(&shared, "alice").send(url()).await.is_ok());
    let _slot = shared.follow_slot().unwrap();
    assert_eq!(shared.follow_slot().err(), Some(TaskRefusal::TooManyFollowed(1)));
}

#[tokio::test]
async fn nobody_speaks_for_a_gateway() {
    let shared = shared();
    let mut forged = CallerMessage::new(Target::Own, said("hi"));
    for label in [CALLER, "old.caller", CONTEXT] {
        forged.labels.insert(label.to_owned(), "echo:bob".to_owned());
    }
    forged.labels.insert("mine".to_owned(), "1".to_owned());
    let handle = of(&shared, "alice").send(forged).await.unwrap();
    let metadata = handle.snapshot().await.unwrap().metadata;
    assert_eq!(metadata[CALLER], "echo:alice");
    assert_eq!(metadata["mine"], "1");
    assert!(!metadata.contains_key("old.caller") && metadata[CONTEXT] != "echo:bob");
}
