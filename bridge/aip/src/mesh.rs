//! Tasks of the mesh that the gateway sends: for constellations, to the planner, and for commands of foreign services.
//!
//! Invariant: a task that is not wanted any more is cancelled.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentanycast_gateway::{
    Gateway, GatewayError, StrangersNode, Target, TaskHandle,
    caller::{Caller, CallerIdentity, GatewayLabels},
    is_reference, is_terminal, read_agent_card,
    registration::GatewayModule as _,
    tasks::{AwaitedTask, CallerMessage, GatewayTasks, TaskRefusal},
};
use agentanycast_proto::v1 as mesh;
use futures::StreamExt as _;
use mesh::{TaskStatus, part::Content};
use tokio_util::sync::CancellationToken;

use super::{AipGateway, content::text_of};

/// How the tasks are labelled.
const LABELS: GatewayLabels = GatewayLabels::new(AipGateway::NAME);

/// Tasks that are followed at once.
const MOST_FOLLOWED: usize = 10_000;

/// Results of a task that are taken, in bytes.
const MOST_RESULTS: usize = 32 << 20;

/// How long an agent's card may take.
const CARD_WITHIN: Duration = Duration::from_secs(5);

/// Sends tasks to agents of the mesh.
pub(super) struct MeshTasks {
    tasks: Arc<GatewayTasks>,
    aliases: BTreeMap<String, Target>,
}

/// A task for an agent of the mesh.
pub(super) struct MeshRequest<'a> {
    pub(super) target: Target,
    pub(super) parts: Vec<mesh::Part>,
    /// Who asks, to the node's policy.
    pub(super) caller: CallerIdentity,
    /// The conversation.
    pub(super) context: &'a str,
    pub(super) cancelled: CancellationToken,
}

/// What came of a task.
pub(super) struct MeshResult {
    pub(super) artifacts: Vec<mesh::Artifact>,
    /// What the agent said at the end.
    pub(super) text: String,
}

/// Hears what an agent says while it works.
pub(super) trait Listener: Send + Sync {
    /// The agent says this.
    fn said(&self, text: String) -> impl Future<Output = ()> + Send;
}

/// Nothing is heard.
impl Listener for () {
    async fn said(&self, _: String) {}
}

impl MeshTasks {
    /// On this node.
    pub(super) fn new(node: Arc<dyn Gateway>, aliases: impl IntoIterator<Item = (String, Target)>) -> Self {
        Self {
            tasks: Arc::new(GatewayTasks::new(node, MOST_FOLLOWED)),
            aliases: aliases.into_iter().collect(),
        }
    }

    fn node(&self) -> &dyn Gateway {
        &**self.tasks.node()
    }

    /// The agent that an id of a target means: an alias, `skill:ID`, `PEER/NAME`, a did:key, or a peer. `None`: no agent.
    pub(super) async fn target(&self, id: &str) -> Option<Target> {
        if let Some(target) = self.aliases.get(id) {
            return Some(target.clone());
        }
        let target = Target::parse(id);
        let plain = matches!(&target, Target::Peer(peer) if peer == id && !id.starts_with("12D3KooW"));
        // A word may be the name of a device that is not connected.
        if plain && self.card(&target).await.is_none() {
            return None;
        }
        Some(target)
    }

    /// The card of an agent; of a skill, what is known of it.
    pub(super) async fn card(&self, target: &Target) -> Option<mesh::AgentCard> {
        Self::card_on(self.node(), target).await
    }

    /// Whether strangers may see an agent.
    pub(super) async fn is_public(&self, target: &Target) -> bool {
        let node = StrangersNode::new(Arc::clone(self.tasks.node()));
        let card = Self::card_on(&node, target).await;
        card.is_some_and(|card| !matches!(target, Target::Skill(_)) || !card.skills.is_empty())
    }

    async fn card_on(node: &dyn Gateway, target: &Target) -> Option<mesh::AgentCard> {
        let read = async {
            match target {
                Target::Own => {
                    let peer = node.peer_id().await?;
                    node.card(&peer).await
                }
                Target::Peer(peer) => node.card(peer).await,
                Target::Agent { peer, agent } => read_agent_card(node, peer.as_deref(), agent).await,
                Target::Skill(skill) => {
                    let agents = node.agents(Some(skill)).await?;
                    let infos = agents.into_iter().flat_map(|agent| agent.skills);
                    let known = infos.filter(|info| info.skill_id == *skill).take(1);
                    let skills = known.map(|info| mesh::Skill {
                        id: info.skill_id,
                        description: info.description,
                        ..mesh::Skill::default()
                    });
                    Ok(mesh::AgentCard {
                        name: format!("skill:{skill}"),
                        skills: skills.collect(),
                        ..mesh::AgentCard::default()
                    })
                }
                Target::Url(url) => Ok(mesh::AgentCard {
                    name: url.clone(),
                    ..mesh::AgentCard::default()
                }),
            }
        };
        let read: Result<_, GatewayError> = tokio::time::timeout(CARD_WITHIN, read).await.ok()?;
        read.inspect_err(|error| tracing::debug!(%error, "the card of a target cannot be read"))
            .ok()
    }

