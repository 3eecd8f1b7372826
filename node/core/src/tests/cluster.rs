//! Nodes joined by a network without faults or delay, for directed tests. Peers without a node are
//! played by the test: what is sent to them is only written down.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{
    A2aEnvelope, AckOutcome, AckPayload, EnvelopeType, SendTaskPayload, a2a_envelope::Payload,
};
use bytes::Bytes;
use prost::Message as _;

use super::harness::{TestNode, limits, peer, text};
use crate::{
    SendTask,
    clock::Now,
    coordinator::Coordinator,
    delivery::inbox,
    policy::audit::log_line::AuditEntry,
    task::{NetworkPath, Status, Task},
    transaction::ListenerId,
    transaction::{Effect, EngineError, EngineLimits, TaskChange},
};

/// The nodes of a lab; a third peer is played by the test.
pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
pub(super) const C: usize = 2;

/// Any moment: 2026-01-01.
const START: u64 = 1_767_225_600_000;

pub(super) struct TestCluster {
    pub(super) now: Now,
    pub(super) nodes: Vec<TestNode<()>>,
    pub(super) wire: Vec<(PeerId, PeerId, A2aEnvelope)>,
    pub(super) changes: Vec<(usize, Arc<TaskChange>)>,
    pub(super) incoming: Vec<(usize, ListenerId, Arc<Task>)>,
    pub(super) audited: Vec<(usize, Box<AuditEntry>)>,
    /// Tasks that a gateway was rung for.
    pub(super) external_due: Vec<String>,
    /// Joined pairs, by node and peer.
    joined: BTreeSet<(usize, PeerId)>,
    /// True while acknowledgements are lost.
    pub(super) acks_are_lost: bool,
    /// What all connections go over.
    pub(super) path: NetworkPath,
    listeners: ListenerId,
    envelopes: u64,
    /// By node: the connection of its agent, counted from 1.
    connections: BTreeMap<usize, u64>,
}

impl TestCluster {
    pub(super) fn new() -> Self {
        Self::with_limits(&limits())
    }

    pub(super) fn with_limits(limits: &EngineLimits) -> Self {
        Self::with_nodes(2, limits)
    }

    /// So many nodes.
    pub(super) fn with_nodes(nodes: u8, limits: &EngineLimits) -> Self {
        let now = Now {
            mono: Duration::ZERO,
            unix: START,
        };
        let nodes = (1..=nodes)
            .map(|number| TestNode::new(number, limits, now, u64::from(number)))
            .collect();
        Self {
            now,
            nodes,
            wire: Vec::new(),
            changes: Vec::new(),
            incoming: Vec::new(),
            audited: Vec::new(),
            external_due: Vec::new(),
            joined: BTreeSet::new(),
            acks_are_lost: false,
            path: NetworkPath::Direct,
            listeners: 0,
            envelopes: 0,
            connections: BTreeMap::new(),
        }
    }

    /// Both nodes, connected.
    pub(super) fn pair() -> Self {
        let mut lab = Self::new();
        lab.connect();
        lab
    }

    pub(super) fn id(&self, node: usize) -> PeerId {
        self.nodes[node].me
    }

    pub(super) fn connect(&mut self) {
        self.join(A, self.id(B));
        self.join(B, self.id(A));
    }

    /// A node loses its connections to a peer; the peer may not have noticed.
    pub(super) fn part(&mut self, node: usize, peer: PeerId) {
        if self.joined.remove(&(node, peer)) {
            self.nodes[node]
                .core
                .with_peers(|peers, transaction| peers.on_disconnected(transaction, peer));
            self.settle();
        }
    }

    pub(super) fn disconnect(&mut self) {
        for (node, other) in [(A, self.id(B)), (B, self.id(A))] {
            if self.joined.remove(&(node, other)) {
                self.nodes[node]
                    .core
                    .with_peers(|peers, transaction| peers.on_disconnected(transaction, other));
            }
        }
        self.settle();
    }

    /// Connects one node with a peer.
    pub(super) fn join(&mut self, node: usize, peer: PeerId) {
        self.joined.insert((node, peer));
        let now = self.now;
        self.nodes[node].core.on_connected(now, peer).unwrap();
        self.settle();
    }

    /// One call of the local client, with its answer after the barrier.
    pub(super) fn call<T>(
        &mut self,
        node: usize,
        f: impl FnOnce(&mut Coordinator, Now) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let answer = f(&mut self.nodes[node].core, self.now);
        self.settle();
        answer
    }

