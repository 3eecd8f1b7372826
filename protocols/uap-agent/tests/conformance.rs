//! Section 14 of UAP-1.1: one test for each row of its tables. The name of a test is the row.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "conformance/requirements.rs"]
mod requirements;
#[path = "support/structure.rs"]
mod support;

use std::sync::{Arc, Mutex};

use agentanycast_uap::{
    Agent, AgentError, AgentEventType, AgentState, AgentStreamEvent, ExecutionContext, ExecutionResult,
    ExecutionStrategy, GenerateResult, LoopOptions, Middleware, MiddlewareContext, PlanStepStatus,
    ThreadTree, agent, logging, loop_, plan, react,
};
use agentanycast_upp::{ErrorCode, Limit, Message, Scripted, ScriptedReply, Turn, UppError, UserMessage};
use futures::StreamExt as _;
use serde_json::json;
use support::{call, echo, plan_reply, rounds};
use uuid::Uuid;

fn looping(count: u64) -> Agent {
    agent(rounds(count).model()).tool(echo()).build().unwrap()
}

// 14.1, Core

#[tokio::test]
async fn core_agent_function() {
    let agent = looping(1);
    assert_eq!(agent.tools().len(), 1);
    assert!(Uuid::parse_str(agent.id()).is_ok());
}

#[tokio::test]
async fn core_generate() {
    let result = looping(2).generate("go", &AgentState::initial()).await.unwrap();
    assert_eq!(result.turn.text(), "done");
    assert_eq!(result.turn.messages, result.state.messages());
    assert_eq!((result.turn.messages.len(), result.state.step()), (6, 3));
}

#[tokio::test]
async fn core_stream() {
    let agent = looping(1);
    let mut stream = agent.stream("go", &AgentState::initial());
    let mut kinds = Vec::new();
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            AgentStreamEvent::Agent(event) => {
                assert_eq!(event.agent_id, agent.id());
                kinds.push((event.step, event.kind));
            }
            AgentStreamEvent::Upp(event) => text.push_str(&event.delta.text.unwrap_or_default()),
        }
    }
    let expected = [
        (1, AgentEventType::StepStart),
        (1, AgentEventType::Action),
        (1, AgentEventType::Observation),
        (1, AgentEventType::StepEnd),
        (2, AgentEventType::StepStart),
        (2, AgentEventType::StepEnd),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(text, "done");
    assert_eq!(stream.result().await.unwrap().turn.text(), "done");
}

#[tokio::test]
async fn core_ask() {
    let script = Scripted::new([ScriptedReply::text("one"), ScriptedReply::text("two")]);
    let agent = agent(script.model()).build().unwrap();
    let first = agent.ask("first", &AgentState::initial()).await.unwrap();
    let second = agent.ask("second", &first.state).await.unwrap();
    let texts: Vec<_> = second.state.messages().iter().map(Message::text).collect();
    assert_eq!(texts, ["first", "one", "second", "two"]);
    assert_eq!(script.requests()[1].messages.len(), 3);
}

#[tokio::test]
async fn core_query() {
    let script = Scripted::new([ScriptedReply::text("one"), ScriptedReply::text("two")]);
    let agent = agent(script.model()).build().unwrap();
    assert_eq!(agent.query("first").await.unwrap().text(), "one");
    assert_eq!(agent.query("second").await.unwrap().text(), "two");
    assert_eq!(script.requests()[1].messages.len(), 1);
}

#[test]
fn core_agent_state() {
    let state = AgentState::initial()
        .with_message(UserMessage::text("a"))
        .with_messages([UserMessage::text("b").into()])
        .with_step(4)
        .with_metadata("taskComplete", true)
        .with_reasoning("because")
        .with_plan([agentanycast_uap::PlanStep::new("1", "look")]);
    assert_eq!((state.messages().len(), state.step()), (2, 4));
    assert_eq!(state.metadata()["taskComplete"], true);
    assert_eq!(state.reasoning(), ["because"]);
    assert_eq!(state.plan().unwrap()[0].id, "1");
    let replaced = state.with_context([UserMessage::text("c").into()]);
    assert_eq!(replaced.messages()[0].text(), "c");
    assert_eq!(replaced.messages().len(), 1);
}

