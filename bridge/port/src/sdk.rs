//! The port carried out by the Rust SDK: over gRPC to a daemon beside the bridge or, by TCP, elsewhere.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use agentanycast::{AgentAccess, ArtifactEvent, EndReason, Error, Node, PeerId, TaskFilter};
use agentanycast_proto::v1;
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use tokio::sync::OnceCell;

use super::{ErrorKind, Gateway, GatewayError, NewTask, Target, TaskHandle, TaskListing, TaskQuery, Update};

/// A node reached by the SDK. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SdkGateway {
    node: Node,
    /// A node keeps its identity for life.
    me: Arc<OnceCell<PeerId>>,
    /// With which access agents are attached.
    access: AgentAccess,
}

impl SdkGateway {
    /// Over this connection. Agents are attached with the node's default access.
    pub fn new(node: Node) -> Self {
        Self {
            node,
            me: Arc::default(),
            access: AgentAccess::Default,
        }
    }

    /// The same, for agents with this access.
    #[must_use]
    pub fn for_access(&self, access: AgentAccess) -> Self {
        Self {
            access,
            ..self.clone()
        }
    }

    /// With which access agents are attached.
    pub(crate) fn access(&self) -> AgentAccess {
        self.access
    }

    /// The connection.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    async fn me(&self) -> Result<&PeerId, GatewayError> {
        let ask = || async {
            let info = self.node.info().await?;
            info.peer_id
                .ok_or_else(|| GatewayError::new(ErrorKind::Internal, "the daemon did not say who it is"))
        };
        self.me.get_or_try_init(ask).await
    }
}

#[async_trait]
impl Gateway for SdkGateway {
    async fn peer_id(&self) -> Result<String, GatewayError> {
        Ok(self.me().await?.to_string())
    }

    async fn did_web(&self) -> Result<String, GatewayError> {
        Ok(self.node.info().await?.did_web)
    }

    async fn send(&self, outgoing: NewTask) -> Result<Arc<dyn TaskHandle>, GatewayError> {
        let mut agent_name = String::new();
        let target = match outgoing.target {
            Target::Own => agentanycast::Target::Peer(self.me().await?.clone()),
            Target::Peer(peer) => agentanycast::Target::Peer(peer_id(&peer)?),
            Target::Agent { peer, agent } => {
                agent_name = agent;
                agentanycast::Target::Peer(match peer {
                    Some(peer) => peer_id(&peer)?,
                    None => self.me().await?.clone(),
                })
            }
            Target::Skill(skill) => agentanycast::Target::Skill(skill),
            Target::Url(url) => agentanycast::Target::Url(url),
        };
        let mut task = self
            .node
            .task(target, outgoing.message)
            .agent(agent_name)
            .metadata_from(outgoing.metadata)
            .group(outgoing.group);
        if let Some(note) = outgoing.note {
            task = task.note(note.into());
        }
        if let Some(key) = outgoing.idempotency_key {
            task = task.idempotency_key(key);
        }
        if !outgoing.context_id.is_empty() {
            task = task.context_id(outgoing.context_id);
        }
        let handle = task.send().await?;
        Ok(Arc::new(SdkTask { handle }))
    }

    fn task(&self, id: &str) -> Arc<dyn TaskHandle> {
        Arc::new(SdkTask {
            handle: self.node.task_handle(id),
        })
    }

    async fn list(&self, listing: TaskQuery) -> Result<TaskListing, GatewayError> {
        let filter = TaskFilter {
            statuses: listing
                .status
                .into_iter()
                .map(|status| i32::from(status).into())
                .collect(),
            limit: listing.limit,
            group: Some(listing.group),
            context_id: listing.context_id,
            changed_after: listing
                .changed_after
                .map(|millis| UNIX_EPOCH + Duration::from_millis(millis)),
            ..TaskFilter::default()
        };
        let page = self.node.task_page(&filter, listing.after).await?;
        Ok(TaskListing {
            tasks: page.tasks.into_iter().map(Into::into).collect(),
            next: page.next,
            total: page.total,
        })
    }

    async fn card(&self, peer: &str) -> Result<v1::AgentCard, GatewayError> {
        Ok(self.node.card_of(&peer_id(peer)?).await?.into())
    }

    async fn agents_page(&self, peer: &str, wanted: v1::AgentsPage) -> Result<v1::AgentCard, GatewayError> {
        let peer = peer_id(peer)?;
        Ok(self
            .node
            .agents_page(&peer, &wanted.after, &wanted.name)
            .await?
            .into())
    }

    async fn public_card(
        &self,
        peer: &str,
        wanted: Option<v1::AgentsPage>,
    ) -> Result<v1::AgentCard, GatewayError> {
        Ok(self.node.public_card(&peer_id(peer)?, wanted).await?)
    }

