//! Requests carried out on the mesh: the one handler behind all bindings and versions.
//!
//! A task that came by this gateway carries labels that say so: who asked, whom, for which tenant. They travel with
//! the task and are as durable as it, so the bridge keeps nothing of its own. The one rule: a caller sees tasks that
//! carry its own labels, and no others.

mod list;
mod pieces;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentanycast_proto::v1::{self, TaskStatus};
use async_stream::try_stream;
use async_trait::async_trait;
use futures::{
    StreamExt as _,
    stream::{BoxStream, SelectAll},
};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    card::{self, Front},
    error::{A2aError, Reason},
    follow::{self, Event, Follow, Step},
    message::Place,
    render::Answer,
    request::{Call, Request, Send},
    task::is_terminal,
};
use crate::gateway::{ErrorKind, Gateway, GatewayError, Outgoing, Target, TaskHandle, Update};

/// The labels of a task that came by this gateway.
const CALLER: &str = "a2a.caller";
const TENANT: &str = "a2a.tenant";
const TARGET: &str = "a2a.target";

/// Tasks that are followed or waited for at once. Each takes a stream of the connection to the daemon, which has
/// 4 096, and other calls need some.
const FOLLOWED: usize = 2048;

/// Agents that the card of a skill is made of.
const ASKED_FOR_SKILL: usize = 8;

/// Whom a request is for, and who sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The agent.
    pub target: Target,
    /// The name under which the caller is known; `anonymous` if there is none.
    pub caller: String,
}

/// A task that is being followed.
pub struct Followed {
    /// Which.
    pub place: Place,
    /// The task, then what changes, until it has ended.
    pub events: BoxStream<'static, Result<Event, A2aError>>,
}

/// What stands behind the bindings.
#[async_trait]
pub trait Handler: std::marker::Send + Sync {
    /// Answers a request at once, or when its task has come to a halt.
    async fn answer(&self, address: &Address, request: Request) -> Result<Answer, A2aError>;

    /// Answers a request by what happens. What fails before the first event is an error and no stream.
    async fn follow(&self, address: &Address, request: Request) -> Result<Followed, A2aError>;

    /// The card of an agent.
    async fn card(&self, target: &Target, front: &Front) -> Result<Value, A2aError>;
}

/// The handler that passes requests on to the mesh.
pub struct Mesh {
    gateway: Arc<dyn Gateway>,
    /// How long an answer may wait for its task.
    patience: Duration,
    followed: Arc<Semaphore>,
}

impl Mesh {
    /// On this node. An answer that waits for its task shows the task as it stands after `patience`.
    pub fn new(gateway: Arc<dyn Gateway>, patience: Duration) -> Self {
        Self {
            gateway,
            patience,
            followed: Arc::new(Semaphore::new(FOLLOWED)),
        }
    }

    /// A task of this caller, as it stands.
    async fn task(&self, address: &Address, tenant: &str, id: &str) -> Result<Known, A2aError> {
        let unknown = || A2aError::new(Reason::TaskNotFound, format!("there is no task {}", shorten(id)));
        let handle = self.gateway.task(id);
        let task = match handle.snapshot().await {
            Err(error) if matches!(error.kind(), ErrorKind::TaskNotFound | ErrorKind::Invalid) => {
                return Err(unknown());
            }
            task => task?,
        };
        if !belongs(&task, address, tenant) {
            return Err(unknown());
        }
        Ok(Known { handle, task })
    }

    /// Sends a message; the task that it begins or belongs to.
    async fn send(
        &self,
        address: &Address,
        tenant: &str,
        send: &Send,
    ) -> Result<Arc<dyn TaskHandle>, A2aError> {
        if send.push {
            let text = "push notifications are not supported by this bridge; follow the task by a stream";
            return Err(A2aError::new(Reason::PushNotificationNotSupported, text));
        }
        if !send.place.task_id.is_empty() {
            return self.reply(address, tenant, send).await;
        }
        let mut metadata = send.labels.clone();
        metadata.extend(labels(address, tenant));
        let outgoing = Outgoing {
            target: address.target.clone(),
            message: send.message.clone(),
            context_id: send.place.context_id.clone(),
            metadata,
        };
        Ok(self.gateway.send(outgoing).await?)
    }

