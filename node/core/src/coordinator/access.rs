//! Who may use which agents of this node, by the word of its owner: access, invites, trust and requests; and what of its
//! agents a peer is shown.

use std::{collections::HashSet, sync::Arc};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentCard, AgentsPage};

use super::Coordinator;
use crate::{
    agent_choice::why_none,
    clock::Now,
    policy::{
        AskedFor, TaskSource,
        caller::CallerOfTask,
        grants::UsableSkills,
        invites::{Invite, SECRET},
        trusted_peers::PeerTrust,
    },
    task::{MAX_ID, Status},
    tasks::{TaskIndexEntry, unless_damaged},
    transaction::{Effect, EngineError},
    types::{AgentAccess, NewInvite, ShownCard, agent_name_of_card},
};

/// Why a task that nobody had begun ends when its sender is not let in any more.
const TAKEN_BACK: &str = "its sender is not let in to this agent any more";

/// Most entries that an error names.
const NAMED_TRUST: usize = 5;

/// What a peer is trusted for, in words.
fn scope_of(trust: &PeerTrust) -> String {
    let agent = match trust.agent.as_str() {
        "" => "every agent".to_owned(),
        agent => format!("agent {agent}"),
    };
    match trust.skill.as_str() {
        "" => agent,
        skill => format!("{agent} with skill {skill}"),
    }
}

/// Who is to be trusted, or not any more.
#[derive(Clone, Debug, Default)]
pub struct TrustScope {
    /// The agent; empty: every one.
    pub agent: String,
    /// The skill; empty: all.
    pub skill: String,
}

impl Coordinator {
    /// Who may use an agent, until this says otherwise; how many tasks ended by it.
    ///
    /// # Errors
    /// There is no such agent.
    pub(crate) fn set_agent_access(
        &mut self,
        now: Now,
        name: &str,
        access: AgentAccess,
    ) -> Result<usize, EngineError> {
        self.check_registered(name)?;
        let was_private = self.agents.is_named_private(name);
        self.agents.set_access(&mut self.transaction, name, access);
        self.after_access_change(now, name, was_private)
    }

    /// An agent was private or not, and may be otherwise now: where it was closed, tasks for it end that no agent has begun, and that
    /// their senders may not send any more. How many.
    pub(super) fn after_access_change(
        &mut self,
        now: Now,
        name: &str,
        was_private: bool,
    ) -> Result<usize, EngineError> {
        self.enable_access();
        if was_private || !self.agents.is_named_private(name) {
            return Ok(0);
        }
        let written = self.agents.written_name(name);
        self.end_tasks_not_let_in(now, |known| known.agent == written)
    }

    fn enable_access(&mut self) {
        if self.agents.has_private() {
            self.admission.enable_access();
        }
    }

    /// What the last run left is as today's is: invites of before say which agents they are for.
    pub(super) fn resume_access(&mut self) {
        self.enable_access();
        let agents = self.agents_of_today();
        let named = |name: &str| {
            self.agents
                .called(name)
                .map_or_else(|| agent_name_of_card(name), ToString::to_string)
        };
        self.admission
            .upgrade_invites(&mut self.transaction, &agents, named);
    }

    fn agents_of_today(&self) -> Vec<String> {
        self.agents.names().map(ToString::to_string).collect()
    }

    /// The agent of this node that is called so: by its name, or by that on its card.
    ///
    /// # Errors
    /// There is none.
    fn agent_called(&mut self, name: &str) -> Result<String, EngineError> {
        if name.len() > MAX_ID {
            return Err(EngineError::Invalid(format!(
                "the name of an agent may have {MAX_ID} bytes at most"
            )));
        }
        if let Some(known) = self.agents.called(name) {
            return Ok(known.to_string());
        }
        // While none is registered, the card that was set is the agent's.
        let own = self.node_card().filter(|_| self.agents.is_empty());
        let of_card = own.map(|card| (card.name.clone(), agent_name_of_card(&card.name)));
        match of_card {
            Some((called, agent)) if called == name || agent == name => Ok(agent),
            Some((_, agent)) => Err(EngineError::Precondition(why_none(
                name,
                "",
                std::iter::once(agent.as_str()),
            ))),
            None => Err(EngineError::Precondition(self.agents.no_such_agent(name))),
        }
    }

