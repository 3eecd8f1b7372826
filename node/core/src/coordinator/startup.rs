//! Taking up what the last run left: the state as the store has it, streams broken off, tasks to hand over, peers to
//! reach.

use std::sync::Arc;

use agentanycast_identity::PeerId;
use agentanycast_store::{Store, StoreError};

use super::{Coordinator, inbound::stop_streams};
use crate::{
    admission::Admission,
    agents::Agents,
    clock::Now,
    dispatch::{Dispatch, LostClaim, OfferKind},
    external::External,
    observe::Observe,
    peers::Peers,
    routing::Routing,
    task::Status,
    tasks::{TaskIndexEntry, Tasks, unless_damaged},
    transaction::{EngineLimits, Transaction},
};

impl Coordinator {
    /// The state as the store has it. `seed` feeds ids and epochs: random in a daemon, fixed in a
    /// simulation.
    pub(crate) fn load(
        me: PeerId,
        limits: EngineLimits,
        store: Arc<dyn Store>,
        now: Now,
        seed: u64,
    ) -> Result<Self, StoreError> {
        let mut transaction = Transaction::new(me, store, now, seed)?;
        let mut tasks = Tasks::load(&transaction, &limits)?;
        tasks.set_clock_ms(transaction.clock_ms(now));
        transaction.save_clock(now);
        let mut coordinator = Self {
            peers: Peers::load(&mut transaction, &limits, now)?,
            external: External::load(&transaction, |task| tasks.indexed(task).is_some())?,
            admission: Admission::load(&transaction)?,
            agents: Agents::load(&transaction, limits.max_agents, limits.node_name.clone())?,
            dispatch: Dispatch::new(now, limits.hand_over.clone()),
            routing: Routing::default(),
            observe: Observe::new(&limits),
            rights: 0,
            last_slow_tick: now.mono,
            tasks,
            transaction,
            limits,
        };
        coordinator.resume(now)?;
        coordinator.resume_access();
        coordinator.resume_routing(now);
        Ok(coordinator)
    }

    fn resume(&mut self, now: Now) -> Result<(), StoreError> {
        self.break_off_streams(now)?;
        self.stop_streams_of_ended();
        self.mark_claims_lost(now);
        let mut unclaimed: Vec<(u64, String)> = self
            .tasks
            .index()
            .all()
            .filter(|(_, known)| {
                let is_kept_back = known.held || known.awaits_skill;
                known.is_assignee && !known.claimed && !is_kept_back && !known.status.is_terminal()
            })
            .map(|(id, known)| (known.updated_at, id.to_owned()))
            .collect();
        unclaimed.sort();
        for (_, id) in unclaimed {
            let weight = self.tasks.weight(&id);
            let as_what = self.offered_after_start(&id)?;
            let agent = self.agent_of(&id);
            self.dispatch.offer(now, agent.as_deref(), &id, as_what, weight);
        }
        let open = self
            .tasks
            .index()
            .unended()
            .filter(|(_, known)| known.is_assignee);
        for (_, known) in open {
            self.agents.on_task_begun(known.agent.as_deref());
        }
        self.resume_external();
        self.peers.want_all(&mut self.transaction);
        Ok(())
    }

    /// Streams that a daemon left open when it stopped right after the end of their task.
    fn stop_streams_of_ended(&mut self) {
        let ended = self
            .tasks
            .index()
            .all()
            .filter(|(_, known)| known.open_streams && !known.is_assignee && known.status.is_terminal());
        let mut ended: Vec<String> = ended.map(|(id, _)| id.to_owned()).collect();
        ended.sort_unstable();
        for id in ended {
            if let Ok(Some(task)) = self.tasks.read(&id)
                && let Some(stop) = stop_streams(&task)
            {
                self.transaction.effect(stop);
            }
        }
    }

    /// After a start no connection of before is there: what was claimed may be taken over, and fails if nobody
    /// does, also when other agents listen; so does what was answered since.
    fn mark_claims_lost(&mut self, now: Now) {
        let claimed = self.tasks.index().all().filter(|(_, known)| {
            let is_begun = known.claimed || known.status == Status::Working;
            known.is_assignee && is_begun && !known.status.is_terminal()
        });
        let lost = |(id, known): (&str, &TaskIndexEntry)| LostClaim {
            task: id.to_owned(),
            automatic: !known.claimed && known.agent_ends > 0,
        };
        self.dispatch.set_lost_claims(now, claimed.map(lost));
    }

    /// What an unclaimed task is to the agents after a start.
    fn offered_after_start(&mut self, id: &str) -> Result<OfferKind, StoreError> {
        let Some(known) = self.tasks.indexed(id) else {
            return Ok(OfferKind::InProgress);
        };
        let ends = known.agent_ends;
        let is_new = match known.status {
            Status::Submitted => true,
            Status::Working if ends > 0 => unless_damaged(self.tasks.read(id))?
                .flatten()
                .is_some_and(|task| task.has_no_report()),
            _ => false,
        };
        Ok(if is_new {
            OfferKind::Again { ends }
        } else {
            OfferKind::InProgress
        })
    }

    /// Takes up the tasks sent by skill that the last run left without an answer.
    fn resume_routing(&mut self, now: Now) {
        let routed = self.tasks.index().all();
        let routed = routed.filter(|(_, known)| known.routed && !known.status.is_terminal());
        for (id, known) in routed {
            if let Some(peer) = known.peer {
                self.routing
                    .resume(&mut self.transaction, now, id, peer, known.awaits_assignee);
            }
        }
    }
}
