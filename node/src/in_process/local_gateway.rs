//! The bridge in the daemon's process: the port of `agentanycast-gateway` carried out by this node, without a wire.
//!
//! The one rule: it makes the calls that any client makes, so a bridge beside the daemon and one in it see the same.

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_gateway::{
    ErrorKind, Gateway, GatewayError, NewTask, Target, TaskHandle, TaskListing, TaskQuery, Update,
};
use agentanycast_net as net;
use agentanycast_proto::v1::{
    self, CancelTaskRequest, DeleteTaskNoteRequest, DiscoverRequest, GetPeerCardRequest, GetTaskRequest,
    ListAgentsRequest, ListTaskNotesRequest, ListTasksRequest, PutTaskNoteRequest, SendTaskRequest,
    StreamEndReason, SubscribeTaskStreamRequest, send_task_request,
    subscribe_task_stream_response::Event as Piece,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, TryFutureExt as _, TryStreamExt as _, stream::BoxStream};

use super::{
    connection::WITHOUT_CONNECTION,
    error::{agent_error, gateway_error, task_error},
};
use crate::service::{Service, ServiceErrorKind};

/// The node as gateways see it.
#[derive(Clone)]
pub(crate) struct LocalGateway {
    pub(super) service: Service,
    net: net::Handle,
    /// That of agents that are attached by this.
    pub(super) access: v1::AgentAccess,
}

impl LocalGateway {
    /// Of this node. Agents that are attached by it have its default access.
    pub(crate) fn new(service: Service, net: net::Handle) -> Self {
        Self {
            service,
            net,
            access: v1::AgentAccess::Default,
        }
    }

    /// The same, for agents with this access.
    pub(super) fn for_access(&self, access: v1::AgentAccess) -> Self {
        Self {
            access,
            ..self.clone()
        }
    }

    async fn peer_card(
        &self,
        peer: &str,
        agents_page: Option<v1::AgentsPage>,
        public: bool,
    ) -> Result<v1::AgentCard, GatewayError> {
        let request = GetPeerCardRequest {
            peer_id: peer.to_owned(),
            agents_page,
            public,
        };
        let answer = self.service.get_peer_card(request).await;
        let card = answer.map_err(agent_error)?.card;
        card.ok_or_else(|| GatewayError::new(ErrorKind::Internal, "the node answered without a card"))
    }

    fn local(&self, id: String) -> LocalTask {
        LocalTask {
            service: self.service.clone(),
            id,
        }
    }
}

#[async_trait]
impl Gateway for LocalGateway {
    async fn peer_id(&self) -> Result<String, GatewayError> {
        Ok(self.net.local_peer().to_string())
    }

    async fn did_web(&self) -> Result<String, GatewayError> {
        Ok(self.net.own_identity().did_web.clone())
    }

    async fn send(&self, outgoing: NewTask) -> Result<Arc<dyn TaskHandle>, GatewayError> {
        use send_task_request::Target as To;
        let to_peer = |peer: Option<String>| {
            let Some(peer) = peer else {
                return Ok(To::PeerId(self.net.local_peer().to_string()));
            };
            match peer.parse::<agentanycast_identity::PeerId>() {
                Ok(_) => Ok(To::PeerId(peer)),
                Err(error) => Err(GatewayError::new(ErrorKind::AgentNotFound, error.to_string())),
            }
        };
        let mut target_agent = String::new();
        let to = match outgoing.target {
            Target::Own => to_peer(None)?,
            Target::Peer(peer) => to_peer(Some(peer))?,
            Target::Agent { peer, agent } => {
                target_agent = agent;
                to_peer(peer)?
            }
            Target::Skill(skill) => To::SkillId(skill),
            Target::Url(url) => To::Url(url),
        };
        let request = SendTaskRequest {
            target: Some(to),
            target_agent,
            message: Some(outgoing.message),
            context_id: outgoing.context_id,
            metadata: outgoing.metadata,
            group: outgoing.group.into(),
            note: outgoing.note,
            idempotency_key: outgoing.idempotency_key.unwrap_or_default(),
            // Only its id is read.
            brief: true,
            ..SendTaskRequest::default()
        };
        let sent = self.service.send_task(request, &WITHOUT_CONNECTION).await;
        let task = sent.map_err(|error| gateway_error(error, ErrorKind::AgentNotFound))?;
        Ok(Arc::new(self.local(task.task_id)))
    }

    fn task(&self, id: &str) -> Arc<dyn TaskHandle> {
        Arc::new(self.local(id.to_owned()))
    }

    async fn list(&self, listing: TaskQuery) -> Result<TaskListing, GatewayError> {
        let changed_after = listing.changed_after.map(|millis| prost_types::Timestamp {
            seconds: i64::try_from(millis / 1000).unwrap_or(i64::MAX),
            nanos: (millis % 1000 * 1_000_000) as i32,
        });
        let request = ListTasksRequest {
            statuses: listing.status.into_iter().map(i32::from).collect(),
            page_size: i32::try_from(listing.limit).unwrap_or(i32::MAX),
            page_token: listing.after,
            group: listing.group.into(),
            context_id: listing.context_id,
            changed_after,
            id_prefix: String::new(),
        };
        let page = self.service.list_tasks(request).await.map_err(task_error)?;
        Ok(TaskListing {
            tasks: page.tasks,
            next: page.next_page_token,
            total: usize::try_from(page.total).unwrap_or_default(),
        })
    }

    async fn card(&self, peer: &str) -> Result<v1::AgentCard, GatewayError> {
        self.peer_card(peer, None, false).await
    }