    /// Has an agent do a task, and waits for its end.
    ///
    /// # Errors
    /// Why there is no result.
    pub(super) async fn run(
        &self,
        request: MeshRequest<'_>,
        listener: &impl Listener,
    ) -> Result<MeshResult, String> {
        let _slot = self.tasks.follow_slot().map_err(|refusal| refusal.to_string())?;
        let message = mesh::Message {
            role: mesh::MessageRole::User.into(),
            parts: request.parts,
            ..mesh::Message::default()
        };
        let caller = Caller::with_one_list(LABELS, request.caller);
        let sent = CallerMessage {
            context: request.context.to_owned(),
            ..CallerMessage::new(request.target, message)
        };
        let begun = AwaitedTask::begin(&self.tasks, caller, sent).await;
        let mut begun = begun.map_err(|refusal| refusal.to_string())?;
        let handle = Arc::clone(begun.handle());
        let ended = tokio::select! {
            biased;
            () = request.cancelled.cancelled() => return Err("it was cancelled".to_owned()),
            ended = follow(&handle, listener) => ended.map_err(|refusal| refusal.to_string())?,
        };
        let task = match ended {
            Ended::Asks(question) => {
                return Err(format!(
                    "the agent asked, and there are no answers here: {question}"
                ));
            }
            Ended::Task(task) => task,
        };
        begun.set_ended();
        let text = task.status_message.as_ref();
        let text = text.map(|message| text_of(&message.parts)).unwrap_or_default();
        let reason = |otherwise: &str| match text.as_str() {
            "" => otherwise.to_owned(),
            text => text.to_owned(),
        };
        match task.status() {
            TaskStatus::Completed => Ok(MeshResult {
                artifacts: whole(&*handle, task.artifacts).await?,
                text,
            }),
            TaskStatus::Canceled => Err(reason("the task was canceled")),
            TaskStatus::Rejected => Err(reason("the agent rejected the task")),
            _ => Err(reason("the agent says that it failed, and not why")),
        }
    }
}

enum Ended {
    Task(Box<mesh::Task>),
    Asks(String),
}

async fn follow(handle: &Arc<dyn TaskHandle>, listener: &impl Listener) -> Result<Ended, TaskRefusal> {
    let mut updates = handle.updates();
    loop {
        let Some(update) = updates.next().await.transpose()? else {
            let task = handle.halted().await?;
            if task.status() == TaskStatus::InputRequired {
                let question = task.status_message.map(|message| text_of(&message.parts));
                return Ok(Ended::Asks(question.unwrap_or_default()));
            }
            return Ok(Ended::Task(Box::new(task)));
        };
        if is_terminal(update.status) {
            return Ok(Ended::Task(Box::new(handle.snapshot().await?)));
        }
        let text = update.message.map(|message| text_of(&message.parts));
        let text = text.unwrap_or_default();
        if update.status == TaskStatus::InputRequired {
            return Ok(Ended::Asks(text));
        }
        if !text.is_empty() {
            listener.said(text).await;
        }
    }
}

/// The artifacts with what was streamed.
async fn whole(
    handle: &dyn TaskHandle,
    artifacts: Vec<mesh::Artifact>,
) -> Result<Vec<mesh::Artifact>, String> {
    let too_large = || format!("the results have more than {MOST_RESULTS} bytes");
    let mut room = MOST_RESULTS;
    let mut found = Vec::with_capacity(artifacts.len());
    for mut artifact in artifacts {
        if is_reference(&artifact) {
            let mut content = handle.stream(&artifact.artifact_id);
            let mut data = Vec::new();
            while let Some(piece) = content.next().await {
                data.extend_from_slice(&piece.map_err(|error| error.to_string())?);
                if data.len() > room {
                    return Err(too_large());
                }
            }
            for part in &mut artifact.parts {
                part.content = Some(Content::RawPart(mesh::RawPart {
                    data: std::mem::take(&mut data),
                    filename: artifact.name.clone(),
                }));
            }
        }
        let size = prost::Message::encoded_len(&artifact);
        room = room.checked_sub(size).ok_or_else(too_large)?;
        found.push(artifact);
    }
    Ok(found)
}
