//! The services but SessionService: each call is that of [`Service`](crate::service::Service) with the same name. What it
//! does is in the proto text and in docs/protocol.md.

use agentanycast_proto::v1::{
    self, access_service_server::AccessService, agent_service_server::AgentService,
    diagnostics_service_server::DiagnosticsService, directory_service_server::DirectoryService,
    invite_service_server::InviteService, network_service_server::NetworkService,
    node_service_server::NodeService, task_list_service_server::TaskListService,
    task_note_service_server::TaskNoteService,
};
use futures::stream;
use tonic::{Request, Response, Status, Streaming};

use super::{GrpcFace, ResponseStream, caller::caller_of, listen::CallerInfo, stream_response};

/// A gRPC service. Its calls in the first braces take one message and give one. Those `of caller` also take who calls; what
/// they give is made a message. Those `at once` read nothing of their message, and cannot fail. The others stand in full.
macro_rules! grpc_service {
    (
        $service:ident { $($call:ident: $request:ident => $response:ident,)* }
        $(of caller {
            $($call_of:ident: $request_of:ident => $response_of:ident, $given:pat => $message:expr;)*
        })?
        $(at once($service_now:ident) {
            $($call_now:ident: $request_now:ident => $response_now:ident, $message_now:expr;)*
        })?
        $(in full { $($in_full:tt)* })?
    ) => {
        #[tonic::async_trait]
        impl $service for GrpcFace {
            $(
                async fn $call(
                    &self,
                    request: Request<v1::$request>,
                ) -> Result<Response<v1::$response>, Status> {
                    Ok(Response::new(self.service.$call(request.into_inner()).await?))
                }
            )*

            $($(
                async fn $call_of(
                    &self,
                    request: Request<v1::$request_of>,
                ) -> Result<Response<v1::$response_of>, Status> {
                    let caller = caller_of(&request);
                    let $given = self.service.$call_of(request.into_inner(), &caller).await?;
                    Ok(Response::new($message))
                }
            )*)?

            $($(
                async fn $call_now(
                    &self,
                    _: Request<v1::$request_now>,
                ) -> Result<Response<v1::$response_now>, Status> {
                    let $service_now = &self.service;
                    Ok(Response::new($message_now))
                }
            )*)?

            $($($in_full)*)?
        }
    };
}

grpc_service! {
    NodeService {
        connect_peer: ConnectPeerRequest => ConnectPeerResponse,
        get_peer_card: GetPeerCardRequest => GetPeerCardResponse,
        discover: DiscoverRequest => DiscoverResponse,
    }
    of caller {
        set_agent_card: SetAgentCardRequest => SetAgentCardResponse, set => set;
        send_task: SendTaskRequest => SendTaskResponse, task => v1::SendTaskResponse { task: Some(task) };
        get_task: GetTaskRequest => GetTaskResponse, task => v1::GetTaskResponse { task: Some(task) };
        cancel_task: CancelTaskRequest => CancelTaskResponse, task =>
            v1::CancelTaskResponse { task: Some(task) };
        update_task_status: UpdateTaskStatusRequest => UpdateTaskStatusResponse, () =>
            v1::UpdateTaskStatusResponse {};
        complete_task: CompleteTaskRequest => CompleteTaskResponse, () => v1::CompleteTaskResponse {};
        fail_task: FailTaskRequest => FailTaskResponse, () => v1::FailTaskResponse {};
    }
    at once(service) {
        get_node_info: GetNodeInfoRequest => GetNodeInfoResponse,
            v1::GetNodeInfoResponse { node_info: Some(service.node_info()) };
        list_peers: ListPeersRequest => ListPeersResponse,
            v1::ListPeersResponse { peers: service.peers() };
    }
    in full {
        type SubscribeTaskUpdatesStream = ResponseStream<v1::SubscribeTaskUpdatesResponse>;

        async fn subscribe_task_updates(
            &self,
            request: Request<v1::SubscribeTaskUpdatesRequest>,
        ) -> Result<Response<Self::SubscribeTaskUpdatesStream>, Status> {
            let caller = caller_of(&request);
            let v1::SubscribeTaskUpdatesRequest {
                task_id,
                end_only,
                or_input,
            } = request.into_inner();
            if !end_only {
                let updates = self.service.task_updates(task_id, &caller).await?;
                return Ok(stream_response(updates));
            }
            let wait = self.service.wait_task(task_id.clone(), or_input).await?;
            let service = self.service.clone();
            let update = async move {
                let task = service.waited_task(task_id, wait, &caller).await?;
                Ok(v1::SubscribeTaskUpdatesResponse {
                    task_id: task.task_id.clone(),
                    status: task.status,
                    task: Some(task),
                    ..v1::SubscribeTaskUpdatesResponse::default()
                })
            };
            Ok(stream_response(stream::once(update)))
        }

        type SubscribeIncomingTasksStream = ResponseStream<v1::SubscribeIncomingTasksResponse>;

        async fn subscribe_incoming_tasks(
            &self,
            request: Request<v1::SubscribeIncomingTasksRequest>,
        ) -> Result<Response<Self::SubscribeIncomingTasksStream>, Status> {
            let caller = caller_of(&request);
            let info = request.extensions().get::<CallerInfo>().cloned();
            let has_ended = move || info.as_ref().is_some_and(CallerInfo::has_ended);
            let tasks = self
                .service
                .subscribe_incoming_tasks(request.into_inner(), &caller, has_ended);
            Ok(stream_response(tasks.await?))
        }

        type SubscribeTaskStreamStream = ResponseStream<v1::SubscribeTaskStreamResponse>;

        async fn subscribe_task_stream(
            &self,
            request: Request<v1::SubscribeTaskStreamRequest>,
        ) -> Result<Response<Self::SubscribeTaskStreamStream>, Status> {
            let events = self.service.subscribe_task_stream(request.into_inner());
            Ok(stream_response(events.await?))
        }

        async fn send_streaming_artifact(
            &self,
            request: Request<Streaming<v1::SendStreamingArtifactRequest>>,
        ) -> Result<Response<v1::SendStreamingArtifactResponse>, Status> {
            let caller = caller_of(&request);
            self.service.send_artifact(request.into_inner(), &caller).await?;
            Ok(Response::new(v1::SendStreamingArtifactResponse {}))
        }
    }
}

