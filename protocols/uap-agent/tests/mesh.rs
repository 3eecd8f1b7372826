//! Agents of the mesh against a real daemon: an agent as a service, as a tool of another one, and as a model.
//!
//! The daemon is the `anycast` beside the test's program, which `cargo build -p anycast` makes.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "support/structure.rs"]
mod support;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentanycast::{AgentCard, Artifact, Node, Part, Skill, Target, TaskError, TaskFilter, TaskStatus};
use agentanycast_uap::{
    Agent, AgentEventType, AgentState, AgentStreamEvent, CheckpointStore as _, FileCheckpoints, agent,
    mesh::{AgentServer, remote_agent_tool},
};
use agentanycast_upp::{
    AssistantMessage, ErrorCode, Message, Response, Scripted, ScriptedReply, Tool, ToolCall, UppError, llm,
    mesh::{agentanycast, parts_of_turn, request_of_parts},
    wire::turn_of,
};
use futures::StreamExt as _;
use serde_json::json;
use support::{call, echo};
use tokio::sync::Notify;

/// How long a test waits for what must happen.
const DEADLINE: Duration = Duration::from_secs(30);

/// The program under the name of the daemon, by a link in this directory.
fn daemon(directory: &Path) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let program = profile.join("anycast");
    assert!(
        program.exists(),
        "{} is missing: cargo build -p anycast",
        program.display()
    );
    let link = directory.join("agentanycastd");
    std::os::unix::fs::symlink(program, &link).unwrap();
    link
}

/// A node of its own, whose daemon ends with the test.
struct Mesh {
    node: Node,
    peer: String,
    _home: tempfile::TempDir,
}

