//! Acknowledging what peers sent. The rule: an acknowledgement is an effect, so it goes out once what it stands for is
//! durable. What one peer sent and a turn accepts is acknowledged together, if that peer knows how, and behind what the turn
//! refuses: nobody may rely on an order.

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{A2aEnvelope, AckOutcome, AckPayload, EnvelopeType, a2a_envelope::Payload};
use bytes::Bytes;
use prost::Message as _;

use super::{
    counters::Direction,
    outbound::envelope,
    state::Core,
    trace_context::TraceContext,
    transaction::{Effect, Now},
};
use crate::delivery::inbox::MAX_JOINT;

impl Core {
    /// Acknowledges an envelope, once this turn is durable.
    pub(super) fn ack(&mut self, now: Now, peer: PeerId, envelope_id: String, refused: Option<&str>) {
        self.answer_with(now, peer, ack_of(envelope_id, refused));
    }

    /// Acknowledges an envelope that is accepted, once this turn is durable, together with others.
    pub(super) fn ack_joined(&mut self, now: Now, peer: PeerId, id: String, joint_ack: bool) {
        if !joint_ack {
            return self.ack(now, peer, id, None);
        }
        let is_full = |ack: &AckPayload| ack.also_acknowledged.len() >= MAX_JOINT;
        let owed = self
            .pending_acks
            .iter_mut()
            .find(|(to, ack)| *to == peer && !is_full(ack));
        match owed {
            Some((_, ack)) => ack.also_acknowledged.push(id),
            None => self.pending_acks.push((peer, ack_of(id, None))),
        }
    }

    /// Whether acknowledgements are owed that the turn has not let go yet.
    pub fn has_pending_acks(&self) -> bool {
        !self.pending_acks.is_empty()
    }

    /// The acknowledgements of the running turn.
    pub(super) fn flush_acks(&mut self, now: Now) {
        for (peer, ack) in std::mem::take(&mut self.pending_acks) {
            self.answer_with(now, peer, ack);
        }
    }

    /// Acknowledges a task that is held here until its originator confirms it.
    pub(super) fn ack_held(&mut self, now: Now, peer: PeerId, envelope_id: String) {
        let ack = AckPayload {
            held: true,
            ..ack_of(envelope_id, None)
        };
        self.answer_with(now, peer, ack);
    }

    /// Acknowledges an envelope of an artifact's stream; `next` is the chunk needed next.
    pub fn ack_stream(
        &mut self,
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
        self.answer_with(now, peer, ack);
    }

    fn answer_with(&mut self, now: Now, peer: PeerId, ack: AckPayload) {
        let frame = self.ack_frame(now, peer, ack);
        self.want_stream(peer);
        self.effect(Effect::Ack { peer, frame });
    }

    /// The encoded acknowledgement of an envelope.
    fn ack_frame(&mut self, now: Now, peer: PeerId, ack: AckPayload) -> Bytes {
        let payload = Payload::Ack(ack);
        self.counters.message(Direction::Outbound, EnvelopeType::Ack);
        let id = self.new_id();
        let sender_epoch = self.queues.get(&peer).map_or(0, |queue| queue.outbox.epoch());
        A2aEnvelope {
            sender_epoch,
            ..envelope(id, now, payload, TraceContext::default())
        }
        .encode_to_vec()
        .into()
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