    async fn reply(
        &self,
        address: &Address,
        tenant: &str,
        send: &Send,
    ) -> Result<Arc<dyn TaskHandle>, A2aError> {
        let Known { handle, task } = self.task(address, tenant, &send.place.task_id).await?;
        let context = &send.place.context_id;
        if !context.is_empty() && *context != task.context_id {
            return Err(A2aError::params(format!(
                "message.contextId is not that of task {}, which is {}",
                task.task_id, task.context_id
            )));
        }
        handle.reply(send.message.clone()).await?;
        Ok(handle)
    }

    /// The task once it has ended or asks for something, or as it stands when patience is over.
    async fn halted(&self, handle: &Arc<dyn TaskHandle>) -> Result<v1::Task, A2aError> {
        let _place = self.room()?;
        let mut updates = handle.updates();
        let halt = async {
            while let Some(update) = updates.next().await {
                if is_halt(update?.status) {
                    break;
                }
            }
            Ok::<_, GatewayError>(())
        };
        if let Ok(halted) = tokio::time::timeout(self.patience, halt).await {
            halted?;
        }
        Ok(handle.snapshot().await?)
    }

    fn room(&self) -> Result<OwnedSemaphorePermit, A2aError> {
        Arc::clone(&self.followed).try_acquire_owned().map_err(|_| {
            let text = format!("{FOLLOWED} tasks are being followed, the most at once; try again later");
            A2aError::new(Reason::ResourceExhausted, text)
        })
    }
}

/// A task, and how to reach it.
struct Known {
    handle: Arc<dyn TaskHandle>,
    task: v1::Task,
}

#[async_trait]
impl Handler for Mesh {
    async fn answer(&self, address: &Address, request: Request) -> Result<Answer, A2aError> {
        let tenant = &request.tenant;
        match request.call {
            Call::Send(send) => {
                let handle = self.send(address, tenant, &send).await?;
                let task = if send.wait {
                    self.halted(&handle).await?
                } else {
                    handle.snapshot().await?
                };
                Ok(Answer::Sent(Box::new(finished_results(task)), send.history))
            }
            Call::Get { id, history } => {
                let known = self.task(address, tenant, &id).await?;
                Ok(Answer::Task(Box::new(finished_results(known.task)), history))
            }
            Call::Cancel { id } => {
                let known = self.task(address, tenant, &id).await?;
                let ended = || {
                    let text = format!("task {} has ended", known.task.task_id);
                    A2aError::new(Reason::TaskNotCancelable, text)
                };
                if is_terminal(known.task.status()) {
                    return Err(ended());
                }
                match known.handle.cancel().await {
                    Err(error) if error.kind() == ErrorKind::Conflict => Err(ended()),
                    task => Ok(Answer::Task(Box::new(finished_results(task?)), None)),
                }
            }
            Call::List(list) => Ok(Answer::Tasks(self.list(address, tenant, list).await?)),
            Call::Push => Err(A2aError::new(
                Reason::PushNotificationNotSupported,
                "push notifications are not supported by this bridge; follow the task by a stream",
            )),
            Call::ExtendedCard => Err(A2aError::new(
                Reason::ExtendedAgentCardNotConfigured,
                "this agent has no extended card; its public one says all",
            )),
            Call::Subscribe { .. } => Err(A2aError::new(
                Reason::UnsupportedOperation,
                "a task is followed by a stream",
            )),
        }
    }

    async fn follow(&self, address: &Address, request: Request) -> Result<Followed, A2aError> {
        let place = self.room()?;
        let tenant = &request.tenant;
        let handle = match request.call {
            Call::Send(send) => self.send(address, tenant, &send).await?,
            Call::Subscribe { id } => {
                let known = self.task(address, tenant, &id).await?;
                if is_terminal(known.task.status()) {
                    let text = format!("task {} has ended; read it instead", known.task.task_id);
                    return Err(A2aError::new(Reason::UnsupportedOperation, text));
                }
                known.handle
            }
            _ => {
                return Err(A2aError::new(
                    Reason::UnsupportedOperation,
                    "this is not answered by a stream",
                ));
            }
        };
        // First the updates, then the task: what happens between is in both, and nothing in neither.
        let mut updates = handle.updates().peekable();
        if let Some(Err(error)) = std::pin::Pin::new(&mut updates).peek().await {
            return Err(error.clone().into());
        }
        let task = handle.snapshot().await?;
        Ok(Followed {
            place: Place {
                context_id: task.context_id.clone(),
                task_id: task.task_id.clone(),
            },
            events: events(handle, updates.boxed(), task, place),
        })
    }