    /// Refuses a skill that no agent here has.
    fn check_has_skill(&mut self, agent: &str, skill: &str) -> Result<(), EngineError> {
        let has_skill = |card: &AgentCard| card.skills.iter().any(|has| has.id == skill);
        let is_here = if self.agents.is_empty() {
            self.node_card().is_some_and(|card| has_skill(&card))
        } else {
            let mut with = self.agents.all_with_skill(skill);
            with.any(|name| agent.is_empty() || **name == *agent)
        };
        if is_here || skill.is_empty() {
            return Ok(());
        }
        let shown = &skill[..skill.floor_char_boundary(64)];
        Err(EngineError::Precondition(if agent.is_empty() {
            format!("no agent here has the skill {shown:?}")
        } else {
            format!("agent {agent} does not have the skill {shown:?}")
        }))
    }

    /// Makes an invite.
    ///
    /// # Errors
    /// When it is none, there are too many, or no agent here is what it is for.
    pub(crate) fn create_invite(&mut self, now: Now, mut new: NewInvite) -> Result<Invite, EngineError> {
        if !new.agent.is_empty() {
            new.agent = self.agent_called(&new.agent)?;
        }
        if new.skill.len() > MAX_ID {
            return Err(EngineError::Invalid(format!(
                "the skill of an invite may have {MAX_ID} bytes at most"
            )));
        }
        self.check_has_skill(&new.agent, &new.skill)?;
        let agents = self.agents_of_today();
        self.admission
            .create_invite(&mut self.transaction, now, new, agents)
    }

