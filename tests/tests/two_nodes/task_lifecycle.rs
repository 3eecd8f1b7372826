//! The life of a task that goes well.

use agentanycast::{Artifact, Target, TaskStatus};
use agentanycast_proto::v1;
use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind,
    agent::TestAgent,
    daemon_pair::wait_connected,
    rpc::{self, next_task, text},
    task_assertions::completed,
    within,
};
use futures::StreamExt as _;

async fn send_and_complete(transport: TransportKind) {
    let pair = DaemonPair::start(transport).await;
    let (alice, bob) = pair.nodes().await;
    let addresses = wait_connected(&alice, &pair.bob).await;
    assert!(
        addresses.iter().all(|address| transport.is_in(address)),
        "{addresses:?}"
    );
    let _agent = TestAgent::echo(&bob);
    let target = Target::Peer(pair.bob.peer_id().clone());
    let handle = alice.send_task(target, "hello").await.unwrap();
    let task = completed(&handle).await;
    assert_eq!(task.text_content(), "echo: hello");
    assert_eq!(task.originator.as_ref(), Some(pair.alice.peer_id()));
    assert_eq!(task.assignee.as_ref(), Some(pair.bob.peer_id()));
    let theirs = bob.task_handle(handle.id()).snapshot().await.unwrap();
    assert_eq!(theirs.status, TaskStatus::Completed);
    assert_eq!(theirs.originator, task.originator);
    assert_eq!(theirs.messages[0].text_content(), "hello");
}

#[tokio::test]
async fn a_task_is_answered_over_tcp() {
    send_and_complete(TransportKind::Tcp).await;
}

#[tokio::test]
async fn a_task_is_answered_over_quic() {
    send_and_complete(TransportKind::Quic).await;
}

/// Both directions at once, many tasks, one connection.
#[tokio::test]
async fn two_agents_ask_each_other() {
    let pair = DaemonPair::start(TransportKind::Quic).await;
    let (alice, bob) = pair.nodes().await;
    let _agents = (TestAgent::echo(&alice), TestAgent::echo(&bob));
    let ask = |node: agentanycast::Node, peer: &Daemon, number: usize| {
        let target = Target::Peer(peer.peer_id().clone());
        async move {
            let handle = node.send_task(target, format!("{number}")).await.unwrap();
            let answer = completed(&handle).await.text_content();
            assert_eq!(answer, format!("echo: {number}"));
        }
    };
    let there = (0..50).map(|number| ask(alice.clone(), &pair.bob, number));
    let back = (0..50).map(|number| ask(bob.clone(), &pair.alice, number));
    let all = futures::future::join(futures::future::join_all(there), futures::future::join_all(back));
    within("all tasks are answered", all).await;
}

#[tokio::test]
async fn metadata_context_and_cards_travel() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let alice = pair.alice.node_named("asker").await;
    let bob = pair.bob.node().await;
    let _agent = TestAgent::serve(&bob, |task| async move {
        let heard = format!(
            "{} {} {} {}",
            task.metadata()["priority"],
            task.context_id(),
            task.sender().map(ToString::to_string).unwrap_or_default(),
            task.sender_card()
                .map(|card| card.name.clone())
                .unwrap_or_default(),
        );
        task.complete([Artifact::text(heard)]).await?;
        Ok(())
    });
    let handle = alice
        .task(Target::Peer(pair.bob.peer_id().clone()), "x")
        .metadata("priority", "low")
        .context_id("one talk")
        .send()
        .await
        .unwrap();
    let task = completed(&handle).await;
    assert_eq!(task.context_id, "one talk");
    assert_eq!(
        task.text_content(),
        format!("low one talk {} asker", pair.alice.peer_id())
    );
}

#[tokio::test]
async fn a_task_to_oneself_stays_at_home() {
    let daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    let _agent = TestAgent::echo(&node);
    let target = Target::Peer(daemon.peer_id().clone());
    let handle = node.send_task(target, "to myself").await.unwrap();
    assert_eq!(completed(&handle).await.text_content(), "echo: to myself");
}

/// The agent reports progress 1 000 times; the originator keeps all of it, in order.
#[tokio::test]
async fn a_thousand_updates_arrive_in_order() {
    const UPDATES: usize = 1_000;
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = TestAgent::serve(&bob, |task| async move {
        for number in 0..UPDATES {
            task.working(format!("{number}")).await?;
        }
        task.complete([]).await?;
        Ok(())
    });
    let target = Target::Peer(pair.bob.peer_id().clone());
    let handle = alice.send_task(target, "count").await.unwrap();
    // A reader that keeps up sees them in order too; it may miss some, never the last.
    let mut seen = Vec::new();
    let mut updates = handle.updates();
    while let Some(update) = within("an update comes", updates.next()).await {
        let number = update
            .unwrap()
            .message
            .and_then(|message| message.text_content().parse::<usize>().ok());
        seen.extend(number);
    }
    assert!(seen.is_sorted(), "{seen:?}");
    let task = completed(&handle).await;
    let said: Vec<String> = task.messages[1..]
        .iter()
        .map(agentanycast::Message::text_content)
        .collect();
    let expected: Vec<String> = (0..UPDATES).map(|number| number.to_string()).collect();
    assert_eq!(said, expected);
}

