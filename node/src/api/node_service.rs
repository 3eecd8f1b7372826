//! The sixteen calls of NodeService. What each does is in the proto text and in docs/protocol.md.

use std::{pin::Pin, time::Duration};

use agentanycast_core::{ListenRequest, wire::timestamp};
use agentanycast_net::{DialError, Nat, PeerSnapshot};
use agentanycast_proto::v1::{
    AgentProgram, CancelTaskRequest, CancelTaskResponse, CompleteTaskRequest, CompleteTaskResponse,
    ConnectPeerRequest, ConnectPeerResponse, ConnectionType, DiscoverRequest, DiscoverResponse,
    DiscoveredAgent, FailTaskRequest, FailTaskResponse, GetNodeInfoRequest, GetNodeInfoResponse,
    GetPeerCardRequest, GetPeerCardResponse, GetTaskRequest, GetTaskResponse, ListPeersRequest,
    ListPeersResponse, NatType, NodeInfo, PeerInfo, SendStreamingArtifactRequest,
    SendStreamingArtifactResponse, SendTaskRequest, SendTaskResponse, SetAgentCardRequest,
    SetAgentCardResponse, SubscribeIncomingTasksRequest, SubscribeIncomingTasksResponse,
    SubscribeTaskStreamRequest, SubscribeTaskStreamResponse, SubscribeTaskUpdatesRequest,
    SubscribeTaskUpdatesResponse, UpdateTaskStatusRequest, UpdateTaskStatusResponse,
    node_service_server::NodeService,
};
use futures::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::{
    Api, artifact_streams, caller::caller_key, listen::CallerInfo, peer_of, response_size::max_message,
    status_for_asker, status_of, status_of_search, task_updates,
};
use crate::anycast::{DEFAULT_RESULTS, MAX_RESULTS};

/// How long ConnectPeer waits for the peer's card.
const PEER_CARD_WAIT: Duration = Duration::from_secs(2);

/// How long GetPeerCard waits for a card that it has to fetch.
const FETCH_WAIT: Duration = Duration::from_secs(5);

