//! What became of envelopes: the peer took one, refused it, or did not answer in its time; and what that means
//! for its task.

use std::time::Duration;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AckOutcome, AckPayload};
use agentanycast_store::StoreError;

use super::{Coordinator, shortened};
use crate::{
    clock::Now,
    delivery::outbox::{EnvelopeKind, OutboxEntry, SendAttempts},
    observe::Observe,
    policy::REPLACED,
    routing::Routing,
    task::{LOST_BY_ASSIGNEE, Status},
    tasks::unless_damaged,
    trace_context::TraceContext,
    transaction::Effect,
    wire,
};

impl Coordinator {
    /// A peer acknowledged something.
    pub(super) fn on_ack(&mut self, now: Now, peer: PeerId, mut ack: AckPayload) -> Result<(), StoreError> {
        for id in std::mem::take(&mut ack.also_acknowledged) {
            if let Some(entry) = self.peers.acknowledged(&mut self.transaction, peer, &id) {
                // A damaged record of one task is no matter of the others.
                let settled = self.on_settled(now, peer, &entry, &AckPayload::default());
                unless_damaged(settled)?;
            }
        }
        let acknowledged =
            self.peers
                .acknowledged(&mut self.transaction, peer, &ack.acknowledged_envelope_id);
        let Some(entry) = acknowledged else {
            self.transaction.effect(Effect::StreamAck { peer, ack });
            return Ok(());
        };
        self.on_settled(now, peer, &entry, &ack)
    }

    /// What became of an envelope that has left its queue.
    fn on_settled(
        &mut self,
        now: Now,
        peer: PeerId,
        entry: &OutboxEntry,
        ack: &AckPayload,
    ) -> Result<(), StoreError> {
        let refused = (ack.outcome == AckOutcome::Rejected as i32).then_some(ack.reason.as_str());
        self.trace_ack(now, &entry.task_id, refused)?;
        if refused.is_some() {
            self.on_refused(now, peer, entry, &ack.reason)?;
        } else if entry.kind == EnvelopeKind::SendTask {
            self.tasks.note_arrival(&entry.task_id, peer, now.unix);
            self.on_accepted(now, peer, &entry.task_id, ack.held)?;
        }
        Ok(())
    }

    /// An envelope about a task was acknowledged, or refused for this reason: a span, if the task is traced.
    fn trace_ack(&mut self, now: Now, id: &str, refused: Option<&str>) -> Result<(), StoreError> {
        if self.observe.traces()
            && let Some(task) = self.tasks.read(id)?
        {
            Observe::trace_ack(&mut self.transaction, now, &task, refused);
        }
        Ok(())
    }

    fn on_refused(
        &mut self,
        now: Now,
        peer: PeerId,
        entry: &OutboxEntry,
        reason: &str,
    ) -> Result<(), StoreError> {
        let (id, reason) = (&entry.task_id, shortened(reason));
        self.observe.note_refusal(now.unix, Some(peer), true, id, &reason);
        tracing::info!(%peer, task = id, envelope = entry.id, reason, "the peer refused an envelope");
        // Only the other side of a task has a say in it, whatever else was sent to this peer.
        let known = self.tasks.indexed(id).filter(|known| known.peer == Some(peer));
        let Some(task) = known else { return Ok(()) };
        let (is_assignee, status) = (task.is_assignee, task.status);
        if task.awaits_assignee && entry.kind == EnvelopeKind::SendTask && status == Status::Submitted {
            Routing::on_refused(&mut self.transaction, peer);
            if self.try_next_candidate(now, id, &format!("refused it: {reason}"))? {
                return Ok(());
            }
        }
        match (is_assignee, entry.kind, status) {
            (false, EnvelopeKind::SendTask, Status::Submitted) => {
                self.end(now, id, Status::Rejected, &reason)?;
            }
            (false, EnvelopeKind::SendTask, _) => {
                self.give_up(
                    now,
                    peer,
                    id,
                    false,
                    &format!("refused by the assignee: {reason}"),
                )?;
            }
            // It was asked about by an old key of this node: the assignee keeps it for the new one, which can ask again.
            (false, EnvelopeKind::Ephemeral, _) if reason.starts_with(REPLACED) => {}
            (false, EnvelopeKind::Ephemeral, _) => {
                self.end(now, id, Status::Failed, &format!("{LOST_BY_ASSIGNEE}{reason}"))?;
            }
            (false, EnvelopeKind::Durable, _) => {
                self.confirmation_failed(now, peer, id, &format!("{LOST_BY_ASSIGNEE}{reason}"))?;
            }
            (true, ..) => {
                self.end(
                    now,
                    id,
                    Status::Canceled,
                    &format!("refused by the originator: {reason}"),
                )?;
            }
        }
        Ok(())
    }

