//! What time does: retries, expiry, deadlines, agents that stay away, the collection of old tasks;
//! and what a new connection and a new start do.

use std::time::Duration;

use agentanycast_daemon_kit::duration;
use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{GetTaskPayload, a2a_envelope::Payload};
use agentanycast_store::StoreError;

use super::Coordinator;
use crate::{
    clock::Now,
    delivery::outbox::EnvelopeKind,
    task::Status,
    tasks::{TaskIndexEntry, unless_damaged},
    trace_context::TraceContext,
    transaction::Effect,
};

/// How often expiry and collection are looked after.
const GC_INTERVAL: Duration = Duration::from_secs(1);

/// Open tasks asked about when their assignee is back.
const MAX_QUERIES: usize = 1000;

impl Coordinator {
    /// True when [`Coordinator::tick`] has something to wait for in the next moments.
    pub(crate) fn needs_clock(&self) -> bool {
        self.peers.needs_clock()
            || self.tasks.index().has_deadlines()
            || self.tasks.has_more_to_collect()
            || self.routing.needs_clock()
            || self.dispatch.needs_clock()
    }

    /// Looks after everything that depends on time. Called every 100 ms while
    /// [`Coordinator::needs_clock`], and at least once a second.
    pub(crate) fn tick(&mut self, now: Now) -> Result<(), StoreError> {
        let waiting = self.peers.poll_waiting();
        self.peers.migrate_queues(&mut self.transaction, now)?;
        self.reassign_silent(now)?;
        self.send_due_claims(now)?;
        self.dispatch.tick_trials(now);
        for id in self.tasks.index().overdue(now.unix) {
            let missed = self.miss_deadline(now, &id);
            if unless_damaged(missed)?.is_none() {
                self.tasks.drop_deadline(&id);
            }
        }
        if self.tasks.has_more_to_collect() {
            self.collect(now)?;
        }
        if now.mono.saturating_sub(self.last_slow_tick) < GC_INTERVAL {
            return Ok(());
        }
        self.last_slow_tick = now.mono;
        for peer in waiting {
            self.expire(now, peer)?;
        }
        self.release_expired_held(now)?;
        for peer in self.peers.due_for_query(now) {
            self.query_open_tasks(now, peer)?;
        }
        self.fail_abandoned(now)?;
        self.fail_declined(now)?;
        self.refuse_without_skill(now)?;
        self.fail_overlong(now)?;
        self.forget_agents(now);
        let deliveries = self.dispatch.tick(now, self.limits.agent_grace);
        self.hand_over(now, deliveries)?;
        self.collect(now)?;
        self.transaction.save_clock(now);
        self.peers.expire_rotations(&mut self.transaction, now);
        self.peers.forget_silent(&mut self.transaction, now)
    }

    /// Both sides know the deadline, but not with the same calendar, and a deployed peer knows none.
    fn miss_deadline(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
        let reason = "its deadline has passed";
        // One that is damaged is told from one that cannot be told about.
        self.tasks.read(id)?;
        match self.tasks.indexed(id) {
            // Its agent has never seen it, and its originator knows the deadline too.
            Some(known) if known.held => self.end(now, id, Status::Failed, reason).map(drop),
            Some(known) if known.is_assignee => self.abandon(now, id, reason),
            Some(known) => {
                let assignee = known.peer;
                self.end(now, id, Status::Failed, reason)?;
                assignee.map_or(Ok(()), |peer| self.notify_legacy_assignee(now, peer, id))
            }
            None => Ok(()),
        }
    }

    fn expire(&mut self, now: Now, peer: PeerId) -> Result<(), StoreError> {
        for (entry, tried) in self.peers.expire(&self.transaction, now, peer) {
            self.peers.on_left_queue(&mut self.transaction, peer, &entry);
            self.on_expired(now, peer, &entry, tried)?;
        }
        Ok(())
    }

