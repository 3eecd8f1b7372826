//! What a caller may see and do, before a node of tests.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use agentanycast_proto::v1::{Message, MessageRole, Part, TaskStatus, TextPart, part::Content};

use super::*;
use crate::{
    caller::{GatewayLabels, LabelNames},
    fake::FakeGateway,
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
    shared.of_caller(Caller::with_target(LABELS, Some(name), &Target::Own))
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
