//! A node whose agents do what the text of a message says: `wait` stays in work, `ask` asks, `fail WHY` fails,
//! `say WORDS` says them, `weather?` is answered with a turn, `stream`, `open` and `garbage` write events, `large` and `huge` stream
//! their result, `denied`, `busy` and `x` are refused by the node, and the agent of the fake echoes `hi`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use agentanycast_gateway::{
    ErrorKind, Gateway, GatewayError, NewTask, REFERENCE, Target, TaskHandle, TaskListing, TaskQuery, Update,
    fake::FakeGateway,
};
use agentanycast_proto::{
    struct_json::carry,
    v1::{self, TaskStatus, part::Content},
};
use agentanycast_upp::{AssistantMessage, ContentBlock, Response, StreamEvent, ToolCall, wire};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use serde_json::Value;
use tokio::sync::watch;

/// What was sent: whom, and what.
pub(crate) type Sent = (Target, v1::Message);

/// The node. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct ScriptedAgents {
    fake: FakeGateway,
    pub(crate) sent: Arc<Mutex<Vec<Sent>>>,
    tasks: Arc<Mutex<HashMap<String, ScriptedTask>>>,
    /// How many tasks were cancelled.
    pub(crate) cancelled: Arc<watch::Sender<usize>>,
}

#[derive(Clone)]
struct ScriptedTask {
    task: v1::Task,
    content: Vec<Bytes>,
    is_open: bool,
}

pub(crate) fn text_part(text: &str) -> v1::Part {
    v1::Part {
        content: Some(Content::TextPart(v1::TextPart {
            text: text.to_owned(),
        })),
        ..v1::Part::default()
    }
}

fn message(text: &str) -> v1::Message {
    v1::Message {
        parts: vec![text_part(text)],
        ..v1::Message::default()
    }
}

pub(crate) fn text_of(message: &v1::Message) -> &str {
    match &message.parts[1].content {
        Some(Content::TextPart(text)) => &text.text,
        other => panic!("no text: {other:?}"),
    }
}

fn turn() -> Value {
    let call = ToolCall::new("t1", "weather", serde_json::json!({"city": "Paris"}));
    let said = AssistantMessage::new([ContentBlock::text("let me see")]).with_tool_calls([call]);
    serde_json::from_str(&wire::turn_json(&wire::turn_of(Response::new(said)))).unwrap()
}

fn artifact(id: &str, part: v1::Part) -> v1::Artifact {
    v1::Artifact {
        artifact_id: id.to_owned(),
        parts: vec![part],
        ..v1::Artifact::default()
    }
}

fn reference(id: &str, media_type: &str) -> v1::Artifact {
    let url = format!("{REFERENCE}{id}");
    let part = v1::Part {
        content: Some(Content::UrlPart(v1::UrlPart {
            url,
            filename: String::new(),
        })),
        media_type: media_type.to_owned(),
        ..v1::Part::default()
    };
    artifact(id, part)
}

impl ScriptedTask {
    fn new(id: String, said: &str) -> Self {
        let mut scripted = Self {
            task: v1::Task {
                task_id: id,
                ..v1::Task::default()
            },
            content: Vec::new(),
            is_open: false,
        };
        let task = &mut scripted.task;
        task.set_status(TaskStatus::Completed);
        match said {
            "wait" => task.set_status(TaskStatus::Working),
            "ask" => {
                task.set_status(TaskStatus::InputRequired);
                task.status_message = Some(message("which colour?"));
            }
            "weather?" => {
                let (data, _) = carry(&turn()).unwrap();
                let part = v1::Part {
                    content: Some(Content::DataPart(v1::DataPart { data: Some(data) })),
                    ..v1::Part::default()
                };
                task.artifacts.push(artifact("answer", part));
            }
            "stream" | "open" => {
                let events = "application/vnd.upp.events+jsonl";
                task.artifacts.push(reference("events", events));
                scripted.is_open = said == "open";
                if scripted.is_open {
                    task.set_status(TaskStatus::Working);
                } else {
                    task.artifacts.push(artifact("a", text_part("one two")));
                }
                for text in ["one ", "two"] {
                    let line = serde_json::to_string(&StreamEvent::text(0, text)).unwrap();
                    let bytes = Bytes::from(format!("{line}\n"));
                    // Cut in the middle of a line.
                    scripted.content.extend([bytes.slice(..9), bytes.slice(9..)]);
                }
            }
            said if said.starts_with("say ") => {
                task.artifacts
                    .push(artifact("a", text_part(&said["say ".len()..])));
            }
            "garbage" => {
                task.artifacts
                    .push(reference("events", "application/vnd.upp.events+jsonl"));
                scripted.content.push(Bytes::from_static(b"{not json\n"));
            }
            "huge" => {
                task.artifacts.push(reference("big", "text/plain"));
                scripted.content = vec![Bytes::from(vec![b'x'; 1 << 20]); 17];
            }
            "large" => {
                task.artifacts.push(reference("big", "text/plain"));
                scripted.content = vec![Bytes::from(vec![b'x'; 1 << 20]); 2];
            }
            other => {
                task.set_status(TaskStatus::Failed);
                task.status_message = Some(message(other.strip_prefix("fail ").unwrap()));
            }
        }
        scripted
    }
}