    /// Ends what nobody works on any more: tasks whose agent's connection has been gone for the grace
    /// time without another taking over, and every claimed task when no agent at all is there. (One that was answered
    /// meanwhile waits for agents to come, and as long for one of them to take it.)
    fn fail_abandoned(&mut self, now: Now) -> Result<(), StoreError> {
        let grace = self.limits.agent_grace;
        let lost = self.dispatch.lost_claims(now, grace);
        let lost = lost.filter(|id| !self.is_reoffered(id));
        let mut abandoned: Vec<String> = lost.map(str::to_owned).collect();
        abandoned.sort_unstable();
        for agent in self.dispatch.idle_agents(now, grace) {
            let agent = agent.as_deref();
            let is_its = |known: &TaskIndexEntry| known.is_assignee && known.agent.as_deref() == agent;
            let unended = self.tasks.index().unended();
            let idle =
                unended.filter(|(id, known)| is_its(known) && (known.claimed || self.is_reoffered(id)));
            let idle = idle.map(|(id, _)| id.to_owned()).collect::<Vec<_>>();
            abandoned.extend(idle);
            if self.offer_back(now, agent)? {
                self.dispatch.note_activity(now, agent);
            }
        }
        abandoned.sort_unstable();
        abandoned.dedup();
        for id in &abandoned {
            let is_over = self.tasks.indexed(id).is_some_and(|known| {
                // Whoever streams an artifact is there, listening or not.
                let is_open = !known.status.is_terminal() && !known.open_streams;
                let is_attended = self.dispatch.has_listeners_of(known.agent.as_deref());
                is_open && (known.claimed || is_attended || self.is_reoffered(id))
            });
            if is_over {
                self.abandon_claimed(now, id)?;
            }
        }
        Ok(())
    }

    /// Ends what agents have had for longer than they may.
    fn fail_overlong(&mut self, now: Now) -> Result<(), StoreError> {
        let Some(limit) = self.limits.max_task_time else {
            return Ok(());
        };
        let tasks = self.tasks.index().unended().filter(|(_, known)| {
            let asks = known.status == Status::InputRequired;
            known.is_assignee && !known.held && !asks
        });
        let tasks = tasks.map(|(id, known)| (id, known.agent.as_deref(), known.claimed));
        for id in self.dispatch.overlong(now, limit, tasks) {
            let reason = format!(
                "its agent had it for longer than {}, the limit that its node has set (max_task_time)",
                duration::format(limit)
            );
            unless_damaged(self.abandon(now, &id, &reason))?;
        }
        Ok(())
    }

    fn collect(&mut self, now: Now) -> Result<(), StoreError> {
        for id in self.tasks.collect(&mut self.transaction, now)? {
            self.withdraw(&id);
            self.external.forget_notes(&mut self.transaction, &id);
            self.transaction.effect(Effect::Forget { task_id: id });
        }
        self.external.expire_opened(&mut self.transaction, now);
        Ok(())
    }

    /// The first connection to a peer is up.
    pub(crate) fn on_connected(&mut self, now: Now, peer: PeerId) -> Result<(), StoreError> {
        self.peers.on_connected(&mut self.transaction, peer)?;
        self.query_open_tasks(now, peer)
    }

    /// Asks a peer about the open tasks that were sent to it, unless something about them waits for it.
    fn query_open_tasks(&mut self, now: Now, peer: PeerId) -> Result<(), StoreError> {
        if !self.peers.is_sequenced(&self.transaction, peer)? {
            return Ok(());
        }
        let waiting = self.peers.queued_tasks(peer);
        let mut open: Vec<String> = self
            .tasks
            .index()
            .all()
            .filter(|(_, known)| {
                !known.is_assignee && known.peer == Some(peer) && !known.status.is_terminal()
            })
            .map(|(id, _)| id.to_owned())
            .filter(|id| !waiting.contains(id))
            .collect();
        open.sort_unstable();
        if open.len() > MAX_QUERIES {
            // Another part of them each time, so that none is never asked about.
            let first = self.transaction.new_epoch() as usize % open.len();
            open.rotate_left(first);
        }
        for id in open.into_iter().take(MAX_QUERIES) {
            let payload = Payload::GetTask(GetTaskPayload { task_id: id.clone() });
            let trace = TraceContext::default();
            self.send(now, peer, &id, EnvelopeKind::Ephemeral, payload, trace)?;
        }
        Ok(())
    }
}
