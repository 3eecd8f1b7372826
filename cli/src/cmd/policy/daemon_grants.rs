//! What the daemon that runs has beside the rules of its settings: its agents and who may use them, invites, and trust.

use agentanycast::{AgentAccess, ErrorKind, Invite, Node, NodeAgent, PeerTrust};
use agentanycast_core::policy::{
    PeerAttributes,
    grants::{GrantedAgents, PeerGrant},
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

/// An agent that a task may be for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AskedAgent {
    /// Empty: no agent that is known.
    pub(super) name: String,
    pub(super) is_private: bool,
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

    /// The agents that a task for this agent and skill may be for, as the daemon would choose: by its name, by its skill, or the
    /// primary one, and the others where that is private. None: the node has no agents.
    ///
    /// # Errors
    /// The node has none of that name.
    pub(super) fn asked_agents(&self, name: &str, skill: &str) -> Result<Vec<AskedAgent>, CommandFailure> {
        let asked = |agent: &NodeAgent| AskedAgent {
            name: agent.name.clone(),
            is_private: agent.access == AgentAccess::Private,
        };
        if !name.is_empty() {
            let of_name = self.agents.iter().find(|agent| agent.name == name);
            if of_name.is_none() && !self.agents.is_empty() {
                let names: Vec<&str> = self.agents.iter().map(|agent| agent.name.as_str()).collect();
                return Err(CommandFailure::usage(format!(
                    "--agent: this node has no agent {name:?}; there are: {}",
                    names.join(", ")
                )));
            }
            return Ok(of_name.map(asked).into_iter().collect());
        }
        let has_skill = |agent: &&NodeAgent| agent.card.skills.iter().any(|known| known.id == skill);
        let with: Vec<AskedAgent> = self.agents.iter().filter(has_skill).map(asked).collect();
        if !skill.is_empty() && !with.is_empty() {
            return Ok(with);
        }
        let (primary, others): (Vec<_>, Vec<_>) = self.agents.iter().partition(|agent| agent.primary);
        let is_closed = primary.iter().all(|agent| agent.access == AgentAccess::Private);
        let others = others.into_iter().filter(|_| is_closed);
        Ok(primary.into_iter().chain(others).map(asked).collect())
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