    async fn agents_page(&self, peer: &str, wanted: v1::AgentsPage) -> Result<v1::AgentCard, GatewayError> {
        self.peer_card(peer, Some(wanted), false).await
    }

    async fn public_card(
        &self,
        peer: &str,
        wanted: Option<v1::AgentsPage>,
    ) -> Result<v1::AgentCard, GatewayError> {
        self.peer_card(peer, wanted, true).await
    }

    async fn discover(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<Vec<v1::DiscoveredAgent>, GatewayError> {
        let request = DiscoverRequest {
            skill_id: skill.to_owned(),
            tags: tags.clone(),
            limit: i32::try_from(limit).unwrap_or(i32::MAX),
        };
        match self.service.discover(request).await {
            Ok(found) => Ok(found.agents),
            Err(error) if error.kind() == ServiceErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(agent_error(error)),
        }
    }

    async fn agents(&self, skill: Option<&str>) -> Result<Vec<v1::ListedAgent>, GatewayError> {
        let request = ListAgentsRequest {
            skill_id: skill.unwrap_or_default().to_owned(),
            nearby: false,
        };
        let listed = self.service.list_agents(request).await;
        Ok(listed.map_err(agent_error)?.agents)
    }

    async fn has_listener(&self) -> Result<bool, GatewayError> {
        Ok(self.service.node_info().agent_listening())
    }

    async fn put_note(&self, task: &str, note: v1::TaskNote, if_version: u64) -> Result<u64, GatewayError> {
        let request = PutTaskNoteRequest {
            task_id: task.to_owned(),
            note: Some(note),
            if_version,
        };
        let put = self.service.put_task_note(request).await;
        Ok(put.map_err(task_error)?.version)
    }

    async fn delete_note(&self, task: &str, name: &str) -> Result<(), GatewayError> {
        let request = DeleteTaskNoteRequest {
            task_id: task.to_owned(),
            name: name.to_owned(),
        };
        let deleted = self.service.delete_task_note(request).await;
        deleted.map(drop).map_err(task_error)
    }

    async fn notes(&self, task: &str) -> Result<Vec<v1::TaskNote>, GatewayError> {
        let task_id = task.to_owned();
        let notes = self
            .service
            .list_task_notes(ListTaskNotesRequest { task_id })
            .await;
        Ok(notes.map_err(task_error)?.notes)
    }

    fn watch_notes(&self) -> BoxStream<'static, Result<v1::WatchTaskNotesResponse, GatewayError>> {
        self.service.watch_task_notes().map_err(task_error).boxed()
    }
}

struct LocalTask {
    service: Service,
    id: String,
}

#[async_trait]
impl TaskHandle for LocalTask {
    fn id(&self) -> &str {
        &self.id
    }

    async fn snapshot(&self) -> Result<v1::Task, GatewayError> {
        let task_id = self.id.clone();
        let request = GetTaskRequest {
            task_id,
            ..GetTaskRequest::default()
        };
        let task = self.service.get_task(request, &WITHOUT_CONNECTION).await;
        task.map_err(task_error)
    }

    fn updates(&self) -> BoxStream<'static, Result<Update, GatewayError>> {
        let (service, task_id) = (self.service.clone(), self.id.clone());
        let followed = async move { service.task_updates(task_id, &WITHOUT_CONNECTION).await };
        let updates = followed.try_flatten_stream().map_ok(|change| Update {
            status: change.status(),
            message: change.message,
            artifacts: change.artifacts,
            // Without a wire nothing is lost on it.
            resumed: false,
        });
        updates.map_err(task_error).boxed()
    }

    fn stream(&self, artifact_id: &str) -> BoxStream<'static, Result<Bytes, GatewayError>> {
        let service = self.service.clone();
        let request = SubscribeTaskStreamRequest {
            task_id: self.id.clone(),
            artifact_id: artifact_id.to_owned(),
            from_sequence: 0,
        };
        let bytes = async_stream::try_stream! {
            let read = service.subscribe_task_stream(request).await.map_err(task_error)?;
            let mut pieces = std::pin::pin!(read);
            while let Some(piece) = pieces.next().await {
                match piece.map_err(task_error)?.event {
                    Some(Piece::StreamChunk(chunk)) => yield chunk.data,
                    Some(Piece::StreamEnd(end)) if end.reason() != StreamEndReason::Complete => {
                        let text = format!("the artifact was not finished: {}", end.error_message);
                        Err(GatewayError::new(ErrorKind::Internal, text))?;
                    }
                    _ => {}
                }
            }
        };
        bytes.boxed()
    }

    async fn halted(&self) -> Result<v1::Task, GatewayError> {
        let wait = self
            .service
            .wait_task(self.id.clone(), true)
            .await
            .map_err(task_error)?;
        let task = self
            .service
            .waited_task(self.id.clone(), wait, &WITHOUT_CONNECTION);
        task.await.map_err(task_error)
    }

    async fn reply(
        &self,
        message: v1::Message,
        note: Option<v1::TaskNote>,
        idempotency_key: Option<String>,
    ) -> Result<String, GatewayError> {
        let request = SendTaskRequest {
            message: Some(message),
            task_id: self.id.clone(),
            note,
            idempotency_key: idempotency_key.unwrap_or_default(),
            brief: true,
            ..SendTaskRequest::default()
        };
        let sent = self.service.send_task(request, &WITHOUT_CONNECTION).await;
        Ok(sent.map_err(task_error)?.task_id)
    }

    async fn cancel(&self) -> Result<v1::Task, GatewayError> {
        let task_id = self.id.clone();
        let request = CancelTaskRequest { task_id };
        let task = self.service.cancel_task(request, &WITHOUT_CONNECTION).await;
        task.map_err(task_error)
    }
}