    async fn card(&self, target: &Target, front: &Front) -> Result<Value, A2aError> {
        let card = match target {
            Target::Own => self.gateway.card(&self.gateway.peer_id().await?).await,
            Target::Peer(peer) => self.gateway.card(peer).await,
            Target::Skill(skill) => {
                let found = self.gateway.discover(skill, ASKED_FOR_SKILL).await?;
                if found.is_empty() {
                    let text = format!("no agent has the skill {}", shorten(skill));
                    return Err(A2aError::new(Reason::AgentNotFound, text));
                }
                Ok(card::of_skill(skill, &found))
            }
            Target::Url(_) => return Err(A2aError::new(Reason::AgentNotFound, "no such agent")),
        };
        Ok(card::write(&card?, front))
    }
}

/// The events of a task that is shown as it stands and then followed.
fn events(
    handle: Arc<dyn TaskHandle>,
    mut updates: BoxStream<'static, Result<Update, GatewayError>>,
    task: v1::Task,
    place: OwnedSemaphorePermit,
) -> BoxStream<'static, Result<Event, A2aError>> {
    let stream = try_stream! {
        let _place = place;
        let over = is_terminal(task.status());
        let (mut follow, mut steps) = Follow::new(&task);
        yield Event::Task(Box::new(finished_results(task)));
        let mut reading = SelectAll::new();
        loop {
            let mut ended = over;
            for step in steps {
                match step {
                    Step::Tell(event) => {
                        ended = matches!(&event, Event::Status { status, .. } if is_terminal(*status));
                        yield event;
                    }
                    Step::Read(artifact) => reading.push(pieces::of(&handle, artifact)),
                    Step::Finish => {
                        while let Some(piece) = reading.next().await {
                            yield piece?;
                        }
                    }
                }
            }
            if ended {
                while let Some(piece) = reading.next().await {
                    yield piece?;
                }
                break;
            }
            let update = loop {
                tokio::select! {
                    biased;
                    Some(piece) = reading.next() => yield piece?,
                    update = updates.next() => break update,
                }
            };
            let Some(update) = update.transpose()? else { break };
            let hint = follow::is_hint(&update);
            steps = follow.take(update);
            if hint {
                steps.extend(follow.look(handle.snapshot().await?));
            }
        }
    };
    stream.boxed()
}

/// Whether whoever waits has something to do now.
pub fn is_halt(status: TaskStatus) -> bool {
    is_terminal(status) || status == TaskStatus::InputRequired
}

/// The labels of a task that this caller sends.
fn labels(address: &Address, tenant: &str) -> BTreeMap<String, String> {
    let target = match &address.target {
        Target::Own => "own".to_owned(),
        Target::Peer(peer) => format!("peer:{peer}"),
        Target::Skill(skill) => format!("skill:{skill}"),
        Target::Url(url) => format!("url:{url}"),
    };
    let mut labels = BTreeMap::from([
        (CALLER.to_owned(), address.caller.clone()),
        (TARGET.to_owned(), target),
    ]);
    if !tenant.is_empty() {
        labels.insert(TENANT.to_owned(), tenant.to_owned());
    }
    labels
}

/// Whether a task came from this caller, for this agent and tenant.
fn belongs(task: &v1::Task, address: &Address, tenant: &str) -> bool {
    let wanted = labels(address, tenant);
    let has = |name: &str| task.metadata.get(name) == wanted.get(name);
    has(CALLER) && has(TARGET) && has(TENANT)
}

/// The task without results that are still being produced.
fn finished_results(mut task: v1::Task) -> v1::Task {
    task.artifacts
        .retain(|artifact| !follow::is_reference(artifact) || !pieces::is_open(artifact));
    task
}

/// Of what a caller gave, as much as an error shows.
fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}
