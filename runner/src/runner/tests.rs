//! A runner with a node and a backend of the test: what is claimed when, and how tasks end.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use agentanycast_gateway::{ErrorKind, agents::ArtifactSink};
use async_trait::async_trait;
use tokio::{sync::Notify, time::timeout};

use super::*;
use crate::{
    Attempt, TaskResult,
    parts::{artifact, newest_message, text_message, text_of, text_part},
};

/// How a task stands at the node.
#[derive(Clone, Debug, Default, PartialEq)]
struct TaskAtNode {
    claimed: bool,
    question: Option<String>,
    given_back: bool,
    end: Option<Result<String, String>>,
    left: bool,
}

#[derive(Default)]
struct FakeNode {
    waiting: Mutex<VecDeque<v1::Task>>,
    arrived: Notify,
    tasks: Mutex<HashMap<String, TaskAtNode>>,
    answers: Mutex<HashMap<String, String>>,
    answered: Notify,
    cancels: Mutex<HashMap<String, CancellationToken>>,
    /// How often an agent was attached.
    attached: AtomicUsize,
    /// How many ends are refused, since the daemon is away.
    away: AtomicUsize,
    /// It takes tasks back.
    takes_back: AtomicBool,
}

impl FakeNode {
    fn send(&self, id: &str, text: &str) {
        let task = v1::Task {
            task_id: id.to_owned(),
            messages: vec![text_message(text)],
            ..v1::Task::default()
        };
        self.waiting.lock().unwrap().push_back(task);
        self.arrived.notify_one();
    }

    fn answer(&self, id: &str, text: &str) {
        self.answers
            .lock()
            .unwrap()
            .insert(id.to_owned(), text.to_owned());
        self.answered.notify_waiters();
    }

    fn task(&self, id: &str) -> TaskAtNode {
        self.tasks.lock().unwrap().get(id).cloned().unwrap_or_default()
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut TaskAtNode)) {
        change(self.tasks.lock().unwrap().entry(id.to_owned()).or_default());
    }

    async fn ended(&self, id: &str) -> Result<String, String> {
        until(id, || self.task(id).end.is_some()).await;
        self.task(id).end.unwrap()
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(
        timeout(Duration::from_mins(10), waiting).await.is_ok(),
        "not in time: {what}"
    );
}

struct FakeAgents(Arc<FakeNode>);

#[async_trait]
impl Agents for FakeAgents {
    fn with_access(&self, _: v1::AgentAccess) -> Arc<dyn Agents> {
        Arc::new(Self(Arc::clone(&self.0)))
    }

    async fn attach(
        &self,
        _: &str,
        _: v1::AgentCard,
        _: Option<v1::AgentProgram>,
    ) -> Result<Arc<dyn AgentPort>, GatewayError> {
        self.0.attached.fetch_add(1, SeqCst);
        Ok(Arc::new(FakePort(Arc::clone(&self.0))))
    }

    async fn forget(&self, _: &str) -> Result<(), GatewayError> {
        panic!("no agent is forgotten here")
    }
}

struct FakePort(Arc<FakeNode>);

impl FakePort {
    fn hand_out(&self, task: v1::Task) -> Box<dyn AgentTask> {
        let token = CancellationToken::new();
        let mut cancels = self.0.cancels.lock().unwrap();
        cancels.insert(task.task_id.clone(), token.clone());
        self.0.change(&task.task_id, |task| task.claimed = true);
        Box::new(FakeTask {
            node: Arc::clone(&self.0),
            task,
            token,
        })
    }
}

#[async_trait]
impl AgentPort for FakePort {
    fn name(&self) -> &'static str {
        "fake"
    }

    async fn next(&self) -> Option<Box<dyn AgentTask>> {
        loop {
            let next = self.0.waiting.lock().unwrap().pop_front();
            if let Some(task) = next {
                return Some(self.hand_out(task));
            }
            self.0.arrived.notified().await;
        }
    }

    async fn resume(&self, id: &str) -> Result<Option<Box<dyn AgentTask>>, GatewayError> {
        let known = self.0.task(id);
        if known.end.is_some() || !known.claimed {
            return Ok(None);
        }
        let mut task = v1::Task {
            task_id: id.to_owned(),
            messages: vec![text_message("resumed")],
            ..v1::Task::default()
        };
        task.set_status(v1::TaskStatus::Working);
        if let Some(question) = known.question {
            task.set_status(v1::TaskStatus::InputRequired);
            let mut question = text_message(question);
            question.set_role(v1::MessageRole::Agent);
            task.messages.push(question);
        }
        Ok(Some(self.hand_out(task)))
    }

    async fn unfinished(&self) -> Result<Vec<String>, GatewayError> {
        Ok(Vec::new())
    }

    async fn set_card(&self, _: v1::AgentCard) -> Result<(), GatewayError> {
        Ok(())
    }

    fn detach(&self) {}
}