    /// Takes back the invites with this id or label, and how many tasks ended by it. Tasks that an agent has begun go on.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn revoke_invite(
        &mut self,
        now: Now,
        name: &str,
    ) -> Result<(Vec<Invite>, usize), EngineError> {
        let gone = self.admission.revoke_invite(&mut self.transaction, name)?;
        let peers = gone.iter().flat_map(|invite| invite.peers.iter().copied());
        let ended = self.end_tasks_of_peers(now, &peers.collect())?;
        Ok((gone, ended))
    }

    /// A peer has shown the secret of an invite.
    pub(crate) fn on_invite(&mut self, now: Now, peer: PeerId, secret: &[u8]) {
        self.admission.on_invite(&mut self.transaction, now, peer, secret);
        self.end_answered_requests(now);
    }

    /// Shows this secret to a node from now on; `None`: nothing.
    ///
    /// # Errors
    /// When there are too many.
    pub(crate) fn accept_invite(
        &mut self,
        peer: PeerId,
        secret: Option<[u8; SECRET]>,
    ) -> Result<(), EngineError> {
        self.admission.accept_invite(&mut self.transaction, peer, secret)
    }

    /// Lets a peer use agents of this node.
    ///
    /// # Errors
    /// There is no such agent, or there are too many entries.
    pub(crate) fn trust_peer(
        &mut self,
        now: Now,
        peer: PeerId,
        mut scope: TrustScope,
    ) -> Result<PeerTrust, EngineError> {
        if peer == self.transaction.me() {
            return Err(EngineError::Invalid(
                "this is the node's own id; it may use its agents anyway".to_owned(),
            ));
        }
        if !scope.agent.is_empty() {
            scope.agent = self.agent_called(&scope.agent)?;
        }
        if scope.skill.len() > MAX_ID {
            return Err(EngineError::Invalid(format!(
                "a skill may have {MAX_ID} bytes at most"
            )));
        }
        self.check_has_skill(&scope.agent, &scope.skill)?;
        let trust = PeerTrust {
            peer: self.peers.current_key(peer),
            agent: scope.agent,
            skill: scope.skill,
            created_at: now.unix,
        };
        let entry = self.admission.trust_peer(&mut self.transaction, trust)?;
        self.end_answered_requests(now);
        Ok(entry)
    }

    /// Lets the peer of an access request use the agent that it asked for.
    ///
    /// # Errors
    /// There is no such request.
    pub(crate) fn trust_request(
        &mut self,
        now: Now,
        id: &str,
        mut scope: TrustScope,
    ) -> Result<PeerTrust, EngineError> {
        let Some(request) = self.admission.access_request(now, id) else {
            let shown: String = id.chars().take(MAX_ID).collect();
            return Err(EngineError::NotFound(format!("access request {shown:?}")));
        };
        if !scope.agent.is_empty() && scope.agent != request.agent {
            return Err(EngineError::Invalid(format!(
                "the access request {id} is for agent {}, not for {}",
                request.agent, scope.agent
            )));
        }
        scope.agent = request.agent;
        self.trust_peer(now, request.peer, scope)
    }

    /// Takes trust in a peer back, for this agent and skill where they are given; what that was, and how many tasks ended by it.
    ///
    /// # Errors
    /// The peer is not trusted so.
    pub(crate) fn untrust_peer(
        &mut self,
        now: Now,
        peer: PeerId,
        scope: &TrustScope,
    ) -> Result<(Vec<PeerTrust>, usize), EngineError> {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (agent, skill) = (given(&scope.agent), given(&scope.skill));
        let agent = agent.map(|name| self.agents.called(&name).map_or(name, ToString::to_string));
        let peer = self.peers.current_key(peer);
        let removed =
            self.admission
                .untrust_peer(&mut self.transaction, peer, agent.as_deref(), skill.as_deref());
        if removed.is_empty() {
            return Err(EngineError::Precondition(self.why_not_trusted(peer)));
        }
        let ended = self.end_tasks_of_peers(now, &HashSet::from([peer]))?;
        Ok((removed, ended))
    }

    /// Why there is nothing of a peer to take back; what it is trusted for is named.
    fn why_not_trusted(&self, peer: PeerId) -> String {
        let entries = self.admission.trusted_peers();
        let mut its = entries.iter().filter(|entry| entry.peer == peer);
        let named: Vec<String> = its.by_ref().take(NAMED_TRUST).map(scope_of).collect();
        let more = if its.next().is_some() { ", …" } else { "" };
        if named.is_empty() {
            return format!("{peer} is not trusted");
        }
        format!(
            "{peer} is not trusted so; it is trusted for {}{more}",
            named.join(", ")
        )
    }

    /// Requests of peers that may use the agent now, or for an agent that is not there any more, have their answer.
    pub(super) fn end_answered_requests(&mut self, now: Now) {
        let mut answered = HashSet::new();
        for request in self.admission.access_requests(now) {
            let is_there = self.agents.is_registered(&request.agent);
            if !is_there || self.may_use(request.peer, &request.agent) {
                answered.insert(request.id);
            }
        }
        self.admission
            .end_access_requests(&mut self.transaction, now, |request| {
                answered.contains(&request.id)
            });
    }

    /// Whether a peer may use something of an agent.
    fn may_use(&mut self, peer: PeerId, name: &str) -> bool {
        if !self.agents.is_named_private(name) {
            return true;
        }
        self.usable_skills_of(peer, name) != UsableSkills::None
    }

    /// What of a private agent a peer may use.
    pub(super) fn usable_skills_of(&mut self, peer: PeerId, name: &str) -> UsableSkills {
        let Some(card) = self.agents.card(name) else {
            return UsableSkills::None;
        };
        let skills = card.skills.iter().map(|skill| skill.id.as_str());
        self.admission.usable_skills(peer, name, skills)
    }

    /// Ends the tasks of these peers, and of those that followed them, that no agent has begun and that the peers may not send any
    /// more. How many.
    fn end_tasks_of_peers(&mut self, now: Now, peers: &HashSet<PeerId>) -> Result<usize, EngineError> {
        let keys = peers
            .iter()
            .flat_map(|peer| [*peer, self.peers.current_key(*peer)]);
        let keys: HashSet<PeerId> = keys.collect();
        self.end_tasks_not_let_in(now, |known| known.peer.is_some_and(|peer| keys.contains(&peer)))
    }

    /// The same of the tasks that `is_asked` wants: those of peers, and those of callers of a gateway of whom nobody knows who they are.
    fn end_tasks_not_let_in(
        &mut self,
        now: Now,
        is_asked: impl Fn(&TaskIndexEntry) -> bool,
    ) -> Result<usize, EngineError> {
        let asked = self.tasks.index().unended();
        let asked = asked.filter(|(_, known)| known.is_assignee && !known.claimed && is_asked(known));
        let mut ids: Vec<String> = asked.map(|(id, _)| id.to_owned()).collect();
        ids.sort_unstable();
        let mut ended = 0;
        for id in ids {
            let Some(task) = unless_damaged(self.tasks.read(&id))?.flatten() else {
                continue;
            };
            let caller = CallerOfTask::from_labels(&task.metadata);
            let source = match task.role.peer() {
                Some(peer) => TaskSource::Peer(peer),
                None if caller.is_stranger() => caller.source(),
                None => continue,
            };
            let written = task.agent.as_deref();
            let agent = self.agent_name(written).unwrap_or_default();
            let asked = AskedFor {
                skill: &task.skill,
                agent: &agent,
                is_private: self.agents.is_private(written),
            };
            if self.admission.keeps_out(source, asked) {
                self.end_unclaimed_or_tell(now, &id, Status::Rejected, TAKEN_BACK, false)?;
                ended += 1;
            }
        }
        Ok(ended)
    }

    /// The key of a peer is another one: what it is trusted for goes with it.
    pub(super) fn migrate_trust(&mut self, old: PeerId, new: PeerId) {
        let trusted = self
            .admission
            .untrust_peer(&mut self.transaction, old, None, None);
        for trust in trusted {
            let trust = PeerTrust { peer: new, ..trust };
            if let Err(error) = self.admission.trust_peer(&mut self.transaction, trust) {
                tracing::error!(%new, %error, "a trusted peer has a new key, and is not trusted by that");
            }
        }
    }

    /// What of this node's agents others see.
    pub(crate) fn shown_card(&self) -> ShownCard {
        ShownCard {
            own: self.node_card(),
            public: self.public_card(),
            has_private: self.agents.has_private(),
            rights: self.rights,
        }
    }

    fn public_card(&self) -> Option<Arc<AgentCard>> {
        if self.agents.is_empty() {
            return self.peers.own_card().cloned();
        }
        let dispatch = &self.dispatch;
        self.agents
            .public_card(|written| dispatch.has_listeners_of(written))
    }

    /// The card of this node with the agents that a peer may use; `None`: there is none.
    pub(crate) fn card_for(&mut self, peer: PeerId) -> Option<Arc<AgentCard>> {
        if !self.agents.has_private() {
            return self.node_card();
        }
        let Self {
            agents,
            admission,
            dispatch,
            ..
        } = self;
        agents.card_for(
            |written| dispatch.has_listeners_of(written),
            |name, card| {
                let skills = card.skills.iter().map(|skill| skill.id.as_str());
                admission.usable_skills(peer, name, skills)
            },
        )
    }

    /// Whole cards of the agents that are asked for, as many as one card holds. `peer`: who asks; `None`: this node.
    pub(crate) fn agents_page(&mut self, wanted: &AgentsPage, peer: Option<PeerId>) -> AgentCard {
        let Self {
            agents, admission, ..
        } = self;
        agents.page(wanted, |name, card| {
            let Some(peer) = peer else {
                return UsableSkills::All;
            };
            let skills = card.skills.iter().map(|skill| skill.id.as_str());
            admission.usable_skills(peer, name, skills)
        })
    }

    /// Whole cards of open agents that are asked for.
    pub(crate) fn public_agents_page(&self, wanted: &AgentsPage) -> AgentCard {
        self.agents.page(wanted, |_, _| UsableSkills::None)
    }

    /// Shows its card anew to each peer that may use other agents than before.
    pub(super) fn tell_peers_their_cards(&mut self) {
        let mut changed: Vec<PeerId> = self.admission.take_grants_changed();
        if !self.agents.has_private() {
            return;
        }
        changed.sort_unstable_by_key(|peer| peer.to_bytes());
        changed.dedup();
        for peer in changed {
            self.transaction.effect(Effect::PeerCard(peer));
        }
    }
}