    pub(super) fn send(&mut self, from: usize, to: PeerId, request: SendTask) -> Result<Task, EngineError> {
        let message = if request.message.parts.is_empty() {
            text("m1", "do it")
        } else {
            request.message.clone()
        };
        self.call(from, |core, now| {
            core.send_task(
                now,
                SendTask {
                    peer: Some(to),
                    message,
                    ..request
                },
            )
        })
    }

    /// A task from the first node to the second; its id.
    pub(super) fn task(&mut self) -> String {
        self.send(A, self.id(B), SendTask::default()).unwrap().id
    }

    pub(super) fn update(&mut self, node: usize, id: &str, next: Status) -> Result<(), EngineError> {
        let connection = self.connection(node);
        self.call(node, |core, now| core.update(now, id, next, None, connection))
    }

    /// The connection of the node's agent.
    pub(super) fn connection(&self, node: usize) -> u64 {
        self.connections.get(&node).copied().unwrap_or(1)
    }

    /// It closes; the node's next agent has another one.
    pub(super) fn close_connection(&mut self, node: usize) {
        let (now, connection) = (self.now, self.connection(node));
        self.nodes[node].core.on_connection_closed(now, connection);
        self.connections.insert(node, connection + 1);
    }

    pub(super) fn complete(&mut self, node: usize, id: &str, result: &str) -> Result<(), EngineError> {
        self.call(node, |core, now| {
            core.complete(now, id, vec![super::harness::artifact("a", result)], None)
        })
    }

    pub(super) fn listen(&mut self, node: usize) -> ListenerId {
        self.listeners += 1;
        let id = self.listeners;
        self.call(node, |core, now| core.attach(now, id)).unwrap();
        id
    }

    pub(super) fn view(&mut self, node: usize, id: &str) -> Task {
        self.nodes[node].core.task(id).unwrap()
    }

    pub(super) fn status(&mut self, node: usize, id: &str) -> Status {
        self.view(node, id).status
    }

    /// Why the task stands as it does, in words.
    pub(super) fn reason(&mut self, node: usize, id: &str) -> String {
        self.view(node, id)
            .status_message
            .as_deref()
            .map(crate::wire::text_of)
            .unwrap_or_default()
    }

    /// A peer that the test plays sends an envelope; returns its id.
    pub(super) fn receive(&mut self, node: usize, from: PeerId, payload: Payload) -> String {
        self.envelopes += 1;
        let id = format!("envelope-{}", self.envelopes);
        self.deliver(node, from, &plain(&id, payload));
        id
    }

    pub(super) fn deliver(&mut self, node: usize, from: PeerId, envelope: &A2aEnvelope) {
        let now = self.now;
        self.nodes[node]
            .core
            .on_frame(now, from, &envelope.encode_to_vec().into())
            .unwrap();
        self.settle();
    }

    pub(super) fn restart(&mut self, node: usize) {
        self.disconnect();
        let me = self.id(node);
        for other in 0..self.nodes.len() {
            self.part(other, me);
        }
        self.joined.retain(|(at, _)| *at != node);
        let now = self.now;
        self.nodes[node].crash(now, 0, false);
        self.settle();
    }

    pub(super) fn advance(&mut self, time: Duration) {
        let step = Duration::from_millis(100).max(time / 1000);
        let end = self.now.mono + time;
        while self.now.mono < end {
            self.now.mono += step;
            self.now.unix += step.as_millis() as u64;
            let now = self.now;
            for node in &mut self.nodes {
                node.core.tick(now).unwrap();
            }
            self.settle();
        }
    }

    /// Lets everything out that is due, until nothing moves.
    pub(super) fn settle(&mut self) {
        loop {
            let mut effects = Vec::new();
            for (at, node) in self.nodes.iter_mut().enumerate() {
                node.finish_turn(self.now, None);
                for released in node.commit(usize::MAX).unwrap() {
                    effects.extend(released.effects.into_iter().map(|effect| (at, effect)));
                }
            }
            if effects.is_empty() {
                return;
            }
            for (at, effect) in effects {
                self.let_out(at, effect);
            }
        }
    }

