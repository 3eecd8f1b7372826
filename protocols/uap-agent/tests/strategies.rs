//! Strategies: limits, stop conditions, hooks, failures and the state before the step, new plans, resuming.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "support/structure.rs"]
mod support;

use std::sync::{Arc, Mutex};

use agentanycast_uap::{
    AgentState, AgentStrategy, GenerateResult, PlanStep, PlanStepStatus, agent, loop_, plan, react, stop_when,
};
use agentanycast_upp::{
    AssistantMessage, ContentBlock, ErrorCode, Message, Response, Scripted, ScriptedReply, Tool, ToolCall,
    ToolExecution, ToolUseStrategy, Turn, UppError,
};
use serde_json::{Value, json};
use support::{call, echo, plan_reply, rounds, state_structure};

fn thinking(count: u64) -> Scripted {
    let replies = (0..count).flat_map(|n| [ScriptedReply::text(format!("thought {n}")), call(n)]);
    Scripted::new(replies.chain([ScriptedReply::text("thought"), ScriptedReply::text("done")]))
}

fn steps(ids: &[&str]) -> Value {
    ids.iter()
        .map(|id| json!({"id": id, "description": format!("do {id}"), "dependsOn": []}))
        .collect()
}

#[tokio::test]
async fn explicit_limits_are_obeyed() {
    let three = |count| {
        agent(rounds(count).model())
            .tool(echo())
            .execution(loop_().max_iterations(3))
            .build()
            .unwrap()
    };
    assert_eq!(three(3).query("go").await.unwrap().tool_executions.len(), 3);
    let error = three(4).generate("go", &AgentState::initial()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidRequest);
    assert_eq!(error.state.step(), 3, "the state before the step that failed");

    let limited = agent(thinking(9).model())
        .tool(echo())
        .execution(react().max_steps(2))
        .build()
        .unwrap();
    let result = limited.generate("go", &AgentState::initial()).await.unwrap();
    assert_eq!((result.state.step(), result.turn.tool_executions.len()), (2, 2));

    let tools = ToolUseStrategy::new().max_iterations(2);
    let limited = agent(thinking(9).model())
        .tool(echo())
        .execution(react())
        .tool_strategy(tools)
        .build()
        .unwrap();
    assert_eq!(limited.query("go").await.unwrap_err().state.step(), 2);

    let script = Scripted::new([plan_reply(&steps(&["a", "b", "c"]))]);
    let limited = agent(script.model())
        .execution(plan().max_plan_steps(2))
        .build()
        .unwrap();
    assert_eq!(
        limited.query("go").await.unwrap_err().code(),
        ErrorCode::InvalidResponse
    );
}

#[tokio::test]
async fn a_stop_condition_ends_each_strategy_after_the_step() {
    let looping = agent(rounds(9).model())
        .tool(echo())
        .strategy(stop_when(|state| state.step() == 2))
        .build()
        .unwrap();
    let result = looping.generate("go", &AgentState::initial()).await.unwrap();
    assert_eq!((result.state.step(), result.turn.cycles), (2, 2));

    // Tokens are counted: each step of react has two inferences of 11 tokens.
    let budget = stop_when(|state| state.metadata()["totalTokens"].as_u64() > Some(50));
    let reacting = agent(thinking(9).model())
        .tool(echo())
        .execution(react())
        .strategy(budget)
        .build()
        .unwrap();
    let result = reacting.generate("go", &AgentState::initial()).await.unwrap();
    assert_eq!(result.state.metadata()["totalTokens"], 66);

    let script = Scripted::new([plan_reply(&steps(&["a", "b"])), ScriptedReply::text("a done")]);
    let stop = stop_when(|state| {
        state
            .plan()
            .is_some_and(|plan| plan[0].status == PlanStepStatus::Completed)
    });
    let planning = agent(script.model())
        .execution(plan())
        .strategy(stop)
        .build()
        .unwrap();
    let result = planning.generate("go", &AgentState::initial()).await.unwrap();
    assert_eq!(result.state.plan().unwrap()[1].status, PlanStepStatus::Pending);
}

