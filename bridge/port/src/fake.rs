//! A node for tests: its agent answers at once, and everything is remembered.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

pub mod agents;
pub mod changed_json;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use agentanycast_proto::v1::{self, TaskStatus};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use tokio::sync::Semaphore;

use crate::{
    ErrorKind, Gateway, GatewayError, NewTask, Target, TaskGroup, TaskHandle, TaskListing, TaskQuery, Update,
    is_halt, read_agent_card,
};

/// A peer with the agents `one`, which is the primary one, and `two`.
pub const TWO_AGENTS: &str = "peer-with-two-agents";

/// Tasks that it keeps, so that long tests do not become longer.
const KEPT: usize = 64;

/// The node. A message whose first text is `ask` ends in a question, one that is `wait` stays in work, every other one
/// ends in an echo.
#[derive(Clone, Debug, Default)]
pub struct FakeGateway {
    tasks: Arc<Mutex<HashMap<String, v1::Task>>>,
    groups: Arc<Mutex<HashMap<String, TaskGroup>>>,
    notes: Arc<Mutex<BTreeMap<(String, String), v1::TaskNote>>>,
    /// Idempotency keys, and the tasks that they named.
    keys: Arc<Mutex<HashMap<String, String>>>,
    next: Arc<AtomicU64>,
    /// A permit for each task whose sender is answered; none: all are.
    answers: Option<Arc<Semaphore>>,
    /// Its own agent is private.
    is_private: bool,
}

impl FakeGateway {
    /// Answers whoever sends a task only with a permit of this, when the task has long begun.
    #[must_use]
    pub fn with_held_answers(mut self, answers: Arc<Semaphore>) -> Self {
        self.answers = Some(answers);
        self
    }

    /// Its own agent is private: strangers do not see it.
    #[must_use]
    pub fn with_private_agent(mut self) -> Self {
        self.is_private = true;
        self
    }

    fn named(&self, key: &str) -> Option<String> {
        self.keys.lock().unwrap().get(key).cloned()
    }
}

fn text_of(message: &v1::Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match &part.content {
        Some(v1::part::Content::TextPart(part)) => Some(part.text.as_str()),
        Some(v1::part::Content::RawPart(raw)) if part.media_type == "text/plain" => {
            std::str::from_utf8(&raw.data).ok()
        }
        _ => None,
    });
    texts.collect()
}

fn work(task: &mut v1::Task, message: v1::Message) {
    let asks = task.messages.is_empty() && text_of(&message) == "ask";
    if asks {
        task.set_status(TaskStatus::InputRequired);
    } else if text_of(&message) == "wait" {
        task.set_status(TaskStatus::Working);
    } else {
        task.set_status(TaskStatus::Completed);
        task.artifacts.push(v1::Artifact {
            artifact_id: "a".to_owned(),
            parts: message.parts.clone(),
            ..v1::Artifact::default()
        });
    }
    task.messages.push(message);
}

#[async_trait]
impl Gateway for FakeGateway {
    async fn peer_id(&self) -> Result<String, GatewayError> {
        Ok("me".to_owned())
    }

    async fn did_web(&self) -> Result<String, GatewayError> {
        Ok(String::new())
    }

