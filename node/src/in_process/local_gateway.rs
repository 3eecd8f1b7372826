//! The bridge in the daemon's process: the port of `agentanycast-gateway` carried out by this node, without a wire.
//!
//! The one rule: it makes the calls that any client makes, so a bridge beside the daemon and one in it see the same.

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_gateway::{
    ErrorKind, Gateway, GatewayError, NewTask, Target, TaskHandle, TaskListing, TaskQuery, Update,
};
use agentanycast_net as net;
use agentanycast_proto::v1::{
    self, CancelTaskRequest, DeleteTaskNoteRequest, DiscoverRequest, GetNodeInfoRequest, GetPeerCardRequest,
    GetTaskRequest, ListAgentsRequest, ListTaskNotesRequest, ListTasksRequest, PutTaskNoteRequest,
    SendTaskRequest, StreamEndReason, SubscribeTaskStreamRequest, SubscribeTaskUpdatesRequest,
    WatchTaskNotesRequest, directory_service_server::DirectoryService as _,
    node_service_server::NodeService as _, send_task_request, subscribe_task_stream_response::Event as Piece,
    task_list_service_server::TaskListService as _, task_note_service_server::TaskNoteService as _,
};
use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use tonic::{Code, Status};

use crate::api::{Api, without_wire_limit};

/// The node as gateways see it.
#[derive(Clone)]
pub(crate) struct LocalGateway {
    api: Api,
    net: net::Handle,
    /// That of agents that are attached by this.
    access: v1::AgentAccess,
}

impl LocalGateway {
    /// Of this node. Agents that are attached by it have its default access.
    pub(crate) fn new(api: Api, net: net::Handle) -> Self {
        Self {
            api,
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

    /// The access of agents that are attached by this.
    pub(super) fn access(&self) -> v1::AgentAccess {
        self.access
    }

    /// The calls of the node.
    pub(super) fn api(&self) -> &Api {
        &self.api
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
        let answer = self.api.get_peer_card(without_wire_limit(request)).await;
        let card = answer.map_err(agent_error)?.into_inner().card;
        card.ok_or_else(|| incomplete_answer("card"))
    }

    fn local(&self, id: String) -> LocalTask {
        LocalTask {
            api: self.api.clone(),
            id,
        }
    }
}

/// What a refusal means; `missing` is what was not found.
fn gateway_error(status: &Status, missing: ErrorKind) -> GatewayError {
    let kind = match status.code() {
        Code::NotFound => missing,
        Code::InvalidArgument => ErrorKind::Invalid,
        Code::FailedPrecondition => ErrorKind::Conflict,
        Code::PermissionDenied => ErrorKind::Denied,
        Code::ResourceExhausted => ErrorKind::Busy,
        Code::Unavailable => ErrorKind::Unavailable,
        Code::Unimplemented => ErrorKind::Unsupported,
        _ => ErrorKind::Internal,
    };
    GatewayError::new(kind, status.message())
}

#[allow(clippy::needless_pass_by_value, reason = "used with map_err")]
pub(super) fn task_error(status: Status) -> GatewayError {
    gateway_error(&status, ErrorKind::TaskNotFound)
}

#[allow(clippy::needless_pass_by_value, reason = "used with map_err")]
fn agent_error(status: Status) -> GatewayError {
    match status.code() {
        // A name that is none, a registry that does not answer.
        Code::InvalidArgument | Code::Unavailable => {
            GatewayError::new(ErrorKind::AgentNotFound, status.message())
        }
        _ => gateway_error(&status, ErrorKind::AgentNotFound),
    }
}

fn incomplete_answer(what: &str) -> GatewayError {
    GatewayError::new(ErrorKind::Internal, format!("the node answered without a {what}"))
}

#[tonic::async_trait]
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
        let sent = self.api.send_task(without_wire_limit(request)).await;
        let sent = sent.map_err(|status| gateway_error(&status, ErrorKind::AgentNotFound))?;
        let task = sent.into_inner().task.ok_or_else(|| incomplete_answer("task"))?;
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
        let page = self
            .api
            .list_tasks(without_wire_limit(request))
            .await
            .map_err(task_error)?;
        let page = page.into_inner();
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
        match self.api.discover(without_wire_limit(request)).await {
            Ok(found) => Ok(found.into_inner().agents),
            Err(status) if status.code() == Code::NotFound => Ok(Vec::new()),
            Err(status) => Err(agent_error(status)),
        }
    }

    async fn agents(&self, skill: Option<&str>) -> Result<Vec<v1::ListedAgent>, GatewayError> {
        let request = ListAgentsRequest {
            skill_id: skill.unwrap_or_default().to_owned(),
            nearby: false,
        };
        let listed = self
            .api
            .list_agents(without_wire_limit(request))
            .await
            .map_err(agent_error)?;
        Ok(listed.into_inner().agents)
    }

    async fn has_listener(&self) -> Result<bool, GatewayError> {
        let info = self
            .api
            .get_node_info(without_wire_limit(GetNodeInfoRequest {}))
            .await;
        let info = info.map_err(task_error)?.into_inner().node_info;
        Ok(info.is_none_or(|info| info.agent_listening()))
    }

