//! `plan()`: the model makes a plan first, and then works through its steps.
//!
//! The plan is in the state, and its prompts are not. Planning is a step of its own, and so is each step of
//! the plan.

use std::collections::HashSet;

use agentanycast_upp::{ErrorCode, Limit, Llm, Turn, UppError, UserMessage};
use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::{ExecutionContext, ExecutionResult, ExecutionStrategy, context::object, turn_log::TurnLog};
use crate::{
    plan_step::{PlanStep, PlanStepStatus, next_plan_step},
    result::{AgentError, GenerateResult},
    state::AgentState,
};

/// The strategy `plan()`, without a limit.
///
/// ```
/// use agentanycast_uap::{agent, plan};
/// # use agentanycast_upp::Scripted;
/// # let model = Scripted::new([]).model();
/// let agent = agent(model).execution(plan().max_plan_steps(5).allow_replan(false));
/// # drop(agent);
/// ```
pub fn plan() -> PlanOptions {
    PlanOptions {
        max_plan_steps: Limit::Infinite,
        allow_replan: true,
        plan_schema: default_schema(),
    }
}

/// The strategy `plan()`.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanOptions {
    max_plan_steps: Limit,
    allow_replan: bool,
    plan_schema: Value,
}

impl PlanOptions {
    /// Sets how many steps a plan may have. A longer plan fails the run with `INVALID_RESPONSE`.
    #[must_use]
    pub fn max_plan_steps(mut self, max: impl Into<Limit>) -> Self {
        self.max_plan_steps = max.into();
        self
    }

    /// Sets whether the model makes a new plan for the rest when a step fails; it does unless it is switched
    /// off.
    #[must_use]
    pub fn allow_replan(mut self, allow: bool) -> Self {
        self.allow_replan = allow;
        self
    }

    /// Sets the JSON Schema of the plan. A plan has a list `steps` of objects with `id` and `description`.
    #[must_use]
    pub fn plan_schema(mut self, schema: Value) -> Self {
        self.plan_schema = schema;
        self
    }
}

fn default_schema() -> Value {
    let text = json!({"type": "string"});
    let step = json!({
        "type": "object",
        "properties": {
            "id": text, "description": text, "tool": text, "dependsOn": {"type": "array", "items": text},
        },
        "required": ["id", "description", "dependsOn"],
    });
    json!({"type": "object", "properties": {"steps": {"type": "array", "items": step}}, "required": ["steps"]})
}

/// A running strategy.
struct PlanRun<'a> {
    context: &'a ExecutionContext,
    options: &'a PlanOptions,
    /// The model without tools, which answers with a plan.
    planner: Llm,
    /// The model with tools, without the structure of the answer: the last step asks for that.
    worker: Llm,
    /// The state before the step.
    state: AgentState,
    step: u64,
    log: TurnLog,
}

#[async_trait]
impl ExecutionStrategy for PlanOptions {
    fn name(&self) -> &'static str {
        "plan"
    }

    async fn execute(&self, context: ExecutionContext) -> Result<ExecutionResult, AgentError> {
        let unfinished = context
            .state
            .plan()
            .is_some_and(|plan| next_plan_step(plan).is_some());
        if let Some(finished) = context.finished().filter(|_| !unfinished) {
            return Ok(finished);
        }
        let failed = |error| AgentError::new(error, &context.state);
        let options = context.llm.options().clone();
        let planner = options
            .clone()
            .without_tools()
            .structure(self.plan_schema.clone())
            .build()
            .map_err(failed)?;
        let mut running = PlanRun {
            options: self,
            planner,
            worker: options.without_structure().build().map_err(failed)?,
            state: context.state.clone(),
            step: context.last_step(),
            log: TurnLog::default(),
            context: &context,
        };
        running
            .run(unfinished)
            .await
            .map_err(|error| AgentError::new(error, &running.state))?;
        Ok(GenerateResult {
            turn: running.log.into_turn(),
            state: running.state,
        })
    }
}

