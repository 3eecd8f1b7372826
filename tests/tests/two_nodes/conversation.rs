//! Tasks that take more than one message: the agent asks, the originator answers.

use agentanycast::{Artifact, ErrorKind, Message, Target, TaskStatus};
use agentanycast_proto::v1;
use agentanycast_tests::{
    DaemonPair, TransportKind,
    agent::TestAgent,
    eventually,
    rpc::{self, next_task, text},
    task_assertions::completed,
    within,
};
use futures::StreamExt as _;

#[tokio::test]
async fn the_agent_asks_and_is_answered() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = TestAgent::serve(&bob, |task| async move {
        let mut answers = Vec::new();
        for question in ["from?", "to?"] {
            answers.push(task.ask(question).await?.text_content());
        }
        task.complete([Artifact::text(answers.join(" - "))]).await?;
        Ok(())
    });
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "a ticket")
        .await
        .unwrap();
    let early = handle.reply("too early").await;
    let mut updates = handle.updates();
    let mut answers = ["Bern", "Oslo"].into_iter();
    let mut asked = Vec::new();
    while let Some(update) = within("an update comes", updates.next()).await {
        let update = update.unwrap();
        if update.status == TaskStatus::InputRequired {
            asked.push(update.message.unwrap().text_content());
            handle.reply(answers.next().unwrap()).await.unwrap();
        }
    }
    assert_eq!(asked, ["from?", "to?"]);
    let task = completed(&handle).await;
    assert_eq!(task.text_content(), "Bern - Oslo");
    let said: Vec<String> = task.messages.iter().map(Message::text_content).collect();
    assert_eq!(said, ["a ticket", "from?", "Bern", "to?", "Oslo"]);
    // Depending on who was quicker the task was not yet waiting; then it was refused, and not heard.
    assert!(early.is_err_and(|error| error.kind() == ErrorKind::Conflict));
    let late = handle.reply("too late").await;
    assert!(late.is_err_and(|error| error.kind() == ErrorKind::Conflict));
}

/// A client that lacks the fields names the task in the metadata; the peer may be left out.
#[tokio::test]
async fn the_answer_names_its_task_in_the_metadata() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (mut alice, mut bob) = (pair.alice.rpc().await, pair.bob.rpc().await);
    let mut incoming = rpc::listen(&mut bob).await;
    let sent = rpc::send(&mut alice, pair.bob.peer_id(), "first").await;
    assert!(!sent.context_id.is_empty(), "a task without a context gets one");
    assert_eq!(next_task(&mut incoming).await.task_id, sent.task_id);
    rpc::update(&mut bob, &sent.task_id, v1::TaskStatus::InputRequired)
        .await
        .unwrap();
    eventually("the originator is asked", || {
        let (mut alice, id) = (alice.clone(), sent.task_id.clone());
        async move {
            let task = rpc::get(&mut alice, &id).await.unwrap();
            (task.status() == v1::TaskStatus::InputRequired).then_some(())
        }
    })
    .await;
    let mut request = rpc::to_peer(pair.bob.peer_id(), text("second"));
    request
        .metadata
        .insert("task_id".to_owned(), sent.task_id.clone());
    let answer = alice.send_task(request).await.unwrap().into_inner().task.unwrap();
    assert_eq!(answer.task_id, sent.task_id);
    assert_eq!(answer.context_id, sent.context_id);
    // The state that was asked for may come first; the message arrives on the same stream.
    let heard = loop {
        let task = next_task(&mut incoming).await;
        if task
            .messages
            .iter()
            .any(|message| rpc::text_of(&message.parts) == "second")
        {
            break task;
        }
    };
    assert_eq!(heard.task_id, sent.task_id);
    rpc::complete(&mut bob, &sent.task_id, "both heard")
        .await
        .unwrap();
    let handle = pair.alice.node().await.task_handle(sent.task_id);
    assert_eq!(completed(&handle).await.text_content(), "both heard");
}

/// A second task of the same conversation, named in the metadata.
#[tokio::test]
async fn a_conversation_goes_on_in_another_task() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (mut alice, mut bob) = (pair.alice.rpc().await, pair.bob.rpc().await);
    let mut incoming = rpc::listen(&mut bob).await;
    let first = rpc::send(&mut alice, pair.bob.peer_id(), "first").await;
    let mut request = rpc::to_peer(pair.bob.peer_id(), text("second"));
    request
        .metadata
        .insert("context_id".to_owned(), first.context_id.clone());
    let second = alice.send_task(request).await.unwrap().into_inner().task.unwrap();
    assert_eq!(second.context_id, first.context_id);
    assert_ne!(second.task_id, first.task_id);
    for _ in 0..2 {
        assert_eq!(next_task(&mut incoming).await.context_id, first.context_id);
    }
}