struct FakeTask {
    node: Arc<FakeNode>,
    task: v1::Task,
    token: CancellationToken,
}

impl FakeTask {
    fn end(&self, end: Result<String, String>) -> Result<(), GatewayError> {
        let away = self.node.away.load(SeqCst);
        if away > 0 {
            self.node.away.store(away - 1, SeqCst);
            return Err(GatewayError::new(ErrorKind::Unavailable, "away"));
        }
        self.node.change(&self.task.task_id, |task| task.end = Some(end));
        Ok(())
    }
}

#[async_trait]
impl AgentTask for FakeTask {
    fn task(&self) -> &v1::Task {
        &self.task
    }

    fn cancelled(&self) -> CancellationToken {
        self.token.clone()
    }

    async fn claim(&self) -> Result<(), GatewayError> {
        Ok(())
    }

    fn leave(&self) {
        self.node.change(&self.task.task_id, |task| task.left = true);
    }

    async fn give_back(&self) -> Result<(), GatewayError> {
        if !self.node.takes_back.load(SeqCst) {
            return Err(GatewayError::new(ErrorKind::Conflict, "an older daemon"));
        }
        self.node.change(&self.task.task_id, |task| {
            (task.claimed, task.given_back) = (false, true);
        });
        // Another runner, or this one when it listens again, is given it later.
        let (node, task) = (Arc::clone(&self.node), self.task.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            node.waiting.lock().unwrap().push_back(task);
            node.arrived.notify_one();
        });
        Ok(())
    }

    async fn working(&self, _: v1::Message) -> Result<(), GatewayError> {
        Ok(())
    }

    async fn ask(&self, question: v1::Message) -> Result<v1::Message, GatewayError> {
        let id = &self.task.task_id;
        self.node
            .change(id, |task| task.question = Some(text_of(&question)));
        loop {
            let answered = self.node.answered.notified();
            let answer = self.node.answers.lock().unwrap().remove(id);
            if let Some(answer) = answer {
                return Ok(text_message(answer));
            }
            answered.await;
        }
    }

    async fn stream(&self, _: &str, _: &str) -> Result<Box<dyn ArtifactSink>, GatewayError> {
        Err(GatewayError::new(ErrorKind::Unsupported, "no streams here"))
    }

    async fn complete(
        &self,
        artifacts: Vec<v1::Artifact>,
        _: Option<v1::Message>,
    ) -> Result<(), GatewayError> {
        let parts = artifacts.into_iter().flat_map(|artifact| artifact.parts);
        let message = v1::Message {
            parts: parts.collect(),
            ..v1::Message::default()
        };
        self.end(Ok(text_of(&message)))
    }

    async fn fail(&self, reason: &str) -> Result<(), GatewayError> {
        self.end(Err(reason.to_owned()))
    }
}

/// Does what the text says.
#[derive(Default)]
struct FakeBackend {
    running: AtomicUsize,
    most: AtomicUsize,
    runs: AtomicUsize,
    /// How often what does the tasks cannot be started.
    unstarted: AtomicUsize,
}

impl FakeBackend {
    async fn do_task(&self, task: &dyn AgentTask, attempt: Attempt) -> Result<TaskResult, RunError> {
        let text = newest_message(task.task()).map(text_of).unwrap_or_default();
        let done = |text: String| TaskResult::Completed {
            artifacts: vec![artifact("result", text_part(text))],
            message: None,
        };
        match text.as_str() {
            "sleep" => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(done("slept".to_owned()))
            }
            "ask" => Ok(TaskResult::Question(text_message("which?"))),
            "hang" => {
                task.cancelled().cancelled().await;
                Err(RunError::new("ended"))
            }
            "stumble and wait" if attempt.number < 2 => Err(RunError::interrupted("stumbled")),
            "crowded" | "stumble and wait" if self.runs.load(SeqCst) < 4 => {
                Err(RunError::unstarted("no room"))
            }
            "stumble" if attempt.number < 3 => Err(RunError::interrupted("stumbled")),
            text => {
                let messages = task.task().messages.len();
                Ok(done(format!("{text} {messages} {}", attempt.number)))
            }
        }
    }
}