    async fn put_note(&self, task: &str, note: v1::TaskNote, if_version: u64) -> Result<u64, GatewayError> {
        let request = PutTaskNoteRequest {
            task_id: task.to_owned(),
            note: Some(note),
            if_version,
        };
        let put = self.api.put_task_note(without_wire_limit(request)).await;
        Ok(put.map_err(task_error)?.into_inner().version)
    }

    async fn delete_note(&self, task: &str, name: &str) -> Result<(), GatewayError> {
        let request = DeleteTaskNoteRequest {
            task_id: task.to_owned(),
            name: name.to_owned(),
        };
        self.api
            .delete_task_note(without_wire_limit(request))
            .await
            .map(drop)
            .map_err(task_error)
    }

    async fn notes(&self, task: &str) -> Result<Vec<v1::TaskNote>, GatewayError> {
        let task_id = task.to_owned();
        let notes = self
            .api
            .list_task_notes(without_wire_limit(ListTaskNotesRequest { task_id }))
            .await;
        Ok(notes.map_err(task_error)?.into_inner().notes)
    }

    fn watch_notes(&self) -> BoxStream<'static, Result<v1::WatchTaskNotesResponse, GatewayError>> {
        let api = self.api.clone();
        let tasks = async_stream::try_stream! {
            let watched = api.watch_task_notes(without_wire_limit(WatchTaskNotesRequest {})).await.map_err(task_error)?;
            let mut tasks = watched.into_inner();
            while let Some(task) = tasks.next().await {
                yield task.map_err(task_error)?;
            }
        };
        tasks.boxed()
    }
}

struct LocalTask {
    api: Api,
    id: String,
}

#[tonic::async_trait]
impl TaskHandle for LocalTask {
    fn id(&self) -> &str {
        &self.id
    }

    async fn snapshot(&self) -> Result<v1::Task, GatewayError> {
        let task_id = self.id.clone();
        let answer = self
            .api
            .get_task(without_wire_limit(GetTaskRequest {
                task_id,
                ..GetTaskRequest::default()
            }))
            .await;
        let task = answer.map_err(task_error)?.into_inner().task;
        task.ok_or_else(|| incomplete_answer("task"))
    }

    fn updates(&self) -> BoxStream<'static, Result<Update, GatewayError>> {
        let (api, task_id) = (self.api.clone(), self.id.clone());
        let updates = async_stream::try_stream! {
            let request = SubscribeTaskUpdatesRequest { task_id, ..SubscribeTaskUpdatesRequest::default() };
            let followed = api.subscribe_task_updates(without_wire_limit(request)).await.map_err(task_error)?;
            let mut changes = followed.into_inner();
            while let Some(change) = changes.next().await {
                let change = change.map_err(task_error)?;
                yield Update {
                    status: change.status(),
                    message: change.message,
                    artifacts: change.artifacts,
                    // Without a wire nothing is lost on it.
                    resumed: false,
                };
            }
        };
        updates.boxed()
    }

    fn stream(&self, artifact_id: &str) -> BoxStream<'static, Result<Bytes, GatewayError>> {
        let api = self.api.clone();
        let request = SubscribeTaskStreamRequest {
            task_id: self.id.clone(),
            artifact_id: artifact_id.to_owned(),
            from_sequence: 0,
        };
        let bytes = async_stream::try_stream! {
            let read = api.subscribe_task_stream(without_wire_limit(request)).await.map_err(task_error)?;
            let mut pieces = read.into_inner();
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
        let request = SubscribeTaskUpdatesRequest {
            task_id: self.id.clone(),
            end_only: true,
            or_input: true,
        };
        let followed = self.api.subscribe_task_updates(without_wire_limit(request)).await;
        let mut halt = followed.map_err(task_error)?.into_inner();
        let halt = halt.next().await.ok_or_else(|| incomplete_answer("task"))?;
        halt.map_err(task_error)?
            .task
            .ok_or_else(|| incomplete_answer("task"))
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
        let sent = self
            .api
            .send_task(without_wire_limit(request))
            .await
            .map_err(task_error)?;
        let task = sent.into_inner().task.ok_or_else(|| incomplete_answer("task"))?;
        Ok(task.task_id)
    }

    async fn cancel(&self) -> Result<v1::Task, GatewayError> {
        let task_id = self.id.clone();
        let answer = self
            .api
            .cancel_task(without_wire_limit(CancelTaskRequest { task_id }))
            .await;
        let task = answer.map_err(task_error)?.into_inner().task;
        task.ok_or_else(|| incomplete_answer("task"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anycast::SearchError;

    #[test]
    fn gateways_tell_a_node_without_discovery_from_one_that_has_no_answer() {
        let status = Status::unavailable(SearchError::NotConfigured.to_string());
        assert!(gateway_error(&status, ErrorKind::AgentNotFound).has_no_discovery());
        let status = Status::unavailable("no registry answered: refused");
        assert!(!gateway_error(&status, ErrorKind::AgentNotFound).has_no_discovery());
    }
}
