//! Acknowledging what peers sent. The rule: an acknowledgement is an effect, so it goes out once what it stands for is
//! durable. What one peer sent and a turn accepts is acknowledged together, if that peer knows how, and behind what the turn
//! refuses: nobody may rely on an order.

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{A2aEnvelope, AckOutcome, AckPayload, a2a_envelope::Payload};
use bytes::Bytes;
use prost::Message as _;

use super::Peers;
use crate::{
    clock::Now,
    delivery::inbox::MAX_JOINT,
    trace_context::TraceContext,
    transaction::{Effect, Transaction},
    wire::envelope,
};

impl Peers {
    /// Acknowledges an envelope, once this transaction is durable.
    pub(crate) fn ack(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        peer: PeerId,
        envelope_id: String,
        refused: Option<&str>,
    ) {
        self.send_ack(transaction, now, peer, ack_of(envelope_id, refused));
    }

    /// Acknowledges an envelope that is accepted together with others, when the transaction is finished.
    pub(crate) fn ack_joined(&mut self, peer: PeerId, envelope_id: String) {
        let is_full = |ack: &AckPayload| ack.also_acknowledged.len() >= MAX_JOINT;
        let owed = self
            .pending_acks
            .iter_mut()
            .find(|(to, ack)| *to == peer && !is_full(ack));
        match owed {
            Some((_, ack)) => ack.also_acknowledged.push(envelope_id),
            None => self.pending_acks.push((peer, ack_of(envelope_id, None))),
        }
    }

    /// Whether acknowledgements wait for the end of the transaction.
    pub(crate) fn has_pending_acks(&self) -> bool {
        !self.pending_acks.is_empty()
    }

    /// Sends the acknowledgements that wait for the end of the transaction; how many.
    pub(crate) fn flush_acks(&mut self, transaction: &mut Transaction, now: Now) -> usize {
        let pending = std::mem::take(&mut self.pending_acks);
        let count = pending.len();
        for (peer, ack) in pending {
            self.send_ack(transaction, now, peer, ack);
        }
        count
    }

    /// Acknowledges a task that is held here until its originator confirms it.
    pub(crate) fn ack_held(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        peer: PeerId,
        envelope_id: String,
    ) {
        let ack = AckPayload {
            held: true,
            ..ack_of(envelope_id, None)
        };
        self.send_ack(transaction, now, peer, ack);
    }

    /// Acknowledges an envelope of an artifact's stream; `next` is the chunk needed next.
    pub(crate) fn ack_stream(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        peer: PeerId,
        envelope_id: String,
        refused: Option<&str>,
        next: Option<i32>,
    ) {
        let ack = AckPayload {
            next_sequence: next,
            ..ack_of(envelope_id, refused)
        };
        self.send_ack(transaction, now, peer, ack);
    }

    fn send_ack(&mut self, transaction: &mut Transaction, now: Now, peer: PeerId, ack: AckPayload) {
        let id = transaction.new_id();
        let sender_epoch = self.queues.get(&peer).map_or(0, |queue| queue.outbox().epoch());
        let frame: Bytes = A2aEnvelope {
            sender_epoch,
            ..envelope(id, now, Payload::Ack(ack), TraceContext::default())
        }
        .encode_to_vec()
        .into();
        self.want_stream(transaction, peer);
        transaction.effect(Effect::Ack { peer, frame });
    }
}

fn ack_of(envelope_id: String, refused: Option<&str>) -> AckPayload {
    let outcome = match refused {
        Some(_) => AckOutcome::Rejected,
        None => AckOutcome::Accepted,
    };
    AckPayload {
        acknowledged_envelope_id: envelope_id,
        outcome: outcome as i32,
        reason: refused.unwrap_or_default().to_owned(),
        ..AckPayload::default()
    }
}