    async fn discover(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<Vec<v1::DiscoveredAgent>, GatewayError> {
        let found = self.node.discover(skill, tags, limit).await?;
        let translated = found.agents.into_iter().map(|agent| v1::DiscoveredAgent {
            peer_id: agent.peer_id.map(|peer| peer.to_string()).unwrap_or_default(),
            agent_name: agent.name,
            agent_description: agent.description,
            skills: agent
                .skills
                .into_iter()
                .map(|skill| v1::SkillInfo {
                    skill_id: skill.id,
                    description: skill.description,
                    tags: skill.tags,
                    agent: String::new(),
                })
                .collect(),
            verified: agent.verified,
            agent: agent.agent,
        });
        Ok(translated.collect())
    }

    async fn agents(&self, skill: Option<&str>) -> Result<Vec<v1::ListedAgent>, GatewayError> {
        let directory = self.node.agents(skill, false).await?;
        Ok(directory.agents.into_iter().map(Into::into).collect())
    }

    async fn has_listener(&self) -> Result<bool, GatewayError> {
        Ok(self.node.info().await?.agent_listening.unwrap_or(true))
    }

    async fn put_note(&self, task: &str, note: v1::TaskNote, if_version: u64) -> Result<u64, GatewayError> {
        let if_version = (if_version != 0).then_some(if_version);
        Ok(self.node.put_task_note(task, note.into(), if_version).await?)
    }

    async fn delete_note(&self, task: &str, name: &str) -> Result<(), GatewayError> {
        Ok(self.node.delete_task_note(task, name).await?)
    }

    async fn notes(&self, task: &str) -> Result<Vec<v1::TaskNote>, GatewayError> {
        let notes = self.node.task_notes(task).await?;
        Ok(notes.into_iter().map(Into::into).collect())
    }

    fn watch_notes(&self) -> BoxStream<'static, Result<v1::WatchTaskNotesResponse, GatewayError>> {
        let tasks = self.node.watch_task_notes().map(|next| {
            let (task_id, notes) = next?;
            let notes = notes.into_iter().map(Into::into).collect();
            Ok(v1::WatchTaskNotesResponse { task_id, notes })
        });
        tasks.boxed()
    }
}

struct SdkTask {
    handle: agentanycast::TaskHandle,
}

#[async_trait]
impl TaskHandle for SdkTask {
    fn id(&self) -> &str {
        self.handle.id()
    }

    async fn snapshot(&self) -> Result<v1::Task, GatewayError> {
        Ok(self.handle.snapshot().await?.into())
    }

    fn updates(&self) -> BoxStream<'static, Result<Update, GatewayError>> {
        let updates = self.handle.updates().map(|update| {
            let update = update?;
            Ok(Update {
                status: v1::TaskStatus::try_from(i32::from(update.status)).unwrap_or_default(),
                message: update.message.map(Into::into),
                artifacts: update.artifacts.into_iter().map(Into::into).collect(),
                resumed: update.resumed,
            })
        });
        updates.boxed()
    }

    fn stream(&self, artifact_id: &str) -> BoxStream<'static, Result<Bytes, GatewayError>> {
        let events = self.handle.artifact(artifact_id);
        let bytes = events.filter_map(|event| async move {
            match event {
                Ok(ArtifactEvent::Chunk { data, .. }) => Some(Ok(data)),
                Ok(ArtifactEvent::End { reason, error, .. }) if reason != EndReason::Complete => {
                    let text = format!("the artifact was not finished: {error}");
                    Some(Err(GatewayError::new(ErrorKind::Internal, text)))
                }
                Ok(_) => None,
                Err(error) => Some(Err(error.into())),
            }
        });
        bytes.boxed()
    }

    async fn halted(&self) -> Result<v1::Task, GatewayError> {
        Ok(self.handle.wait_or_input().await?.into())
    }

    async fn reply(
        &self,
        message: v1::Message,
        note: Option<v1::TaskNote>,
        idempotency_key: Option<String>,
    ) -> Result<String, GatewayError> {
        let mut further = self.handle.follow_up(message);
        if let Some(key) = idempotency_key {
            further = further.idempotency_key(key);
        }
        if let Some(note) = note {
            further = further.note(note.into());
        }
        Ok(further.send().await?.id().to_owned())
    }

    async fn cancel(&self) -> Result<v1::Task, GatewayError> {
        Ok(self.handle.cancel().await?.into())
    }
}

fn peer_id(text: &str) -> Result<PeerId, GatewayError> {
    text.parse().map_err(|error: agentanycast::InvalidPeerId| {
        GatewayError::new(ErrorKind::AgentNotFound, error.to_string())
    })
}

impl From<Error> for GatewayError {
    fn from(error: Error) -> Self {
        use agentanycast::ErrorKind as Sdk;
        let kind = match error.kind() {
            Sdk::TaskNotFound | Sdk::ArtifactNotFound => ErrorKind::TaskNotFound,
            Sdk::PeerNotFound | Sdk::SkillNotFound | Sdk::CardNotFound | Sdk::DiscoveryUnavailable => {
                ErrorKind::AgentNotFound
            }
            Sdk::InvalidArgument => ErrorKind::Invalid,
            Sdk::Conflict | Sdk::Canceled => ErrorKind::Conflict,
            Sdk::PermissionDenied => ErrorKind::Denied,
            Sdk::LimitExceeded => ErrorKind::Busy,
            Sdk::DaemonUnavailable | Sdk::Timeout => ErrorKind::Unavailable,
            Sdk::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}