    fn let_out(&mut self, at: usize, effect: Effect) {
        match effect {
            Effect::OpenStream { peer, stream } if self.joined.contains(&(at, peer)) => {
                self.nodes[at]
                    .core
                    .with_peers(|peers, _| peers.on_stream_opened(peer, stream, self.path));
            }
            Effect::OpenStream { peer, stream } => self.nodes[at]
                .core
                .with_peers(|peers, transaction| peers.on_stream_closed(transaction, peer, stream)),
            Effect::Send { peer, frame, .. } => self.transmit(at, peer, &frame),
            Effect::Ack { peer, frame } if !self.acks_are_lost => self.transmit(at, peer, &frame),
            Effect::Changed(change) => self.changes.push((at, change)),
            Effect::External { task_id } => self.external_due.push(task_id),
            Effect::Incoming { listener, task, .. } => self.incoming.push((at, listener, task)),
            Effect::Audit(entry) => self.audited.push((at, entry)),
            _ => {}
        }
    }

    fn transmit(&mut self, from: usize, to: PeerId, frame: &Bytes) {
        if !self.joined.contains(&(from, to)) {
            return;
        }
        let (me, now) = (self.id(from), self.now);
        self.wire.push((me, to, A2aEnvelope::decode(&frame[..]).unwrap()));
        if let Some(node) = self.nodes.iter_mut().find(|node| node.me == to) {
            node.core.transaction().set_inbound_path(self.path);
            node.core.on_frame(now, me, frame).unwrap();
        }
    }

    /// Types of what was sent to a peer, without acknowledgements.
    pub(super) fn types_to(&self, to: PeerId) -> Vec<EnvelopeType> {
        let types = self
            .wire
            .iter()
            .filter(|(_, receiver, _)| *receiver == to)
            .map(|(_, _, envelope)| envelope.r#type());
        types.filter(|kind| *kind != EnvelopeType::Ack).collect()
    }

    /// The answers to an envelope: outcome and reason.
    pub(super) fn acks_of(&self, envelope_id: &str) -> Vec<(AckOutcome, String)> {
        let acks = self
            .wire
            .iter()
            .filter_map(|(_, _, envelope)| match &envelope.payload {
                Some(Payload::Ack(ack)) if ack.acknowledged_envelope_id == envelope_id => Some(ack),
                _ => None,
            });
        acks.map(|ack| (ack.outcome(), ack.reason.clone())).collect()
    }

    /// The last envelope of a type that went to a peer.
    pub(super) fn last_to(&self, to: PeerId, kind: EnvelopeType) -> A2aEnvelope {
        let mut sent = self.wire.iter().rev().filter(|(_, receiver, _)| *receiver == to);
        sent.find(|(_, _, envelope)| envelope.r#type() == kind)
            .map(|(_, _, envelope)| envelope.clone())
            .unwrap()
    }

    /// What the subscribers at a node saw of a task.
    pub(super) fn seen(&self, node: usize, id: &str) -> Vec<Status> {
        let changes = self
            .changes
            .iter()
            .filter(|(at, change)| *at == node && change.task_id == id);
        changes.map(|(_, change)| change.status).collect()
    }

    pub(super) fn handed_over(&self, node: usize, id: &str) -> Vec<Status> {
        self.incoming
            .iter()
            .filter(|(at, _, task)| *at == node && task.id == id)
            .map(|(_, _, task)| task.status)
            .collect()
    }
}

/// A task with this id.
pub(super) fn send_task(id: &str) -> Payload {
    Payload::SendTask(SendTaskPayload {
        task_id: id.into(),
        message: Some(text("m", "x")),
        ..Default::default()
    })
}

/// An envelope of a deployed peer: without a place in a queue.
pub(super) fn plain(id: &str, payload: Payload) -> A2aEnvelope {
    let kind = inbox::type_of(&payload) as i32;
    A2aEnvelope {
        envelope_id: id.into(),
        r#type: kind,
        payload: Some(payload),
        ..A2aEnvelope::default()
    }
}

/// An envelope of a peer of ours.
pub(super) fn numbered(sequence: u64, payload: Payload) -> A2aEnvelope {
    A2aEnvelope {
        sender_epoch: 77,
        sequence,
        ..plain(&format!("numbered-{sequence}"), payload)
    }
}

pub(super) fn ack_of(envelope: &A2aEnvelope) -> Payload {
    Payload::Ack(AckPayload {
        acknowledged_envelope_id: envelope.envelope_id.clone(),
        ..AckPayload::default()
    })
}

/// A peer that is no node of the lab.
pub(super) fn stranger() -> PeerId {
    peer(9)
}