#[tokio::test]
async fn core_loop() {
    let agent = agent(rounds(3).model())
        .tool(echo())
        .execution(loop_())
        .build()
        .unwrap();
    let turn = agent.query("go").await.unwrap();
    let results: Vec<_> = turn
        .tool_executions
        .iter()
        .map(|execution| execution.result["n"].clone())
        .collect();
    assert_eq!(results, [0, 1, 2]);
}

// 14.1, Advanced Execution

#[tokio::test]
async fn advanced_react() {
    let script = Scripted::new([
        ScriptedReply::text("I should echo."),
        call(1),
        ScriptedReply::text("It is done."),
        ScriptedReply::text("final"),
    ]);
    let agent = agent(script.model())
        .tool(echo())
        .execution(react())
        .build()
        .unwrap();
    let mut stream = agent.stream("go", &AgentState::initial());
    let mut kinds = Vec::new();
    while let Some(event) = stream.next().await {
        kinds.extend(event.unwrap().as_agent().map(|event| event.kind));
    }
    let result = stream.result().await.unwrap();
    let first = [
        AgentEventType::StepStart,
        AgentEventType::Reasoning,
        AgentEventType::Action,
        AgentEventType::Observation,
        AgentEventType::StepEnd,
    ];
    assert_eq!(kinds[..5], first);
    assert_eq!(result.state.reasoning(), ["I should echo.", "It is done."]);
    assert_eq!(result.turn.text(), "final");
    // Input, call, result, answer: no reasoning and no prompt.
    assert_eq!(result.state.messages().len(), 4);
    assert_eq!(result.turn.cycles, 4);
    let requests = script.requests();
    assert!(requests[0].tools.is_empty());
    assert_eq!(requests[1].tools.len(), 1);
    assert!(
        requests[1]
            .messages
            .last()
            .unwrap()
            .text()
            .contains("I should echo.")
    );
}

#[tokio::test]
async fn advanced_plan() {
    let steps = json!([
        {"id": "b", "description": "second", "dependsOn": ["a"]},
        {"id": "a", "description": "first", "tool": "echo", "dependsOn": []},
    ]);
    let script = Scripted::new([
        plan_reply(&steps),
        call(1),
        ScriptedReply::text("a done"),
        ScriptedReply::text("b done"),
    ]);
    let agent = agent(script.model())
        .tool(echo())
        .execution(plan())
        .build()
        .unwrap();
    let mut stream = agent.stream("go", &AgentState::initial());
    let mut ends = Vec::new();
    while let Some(event) = stream.next().await {
        let event = event.unwrap();
        if let Some(event) = event
            .as_agent()
            .filter(|event| event.kind == AgentEventType::StepEnd)
        {
            ends.push((
                event.data["phase"].clone(),
                event.data.get("planStep").map(|step| step["id"].clone()),
            ));
        }
    }
    let expected = [
        (json!("planning"), None),
        (json!("execution"), Some(json!("a"))),
        (json!("execution"), Some(json!("b"))),
    ];
    assert_eq!(ends, expected);
    let result = stream.result().await.unwrap();
    assert_eq!(result.turn.text(), "b done");
    assert!(
        result
            .state
            .plan()
            .unwrap()
            .iter()
            .all(|step| step.status == PlanStepStatus::Completed)
    );
    assert_eq!(result.state.step(), 3);
    // Input, call, result, two answers: no prompt and no plan.
    assert_eq!(result.state.messages().len(), 5);
}

#[tokio::test]
async fn advanced_custom_strategies() {
    /// Runs another strategy and leaves a mark.
    struct Marked(LoopOptions);
    #[async_trait::async_trait]
    impl ExecutionStrategy for Marked {
        fn name(&self) -> &'static str {
            "marked"
        }
        async fn execute(&self, context: ExecutionContext) -> Result<ExecutionResult, AgentError> {
            let GenerateResult { turn, state } = self.0.execute(context).await?;
            Ok(GenerateResult {
                turn,
                state: state.with_metadata("marked", true),
            })
        }
    }
    let custom = agent(rounds(1).model())
        .tool(echo())
        .execution(Marked(loop_()))
        .build()
        .unwrap();
    let result = custom.generate("go", &AgentState::initial()).await.unwrap();
    assert_eq!(result.state.metadata()["marked"], true);
    let streamed = agent(rounds(1).model())
        .tool(echo())
        .execution(Marked(loop_()))
        .build()
        .unwrap();
    let streamed = streamed
        .stream("go", &AgentState::initial())
        .result()
        .await
        .unwrap();
    assert_eq!(streamed.state.metadata()["marked"], true);
    // The interface has a stream of its own too.
    let context = ExecutionContext::new(custom.llm().clone(), "go", &AgentState::initial());
    let error = Arc::new(Marked(loop_()))
        .stream(context)
        .result()
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidRequest, "the script is used up");
}