    /// An envelope was not acknowledged in its time.
    pub(super) fn on_expired(
        &mut self,
        now: Now,
        peer: PeerId,
        entry: &OutboxEntry,
        tried: SendAttempts,
    ) -> Result<(), StoreError> {
        self.observe.count_expired();
        tracing::warn!(%peer, task = entry.task_id, envelope = entry.id, "an envelope expired undelivered");
        let ttl = self.limits.offline_ttl.unwrap_or_default();
        let reason = undelivered(ttl, tried, self.peers.is_connected(peer));
        match entry.kind {
            EnvelopeKind::SendTask => self.give_up(now, peer, &entry.task_id, tried.is_exposed(), &reason),
            EnvelopeKind::Durable => {
                self.question_expired(now, &entry.task_id, &reason)?;
                self.confirmation_failed(now, peer, &entry.task_id, &reason)
            }
            EnvelopeKind::Ephemeral => Ok(()),
        }
    }

    /// A question that its originator never got has no answer to wait for.
    fn question_expired(&mut self, now: Now, id: &str, reason: &str) -> Result<(), StoreError> {
        let waits = self
            .tasks
            .indexed(id)
            .is_some_and(|known| known.is_assignee && known.status == Status::InputRequired);
        if waits {
            self.abandon(now, id, &format!("its question was {reason}"))?;
        }
        Ok(())
    }

    /// Ends a task as FAILED at the originator. When the assignee has it (only a further message got
    /// lost or was refused) or may have it, it is told, so that it does not wait for ever.
    fn give_up(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
        may_be_there: bool,
        reason: &str,
    ) -> Result<(), StoreError> {
        let Some(task) = self.tasks.read(id)? else {
            return Ok(());
        };
        let is_there = may_be_there || task.status != Status::Submitted;
        if self.end(now, id, Status::Failed, reason)? && is_there {
            self.send_cancel(now, peer, id, TraceContext::from_metadata(&task.metadata))?;
        }
        Ok(())
    }
}

/// Why an envelope was given up. It begins with the time that it had, which others read.
fn undelivered(ttl: Duration, tried: SendAttempts, connected: bool) -> String {
    let within = wire::human_duration(ttl);
    let since = if tried.earlier {
        " since this daemon was started"
    } else {
        ""
    };
    let away = if connected {
        "though the peer was connected at the end"
    } else {
        "the peer was not connected"
    };
    let how = match (tried.times, tried.earlier) {
        (0, false) => format!("never sent, {away}"),
        (0, true) => format!("not sent{since}, {away}"),
        (1, _) => format!("sent once{since}, never acknowledged"),
        (2, _) => format!("sent twice{since}, never acknowledged"),
        (times, _) => format!("sent {times} times{since}, never acknowledged"),
    };
    format!("not delivered within {within}: {how}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_says_how_often_it_was_tried() {
        for (times, earlier, connected, said) in [
            (0, false, false, "never sent, the peer was not connected"),
            (
                0,
                false,
                true,
                "never sent, though the peer was connected at the end",
            ),
            (1, false, false, "sent once, never acknowledged"),
            (4, false, true, "sent 4 times, never acknowledged"),
            (
                0,
                true,
                false,
                "not sent since this daemon was started, the peer was not connected",
            ),
            (
                2,
                true,
                true,
                "sent twice since this daemon was started, never acknowledged",
            ),
        ] {
            let tried = SendAttempts { times, earlier };
            assert_eq!(
                undelivered(Duration::from_secs(3), tried, connected),
                format!("not delivered within 3 s: {said}")
            );
        }
    }
}