/// The same key names the same task; the agent sees it once.
#[tokio::test]
async fn an_idempotency_key_makes_one_task() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (mut alice, mut bob) = (pair.alice.rpc().await, pair.bob.rpc().await);
    let mut incoming = rpc::listen(&mut bob).await;
    let request = |by_field: bool| {
        let mut request = rpc::to_peer(pair.bob.peer_id(), text("once"));
        if by_field {
            request.idempotency_key = "k".to_owned();
        } else {
            request
                .metadata
                .insert("idempotency_key".to_owned(), "k".to_owned());
        }
        request
    };
    let mut ids = Vec::new();
    for by_field in [true, true, false] {
        let answer = alice.send_task(request(by_field)).await.unwrap().into_inner();
        ids.push(answer.task.unwrap().task_id);
    }
    assert!(ids.windows(2).all(|two| two[0] == two[1]), "{ids:?}");
    let other = rpc::send(&mut alice, pair.bob.peer_id(), "another").await;
    assert_eq!(next_task(&mut incoming).await.task_id, ids[0]);
    assert_eq!(
        next_task(&mut incoming).await.task_id,
        other.task_id,
        "the first came twice"
    );
}

/// Every listener is handed every task.
const TO_ALL: &str = "agents.deliver = \"all\"\n";

/// Both listeners see the task, the first claim wins, the second learns that it lost.
#[tokio::test]
async fn the_first_claim_wins() {
    let pair = DaemonPair::start_with(TransportKind::Tcp, |daemon| daemon.config(TO_ALL)).await;
    let mut alice = pair.alice.rpc().await;
    let (mut one, mut other) = (pair.bob.rpc().await, pair.bob.rpc().await);
    let (mut first, mut second) = (rpc::listen(&mut one).await, rpc::listen(&mut other).await);
    let sent = rpc::send(&mut alice, pair.bob.peer_id(), "who wants it").await;
    assert_eq!(next_task(&mut first).await.task_id, sent.task_id);
    assert_eq!(next_task(&mut second).await.task_id, sent.task_id);
    rpc::update(&mut one, &sent.task_id, v1::TaskStatus::Working)
        .await
        .unwrap();
    let lost = rpc::update(&mut other, &sent.task_id, v1::TaskStatus::Working)
        .await
        .unwrap_err();
    assert_eq!(lost.code(), tonic::Code::FailedPrecondition, "{lost}");
    rpc::complete(&mut one, &sent.task_id, "done").await.unwrap();
}

/// An agent that is alone is told so, once for each task.
#[tokio::test]
async fn a_task_is_an_agent_s_alone_until_that_leaves() {
    a_task_is_alone_until_its_agent_leaves(TO_ALL, false).await;
}

/// Where a task goes to one listener at a time, each is that one's alone.
#[tokio::test]
async fn each_task_is_an_agent_s_alone_until_that_leaves() {
    a_task_is_alone_until_its_agent_leaves("", true).await;
}

async fn a_task_is_alone_until_its_agent_leaves(config: &str, each_is_alone: bool) {
    let pair = DaemonPair::start_with(TransportKind::Tcp, |daemon| daemon.config(config)).await;
    let mut alice = pair.alice.rpc().await;
    let (mut one, mut other) = (pair.bob.rpc().await, pair.bob.rpc().await);
    let mut first = rpc::listen(&mut one).await;
    let sent = rpc::send(&mut alice, pair.bob.peer_id(), "for one").await;
    let given = within("it is handed over", first.message())
        .await
        .unwrap()
        .unwrap();
    assert!(given.exclusive_since.is_some());
    let mut second = rpc::listen(&mut other).await;
    let for_both = rpc::send(&mut alice, pair.bob.peer_id(), "for both").await;
    let given = within("it is handed over", second.message())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        given.task.unwrap().task_id,
        for_both.task_id,
        "the first is another's alone"
    );
    assert_eq!(given.exclusive_since.is_some(), each_is_alone);
    drop(first);
    let given = within("it is handed over", second.message())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(given.task.unwrap().task_id, sent.task_id);
    assert_eq!(given.exclusive_since, None, "the first agent may have begun it");
}

/// A reader that does not read: it may miss what was in between, but not the end.
#[tokio::test]
async fn a_slow_reader_still_sees_the_end() {
    const UPDATES: usize = 3_000;
    let daemon = Daemon::builder().start().await;
    let (mut sender, mut agent) = (daemon.rpc().await, daemon.rpc().await);
    let mut incoming = rpc::listen(&mut agent).await;
    let id = rpc::send(&mut sender, daemon.peer_id(), "x").await.task_id;
    let request = v1::SubscribeTaskUpdatesRequest {
        task_id: id.clone(),
        ..Default::default()
    };
    let mut updates = sender.subscribe_task_updates(request).await.unwrap().into_inner();
    next_task(&mut incoming).await;
    let filler = "x".repeat(2_000);
    for number in 0..UPDATES {
        let request = v1::UpdateTaskStatusRequest {
            task_id: id.clone(),
            status: v1::TaskStatus::Working.into(),
            message: Some(text(&format!("{number} {filler}"))),
            ..Default::default()
        };
        agent.update_task_status(request).await.unwrap();
    }
    rpc::complete(&mut agent, &id, "done").await.unwrap();
    let mut last = None;
    while let Some(update) = within("an update comes", updates.message()).await.unwrap() {
        last = Some(update);
    }
    let last = last.expect("at least the end");
    assert_eq!(last.status(), v1::TaskStatus::Completed);
    assert_eq!(rpc::text_of(&last.artifacts[0].parts), "done");
}