pub(super) type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl NodeService for Api {
    async fn get_node_info(
        &self,
        _: Request<GetNodeInfoRequest>,
    ) -> Result<Response<GetNodeInfoResponse>, Status> {
        let node_info = NodeInfo {
            peer_id: self.net().local_peer().to_string(),
            listen_addresses: self.net().reachable().borrow().all().cloned().collect(),
            nat_type: nat_type(self.net().reachable().borrow().nat) as i32,
            connected_peers: self.net().peers().len() as i32,
            started_at: Some(self.node.started_at.into()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            agent_listening: Some(*self.engine().listening().borrow()),
            did_web: self.net().own_identity().did_web.clone(),
            did_dns: self.net().own_identity().did_dns.clone(),
            seals_tasks: true,
        };
        Ok(Response::new(GetNodeInfoResponse {
            node_info: Some(node_info),
        }))
    }

    async fn set_agent_card(
        &self,
        request: Request<SetAgentCardRequest>,
    ) -> Result<Response<SetAgentCardResponse>, Status> {
        let (caller, connection) = (caller_key(&request), connection_of(&request));
        let card = self.complete_card(request.into_inner().card)?;
        let set = self.engine().set_card(caller, connection, card).await;
        set.map_err(|error| status_for_asker(&error))?;
        self.publish_card().await?;
        Ok(Response::new(SetAgentCardResponse {
            warnings: self.anycast().unfindable(),
        }))
    }

    async fn connect_peer(
        &self,
        request: Request<ConnectPeerRequest>,
    ) -> Result<Response<ConnectPeerResponse>, Status> {
        let request = request.into_inner();
        let peer = peer_of(&request.peer_id)?;
        let connected = self
            .net()
            .dial(peer, request.addresses)
            .await
            .map_err(|error| match error {
                DialError::Unreachable { .. } | DialError::Stopping => Status::unavailable(error.to_string()),
                _ => Status::invalid_argument(error.to_string()),
            })?;
        // A peer without a card, or a slow one, is connected all the same.
        if let Ok(Ok(Some(card))) = tokio::time::timeout(PEER_CARD_WAIT, self.net().fetch_card(peer)).await {
            self.keep_card(peer, card).await?;
        }
        Ok(Response::new(ConnectPeerResponse {
            peer_info: Some(peer_info(&connected)),
        }))
    }

    async fn list_peers(&self, _: Request<ListPeersRequest>) -> Result<Response<ListPeersResponse>, Status> {
        let peers = self.net().peers().iter().map(peer_info).collect();
        Ok(Response::new(ListPeersResponse { peers }))
    }

    async fn get_peer_card(
        &self,
        request: Request<GetPeerCardRequest>,
    ) -> Result<Response<GetPeerCardResponse>, Status> {
        let GetPeerCardRequest {
            peer_id,
            agents_page,
            public,
        } = request.into_inner();
        let peer = peer_of(&peer_id)?;
        if let Some(wanted) = agents_page {
            return self.agents_page(peer, wanted, public).await;
        }
        let own = peer == self.engine().me();
        let (known, successor) = self
            .engine()
            .card_of(peer)
            .await
            .map_err(|error| status_for_asker(&error))?;
        let mut card = known;
        if own && public {
            let shown = self.engine().shown_card().await;
            let shown = shown.map_err(|error| status_for_asker(&error))?;
            card = shown.public.as_deref().cloned();
        }
        if card.is_none()
            && self.net().is_connected(peer)
            && let Ok(Ok(Some(fetched))) = tokio::time::timeout(FETCH_WAIT, self.net().fetch_card(peer)).await
        {
            self.keep_card(peer, fetched.clone()).await?;
            card = Some(fetched);
        }
        let successor = (successor != peer).then(|| successor.to_string());
        let mut card = card.ok_or_else(|| {
            let since = successor
                .as_ref()
                .map(|successor| format!("; it has another key since, and is {successor}"));
            Status::not_found(format!("no card of {peer} is known{}", since.unwrap_or_default()))
        })?;
        if own && let Some(extension) = &mut card.p2p_extension {
            // Where we are reached has changed since it was kept.
            let now = self.p2p_extension();
            extension.relay_addresses = now.relay_addresses;
            extension.supported_transports = now.supported_transports;
        }
        Ok(Response::new(GetPeerCardResponse {
            card: Some(card),
            successor_peer_id: successor.unwrap_or_default(),
            warnings: if own {
                self.anycast().unfindable()
            } else {
                self.warnings_of(peer)
            },
        }))
    }

    async fn send_task(
        &self,
        request: Request<SendTaskRequest>,
    ) -> Result<Response<SendTaskResponse>, Status> {
        let (most, connection) = (max_message(&request), connection_of(&request));
        let sent = self.submit(request.into_inner(), connection, most).await;
        sent.map(Response::new)
    }

    async fn get_task(&self, request: Request<GetTaskRequest>) -> Result<Response<GetTaskResponse>, Status> {
        let most = max_message(&request);
        self.read(request.into_inner(), most).await.map(Response::new)
    }

    async fn cancel_task(
        &self,
        request: Request<CancelTaskRequest>,
    ) -> Result<Response<CancelTaskResponse>, Status> {
        let most = max_message(&request);
        self.cancel(request.into_inner(), most).await.map(Response::new)
    }

    type SubscribeTaskUpdatesStream = ResponseStream<SubscribeTaskUpdatesResponse>;

    async fn subscribe_task_updates(
        &self,
        request: Request<SubscribeTaskUpdatesRequest>,
    ) -> Result<Response<Self::SubscribeTaskUpdatesStream>, Status> {
        let most = max_message(&request);
        let request = request.into_inner();
        let api = self.clone();
        Ok(Response::new(if request.end_only {
            let wait = self.wait(request.task_id.clone(), request.or_input).await?;
            let end = task_updates::end(api, request.task_id, wait, most);
            Box::pin(futures::stream::once(end))
        } else {
            let (task, changes) = self.follow(request.task_id).await?;
            Box::pin(task_updates::all(api, task, changes, most))
        }))
    }

    type SubscribeIncomingTasksStream = ResponseStream<SubscribeIncomingTasksResponse>;

    async fn subscribe_incoming_tasks(
        &self,
        request: Request<SubscribeIncomingTasksRequest>,
    ) -> Result<Response<Self::SubscribeIncomingTasksStream>, Status> {
        let (most, connection) = (max_message(&request), connection_of(&request));
        let caller = request.extensions().get::<CallerInfo>().cloned();
        let (pid, in_daemon) = caller
            .as_ref()
            .map_or((0, false), |caller| (caller.pid, caller.is_in_process));
        let key = caller_key(&request);
        let SubscribeIncomingTasksRequest { agent, program, ends } = request.into_inner();
        let program = told_program(program, pid);
        let has_ended = move || caller.as_ref().is_some_and(CallerInfo::has_ended);
        let listen = ListenRequest {
            connection: Some(connection),
            caller: key,
            wants_ends: ends || !agent.is_empty(),
            agent,
        };
        let listening = self.engine().listen(listen, has_ended).await;
        let mut listener = listening.map_err(|error| status_of(&error))?;
        let served = listener.agent().map_or("", |name| name);
        let listed = self.programs().listens(served, program, in_daemon);
        // The agent may have come with a card; registries need not be waited for.
        let publisher = self.clone();
        tokio::spawn(async move { publisher.publish_if_changed().await });
        let api = self.clone();
        Ok(Response::new(Box::pin(async_stream::try_stream! {
            let _listed = listed;
            while let Some(incoming) = listener.next().await {
                let card = incoming.sender_card.as_deref();
                let task = match api.fit_task_for_agent(&incoming.task, card, most).await {
                    Ok(task) => task,
                    Err(reason) => {
                        let declined = listener.decline(&incoming.task, connection, reason).await;
                        declined.map_err(|error| status_of(&error))?;
                        continue;
                    }
                };
                let sender_card = incoming.sender_card.map(|card| (*card).clone());
                yield SubscribeIncomingTasksResponse {
                    task: Some(task),
                    sender_card,
                    exclusive_since: incoming.exclusive_since.map(timestamp),
                };
            }
            Err(Status::unavailable("the daemon is stopping"))?;
        })))
    }

    async fn update_task_status(
        &self,
        request: Request<UpdateTaskStatusRequest>,
    ) -> Result<Response<UpdateTaskStatusResponse>, Status> {
        let connection = connection_of(&request);
        let updated = self.update(request.into_inner(), connection).await;
        updated.map(Response::new)
    }

    async fn complete_task(
        &self,
        request: Request<CompleteTaskRequest>,
    ) -> Result<Response<CompleteTaskResponse>, Status> {
        let connection = connection_of(&request);
        let completed = self.complete(request.into_inner(), connection).await;
        completed.map(Response::new)
    }

    async fn fail_task(
        &self,
        request: Request<FailTaskRequest>,
    ) -> Result<Response<FailTaskResponse>, Status> {
        let connection = connection_of(&request);
        self.fail(request.into_inner(), connection)
            .await
            .map(Response::new)
    }

    type SubscribeTaskStreamStream = ResponseStream<SubscribeTaskStreamResponse>;

    async fn subscribe_task_stream(
        &self,
        request: Request<SubscribeTaskStreamRequest>,
    ) -> Result<Response<Self::SubscribeTaskStreamStream>, Status> {
        let events = artifact_streams::read(self.clone(), request.into_inner()).await?;
        Ok(Response::new(Box::pin(events)))
    }

    async fn send_streaming_artifact(
        &self,
        request: Request<Streaming<SendStreamingArtifactRequest>>,
    ) -> Result<Response<SendStreamingArtifactResponse>, Status> {
        let connection = connection_of(&request);
        Ok(Response::new(
            artifact_streams::send(self, request.into_inner(), connection).await?,
        ))
    }

    async fn discover(
        &self,
        request: Request<DiscoverRequest>,
    ) -> Result<Response<DiscoverResponse>, Status> {
        if request.get_ref().skill_id.is_empty() {
            return Err(Status::invalid_argument("skill_id is empty"));
        }
        let request = request.into_inner();
        let limit = match usize::try_from(request.limit) {
            Ok(0) | Err(_) => DEFAULT_RESULTS,
            Ok(limit) => limit.min(MAX_RESULTS),
        };
        let found = self
            .anycast()
            .discover(&request.skill_id, &request.tags, limit)
            .await
            .map_err(|error| status_of_search(&error))?;
        let nobody = found.agents.is_empty();
        let meant_skill = nobody
            .then(|| self.anycast().closest_skill(&request.skill_id))
            .flatten();
        let agents = found.agents.into_iter().map(|found| DiscoveredAgent {
            agent: found.agent_with(&request.skill_id).to_owned(),
            peer_id: found.peer.to_string(),
            agent_name: found.name,
            agent_description: found.description,
            skills: found.skills,
            verified: found.verified,
        });
        Ok(Response::new(DiscoverResponse {
            agents: agents.collect(),
            remembered: found.from_cache,
            unanswered: found.unanswered,
            meant_skill: meant_skill.unwrap_or_default(),
        }))
    }
}

impl Api {
    /// What whoever sends tasks to this peer should know.
    fn warnings_of(&self, peer: agentanycast_identity::PeerId) -> Vec<String> {
        let doubles = self.net().duplicate_count(peer);
        let several =
            format!("{doubles} daemons run with the key of this peer, and its tasks go to any of them");
        if doubles > 1 { vec![several] } else { Vec::new() }
    }

    async fn keep_card(
        &self,
        peer: agentanycast_identity::PeerId,
        card: agentanycast_proto::v1::AgentCard,
    ) -> Result<(), Status> {
        self.engine()
            .put_peer_card(peer, card)
            .await
            .map_err(|error| status_for_asker(&error))
    }
}

/// The gRPC connection that a call came on.
pub(super) fn connection_of<T>(request: &Request<T>) -> u64 {
    let caller = request.extensions().get::<CallerInfo>();
    caller.map_or(0, |caller| caller.connection.0)
}

/// The contract knows no kinds of NAT.
fn nat_type(nat: Nat) -> NatType {
    match nat {
        Nat::Unknown => NatType::Unspecified,
        Nat::Public => NatType::Public,
        Nat::Private | Nat::Symmetric => NatType::Private,
    }
}

pub(super) fn peer_info(peer: &PeerSnapshot) -> PeerInfo {
    let kind = if peer.direct {
        ConnectionType::Direct
    } else {
        ConnectionType::Relay
    };
    PeerInfo {
        peer_id: peer.peer.to_string(),
        addresses: peer.addresses.clone(),
        connection_type: kind as i32,
        connected_at: Some(peer.connected_at.into()),
    }
}

/// What the listener tells of itself, with the process id that the system knows where it tells none.
pub(super) fn told_program(told: Option<AgentProgram>, pid: u32) -> Option<AgentProgram> {
    let mut program = match (told, pid) {
        (None, 0) => return None,
        (told, _) => told.unwrap_or_default(),
    };
    if program.pid == 0 {
        program.pid = pid;
    }
    Some(program)
}