#[tokio::test(start_paused = true)]
async fn advanced_infinite_defaults() {
    assert_eq!(looping(60).query("go").await.unwrap().tool_executions.len(), 60);

    let replies = (0..60).flat_map(|n| [ScriptedReply::text("think"), call(n)]);
    let script = Scripted::new(replies.chain([ScriptedReply::text("think"), ScriptedReply::text("done")]));
    let agent60 = agent(script.model())
        .tool(echo())
        .execution(react())
        .build()
        .unwrap();
    assert_eq!(agent60.query("go").await.unwrap().tool_executions.len(), 60);

    let steps: Vec<_> = (0..60)
        .map(|n| json!({"id": n.to_string(), "description": "x", "dependsOn": []}))
        .collect();
    let replies = [plan_reply(&json!(steps))]
        .into_iter()
        .chain((0..60).map(|_| ScriptedReply::text("done")));
    let agent60 = agent(Scripted::new(replies).model())
        .execution(plan())
        .build()
        .unwrap();
    assert_eq!(agent60.query("go").await.unwrap().cycles, 61);

    assert_eq!(looping(0).llm().tool_strategy().limit(), Limit::Infinite);
    // A bare model gives up after two minutes; an agent waits.
    let silent = agent(Scripted::new([ScriptedReply::Hang]).model())
        .build()
        .unwrap();
    let day = std::time::Duration::from_hours(24);
    assert!(tokio::time::timeout(day, silent.query("go")).await.is_err());
}

// 14.1, Thread Trees

#[test]
fn thread_trees_tree() {
    let tree = ThreadTree::new(AgentState::initial());
    assert_eq!(tree.root(), tree.current());
    assert!(Uuid::parse_str(tree.root().id()).is_ok());
    assert_eq!(ThreadTree::from_json(&tree.to_json()).unwrap(), tree);
}

#[test]
fn thread_trees_branching() {
    let mut tree = ThreadTree::new(AgentState::initial().with_reasoning("root"));
    let root = tree.root().id().to_owned();
    let first = tree.branch(&root, Some("first")).unwrap();
    let second = tree.branch(&root, None).unwrap();
    assert_eq!(tree.root().children(), [first.clone(), second]);
    let node = tree.node(&first).unwrap();
    assert_eq!(
        (node.name(), node.parent_id()),
        (Some("first"), Some(root.as_str()))
    );
    assert_eq!(node.state(), tree.root().state());
    assert!(tree.branch("nothing", None).is_err());
}

#[test]
fn thread_trees_checkout() {
    let mut tree = ThreadTree::new(AgentState::initial());
    let root = tree.root().id().to_owned();
    let branch = tree.branch(&root, None).unwrap();
    assert_eq!(tree.current().id(), root);
    tree.checkout(&branch).unwrap();
    assert_eq!(tree.current().id(), branch);
    assert!(tree.checkout("nothing").is_err());
    assert_eq!(tree.current().id(), branch);
}

#[test]
fn thread_trees_history() {
    let mut tree = ThreadTree::new(AgentState::initial().with_message(UserMessage::text("root")));
    let mut at = tree.root().id().to_owned();
    for text in ["one", "two"] {
        at = tree.branch(&at, Some(text)).unwrap();
        tree.checkout(&at).unwrap();
        tree.update(tree.history().with_message(UserMessage::text(text)));
    }
    let texts: Vec<_> = tree.history().messages().iter().map(Message::text).collect();
    assert_eq!(texts, ["root", "one", "two"]);
    assert_eq!(
        tree.path().iter().map(|node| node.name()).collect::<Vec<_>>(),
        [None, Some("one"), Some("two")]
    );
    assert_eq!(tree.root().state().messages().len(), 1);
}

// 14.1, Middleware

