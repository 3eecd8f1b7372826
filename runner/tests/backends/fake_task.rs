//! A task without a node: what a backend does with it is kept, and questions are answered as a test says.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use agentanycast_gateway::{
    ErrorKind, GatewayError,
    agents::{AgentTask, ArtifactSink},
};
use agentanycast_proto::v1::{self, MessageRole, part::Content};
use agentanycast_runner::{Attempt, Backend, RunError, TaskResult, process::ProgramCommand};
use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The first try of a task that has no time-out.
pub(crate) const FIRST: Attempt = Attempt {
    number: 1,
    deadline: None::<SystemTime>,
};

/// How long a test waits for something that has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The helper under which programs run.
pub(crate) fn helper() -> PathBuf {
    env!("CARGO_BIN_EXE_anycast-run-helper").into()
}

/// A program with these arguments.
pub(crate) fn command(program: &str, args: &[&str]) -> ProgramCommand {
    ProgramCommand {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        env: std::env::vars_os().collect(),
        cwd: None,
        max_processes: None,
        held: None,
    }
}

/// A result that is streamed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Streamed {
    pub(crate) media_type: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_whole: bool,
}

#[derive(Default)]
pub(crate) struct FakeTask {
    pub(crate) task: v1::Task,
    pub(crate) cancelled: CancellationToken,
    /// Texts of answers; a question that finds none waits.
    pub(crate) answers: Mutex<VecDeque<v1::Message>>,
    pub(crate) questions: Mutex<Vec<v1::Message>>,
    pub(crate) progress: Mutex<Vec<String>>,
    pub(crate) streams: Arc<Mutex<BTreeMap<String, Streamed>>>,
    /// A question waits for its answer: results and progress would end the wait.
    is_asking: AtomicBool,
    changed: Notify,
}

impl FakeTask {
    pub(crate) fn new(context: &str, skill: &str, parts: Vec<v1::Part>) -> Self {
        Self {
            task: v1::Task {
                task_id: "task-1".to_owned(),
                context_id: context.to_owned(),
                target_skill_id: skill.to_owned(),
                originator_peer_id: "12D3Sender".to_owned(),
                messages: vec![v1::Message {
                    role: MessageRole::User.into(),
                    message_id: "m1".to_owned(),
                    parts,
                    ..v1::Message::default()
                }],
                ..v1::Task::default()
            },
            ..Self::default()
        }
    }

    pub(crate) fn text(context: &str, skill: &str, words: &str) -> Self {
        Self::new(context, skill, vec![text(words)])
    }

    pub(crate) fn answering(self, answer: &str) -> Self {
        let message = v1::Message {
            parts: vec![text(answer)],
            ..v1::Message::default()
        };
        self.answers.lock().unwrap().push_back(message);
        self
    }

    /// Waits until this is so.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if is_so(self) {
                    return;
                }
                // What a sink writes is not told.
                let _ = tokio::time::timeout(Duration::from_millis(20), changed).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .expect("it comes in time");
    }

    /// The text of the only streamed result, which is whole.
    fn asks_nothing(&self) {
        let is_asking = self.is_asking.load(Ordering::SeqCst);
        assert!(!is_asking, "the task waits for an answer");
    }

    pub(crate) fn streamed_text(&self) -> String {
        let streams = self.streams.lock().unwrap();
        let all: Vec<_> = streams.values().collect();
        let [one] = all.as_slice() else {
            panic!("{streams:?}")
        };
        assert!(one.is_whole);
        String::from_utf8(one.bytes.clone()).unwrap()
    }
}

pub(crate) fn text(words: &str) -> v1::Part {
    v1::Part {
        content: Some(Content::TextPart(v1::TextPart {
            text: words.to_owned(),
        })),
        ..v1::Part::default()
    }
}

pub(crate) fn text_of(message: &v1::Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match &part.content {
        Some(Content::TextPart(text)) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Runs a task to its end; the artifacts of its report.
pub(crate) async fn run(backend: &dyn Backend, task: &FakeTask) -> Result<Vec<v1::Artifact>, RunError> {
    let done = tokio::time::timeout(PATIENCE, backend.run(task, FIRST)).await;
    match done.expect("the task ends in time")? {
        TaskResult::Completed { artifacts, .. } => Ok(artifacts),
        TaskResult::Question(question) => panic!("{question:?}"),
    }
}

/// The reason why a task fails.
pub(crate) async fn failure(backend: &dyn Backend, task: &FakeTask) -> String {
    run(backend, task).await.expect_err("it fails").to_string()
}

#[async_trait]
impl AgentTask for FakeTask {
    fn task(&self) -> &v1::Task {
        &self.task
    }

    fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    async fn claim(&self) -> Result<(), GatewayError> {
        Ok(())
    }

    fn leave(&self) {}

    async fn working(&self, message: v1::Message) -> Result<(), GatewayError> {
        self.asks_nothing();
        self.progress.lock().unwrap().push(text_of(&message));
        self.changed.notify_waiters();
        Ok(())
    }

    async fn ask(&self, question: v1::Message) -> Result<v1::Message, GatewayError> {
        self.questions.lock().unwrap().push(question);
        self.changed.notify_waiters();
        let answer = self.answers.lock().unwrap().pop_front();
        if let Some(answer) = answer {
            return Ok(answer);
        }
        let _asking = Asking::begin(&self.is_asking);
        self.cancelled.cancelled().await;
        Err(GatewayError::new(ErrorKind::Conflict, "the task has ended"))
    }

    async fn stream(&self, name: &str, media_type: &str) -> Result<Box<dyn ArtifactSink>, GatewayError> {
        self.asks_nothing();
        let mut streams = self.streams.lock().unwrap();
        let stream = Streamed {
            media_type: media_type.to_owned(),
            ..Streamed::default()
        };
        assert!(
            streams.insert(name.to_owned(), stream).is_none(),
            "{name} is streamed twice"
        );
        Ok(Box::new(FakeSink {
            name: name.to_owned(),
            streams: Arc::clone(&self.streams),
        }))
    }

    async fn complete(&self, _: Vec<v1::Artifact>, _: Option<v1::Message>) -> Result<(), GatewayError> {
        unreachable!("the runner completes")
    }

    async fn fail(&self, _: &str) -> Result<(), GatewayError> {
        unreachable!("the runner fails")
    }
}

/// Until it is dropped, a question is asked.
struct Asking<'a>(&'a AtomicBool);

impl<'a> Asking<'a> {
    fn begin(is_asking: &'a AtomicBool) -> Self {
        is_asking.store(true, Ordering::SeqCst);
        Self(is_asking)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

struct FakeSink {
    name: String,
    streams: Arc<Mutex<BTreeMap<String, Streamed>>>,
}

#[async_trait]
impl ArtifactSink for FakeSink {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), GatewayError> {
        let mut streams = self.streams.lock().unwrap();
        streams
            .get_mut(&self.name)
            .unwrap()
            .bytes
            .extend_from_slice(bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), GatewayError> {
        self.streams.lock().unwrap().get_mut(&self.name).unwrap().is_whole = true;
        Ok(())
    }
}