impl Mesh {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let node = Node::builder()
            .home(home.path())
            .daemon_binary(daemon(home.path()))
            .daemon_arg("--listen=/ip4/127.0.0.1/tcp/0")
            .daemon_arg("--metrics-listen=")
            .daemon_env("AGENTANYCAST_ENABLE_MDNS", "false")
            .start()
            .await
            .unwrap();
        let peer = node.info().await.unwrap().peer_id.unwrap().to_string();
        Self {
            node,
            peer,
            _home: home,
        }
    }

    /// Serves an agent as that of the node.
    async fn serve(&self, agent: Agent) {
        let card = AgentCard::new("helper", "Helps").with_skill(Skill::new("help", "Anything"));
        let serve = AgentServer::new(self.node.clone(), agent, card)
            .serve()
            .await
            .unwrap();
        tokio::spawn(serve.into_future());
    }

    fn model(&self) -> String {
        format!("peer:{}", self.peer)
    }

    fn target(&self) -> Target {
        Target::Peer(self.peer.parse().unwrap())
    }
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_elsewhere_is_a_tool_with_events_and_a_trace() {
    let mesh = Mesh::start().await;
    let far = Scripted::new([call(1), ScriptedReply::text("found it")]);
    mesh.serve(agent(far.model()).tool(echo()).build().unwrap()).await;

    let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    let tool = remote_agent_tool(
        &mesh.node,
        "explore",
        "Explores",
        schema,
        mesh.model().parse().unwrap(),
    );
    let near = Scripted::new([
        ScriptedReply::call("p1", "explore", json!({"query": "where?"})),
        ScriptedReply::text("thanks"),
    ]);
    let parent = agent(near.model()).tool(tool).build().unwrap();
    let mut stream = parent.stream("go", &AgentState::initial());
    let mut kinds = Vec::new();
    let mut text = String::new();
    while let Some(event) = within(stream.next()).await {
        let event = event.unwrap();
        let Some(event) = event
            .as_agent()
            .filter(|event| event.data.contains_key("subagentId"))
        else {
            continue;
        };
        kinds.push(event.kind);
        if let Some(inner) = event.data.get("innerEvent") {
            let inner: AgentStreamEvent = serde_json::from_value(inner.clone()).unwrap();
            text.extend(inner.as_upp().and_then(|inner| inner.delta.text.clone()));
        }
    }
    assert_eq!(kinds.first(), Some(&AgentEventType::SubagentStart));
    assert_eq!(kinds.last(), Some(&AgentEventType::SubagentEnd));
    assert_eq!(text, "found it");
    let result = stream.result().await.unwrap();
    assert_eq!(result.turn.tool_executions[0].result, "found it");
    let trace = &result.state.subagent_traces()[0];
    assert_eq!(
        (trace.prompt.as_str(), trace.result.as_deref()),
        ("where?", Some("found it"))
    );
    assert_eq!(
        far.requests()[0].messages[0].text().lines().next(),
        Some("where?")
    );
    mesh.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_elsewhere_is_a_model_whole_and_streamed() {
    let mesh = Mesh::start().await;
    let far = Scripted::from_fn(|request| ScriptedReply::text(format!("heard {}", request.messages.len())));
    mesh.serve(agent(far.model()).build().unwrap()).await;
    let near = agent(agentanycast(mesh.node.clone(), mesh.model()))
        .build()
        .unwrap();
    let first = within(near.generate("one", &AgentState::initial()))
        .await
        .unwrap();
    assert_eq!(first.turn.text(), "heard 1");
    assert_eq!(first.turn.usage.total_tokens, 11);
    let second = within(near.stream("two", &first.state).result()).await.unwrap();
    assert_eq!(second.turn.text(), "heard 3");
    mesh.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_travel_as_schemas_and_calls_come_back() {
    let mesh = Mesh::start().await;
    // A program that knows UPP and has a model of its own.
    let handler = |task: agentanycast::IncomingTask| async move {
        let request = request_of_parts(&task.message().parts).unwrap().unwrap();
        let answered = matches!(request.messages.last(), Some(Message::ToolResult(_)));
        let tools = request.tools.unwrap_or_default();
        let message = if answered {
            AssistantMessage::new([agentanycast_upp::ContentBlock::text("20 degrees")])
        } else {
            AssistantMessage::new([]).with_tool_calls([ToolCall::new(
                "t1",
                &tools[0].name,
                json!({"city": "Bern"}),
            )])
        };
        task.complete([Artifact::new(
            "answer",
            parts_of_turn(&turn_of(Response::new(message))),
        )])
        .await?;
        Ok(())
    };
    mesh.node
        .set_card(AgentCard::new("model", "A model"))
        .await
        .unwrap();
    tokio::spawn(mesh.node.serve(handler).into_future());
    let weather = Tool::new("weather", "", json!({"type": "object"}), |_, _| async {
        Ok(json!({"celsius": 20}))
    });
    let model = llm(agentanycast(mesh.node.clone(), mesh.model()))
        .tool(weather)
        .build()
        .unwrap();
    let turn = within(model.generate("weather?")).await.unwrap();
    assert_eq!(turn.text(), "20 degrees");
    assert_eq!(turn.tool_executions[0].result, json!({"celsius": 20}));
    mesh.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_knows_no_upp_answers_too() {
    let mesh = Mesh::start().await;
    mesh.node
        .set_card(AgentCard::new("plain", "Knows no UPP"))
        .await
        .unwrap();
    let handler = |task: agentanycast::IncomingTask| async move {
        let heard = task.message().text_content();
        if heard == "fail" {
            task.fail("RATE_LIMITED: slow down").await?;
        } else {
            let image = Part::raw(*b"png", "image/png");
            task.complete([
                Artifact::text(heard.to_uppercase()),
                Artifact::new("image", [image]),
            ])
            .await?;
        }
        Ok(())
    };
    tokio::spawn(mesh.node.serve(handler).into_future());
    let model = llm(agentanycast(mesh.node.clone(), mesh.model()))
        .build()
        .unwrap();
    let turn = within(model.generate("hello")).await.unwrap();
    assert_eq!(turn.text(), "HELLO");
    assert_eq!(turn.response().unwrap().content.len(), 2);
    let mut stream = model.stream("hello");
    let mut text = String::new();
    while let Some(event) = within(stream.next()).await {
        text.extend(event.unwrap().delta.text);
    }
    assert_eq!(text, "HELLO");
    let error = within(model.generate("fail")).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (ErrorCode::RateLimited, "slow down")
    );
    for unknown in ["gpt-5", &format!("{}/nobody", mesh.model())] {
        let unknown = llm(agentanycast(mesh.node.clone(), unknown)).build().unwrap();
        let error = within(unknown.generate("x")).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ModelNotFound, "{error}");
    }
    let card = mesh.node.card_of(&mesh.peer.parse().unwrap()).await.unwrap();
    let did = card.p2p.unwrap().did_key;
    let by_did = llm(agentanycast(mesh.node.clone(), did)).build().unwrap();
    assert_eq!(within(by_did.generate("hello")).await.unwrap().text(), "HELLO");
    mesh.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_goes_on_and_failures_have_their_code() {
    let mesh = Mesh::start().await;
    let dir = tempfile::tempdir().unwrap();
    let store = FileCheckpoints::new(dir.path());
    let far = Scripted::from_fn(|request| match request.messages.last().unwrap().text().as_str() {
        "fail" => ScriptedReply::Fail(UppError::new(ErrorCode::ContentFiltered, "not this")),
        _ => ScriptedReply::text(format!("heard {}", request.messages.len())),
    });
    mesh.serve(agent(far.model()).checkpoints(store.clone()).build().unwrap())
        .await;
    let context = uuid::Uuid::new_v4().to_string();
    let ask =
        |text: &'static str, context: &str| mesh.node.task(mesh.target(), text).context_id(context).run();
    assert_eq!(
        within(ask("one", &context)).await.unwrap().text_content(),
        "heard 1"
    );
    assert_eq!(
        within(ask("two", &context)).await.unwrap().text_content(),
        "heard 3"
    );
    let other = uuid::Uuid::new_v4().to_string();
    assert_eq!(
        within(ask("three", &other)).await.unwrap().text_content(),
        "heard 1"
    );
    match within(ask("fail", &other)).await {
        Err(TaskError::Failed { reason, .. }) => assert_eq!(reason, "CONTENT_FILTERED: not this"),
        other => panic!("{other:?}"),
    }

    // A conversation of another peer is closed.
    use agentanycast_uap::Checkpoint;
    let theirs = uuid::Uuid::new_v4().to_string();
    let state = AgentState::initial()
        .with_step(1)
        .with_metadata("peerId", "another peer");
    store
        .save(&theirs, Checkpoint::new(&theirs, &state))
        .await
        .unwrap();
    match within(ask("what was said?", &theirs)).await {
        Err(TaskError::Failed { reason, .. }) => {
            assert!(reason.starts_with("AUTHENTICATION_FAILED"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    mesh.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_conversation_run_one_after_the_other() {
    let mesh = Mesh::start().await;
    let dir = tempfile::tempdir().unwrap();
    let slow = Tool::new("slow", "", json!({}), |_, _| async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        Ok("slept")
    });
    let far = Scripted::from_fn(|request| match request.messages.last().unwrap() {
        Message::ToolResult(_) => ScriptedReply::text(format!("heard {}", request.messages.len())),
        _ => ScriptedReply::call("t", "slow", json!({})),
    });
    mesh.serve(
        agent(far.model())
            .tool(slow)
            .checkpoints(FileCheckpoints::new(dir.path()))
            .build()
            .unwrap(),
    )
    .await;
    let context = uuid::Uuid::new_v4().to_string();
    let ask = || mesh.node.task(mesh.target(), "go").context_id(&context).run();
    let (one, two, three) = within(futures::future::join3(ask(), ask(), ask())).await;
    let mut texts = [one, two, three].map(|task| task.unwrap().text_content());
    texts.sort_unstable();
    // Each run adds four messages, and hears three of its own.
    assert_eq!(texts, ["heard 11", "heard 3", "heard 7"]);
    mesh.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_taken_up_again_goes_on_from_its_last_step() {
    let mesh = Mesh::start().await;
    let dir = tempfile::tempdir().unwrap();
    let store = FileCheckpoints::new(dir.path());
    let card = || AgentCard::new("helper", "Helps");
    // The first program hangs in its second step, and goes away.
    let hanging = Scripted::new([call(1), ScriptedReply::Hang]);
    let first = agent(hanging.model())
        .tool(echo())
        .checkpoints(store.clone())
        .build()
        .unwrap();
    let other = Node::connect(mesh.node.address()).await.unwrap();
    let service = AgentServer::new(other.clone(), first, card())
        .serve()
        .await
        .unwrap();
    let service = tokio::spawn(service.into_future());
    let context = uuid::Uuid::new_v4().to_string();
    let handle = mesh
        .node
        .task(mesh.target(), "go")
        .context_id(&context)
        .send()
        .await
        .unwrap();
    let state = within(async {
        loop {
            match store.load_state(&context).await.unwrap() {
                Some(state) if state.step() == 1 => return state,
                // What is kept before the first step.
                Some(state) => assert_eq!(state.metadata()["begunTaskId"], handle.id()),
                None => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert_eq!(state.metadata()["taskId"], handle.id());
    service.abort();
    let _ = service.await;
    other.shutdown().await;
    drop(other);

    let rest = Scripted::new([ScriptedReply::text("done")]);
    let second = agent(rest.model())
        .tool(echo())
        .checkpoints(store)
        .build()
        .unwrap();
    let server = AgentServer::new(mesh.node.clone(), second, card());
    tokio::spawn(server.serve().await.unwrap().into_future());
    assert_eq!(within(handle.wait()).await.unwrap().text_content(), "done");
    assert_eq!(
        rest.requests()[0].messages.len(),
        3,
        "input, call and result of the first step"
    );
    mesh.node.shutdown().await;
}

/// The checkpoint of a task was damaged while its agent was away: the task fails when the agent is back, and does not wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_checkpoint_is_damaged_fails_when_its_agent_is_back() {
    let mesh = Mesh::start().await;
    let dir = tempfile::tempdir().unwrap();
    let store = FileCheckpoints::new(dir.path());
    let card = || AgentCard::new("helper", "Helps");
    let serve = |node: &Node| {
        let hanging = Scripted::new([ScriptedReply::Hang]);
        let hangs = agent(hanging.model()).checkpoints(store.clone()).build().unwrap();
        AgentServer::new(node.clone(), hangs, card()).serve()
    };
    let other = Node::connect(mesh.node.address()).await.unwrap();
    let service = tokio::spawn(serve(&other).await.unwrap().into_future());
    let context = uuid::Uuid::new_v4().to_string();
    let task = mesh.node.task(mesh.target(), "go").context_id(&context);
    let handle = task.send().await.unwrap();
    within(async {
        while store.load_state(&context).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    service.abort();
    let _ = service.await;
    other.shutdown().await;
    drop(other);
    std::fs::write(dir.path().join(&context).join("checkpoint.json"), "{").unwrap();
    tokio::spawn(serve(&mesh.node).await.unwrap().into_future());
    match within(handle.wait()).await {
        Err(TaskError::Failed { reason, .. }) => assert_eq!(
            reason,
            "PROVIDER_ERROR: the state of the conversation cannot be read"
        ),
        other => panic!("{other:?}"),
    }
    mesh.node.shutdown().await;
}

/// A tool that never answers. It tells when it is called, and when its call is dropped.
fn hanging_tool(begun: &Arc<Notify>, ended: &Arc<Notify>) -> Tool {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (begun, ended) = (begun.clone(), ended.clone());
    Tool::new("hang", "", json!({}), move |_, _| {
        let (begun, guard) = (begun.clone(), Dropped(ended.clone()));
        async move {
            begun.notify_one();
            std::future::pending::<()>().await;
            drop(guard);
            Ok("never")
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_reaches_the_agent() {
    let mesh = Mesh::start().await;
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let hang = hanging_tool(&begun, &ended);
    let far = Scripted::from_fn(|_| ScriptedReply::call("t", "hang", json!({})));
    mesh.serve(agent(far.model()).tool(hang).build().unwrap()).await;
    let near = agent(agentanycast(mesh.node.clone(), mesh.model()))
        .build()
        .unwrap();
    // Dropping the future of the run cancels the task, and with it the run elsewhere.
    let run = tokio::spawn(async move { near.query("go").await });
    within(begun.notified()).await;
    run.abort();
    within(ended.notified()).await;
    mesh.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_dropped_while_it_is_sent_leaves_no_task() {
    /// Longer than sending takes.
    const LONGEST: Duration = Duration::from_millis(20);
    let mesh = Mesh::start().await;
    let hang = hanging_tool(&Arc::default(), &Arc::default());
    let far = Scripted::from_fn(|_| ScriptedReply::call("t", "hang", json!({})));
    mesh.serve(agent(far.model()).tool(hang).build().unwrap()).await;
    let model = llm(agentanycast(mesh.node.clone(), mesh.model()))
        .build()
        .unwrap();
    for drop_after in (0..100).map(|point| LONGEST * point / 100) {
        let answer = tokio::time::timeout(drop_after, model.generate("go")).await;
        assert!(answer.is_err(), "{answer:?}");
    }
    let unfinished = TaskFilter {
        statuses: vec![TaskStatus::Submitted, TaskStatus::Working],
        ..TaskFilter::default()
    };
    within(async {
        while !mesh.node.tasks(&unfinished).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(!mesh.node.tasks(&TaskFilter::default()).await.unwrap().is_empty());
    mesh.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_an_agent_is_its_answer() {
    let mesh = Mesh::start().await;
    mesh.node
        .set_card(AgentCard::new("asking", "Asks which language"))
        .await
        .unwrap();
    let handler = |task: agentanycast::IncomingTask| async move {
        task.ask("into which language?").await?;
        task.complete([Artifact::text("never")]).await?;
        Ok(())
    };
    tokio::spawn(mesh.node.serve(handler).into_future());
    let model = llm(agentanycast(mesh.node.clone(), mesh.model()))
        .build()
        .unwrap();
    let turn = within(model.generate("translate this")).await.unwrap();
    assert_eq!(turn.text(), "into which language?");
    let mut stream = model.stream("translate this");
    let mut text = String::new();
    while let Some(event) = within(stream.next()).await {
        text.extend(event.unwrap().delta.text);
    }
    assert_eq!(text, "into which language?");

    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let tool = remote_agent_tool(
        &mesh.node,
        "translate",
        "Translates",
        schema,
        mesh.model().parse().unwrap(),
    );
    let near = Scripted::new([
        ScriptedReply::call("p1", "translate", json!({"text": "hello"})),
        ScriptedReply::text("asked"),
    ]);
    let parent = agent(near.model()).tool(tool).build().unwrap();
    let mut events = parent.stream("go", &AgentState::initial());
    while let Some(event) = within(events.next()).await {
        event.unwrap();
    }
    let result = within(events.result()).await.unwrap();
    let said = result.state.to_json().to_string();
    assert!(said.contains("into which language?"), "{said}");

    // Nobody answers them: they are cancelled.
    within(async {
        let all = || async { mesh.node.tasks(&TaskFilter::default()).await.unwrap() };
        while all().await.iter().any(|task| task.status != TaskStatus::Canceled) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(all().await.len(), 3);
    })
    .await;
    mesh.node.shutdown().await;
}