#[async_trait]
impl Gateway for ScriptedAgents {
    async fn send(&self, outgoing: NewTask) -> Result<Arc<dyn TaskHandle>, GatewayError> {
        let said = text_of(&outgoing.message).to_owned();
        let sent = (outgoing.target.clone(), outgoing.message.clone());
        self.sent.lock().unwrap().push(sent);
        match said.as_str() {
            "denied" => return Err(GatewayError::new(ErrorKind::Denied, "the policy forbids it")),
            "busy" => return Err(GatewayError::new(ErrorKind::Busy, "the node is full")),
            "x" => return Err(GatewayError::new(ErrorKind::AgentNotFound, "no agent is there")),
            "hi" => return self.fake.send(outgoing).await,
            _ => {}
        }
        let mut tasks = self.tasks.lock().unwrap();
        let id = format!("s{}", tasks.len());
        tasks.insert(id.clone(), ScriptedTask::new(id.clone(), &said));
        Ok(Arc::new(ScriptedHandle {
            node: self.clone(),
            id,
        }))
    }

    async fn peer_id(&self) -> Result<String, GatewayError> {
        self.fake.peer_id().await
    }

    async fn did_web(&self) -> Result<String, GatewayError> {
        self.fake.did_web().await
    }

    fn task(&self, id: &str) -> Arc<dyn TaskHandle> {
        self.fake.task(id)
    }

    async fn list(&self, listing: TaskQuery) -> Result<TaskListing, GatewayError> {
        self.fake.list(listing).await
    }

    async fn card(&self, peer: &str) -> Result<v1::AgentCard, GatewayError> {
        self.fake.card(peer).await
    }

    async fn public_card(
        &self,
        peer: &str,
        wanted: Option<v1::AgentsPage>,
    ) -> Result<v1::AgentCard, GatewayError> {
        self.fake.public_card(peer, wanted).await
    }

    async fn agents_page(&self, peer: &str, wanted: v1::AgentsPage) -> Result<v1::AgentCard, GatewayError> {
        self.fake.agents_page(peer, wanted).await
    }

    async fn has_listener(&self) -> Result<bool, GatewayError> {
        self.fake.has_listener().await
    }

    async fn put_note(&self, task: &str, note: v1::TaskNote, version: u64) -> Result<u64, GatewayError> {
        self.fake.put_note(task, note, version).await
    }

    async fn delete_note(&self, task: &str, name: &str) -> Result<(), GatewayError> {
        self.fake.delete_note(task, name).await
    }

    async fn notes(&self, task: &str) -> Result<Vec<v1::TaskNote>, GatewayError> {
        self.fake.notes(task).await
    }

    fn watch_notes(&self) -> BoxStream<'static, Result<v1::WatchTaskNotesResponse, GatewayError>> {
        self.fake.watch_notes()
    }

    async fn agents(&self, skill: Option<&str>) -> Result<Vec<v1::ListedAgent>, GatewayError> {
        self.fake.agents(skill).await
    }

    async fn discover(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<Vec<v1::DiscoveredAgent>, GatewayError> {
        self.fake.discover(skill, tags, limit).await
    }
}

struct ScriptedHandle {
    node: ScriptedAgents,
    id: String,
}

impl ScriptedHandle {
    fn scripted(&self) -> ScriptedTask {
        self.node.tasks.lock().unwrap()[&self.id].clone()
    }
}

#[async_trait]
impl TaskHandle for ScriptedHandle {
    fn id(&self) -> &str {
        &self.id
    }

    async fn snapshot(&self) -> Result<v1::Task, GatewayError> {
        Ok(self.scripted().task)
    }

    fn updates(&self) -> BoxStream<'static, Result<Update, GatewayError>> {
        let task = self.scripted().task;
        let update = Update {
            status: task.status(),
            message: task.status_message,
            artifacts: task.artifacts,
            resumed: false,
        };
        futures::stream::iter([Ok(update)])
            .chain(futures::stream::pending())
            .boxed()
    }

    fn stream(&self, _: &str) -> BoxStream<'static, Result<Bytes, GatewayError>> {
        let task = self.scripted();
        let pieces = futures::stream::iter(task.content.into_iter().map(Ok));
        if task.is_open {
            pieces.chain(futures::stream::pending()).boxed()
        } else {
            pieces.boxed()
        }
    }

    async fn halted(&self) -> Result<v1::Task, GatewayError> {
        let task = self.scripted().task;
        if task.status() == TaskStatus::Working {
            return std::future::pending().await;
        }
        Ok(task)
    }

    async fn reply(
        &self,
        _: v1::Message,
        _: Option<v1::TaskNote>,
        _: Option<String>,
    ) -> Result<String, GatewayError> {
        Err(GatewayError::new(ErrorKind::Conflict, "it takes no message"))
    }

    async fn cancel(&self) -> Result<v1::Task, GatewayError> {
        self.node.cancelled.send_modify(|count| *count += 1);
        Ok(self.scripted().task)
    }
}
