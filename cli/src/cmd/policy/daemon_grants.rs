//! What the daemon that runs has beside the rules of its settings: its agents and who may use them, invites, and trust.

use std::time::{SystemTime, UNIX_EPOCH};

use agentanycast::{AgentAccess, ErrorKind, Invite, Node, NodeAgent, PeerTrust};
use agentanycast_core::{
    agent_choice::{AgentList, AgentLoad},
    policy::{
        PeerAttributes,
        grants::{GrantedAgents, PeerGrant},
    },
};
use agentanycast_identity::PeerId;

use crate::{context::Context, failure::CommandFailure, shared_args::PolicyFile};

/// What a daemon has beside its settings.
pub(super) struct DaemonGrants {
    /// The invites that it has given out.
    pub(super) invites: Vec<Invite>,
    /// The peers that it trusts; `None`: it is too old to trust any.
    pub(super) trust: Option<Vec<PeerTrust>>,
    agents: Vec<NodeAgent>,
}

/// The agents of a node as the rule of their choice asks about them. Which skills they had a short time ago a daemon does not
/// tell, nor which of them failed of late.
pub(super) struct AskedAgents<'a> {
    agents: &'a [NodeAgent],
    all_private: bool,
}

impl AskedAgents<'_> {
    fn named(&self, name: &str) -> Option<&NodeAgent> {
        self.agents.iter().find(|agent| agent.name == name)
    }
}

impl AgentList for AskedAgents<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(|agent| agent.name.as_str())
    }

    fn registered(&self, name: &str) -> Option<&str> {
        self.named(name).map(|agent| agent.name.as_str())
    }

    fn primary(&self) -> Option<&str> {
        let primary = self.agents.iter().find(|agent| agent.primary);
        primary.map(|agent| agent.name.as_str())
    }

    fn is_private(&self, name: &str) -> bool {
        let is_private = |agent: &NodeAgent| self.all_private || agent.access == AgentAccess::Private;
        self.named(name).is_some_and(is_private)
    }

    fn has_service(&self) -> bool {
        self.agents.iter().any(|agent| !agent.by_card)
    }

    fn with_skill(&self, skill: &str) -> Vec<AgentLoad<'_>> {
        let has_skill = |agent: &&NodeAgent| agent.card.skills.iter().any(|known| known.id == skill);
        let with = self.agents.iter().filter(has_skill);
        with.map(|agent| AgentLoad {
            name: &agent.name,
            is_attached: agent.listeners > 0,
            open_tasks: agent.open_tasks as usize,
            failures: 0,
            last_attached: agent.last_attached_at.map_or(0, unix_ms),
        })
        .collect()
    }

    fn lost_skill(&self, _: &str) -> Vec<AgentLoad<'_>> {
        Vec::new()
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

impl DaemonGrants {
    /// Of the daemon that these settings are of; `None`: none runs, or it is not known to be that one.
    pub(super) async fn read(context: &Context, file: &PolicyFile) -> Result<Option<Self>, CommandFailure> {
        if file.config.is_some() && !context.daemon_given() {
            return Ok(None);
        }
        let node = match context.connect().await {
            Ok(node) => node,
            Err(failure) if failure.is_daemon_away() => return Ok(None),
            Err(failure) => return Err(failure),
        };
        Self::of(&node).await.map(Some)
    }

    async fn of(node: &Node) -> Result<Self, CommandFailure> {
        // A daemon that is too old to have some says so.
        let known = |error: agentanycast::Error| match error.kind() {
            ErrorKind::Unsupported => Ok(()),
            _ => Err(CommandFailure::from(error)),
        };
        let invites = node
            .invites()
            .await
            .or_else(|error| known(error).map(|()| Vec::new()))?;
        let agents = node
            .node_agents()
            .await
            .or_else(|error| known(error).map(|()| Vec::new()))?;
        let trust = match node.trusted_peers().await {
            Ok(trust) => Some(trust),
            Err(error) => known(error).map(|()| None)?,
        };
        Ok(Self {
            invites,
            trust,
            agents,
        })
    }

    /// Its agents, `all_private` or as it has them.
    pub(super) fn agents(&self, all_private: bool) -> AskedAgents<'_> {
        AskedAgents {
            agents: &self.agents,
            all_private,
        }
    }

    /// What a peer has by this daemon's invites and trust, by any of its keys.
    pub(super) fn add_to(&self, key: Option<PeerId>, standing: &mut PeerAttributes) {
        let keys: Vec<String> = key
            .iter()
            .chain(&standing.former)
            .map(ToString::to_string)
            .collect();
        let is_its = |peer: &agentanycast::PeerId| keys.iter().any(|key| key == peer.as_str());
        let trust = self.trust.iter().flatten().filter(|trust| is_its(&trust.peer));
        let trust = trust.map(|trust| PeerGrant {
            label: None,
            agents: granted(&trust.agent, None),
            skill: trust.skill.clone(),
        });
        let invites = self
            .invites
            .iter()
            .filter(|invite| invite.peers.iter().any(is_its));
        standing.grants.extend(trust.chain(invites.map(grant_of)));
    }

    /// What the invites with this label let a peer do; nothing: there is none.
    pub(super) fn of_label(&self, label: &str) -> Vec<PeerGrant> {
        let labelled = self.invites.iter().filter(|invite| invite.label == label);
        labelled.map(grant_of).collect()
    }
}

fn grant_of(invite: &Invite) -> PeerGrant {
    PeerGrant {
        label: Some(invite.label.clone()),
        agents: granted(&invite.agent, Some(&invite.agents)),
        skill: invite.skill.clone(),
    }
}

/// `of_then`: the agents that the node had, where it is for every open agent and these.
fn granted(agent: &str, of_then: Option<&Vec<String>>) -> GrantedAgents {
    match (agent, of_then) {
        ("", None) => GrantedAgents::All,
        ("", Some(agents)) => GrantedAgents::OpenAnd(agents.iter().cloned().collect()),
        (agent, _) => GrantedAgents::Only(agent.to_owned()),
    }
}