type Log = Arc<Mutex<Vec<String>>>;

struct Recorder(&'static str, Log);

#[async_trait::async_trait]
impl Middleware for Recorder {
    fn name(&self) -> &str {
        self.0
    }
    async fn before(&self, context: &mut MiddlewareContext) -> Result<(), UppError> {
        self.1.lock().unwrap().push(format!("{} before", self.0));
        context.metadata.insert(self.0.to_owned(), true.into());
        Ok(())
    }
    async fn after(
        &self,
        context: &mut MiddlewareContext,
        result: GenerateResult,
    ) -> Result<GenerateResult, UppError> {
        assert_eq!(context.metadata[self.0], true);
        self.1.lock().unwrap().push(format!("{} after", self.0));
        Ok(result)
    }
    async fn on_error(&self, _context: &mut MiddlewareContext, error: &UppError) -> Option<GenerateResult> {
        self.1
            .lock()
            .unwrap()
            .push(format!("{} error {}", self.0, error.code()));
        None
    }
}

#[tokio::test]
async fn middleware_pipeline() {
    let log = Log::default();
    let with = |script: Scripted| {
        let names = ["a", "b", "c"];
        let options = names.into_iter().fold(agent(script.model()), |options, name| {
            options.middleware(Recorder(name, log.clone()))
        });
        options.build().unwrap()
    };
    with(rounds(0)).query("go").await.unwrap();
    assert_eq!(
        log.lock().unwrap().drain(..).collect::<Vec<_>>().join(", "),
        "a before, b before, c before, c after, b after, a after"
    );
    with(Scripted::new([])).query("go").await.unwrap_err();
    let errors = log.lock().unwrap().split_off(3).join(", ");
    assert_eq!(
        errors,
        "c error INVALID_REQUEST, b error INVALID_REQUEST, a error INVALID_REQUEST"
    );
}

#[tokio::test]
async fn middleware_logging() {
    let run = |script: Scripted, messages: bool| async move {
        let log = Log::default();
        let lines = log.clone();
        let logging = logging()
            .level("debug")
            .unwrap()
            .include_messages(messages)
            .include_timing(false);
        let logging = logging.logger(move |line| lines.lock().unwrap().push(line.to_owned()));
        let agent = agent(script.model()).middleware(logging).build().unwrap();
        let _ = agent.query("question").await;
        let id = agent.id().to_owned();
        let lines = log.lock().unwrap().join("\n");
        lines.replace(&id, "ID")
    };
    let quiet = run(rounds(0), false).await;
    assert_eq!(
        quiet,
        "agent ID begins: 0 messages in its state\nagent ID ended: 1 inferences, 0 tools, 11 tokens"
    );
    let full = run(rounds(0), true).await;
    assert!(full.contains("\"question\"") && full.contains("\"done\""));
    let failed = run(Scripted::new([]), false).await;
    assert!(failed.contains("failed: INVALID_REQUEST"), "{failed}");
    assert!(logging().level("loud").is_err());
}

#[tokio::test]
async fn middleware_custom() {
    /// Shortens the context, changes the input, and answers for a model that fails.
    struct Custom;
    #[async_trait::async_trait]
    impl Middleware for Custom {
        fn name(&self) -> &'static str {
            "custom"
        }
        async fn before(&self, context: &mut MiddlewareContext) -> Result<(), UppError> {
            context.state = context.state.with_context([]);
            context.input.push(UserMessage::text("and this").into());
            Ok(())
        }
        async fn on_error(
            &self,
            context: &mut MiddlewareContext,
            _error: &UppError,
        ) -> Option<GenerateResult> {
            Some(GenerateResult {
                turn: Turn::default(),
                state: context.state.with_metadata("rescued", true),
            })
        }
    }
    let script = rounds(0);
    let custom = agent(script.model()).middleware(Custom).build().unwrap();
    let long = AgentState::initial().with_messages((0..50).map(|n| UserMessage::text(n.to_string()).into()));
    let result = custom.generate("go", &long).await.unwrap();
    assert_eq!(script.requests()[0].messages.len(), 2);
    assert_eq!(result.state.messages().len(), 3);
    // The script is used up now.
    let rescued = custom.generate("again", &long).await.unwrap();
    assert_eq!(rescued.state.metadata()["rescued"], true);
}