impl PlanRun<'_> {
    async fn run(&mut self, unfinished: bool) -> Result<(), UppError> {
        // A resumed run has its plan already.
        let mut stop = if self.context.is_resumed() && unfinished {
            false
        } else {
            self.make_plan(None).await?
        };
        while !stop {
            let plan = self.state.plan().unwrap_or_default().to_vec();
            let Some(index) = next_plan_step(&plan) else {
                break;
            };
            stop = self.run_plan_step(plan, index).await?;
        }
        Ok(())
    }

    /// Asks for a plan: the first one, or one for the rest after a step failed. The steps that ran stay in
    /// the plan.
    async fn make_plan(&mut self, failure: Option<String>) -> Result<bool, UppError> {
        let (context, step) = (self.context, self.step + 1);
        let phase = if failure.is_some() {
            "replanning"
        } else {
            "planning"
        };
        context
            .begin_step_with(step, &self.state, || object("phase", phase.into()))
            .await;
        // The first planning adds the input to the state.
        let input = if failure.is_some() {
            &[]
        } else {
            context.input.as_slice()
        };
        let mut history = self.state.messages().to_vec();
        history.extend(input.iter().cloned());
        let prompt = UserMessage::text(self.planning_prompt(failure.as_deref()));
        let mut turn = context.start(&self.planner, prompt, &history).run().await?;
        let steps = self.read_plan(&turn)?;

        let ran = self
            .state
            .plan()
            .filter(|_| failure.is_some())
            .unwrap_or_default()
            .iter();
        let ran =
            ran.filter(|step| matches!(step.status, PlanStepStatus::Completed | PlanStepStatus::Failed));
        let plan: Vec<PlanStep> = ran.cloned().chain(steps).collect();
        turn.messages = input.to_vec();
        turn.data = None;
        self.log.messages(turn.messages.iter().cloned());
        self.log.absorb(&turn);
        let state = self
            .state
            .after_step(step, input.iter().cloned(), Vec::new(), turn.usage.total_tokens);
        let result = GenerateResult {
            turn,
            state: state.with_plan(plan),
        };
        self.finish_step(step, result, phase, None).await
    }

    /// Runs a step of the plan. A failure makes a new plan, where that may help.
    async fn run_plan_step(&mut self, mut plan: Vec<PlanStep>, index: usize) -> Result<bool, UppError> {
        let (context, step) = (self.context, self.step + 1);
        plan[index].status = PlanStepStatus::InProgress;
        let begun = self.state.with_plan(plan.clone());
        let task = plan[index].clone();
        context
            .begin_step_with(step, &begun, || step_data("execution", Some(&task)))
            .await;

        let tools = context.tool_context(step, &begun);
        let last = plan
            .iter()
            .enumerate()
            .all(|(other, step)| other == index || step.status != PlanStepStatus::Pending);
        let outcome = self.work(&task, step, tools.clone(), last).await;
        let (mut turn, failure) = match outcome {
            Ok(turn) => (turn, None),
            // What its tools did is done, and the new plan has to know it.
            Err((turn, error)) if self.options.allow_replan && new_plan_may_help(&error) => {
                (turn, Some(error))
            }
            Err((_, error)) => return Err(error),
        };
        plan[index].status = if failure.is_some() {
            PlanStepStatus::Failed
        } else {
            PlanStepStatus::Completed
        };
        // The first message is the prompt.
        turn.messages.drain(..turn.messages.len().min(1));
        self.log.messages(turn.messages.iter().cloned());
        self.log.absorb(&turn);
        self.log.data(&turn);
        let traces = tools.take_traces(&turn.tool_executions);
        let tokens = turn.usage.total_tokens;
        let state = self
            .state
            .after_step(step, turn.messages.iter().cloned(), traces, tokens);
        let task = plan[index].clone();
        let result = GenerateResult {
            turn,
            state: state.with_plan(plan),
        };
        let stop = self.finish_step(step, result, "execution", Some(&task)).await?;
        match failure {
            Some(error) if !stop => {
                let failure = format!(
                    "The step `{}` ({}) failed: {}",
                    task.id,
                    task.description,
                    error.message()
                );
                self.make_plan(Some(failure)).await
            }
            _ => Ok(stop),
        }
    }

    /// The loop of the model for one step of the plan. After an error also what there is of its turn.
    async fn work(
        &self,
        task: &PlanStep,
        step: u64,
        tools: crate::AgentToolContext,
        last: bool,
    ) -> Result<Turn, (Turn, UppError)> {
        let context = self.context;
        let hint = task
            .tool
            .as_ref()
            .map(|tool| format!(" Use the tool `{tool}`."))
            .unwrap_or_default();
        let prompt = format!("Carry out this step of the plan: {}{hint}", task.description);
        let llm = if last { &context.llm } else { &self.worker };
        let mut run = context.start(llm, UserMessage::text(prompt), self.state.messages());
        run.set_extension(tools);
        loop {
            let inference = match run.infer().await {
                Ok(inference) => inference,
                Err(error) => return Err((run.into_broken_turn(), error)),
            };
            if !inference.runs_tools {
                return run.finish().await.map_err(|error| (Turn::default(), error));
            }
            context.act(step, &inference.message.tool_calls).await;
            match run.run_tools().await {
                Ok(executions) => context.observe(step, executions).await,
                Err(error) => return Err((run.into_broken_turn(), error)),
            }
        }
    }

    async fn finish_step(
        &mut self,
        step: u64,
        result: GenerateResult,
        phase: &str,
        task: Option<&PlanStep>,
    ) -> Result<bool, UppError> {
        let stop = self
            .context
            .end_step_with(step, &result, || step_data(phase, task))
            .await;
        self.state = result.state;
        self.step = step;
        Ok(stop)
    }

    fn planning_prompt(&self, failure: Option<&str>) -> String {
        let tools: Vec<_> = self
            .context
            .tools()
            .iter()
            .map(agentanycast_upp::Tool::name)
            .collect();
        let bound = match self.options.max_plan_steps {
            Limit::Infinite => String::new(),
            Limit::Max(max) => format!(" It may have {max} steps at most."),
        };
        let wish = match failure {
            Some(failure) => format!("{failure}. Make a new plan for the rest of the task."),
            None => "Make a plan for the task.".to_owned(),
        };
        format!(
            "{wish}{bound} Each step has an id, a description, and the ids of the steps that it depends on. \
             Tools that steps may use: {}.",
            if tools.is_empty() {
                "none".to_owned()
            } else {
                tools.join(", ")
            }
        )
    }

    fn read_plan(&self, turn: &Turn) -> Result<Vec<PlanStep>, UppError> {
        let refuse =
            |problem: String| UppError::invalid_response(format!("the model made no usable plan: {problem}"));
        let steps = turn.data.as_ref().and_then(|plan| plan["steps"].as_array());
        let steps = steps.ok_or_else(|| refuse("it has no list `steps`".to_owned()))?;
        if steps.is_empty() || !self.options.max_plan_steps.allows(steps.len() as u64) {
            let max = self.options.max_plan_steps;
            return Err(refuse(format!(
                "it has {} steps, and the limit is {max:?}",
                steps.len()
            )));
        }
        let mut ids = HashSet::new();
        let mut plan = Vec::with_capacity(steps.len());
        for (index, step) in steps.iter().enumerate() {
            let mut step: PlanStep = serde_json::from_value(step.clone())
                .map_err(|error| refuse(format!("`steps[{index}]`: {error}")))?;
            if !ids.insert(step.id.clone()) {
                return Err(refuse(format!("two steps have the id `{}`", step.id)));
            }
            step.status = PlanStepStatus::Pending;
            plan.push(step);
        }
        Ok(plan)
    }
}

fn step_data(phase: &str, task: Option<&PlanStep>) -> Map<String, Value> {
    let mut data = object("phase", phase.into());
    data.extend(task.map(|task| ("planStep".to_owned(), json!(task))));
    data
}

/// A new plan does not help a provider that is away, refuses the key, or a caller that cancelled: those
/// errors end the run, and it can be resumed.
fn new_plan_may_help(error: &UppError) -> bool {
    let code = error.code();
    let hopeless = [
        ErrorCode::Cancelled,
        ErrorCode::AuthenticationFailed,
        ErrorCode::QuotaExceeded,
        ErrorCode::ModelNotFound,
    ];
    !code.is_retryable() && !hopeless.contains(&code)
}
