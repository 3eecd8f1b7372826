//! The way of a task, and what the node is doing.

use std::{path::PathBuf, time::SystemTime};

use agentanycast_core::{
    self as engine, EngineError, TaskInspection,
    wire::{self, timestamp},
};
use agentanycast_core::{
    delivery::outbox::DeliveryStage,
    policy::audit::search::{TaskIdMatch, search},
    task::{NetworkPath, Role, SentMark, Task},
};
use agentanycast_daemon_kit::{address::bare_url, logging};
use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{
    AuditTrail, ConnectionType, FormerKey, GetActivityRequest, GetActivityResponse, PeerQueue, PeerReach,
    PingPeerRequest, PingPeerResponse, QueueState, QueuedEnvelope, Refusal, StatusCount, TaskAddressee,
    TaskPath, TaskSent, TaskSide, TaskTurn, TraceTaskRequest, TraceTaskResponse, task_addressee::Target,
};

use super::{Service, ServiceError, ServiceResult, peer_of, peers::peer_info};

/// Messages of a task that are told of.
const MAX_MESSAGES: usize = 64;

/// Addresses of a peer that are told.
const MAX_ADDRESSES: usize = 32;

/// Lines of the log that the answer may have.
const MAX_LOG_LINES: usize = 256;

impl Service {
    pub(crate) async fn trace_task(&self, request: TraceTaskRequest) -> ServiceResult<TraceTaskResponse> {
        let (id, without_audit) = (request.task_id, request.without_audit);
        if id.is_empty() {
            return Err(ServiceError::invalid("task_id is empty"));
        }
        let found = self.engine().inspect_task(id.clone()).await;
        let refused = match &found {
            Err(EngineError::NotFound(_)) => self.engine().refused_tasks(id.clone()).await?,
            _ => Vec::new(),
        };
        // The log has one that is here by the id that it has here.
        let (id, by) = match &found {
            Ok(found) => (found.task.id.clone(), TaskIdMatch::Id),
            Err(_) => (id, TaskIdMatch::EitherId),
        };
        let audit = match &self.node.audit_log {
            Some(path) if !without_audit => Some(audit_trail(path.clone(), id, by).await),
            _ => None,
        };
        let is_audited = audit.as_ref().is_some_and(|trail| !trail.lines.is_empty());
        let is_known = is_audited || !refused.is_empty();
        let base = TraceTaskResponse {
            node_peer_id: self.engine().me().to_string(),
            now: Some(SystemTime::now().into()),
            audit,
            refusals: refused.into_iter().map(refusal).collect(),
            ..TraceTaskResponse::default()
        };
        match found {
            Ok(found) => {
                let peer = match found.peer() {
                    Some(peer) => Some(self.reach(peer).await),
                    None => None,
                };
                Ok(answer(base, &found, peer, self.engine().me()))
            }
            // A task that was denied was never kept.
            Err(EngineError::NotFound(_)) if is_known => Ok(base),
            Err(error @ EngineError::NotFound(_)) if without_audit => Err(error.into()),
            Err(error @ EngineError::NotFound(_)) => Err(ServiceError::not_found(match &base.audit {
                Some(audit) => format!("{error}, nor a decision about it in {}", audit.path),
                None => format!(
                    "{error}, nor was it refused here of late; nor is there an audit log, which with [policy] audit_log_path has \
                     each one that is denied here: the daemon's log has the first of each peer as a warning, and all of them at \
                     log level debug only"
                ),
            })),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn get_activity(
        &self,
        request: GetActivityRequest,
    ) -> ServiceResult<GetActivityResponse> {
        let wanted = request.log_lines as usize;
        let base = GetActivityResponse {
            node_peer_id: self.engine().me().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: Some(self.node.started_at.into()),
            now: Some(SystemTime::now().into()),
            store_failure: self.engine().failure().unwrap_or_default(),
            problems: self.node.health.problems(),
            log: logging::newest(wanted.min(MAX_LOG_LINES)),
            ..GetActivityResponse::default()
        };
        Ok(match self.engine().activity().await {
            Ok(activity) => with_activity(base, activity),
            // The engine refuses everything then, and why is what is asked here.
            Err(_) if !base.store_failure.is_empty() => base,
            Err(error) => return Err(error.into()),
        })
    }

    pub(crate) async fn ping_peer(&self, request: PingPeerRequest) -> ServiceResult<PingPeerResponse> {
        let peer = peer_of(&request.peer_id)?;
        let outcome = self.net().ping(peer).await;
        let reach = self.reach(peer).await;
        let base = PingPeerResponse {
            addresses: reach.addresses,
            ..PingPeerResponse::default()
        };
        Ok(match outcome {
            Ok(answer) => PingPeerResponse {
                round_trip: answer.took.try_into().ok(),
                connection_type: match answer.relay {
                    None => ConnectionType::Direct,
                    Some(_) => ConnectionType::Relay,
                } as i32,
                relay_peer_id: answer.relay.map(|relay| relay.to_string()).unwrap_or_default(),
                ..base
            },
            Err(error) => PingPeerResponse {
                error: error.to_string(),
                connection_type: reach.connection_type,
                relay_peer_id: reach.relay_peer_id,
                ..base
            },
        })
    }

    async fn reach(&self, peer: PeerId) -> PeerReach {
        let way = self.net().dial_status(peer).await;
        let snapshot = self.net().peer(peer);
        let info = snapshot.as_ref().map(peer_info);
        let relay = snapshot.as_ref().and_then(|snapshot| snapshot.relay);
        let known = way.addresses;
        let mut reach = PeerReach {
            peer_id: peer.to_string(),
            connected: snapshot.is_some(),
            connection_type: info.as_ref().map_or(0, |info| info.connection_type),
            connected_at: snapshot.as_ref().map(|snapshot| snapshot.connected_at.into()),
            round_trip: snapshot.and_then(|snapshot| snapshot.rtt?.try_into().ok()),
            addresses: info.map_or(known, |info| info.addresses),
            failures: way.failures,
            next_attempt_in: way.next_attempt.and_then(|wait| wait.try_into().ok()),
            last_error: way.last_error,
            relay_peer_id: relay.map(|relay| relay.to_string()).unwrap_or_default(),
            relay_addresses: relay
                .and_then(|relay| self.net().peer(relay))
                .map(|relay| relay.addresses)
                .unwrap_or_default(),
        };
        reach.addresses.truncate(MAX_ADDRESSES);
        reach.relay_addresses.truncate(MAX_ADDRESSES);
        reach
    }
}

async fn audit_trail(path: PathBuf, task: String, by: TaskIdMatch) -> AuditTrail {
    let shown = path.display().to_string();
    let searched = tokio::task::spawn_blocking(move || search(&path, &task, by)).await;
    let found = searched.map_err(|error| error.to_string());
    match found.and_then(|found| found.map_err(|error| error.to_string())) {
        Ok(found) => AuditTrail {
            path: shown,
            lines: found.lines,
            searched_bytes: found.searched,
            whole: found.whole,
            error: String::new(),
        },
        Err(error) => AuditTrail {
            path: shown,
            error,
            ..AuditTrail::default()
        },
    }
}

fn refusal(refusal: engine::RecentRefusal) -> Refusal {
    Refusal {
        at: Some(timestamp(refusal.at)),
        peer_id: refusal.peer.map(|peer| peer.to_string()).unwrap_or_default(),
        by_peer: refusal.by_peer,
        task_id: refusal.task,
        reason: refusal.reason,
        count: refusal.count,
        unproven: refusal.unproven.to_vec(),
    }
}

fn answer(
    base: TraceTaskResponse,
    found: &TaskInspection,
    peer: Option<PeerReach>,
    me: PeerId,
) -> TraceTaskResponse {
    let task = &found.task;
    let route = task.route.as_ref();
    let attempts = route.map(|route| route.attempts.as_slice()).unwrap_or_default();
    let rest = route.map(|route| route.candidates.as_slice()).unwrap_or_default();
    let outside = task.external.as_ref();
    let trail = outside.map(|outside| outside.log.clone()).unwrap_or_default();
    let turns = task
        .messages
        .iter()
        .skip(task.messages.len().saturating_sub(MAX_MESSAGES));
    TraceTaskResponse {
        task: Some(wire::head(task, me)),
        side: side(task) as i32,
        arrived_at: task.arrived_at.map(timestamp),
        attempts_left_at: attempts
            .iter()
            .map(|attempt| timestamp(attempt.left_at))
            .collect(),
        sent: task.timeline.sent.map(sent),
        attempts_sent: attempts
            .iter()
            .map(|attempt| attempt.sent.map(sent).unwrap_or_default())
            .collect(),
        came_over: task.timeline.arrived_via.map(path_of),
        given_at: task.timeline.offered_at.map(timestamp),
        claimed_at: task.timeline.claimed_at.map(timestamp),
        agent_ends: task.agent_ends,
        candidate_peer_ids: rest.iter().map(ToString::to_string).collect(),
        held: task.held,
        claimed: task.claimed,
        agent_listens: found.agent_listens,
        deadline: task.deadline.map(timestamp),
        url: outside.map(|outside| bare_url(&outside.url)).unwrap_or_default(),
        external_steps: trail.steps,
        external_steps_omitted: trail.dropped,
        remote_task_id: trail.remote,
        sealed_task_id: task
            .sealed
            .as_ref()
            .map(|sealed| sealed.task.clone())
            .unwrap_or_default(),
        peer,
        peer_before: found.former_keys.iter().map(former_key).collect(),
        queued: found.queued.iter().map(queued).collect(),
        turns: turns
            .map(|message| TaskTurn {
                at: message.created_at,
                role: message.role,
            })
            .collect(),
        addressee: addressee(task, me),
        ..base
    }
}

/// Whom a task was sent to from here.
fn addressee(task: &Task, me: PeerId) -> Option<TaskAddressee> {
    let agent = task.agent.as_deref().unwrap_or_default();
    let by_skill = task.route.is_some();
    let target = match (task.role, &task.external) {
        (Role::Assignee(_), _) => return None,
        (_, Some(outside)) => Target::Url(outside.url.clone()),
        _ if by_skill => Target::SkillId(task.skill.clone()),
        (Role::Originator(peer), None) => Target::PeerId(peer.to_string()),
        (Role::Both, None) => Target::PeerId(me.to_string()),
        (Role::External, None) => return None,
    };
    let is_peer = matches!(target, Target::PeerId(_));
    Some(TaskAddressee {
        target: Some(target),
        skill_of_peer: if is_peer {
            task.skill.clone()
        } else {
            String::new()
        },
        allow_private: task
            .external
            .as_ref()
            .is_some_and(|outside| outside.allow_private),
        // Of a task by skill the agent is the choice of its node.
        target_agent: if is_peer { agent.to_owned() } else { String::new() },
    })
}

fn side(task: &Task) -> TaskSide {
    match task.role {
        Role::Originator(_) => TaskSide::Originator,
        Role::Assignee(_) => TaskSide::Assignee,
        Role::Both => TaskSide::Both,
        Role::External => TaskSide::External,
    }
}

fn path_of(road: NetworkPath) -> TaskPath {
    match road {
        NetworkPath::Direct => TaskPath {
            connection_type: ConnectionType::Direct as i32,
            relay_peer_id: String::new(),
        },
        NetworkPath::Relay(relay) => TaskPath {
            connection_type: ConnectionType::Relay as i32,
            relay_peer_id: relay.to_string(),
        },
    }
}

fn sent(sent: SentMark) -> TaskSent {
    TaskSent {
        at: Some(timestamp(sent.at)),
        over: Some(path_of(sent.via)),
    }
}

fn former_key((peer, until): &(PeerId, u64)) -> FormerKey {
    FormerKey {
        peer_id: peer.to_string(),
        until: Some(timestamp(*until)),
    }
}

fn queued(queued: &engine::PendingEnvelope) -> QueuedEnvelope {
    let state = match queued.stage {
        DeliveryStage::Queued => QueueState::Queued,
        DeliveryStage::Sent => QueueState::Sent,
        DeliveryStage::Parked => QueueState::Parked,
    };
    QueuedEnvelope {
        envelope_id: queued.id.clone(),
        peer_id: queued.peer.to_string(),
        carries_task: queued.carries_task,
        state: state as i32,
        sent: queued.sent,
        exposed: queued.exposed,
        ahead: queued.ahead as u32,
        bytes: queued.bytes as u64,
        expires_at: queued.expires_at.map(timestamp),
    }
}

fn with_activity(base: GetActivityResponse, activity: engine::Activity) -> GetActivityResponse {
    let tasks = activity
        .statuses
        .iter()
        .map(|(status, now, outbound, inbound)| StatusCount {
            status: status.to_wire() as i32,
            now: *now as u64,
            outbound_total: *outbound,
            inbound_total: *inbound,
        });
    let queues = activity
        .queues
        .iter()
        .map(|(peer, waiting, connected)| PeerQueue {
            peer_id: peer.to_string(),
            waiting: *waiting as u64,
            connected: *connected,
        });
    let refusals = activity.refusals.into_iter().map(refusal);
    GetActivityResponse {
        agent_listens: activity.agent_listens,
        tasks: tasks.collect(),
        queued: activity.depths.queued as u64,
        sent: activity.depths.sent as u64,
        parked: activity.depths.parked as u64,
        queues: queues.collect(),
        refusals: refusals.collect(),
        ..base
    }
}