grpc_service! {
    AccessService {
        trust_peer: TrustPeerRequest => TrustPeerResponse,
        untrust_peer: UntrustPeerRequest => UntrustPeerResponse,
        list_trust: ListTrustRequest => ListTrustResponse,
        list_access_requests: ListAccessRequestsRequest => ListAccessRequestsResponse,
    }
}

grpc_service! {
    AgentService {
        register_agent: RegisterAgentRequest => RegisterAgentResponse,
        set_agent_access: SetAgentAccessRequest => SetAgentAccessResponse,
        unregister_agent: UnregisterAgentRequest => UnregisterAgentResponse,
        list_node_agents: ListNodeAgentsRequest => ListNodeAgentsResponse,
    }
    at once(service) {
        list_agent_programs: ListAgentProgramsRequest => ListAgentProgramsResponse,
            v1::ListAgentProgramsResponse { programs: service.programs().list() };
    }
    in full {
        type ReportUnreadyStream = ResponseStream<v1::ReportUnreadyResponse>;

        async fn report_unready(
            &self,
            request: Request<v1::ReportUnreadyRequest>,
        ) -> Result<Response<Self::ReportUnreadyStream>, Status> {
            let caller = caller_of(&request);
            let reported = self.service.report_unready(request.into_inner(), &caller)?;
            Ok(stream_response(reported))
        }
    }
}

grpc_service! {
    DiagnosticsService {
        trace_task: TraceTaskRequest => TraceTaskResponse,
        get_activity: GetActivityRequest => GetActivityResponse,
        ping_peer: PingPeerRequest => PingPeerResponse,
    }
}

grpc_service! {
    DirectoryService {
        list_known_peers: ListKnownPeersRequest => ListKnownPeersResponse,
        list_agents: ListAgentsRequest => ListAgentsResponse,
        resolve_did: ResolveDidRequest => ResolveDidResponse,
    }
}

grpc_service! {
    InviteService {
        create_invite: CreateInviteRequest => CreateInviteResponse,
        list_invites: ListInvitesRequest => ListInvitesResponse,
        revoke_invite: RevokeInviteRequest => RevokeInviteResponse,
        accept_invite: AcceptInviteRequest => AcceptInviteResponse,
    }
}

grpc_service! {
    NetworkService {
        get_network: GetNetworkRequest => GetNetworkResponse,
    }
}

grpc_service! {
    TaskListService {
        list_tasks: ListTasksRequest => ListTasksResponse,
    }
}

grpc_service! {
    TaskNoteService {
        put_task_note: PutTaskNoteRequest => PutTaskNoteResponse,
        delete_task_note: DeleteTaskNoteRequest => DeleteTaskNoteResponse,
        list_task_notes: ListTaskNotesRequest => ListTaskNotesResponse,
    }
    in full {
        type WatchTaskNotesStream = ResponseStream<v1::WatchTaskNotesResponse>;

        async fn watch_task_notes(
            &self,
            _: Request<v1::WatchTaskNotesRequest>,
        ) -> Result<Response<Self::WatchTaskNotesStream>, Status> {
            Ok(stream_response(self.service.watch_task_notes()))
        }
    }
}