#[derive(Clone, Default)]
struct Hooks(Arc<Mutex<Vec<String>>>);

impl Hooks {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[async_trait::async_trait]
impl AgentStrategy for Hooks {
    async fn on_step_start(&self, step: u64, state: &AgentState) {
        self.note(format!("start {step} {}", state.messages().len()));
    }
    async fn on_reason(&self, step: u64, reasoning: &str) {
        self.note(format!("reason {step} {reasoning}"));
    }
    async fn on_act(&self, step: u64, actions: &[ToolCall]) {
        self.note(format!("act {step} {}", actions[0].tool_name));
    }
    async fn on_observe(&self, step: u64, observations: &[ToolExecution]) {
        self.note(format!("observe {step} {}", observations[0].result));
    }
    async fn on_step_end(&self, step: u64, result: &GenerateResult) {
        self.note(format!(
            "end {step} {} {}",
            result.turn.messages.len(),
            result.state.messages().len()
        ));
    }
    async fn on_complete(&self, result: &GenerateResult) {
        self.note(format!("complete {}", result.turn.text()));
    }
    async fn on_error(&self, error: &UppError, state: &AgentState) -> Option<GenerateResult> {
        self.note(format!("error {} {}", error.code(), state.messages().len()));
        None
    }
}

#[tokio::test]
async fn hooks_are_called_at_the_boundaries_of_steps() {
    let hooks = Hooks::default();
    let looping = agent(rounds(1).model())
        .tool(echo())
        .strategy(hooks.clone())
        .build()
        .unwrap();
    looping.query("go").await.unwrap();
    let expected = [
        "start 1 0",
        "act 1 echo",
        "observe 1 {\"n\":0}",
        "end 1 3 3",
        "start 2 3",
        "end 2 1 4",
        "complete done",
    ];
    assert_eq!(hooks.take(), expected);
    looping.query("go").await.unwrap_err();
    assert_eq!(hooks.take(), ["start 1 0", "error INVALID_REQUEST 0"]);

    let reacting = agent(thinking(1).model())
        .tool(echo())
        .execution(react())
        .strategy(hooks.clone())
        .build()
        .unwrap();
    reacting.query("go").await.unwrap();
    let expected = [
        "start 1 0",
        "reason 1 thought 0",
        "act 1 echo",
        "observe 1 {\"n\":0}",
        "end 1 3 3",
    ];
    assert_eq!(hooks.take()[..5], expected);
}

#[tokio::test]
async fn a_hook_may_turn_an_error_into_a_result() {
    struct Rescue;
    #[async_trait::async_trait]
    impl AgentStrategy for Rescue {
        async fn on_error(&self, _error: &UppError, state: &AgentState) -> Option<GenerateResult> {
            Some(GenerateResult {
                turn: Turn::default(),
                state: state.with_metadata("rescued", true),
            })
        }
    }
    let agent = agent(Scripted::new([]).model()).strategy(Rescue).build().unwrap();
    let result = agent.generate("go", &AgentState::initial()).await.unwrap();
    assert_eq!(result.state.metadata()["rescued"], true);
}

#[tokio::test]
async fn failures_give_the_code_and_the_state_before_the_step() {
    let half = || Box::new(Response::new(AssistantMessage::new([ContentBlock::text("half")])));
    let limited =
        UppError::new(ErrorCode::RateLimited, "busy").with_retry_after(std::time::Duration::from_secs(9));
    let failures = [
        (ScriptedReply::BreakOff(half()), ErrorCode::InvalidResponse),
        (ScriptedReply::Fail(limited), ErrorCode::RateLimited),
        (
            ScriptedReply::Fail(UppError::invalid_response("garbage")),
            ErrorCode::InvalidResponse,
        ),
    ];
    for (failure, code) in failures {
        for streamed in [false, true] {
            let script = Scripted::new([call(1), failure.clone(), ScriptedReply::text("done")]);
            let agent = agent(script.model()).tool(echo()).build().unwrap();
            let state = AgentState::initial();
            let outcome = if streamed {
                agent.stream("go", &state).result().await
            } else {
                agent.generate("go", &state).await
            };
            let error = outcome.unwrap_err();
            assert_eq!(error.code(), code);
            assert_eq!((error.state.step(), error.state.messages().len()), (1, 3));
            // The caller goes on from that state.
            let result = agent.resume(&error.state).await.unwrap();
            assert_eq!((result.turn.text().as_str(), result.state.step()), ("done", 2));
        }
    }
}

#[tokio::test]
async fn a_tool_that_is_missing_panics_or_returns_too_much_does_not_end_the_run() {
    let bad = Tool::new("bad", "", json!({}), |arguments, _| async move {
        assert!(arguments["panic"].is_null(), "boom");
        Ok("x".repeat(100 << 20))
    });
    let script = Scripted::new([
        ScriptedReply::calls([
            ToolCall::new("1", "missing", json!({})),
            ToolCall::new("2", "bad", json!({"panic": true})),
            ToolCall::new("3", "bad", json!({})),
        ]),
        ScriptedReply::text("done"),
    ]);
    let agent = agent(script.model()).tool(bad).build().unwrap();
    let turn = agent.query("go").await.unwrap();
    assert_eq!(turn.text(), "done");
    assert!(turn.tool_executions.iter().all(|execution| execution.is_error));
    assert_eq!(turn.tool_executions[0].result, "Tool 'missing' not found");
}

#[tokio::test]
async fn a_failed_step_of_a_plan_makes_a_new_plan_if_that_is_allowed() {
    let refused = || ScriptedReply::Fail(UppError::new(ErrorCode::ContentFiltered, "not like this"));
    let script = || {
        Scripted::new([
            plan_reply(&steps(&["a", "b", "c"])),
            ScriptedReply::text("a done"),
            refused(),
            plan_reply(&steps(&["d"])),
            ScriptedReply::text("d done"),
        ])
    };
    let replanning = script();
    let planning = agent(replanning.model()).execution(plan()).build().unwrap();
    let result = planning.generate("go", &AgentState::initial()).await.unwrap();
    let statuses: Vec<_> = result
        .state
        .plan()
        .unwrap()
        .iter()
        .map(|step| (step.id.as_str(), step.status))
        .collect();
    let expected = [
        ("a", PlanStepStatus::Completed),
        ("b", PlanStepStatus::Failed),
        ("d", PlanStepStatus::Completed),
    ];
    assert_eq!(statuses, expected);
    assert_eq!((result.turn.text().as_str(), result.state.step()), ("d done", 5));
    let asked = replanning.requests()[3].messages.last().unwrap().text();
    assert!(asked.contains("do b") && asked.contains("not like this"));

    let strict = agent(script().model())
        .execution(plan().allow_replan(false))
        .build()
        .unwrap();
    let error = strict.generate("go", &AgentState::initial()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ContentFiltered);
    let before: Vec<_> = error
        .state
        .plan()
        .unwrap()
        .iter()
        .map(|step| step.status)
        .collect();
    assert_eq!(
        before,
        [
            PlanStepStatus::Completed,
            PlanStepStatus::Pending,
            PlanStepStatus::Pending
        ]
    );
}

#[tokio::test]
async fn a_failed_step_of_a_plan_keeps_what_its_tools_did() {
    let broken = UppError::new(ErrorCode::InvalidResponse, "garbage");
    let script = Scripted::new([
        plan_reply(&steps(&["one"])),
        call(1),
        ScriptedReply::Fail(broken),
        plan_reply(&steps(&["two"])),
        ScriptedReply::text("done"),
    ]);
    let agent = agent(script.model())
        .tool(echo())
        .execution(plan())
        .build()
        .unwrap();
    let result = agent.generate("go", &AgentState::initial()).await.unwrap();
    assert_eq!(result.turn.tool_executions.len(), 1);
    let replanned = &script.requests()[3].messages;
    assert!(
        replanned
            .iter()
            .any(|message| matches!(message, Message::ToolResult(_))),
        "{replanned:?}"
    );
    assert_eq!(result.turn.text(), "done");
}

#[tokio::test]
async fn an_error_that_a_new_plan_does_not_help_ends_the_run_and_it_resumes_within_the_plan() {
    let down = ScriptedReply::Fail(UppError::new(ErrorCode::NetworkError, "down"));
    let script = Scripted::new([
        plan_reply(&steps(&["a", "b"])),
        ScriptedReply::text("a done"),
        down,
        ScriptedReply::text("b done"),
    ]);
    let planning = agent(script.model()).execution(plan()).build().unwrap();
    let error = planning.generate("go", &AgentState::initial()).await.unwrap_err();
    assert_eq!((error.code(), error.state.step()), (ErrorCode::NetworkError, 2));
    let result = planning.resume(&error.state).await.unwrap();
    assert_eq!((result.turn.text().as_str(), result.state.step()), ("b done", 3));
}

#[tokio::test]
async fn plans_that_are_garbage_are_invalid_responses() {
    let garbage = [
        ScriptedReply::text("no plan"),
        ScriptedReply::text("{}"),
        plan_reply(&json!([])),
        plan_reply(&json!([{"id": "a"}])),
        plan_reply(&steps(&["a", "a"])),
    ];
    for reply in garbage {
        let planning = agent(Scripted::new([reply]).model())
            .execution(plan())
            .build()
            .unwrap();
        let state = AgentState::initial();
        let error = planning.generate("go", &state).await.unwrap_err();
        assert_eq!((error.code(), &error.state), (ErrorCode::InvalidResponse, &state));
    }
}

#[test]
fn a_plan_in_a_circle_runs_in_its_order() {
    let mut plan: Vec<PlanStep> = ["a", "b", "c"].map(|id| PlanStep::new(id, id)).into();
    plan[0].depends_on = vec!["b".into(), "nowhere".into()];
    plan[1].depends_on = vec!["a".into(), "b".into()];
    plan[2].depends_on = vec!["a".into()];
    let mut order = Vec::new();
    while let Some(index) = agentanycast_uap::next_plan_step(&plan) {
        plan[index].status = PlanStepStatus::Completed;
        order.push(plan[index].id.clone());
    }
    assert_eq!(order, ["a", "b", "c"]);
}

#[tokio::test]
async fn resuming_a_finished_run_returns_its_answer() {
    for reacting in [false, true] {
        let script = if reacting { thinking(1) } else { rounds(1) };
        let options = agent(script.model()).tool(echo());
        let agent = if reacting {
            options.execution(react())
        } else {
            options
        }
        .build()
        .unwrap();
        let result = agent.generate("go", &AgentState::initial()).await.unwrap();
        let again = agent.resume(&result.state).await.unwrap();
        assert_eq!(again.turn.text(), "done");
        assert_eq!(state_structure(&again.state), state_structure(&result.state));
    }
}

#[tokio::test]
async fn a_structured_answer_of_each_strategy() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let answer = || ScriptedReply::text("{\"n\": 3}");
    let scripts = [
        Scripted::new([call(1), answer()]),
        Scripted::new([ScriptedReply::text("think"), answer()]),
        Scripted::new([
            plan_reply(&steps(&["a", "b"])),
            ScriptedReply::text("a done"),
            answer(),
        ]),
    ];
    for (index, script) in scripts.into_iter().enumerate() {
        let options = agent(script.model()).tool(echo()).structure(schema.clone());
        let options = match index {
            0 => options.execution(loop_()),
            1 => options.execution(react()),
            _ => options.execution(plan()),
        };
        let turn = options.build().unwrap().query("go").await.unwrap();
        assert_eq!(turn.data, Some(json!({"n": 3})));
    }
}