#[async_trait]
impl Backend for FakeBackend {
    async fn skills(&self) -> Result<Option<Vec<v1::Skill>>, RunError> {
        let left = self.unstarted.load(SeqCst);
        self.unstarted.store(left.saturating_sub(1), SeqCst);
        if left > 0 {
            return Err(RunError::unstarted("no room"));
        }
        Ok(None)
    }

    async fn run(&self, task: &dyn AgentTask, attempt: Attempt) -> Result<TaskResult, RunError> {
        let running = self.running.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(running, SeqCst);
        self.runs.fetch_add(1, SeqCst);
        let result = self.do_task(task, attempt).await;
        self.running.fetch_sub(1, SeqCst);
        result
    }
}

/// A node, and runners on it with files in one directory.
struct Bench {
    node: Arc<FakeNode>,
    backend: Arc<FakeBackend>,
    state: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            node: Arc::default(),
            backend: Arc::default(),
            state: tempfile::tempdir().unwrap(),
        }
    }

    fn runner(&self, change: impl FnOnce(&mut AgentSettings)) -> (RunnerStop, tokio::task::JoinHandle<()>) {
        let mut settings = AgentSettings {
            name: "worker".to_owned(),
            description: String::new(),
            skills: Vec::new(),
            concurrency: 2,
            timeout: None,
            retry: 0,
            drain: Duration::ZERO,
            program: v1::AgentProgram::default(),
            state: self.state.path().to_owned(),
        };
        change(&mut settings);
        let runner = Runner::new(settings).unwrap();
        let (agents, stop) = (FakeAgents(Arc::clone(&self.node)), RunnerStop::default());
        let (backend, stopped) = (Arc::clone(&self.backend), stop.clone());
        let running = tokio::spawn(async move {
            runner.run(&agents, backend, stopped, |_| {}).await.unwrap();
        });
        (stop, running)
    }

    /// How many tasks are noted as started.
    fn notes(&self) -> usize {
        let runners = std::fs::read_dir(self.state.path().join("run/worker")).unwrap();
        let tasks = runners.map(|runner| runner.unwrap().path().join("tasks"));
        tasks
            .filter_map(|tasks| std::fs::read_dir(tasks).ok())
            .map(Iterator::count)
            .sum()
    }

    fn runs(&self) -> usize {
        self.backend.runs.load(SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_is_claimed_than_there_are_slots() {
    let bench = Bench::new();
    let _runner = bench.runner(|_| {});
    for number in 0..6 {
        bench.node.send(&number.to_string(), "sleep");
    }
    until("two run", || bench.runs() == 2).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let claimed = (0..6).filter(|number| bench.node.task(&number.to_string()).claimed);
    assert_eq!(claimed.count(), 2);
    for number in 0..6 {
        assert_eq!(
            bench.node.ended(&number.to_string()).await,
            Ok("slept".to_owned())
        );
    }
    assert_eq!(bench.backend.most.load(SeqCst), 2);
    until("no notes", || bench.notes() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_question_frees_its_slot_and_its_answer_begins_anew() {
    let bench = Bench::new();
    let _runner = bench.runner(|settings| settings.concurrency = 1);
    bench.node.send("asks", "ask");
    until("the question", || bench.node.task("asks").question.is_some()).await;
    bench.node.send("other", "hello");
    assert_eq!(bench.node.ended("other").await, Ok("hello 1 1".to_owned()));
    bench.node.answer("asks", "blue");
    // The text is that of the answer, and there are three messages.
    assert_eq!(bench.node.ended("asks").await, Ok("blue 3 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_task_ends_at_its_time_out() {
    let bench = Bench::new();
    let _runner = bench.runner(|settings| settings.timeout = Some(Duration::from_secs(90)));
    bench.node.send("t", "hang");
    let reason = bench.node.ended("t").await.unwrap_err();
    assert_eq!(reason, "the program ran for longer than 90s (--timeout)");
}

#[tokio::test(start_paused = true)]
async fn what_was_interrupted_is_given_again_as_often_as_wanted() {
    for (retry, end) in [(1, Err("stumbled".to_owned())), (2, Ok("stumble 1 3".to_owned()))] {
        let bench = Bench::new();
        let _runner = bench.runner(|settings| settings.retry = retry);
        bench.node.send("t", "stumble");
        assert_eq!(bench.node.ended("t").await, end);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_waits_until_the_host_has_what_it_needs() {
    let bench = Bench::new();
    let _runner = bench.runner(|_| {});
    bench.node.send("t", "crowded");
    // It is no further attempt: none was started.
    assert_eq!(bench.node.ended("t").await, Ok("crowded 1 1".to_owned()));
    assert_eq!(bench.runs(), 4);
    bench.node.send("u", "hello");
    assert_eq!(bench.node.ended("u").await, Ok("hello 1 1".to_owned()));
    until("it took no tasks meanwhile", || {
        bench.node.attached.load(SeqCst) > 1
    })
    .await;
    until("no notes", || bench.notes() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_cannot_be_started_is_given_back() {
    let bench = Bench::new();
    bench.node.takes_back.store(true, SeqCst);
    let _runner = bench.runner(|_| {});
    bench.node.send("t", "crowded");
    until("it is the node's again", || bench.node.task("t").given_back).await;
    until("no note says that it was started", || bench.notes() == 0).await;
    assert_eq!((bench.runs(), bench.node.task("t").claimed), (1, false));
    assert_eq!(bench.node.ended("t").await, Ok("crowded 1 1".to_owned()));
}

/// What has run before is not as new.
#[tokio::test(start_paused = true)]
async fn a_further_attempt_is_not_given_back() {
    let bench = Bench::new();
    bench.node.takes_back.store(true, SeqCst);
    let _runner = bench.runner(|settings| settings.retry = 1);
    bench.node.send("t", "stumble and wait");
    assert_eq!(bench.node.ended("t").await, Ok("stumble and wait 1 2".to_owned()));
    assert!(!bench.node.task("t").given_back && bench.runs() == 4);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_cannot_be_started_is_waited_for() {
    let bench = Bench::new();
    bench.backend.unstarted.store(3, SeqCst);
    let _runner = bench.runner(|_| {});
    bench.node.send("t", "hello");
    assert_eq!(bench.node.ended("t").await, Ok("hello 1 1".to_owned()));
    assert_eq!(bench.node.attached.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_not_started_is_begun_by_the_next_runner() {
    let bench = Bench::new();
    let (stop, running) = bench.runner(|_| {});
    bench.node.send("t", "crowded");
    until("it waits", || bench.runs() == 1).await;
    stop.now.cancel();
    running.await.unwrap();
    assert!(bench.node.task("t").left && bench.notes() == 1);
    let _next = bench.runner(|_| {});
    assert_eq!(bench.node.ended("t").await, Ok("resumed 1 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_end_is_reported_until_the_daemon_is_back() {
    let bench = Bench::new();
    bench.node.away.store(50, SeqCst);
    let _runner = bench.runner(|_| {});
    bench.node.send("t", "hello");
    assert_eq!(bench.node.ended("t").await, Ok("hello 1 1".to_owned()));
    assert_eq!(bench.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_runner_left_fails_or_is_given_again_under_the_next_one() {
    for retry in [0, 1] {
        let bench = Bench::new();
        let (stop, running) = bench.runner(|settings| settings.retry = retry);
        bench.node.send("runs", "hang");
        bench.node.send("asks", "ask");
        until("both have begun", || bench.node.task("asks").question.is_some()).await;
        stop.gently.cancel();
        running.await.unwrap();
        let lost = "the runner ended while the program ran (started ";
        if retry == 0 {
            assert!(bench.node.ended("runs").await.unwrap_err().starts_with(lost));
        }
        assert_eq!(bench.notes(), 1 + retry as usize);
        let _next = bench.runner(|settings| settings.retry = retry);
        if retry > 0 {
            assert_eq!(bench.node.ended("runs").await, Ok("resumed 1 2".to_owned()));
        }
        bench.node.answer("asks", "blue");
        assert_eq!(bench.node.ended("asks").await, Ok("blue 3 1".to_owned()));
        until("no notes", || bench.notes() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_ended_while_no_runner_was_there_is_forgotten() {
    let bench = Bench::new();
    let (stop, running) = bench.runner(|settings| settings.retry = 1);
    bench.node.send("t", "hang");
    until("it runs", || bench.runs() == 1).await;
    stop.now.cancel();
    running.await.unwrap();
    assert!(bench.node.task("t").left);
    bench
        .node
        .change("t", |task| task.end = Some(Err("canceled".to_owned())));
    let _next = bench.runner(|settings| settings.retry = 1);
    until("no notes", || bench.notes() == 0).await;
    assert_eq!(bench.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_note_of_a_canceled_task_is_removed() {
    let bench = Bench::new();
    let _runner = bench.runner(|_| {});
    bench.node.send("t", "hang");
    until("it runs", || bench.runs() == 1).await;
    assert_eq!(bench.notes(), 1);
    let token = bench.node.cancels.lock().unwrap()["t"].clone();
    token.cancel();
    until("no notes", || bench.notes() == 0).await;
}