    async fn send(&self, outgoing: NewTask) -> Result<Arc<dyn TaskHandle>, GatewayError> {
        let known = outgoing.idempotency_key.as_ref().and_then(|key| self.named(key));
        if let Some(id) = known {
            return Ok(self.task(&id));
        }
        if let Target::Agent { peer, agent } = &outgoing.target {
            read_agent_card(self, peer.as_deref(), agent).await?;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut task = v1::Task {
            task_id: format!("t{number}"),
            context_id: outgoing.context_id,
            metadata: outgoing.metadata,
            originator_peer_id: "me".to_owned(),
            assignee_peer_id: match &outgoing.target {
                Target::Agent { peer: Some(peer), .. } => peer.clone(),
                _ => String::new(),
            },
            agent: match &outgoing.target {
                Target::Agent { agent, .. } => agent.clone(),
                _ => String::new(),
            },
            target_skill_id: match outgoing.target {
                Target::Skill(skill) => skill,
                _ => String::new(),
            },
            updated_at: Some(prost_types::Timestamp {
                seconds: number as i64,
                nanos: 0,
            }),
            ..v1::Task::default()
        };
        work(&mut task, outgoing.message);
        let id = task.task_id.clone();
        {
            let mut tasks = self.tasks.lock().unwrap();
            if tasks.len() == KEPT {
                tasks.clear();
                self.notes.lock().unwrap().clear();
            }
            tasks.insert(id.clone(), task);
        }
        self.groups.lock().unwrap().insert(id.clone(), outgoing.group);
        if let Some(key) = outgoing.idempotency_key {
            self.keys.lock().unwrap().insert(key, id.clone());
        }
        if let Some(note) = outgoing.note {
            self.put_note(&id, note, 0).await?;
        }
        if let Some(answers) = &self.answers {
            answers.acquire().await.unwrap().forget();
        }
        Ok(self.task(&id))
    }

    fn task(&self, id: &str) -> Arc<dyn TaskHandle> {
        Arc::new(FakeTask {
            gateway: self.clone(),
            id: id.to_owned(),
        })
    }

    async fn list(&self, listing: TaskQuery) -> Result<TaskListing, GatewayError> {
        let changed = |task: &v1::Task| {
            task.updated_at
                .as_ref()
                .map_or(0, |time| time.seconds as u64 * 1000)
        };
        let mut tasks: Vec<v1::Task> = self.tasks.lock().unwrap().values().cloned().collect();
        let groups = self.groups.lock().unwrap();
        tasks.retain(|task| {
            groups.get(&task.task_id) == Some(&listing.group)
                && (listing.context_id.is_empty() || task.context_id == listing.context_id)
                && listing.status.is_none_or(|status| task.status() == status)
                && listing.changed_after.is_none_or(|after| changed(task) > after)
        });
        tasks.sort_by_key(|task| std::cmp::Reverse((changed(task), task.task_id.clone())));
        let total = tasks.len();
        if let Some((at, id)) = listing.after.split_once(':') {
            let place = (at.parse().unwrap(), id.to_owned());
            tasks.retain(|task| (changed(task), task.task_id.clone()) < place);
        }
        let is_last = tasks.len() <= listing.limit;
        tasks.truncate(listing.limit);
        let last = tasks.last().filter(|_| !is_last);
        let next = last.map_or(String::new(), |last| {
            format!("{}:{}", changed(last), last.task_id)
        });
        Ok(TaskListing { tasks, next, total })
    }

    async fn agents_page(&self, peer: &str, wanted: v1::AgentsPage) -> Result<v1::AgentCard, GatewayError> {
        let mut page = self.card(peer).await?;
        page.agents
            .retain(|agent| wanted.name.is_empty() || agent.agent == wanted.name);
        Ok(page)
    }

    async fn card(&self, peer: &str) -> Result<v1::AgentCard, GatewayError> {
        if peer == TWO_AGENTS {
            let agent = |agent: &str| v1::AgentCard {
                name: format!("Agent {agent}"),
                agent: agent.to_owned(),
                ..v1::AgentCard::default()
            };
            return Ok(v1::AgentCard {
                agents: vec![agent("one"), agent("two")],
                ..agent("one")
            });
        }
        if peer != "me" {
            return Err(GatewayError::new(ErrorKind::AgentNotFound, "no such peer"));
        }
        Ok(v1::AgentCard {
            name: "Fake".to_owned(),
            ..v1::AgentCard::default()
        })
    }

    async fn public_card(
        &self,
        peer: &str,
        wanted: Option<v1::AgentsPage>,
    ) -> Result<v1::AgentCard, GatewayError> {
        if peer == "me" && self.is_private {
            return Err(GatewayError::new(
                ErrorKind::AgentNotFound,
                "no card of me is known",
            ));
        }
        match wanted {
            Some(wanted) => self.agents_page(peer, wanted).await,
            None => self.card(peer).await,
        }
    }

    async fn discover(
        &self,
        skill: &str,
        _: &BTreeMap<String, String>,
        _: usize,
    ) -> Result<Vec<v1::DiscoveredAgent>, GatewayError> {
        let found = (skill == "echo").then(|| v1::DiscoveredAgent {
            skills: vec![v1::SkillInfo {
                skill_id: skill.to_owned(),
                description: "Says it again".to_owned(),
                ..v1::SkillInfo::default()
            }],
            ..v1::DiscoveredAgent::default()
        });
        Ok(found.into_iter().collect())
    }

    async fn agents(&self, skill: Option<&str>) -> Result<Vec<v1::ListedAgent>, GatewayError> {
        let own = v1::ListedAgent {
            peer_id: "me".to_owned(),
            name: "Fake <b>".to_owned(),
            skills: vec![v1::SkillInfo {
                skill_id: "echo/all".to_owned(),
                description: "Says it \"again\"".to_owned(),
                ..v1::SkillInfo::default()
            }],
            own: true,
            ..v1::ListedAgent::default()
        };
        Ok(if skill.is_none_or(|skill| skill == "echo/all") {
            vec![own]
        } else {
            Vec::new()
        })
    }

    async fn has_listener(&self) -> Result<bool, GatewayError> {
        Ok(true)
    }

    async fn put_note(
        &self,
        task: &str,
        mut note: v1::TaskNote,
        if_version: u64,
    ) -> Result<u64, GatewayError> {
        self.task(task).snapshot().await?;
        let mut notes = self.notes.lock().unwrap();
        let key = (task.to_owned(), note.name.clone());
        if if_version != 0 && notes.get(&key).is_none_or(|known| known.version != if_version) {
            return Err(GatewayError::new(ErrorKind::Conflict, "another version"));
        }
        note.version = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let version = note.version;
        notes.insert(key, note);
        Ok(version)
    }

    async fn delete_note(&self, task: &str, name: &str) -> Result<(), GatewayError> {
        self.notes
            .lock()
            .unwrap()
            .remove(&(task.to_owned(), name.to_owned()));
        Ok(())
    }

    async fn notes(&self, task: &str) -> Result<Vec<v1::TaskNote>, GatewayError> {
        let notes = self.notes.lock().unwrap();
        let of_task = notes.iter().filter(|((of, _), _)| of == task);
        Ok(of_task.map(|(_, note)| note.clone()).collect())
    }

    fn watch_notes(&self) -> BoxStream<'static, Result<v1::WatchTaskNotesResponse, GatewayError>> {
        let notes = self.notes.lock().unwrap();
        let tasks: Vec<_> = notes
            .iter()
            .filter(|(_, note)| note.open)
            .map(|((task_id, _), note)| {
                Ok(v1::WatchTaskNotesResponse {
                    task_id: task_id.clone(),
                    notes: vec![note.clone()],
                })
            })
            .collect();
        futures::stream::iter(tasks)
            .chain(futures::stream::pending())
            .boxed()
    }
}

struct FakeTask {
    gateway: FakeGateway,
    id: String,
}

#[async_trait]
impl TaskHandle for FakeTask {
    fn id(&self) -> &str {
        &self.id
    }

    async fn snapshot(&self) -> Result<v1::Task, GatewayError> {
        let task = self.gateway.tasks.lock().unwrap().get(&self.id).cloned();
        task.ok_or_else(|| GatewayError::new(ErrorKind::TaskNotFound, "no such task"))
    }

    fn updates(&self) -> BoxStream<'static, Result<Update, GatewayError>> {
        let task = self.gateway.tasks.lock().unwrap().get(&self.id).cloned();
        let is_over = task.as_ref().is_none_or(|task| is_halt(task.status()));
        let update = task.map(|task| {
            Ok(Update {
                status: task.status(),
                message: task.status_message,
                artifacts: task.artifacts,
                resumed: false,
            })
        });
        let told = futures::stream::iter(update);
        if is_over {
            told.boxed()
        } else {
            told.chain(futures::stream::pending()).boxed()
        }
    }

    fn stream(&self, _: &str) -> BoxStream<'static, Result<Bytes, GatewayError>> {
        futures::stream::empty().boxed()
    }

    async fn halted(&self) -> Result<v1::Task, GatewayError> {
        let task = self.snapshot().await?;
        if is_halt(task.status()) {
            return Ok(task);
        }
        std::future::pending().await
    }

    async fn reply(
        &self,
        message: v1::Message,
        note: Option<v1::TaskNote>,
        idempotency_key: Option<String>,
    ) -> Result<String, GatewayError> {
        if let Some(key) = idempotency_key {
            if let Some(id) = self.gateway.named(&key) {
                return Ok(id);
            }
            // The key counts only if the message is taken.
            let status = self.snapshot().await?.status();
            if status == TaskStatus::InputRequired {
                self.gateway.keys.lock().unwrap().insert(key, self.id.clone());
            }
        }
        {
            let mut tasks = self.gateway.tasks.lock().unwrap();
            let task = tasks.get_mut(&self.id).unwrap();
            if task.status() != TaskStatus::InputRequired {
                return Err(GatewayError::new(ErrorKind::Conflict, "not now"));
            }
            work(task, message);
        }
        if let Some(note) = note {
            self.gateway.put_note(&self.id, note, 0).await?;
        }
        Ok(self.id.clone())
    }

    async fn cancel(&self) -> Result<v1::Task, GatewayError> {
        let mut tasks = self.gateway.tasks.lock().unwrap();
        let task = tasks.get_mut(&self.id).unwrap();
        task.set_status(TaskStatus::Canceled);
        Ok(task.clone())
    }
}
