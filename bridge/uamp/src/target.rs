//! Whom of the mesh a receiver of an envelope is: `did:key`, the gateway's own DID,
//! `urn:agentanycast:skill:…`, aliases, and DIDs that cards name.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use agentanycast_gateway::{Gateway, OWN_NODE, Target, address_of};
use agentanycast_identity::peer_of_did_key;
use agentanycast_uamp::{
    envelope::Envelope,
    error::{UampError, shown},
};

use super::settings::UampAlias;

/// How skills are named.
pub(crate) const SKILL_URN: &str = "urn:agentanycast:skill:";

/// The extensions that choose a skill or an agent behind a DID.
pub(crate) const SKILL_EXT: &str = "x-aa-skill";
pub(crate) const AGENT_EXT: &str = "x-aa-agent";

/// How long what cards say of DIDs is kept.
const CARDS_FOR: Duration = Duration::from_mins(1);

/// Cards that are read for their DIDs.
const MOST_CARDS: usize = 256;

/// Refuses what chooses an agent and is malformed, or chooses two. `fixed` is the target of a receiver that chooses
/// all alone; `is_own` says that the receiver is this gateway, so that a skill may be chosen beside it.
fn check_routing(
    envelope: &Envelope,
    (uri, at): (&str, usize),
    fixed: Option<&Target>,
    is_own: bool,
) -> Result<(), UampError> {
    for name in [SKILL_EXT, AGENT_EXT] {
        let is_name = envelope.extension(name).is_some_and(|text| !text.is_empty());
        if envelope.has_extension(name) && !is_name {
            let text = "has to be a text that is not empty";
            return Err(UampError::field(format!("ext.{name}"), text));
        }
    }
    let skill = envelope.extension(SKILL_EXT);
    let agent = envelope.extension(AGENT_EXT);
    if uri == SKILL_URN {
        let text = "names no skill behind the last colon";
        return Err(UampError::field(format!("to.{at}"), text));
    }
    let is_did = fixed.is_none() && uri.starts_with("did:");
    let of_receiver = uri.split_once('#').map(|(_, agent)| agent).filter(|_| is_did);
    if of_receiver == Some("") {
        let text = "names no agent behind #; leave # out for the primary one";
        return Err(UampError::field(format!("to.{at}"), text));
    }
    let contradiction = |first: String, second: String| {
        let text = format!("{first} and {second} choose two receivers; leave one of them out");
        Err(UampError::field(format!("to.{at}"), text))
    };
    let named = |name: &str, value: &str| format!("ext {name} {:?}", shown(value));
    if let Some(fixed) = fixed {
        if let Some(skill) = skill.filter(|skill| !matches!(fixed, Target::Skill(one) if one == skill)) {
            return contradiction(shown(uri), named(SKILL_EXT, skill));
        }
        let names = |name: &str| matches!(fixed, Target::Agent { agent, .. } if agent == name);
        if let Some(agent) = agent.filter(|agent| !names(agent)) {
            return contradiction(shown(uri), named(AGENT_EXT, agent));
        }
        return Ok(());
    }
    match (of_receiver, agent, skill) {
        (Some(one), Some(other), _) if one != other => {
            contradiction(format!("#{}", shown(one)), named(AGENT_EXT, other))
        }
        (Some(one), _, Some(skill)) => contradiction(format!("#{}", shown(one)), named(SKILL_EXT, skill)),
        (_, Some(agent), Some(skill)) => contradiction(named(AGENT_EXT, agent), named(SKILL_EXT, skill)),
        // A skill chooses among all agents of the mesh, a foreign DID is one of them.
        (None, None, Some(skill)) if !is_own => contradiction(shown(uri), named(SKILL_EXT, skill)),
        _ => Ok(()),
    }
}

/// Finds receivers.
pub(super) struct Receivers {
    own_did: String,
    aliases: Vec<UampAlias>,
    cards: Mutex<CardDids>,
}

#[derive(Default)]
struct CardDids {
    read: Option<Instant>,
    /// The agents by their DIDs.
    agents: HashMap<String, String>,
}

impl Receivers {
    pub(super) fn new(own_did: &str, aliases: Vec<UampAlias>) -> Self {
        Self {
            own_did: own_did.to_owned(),
            aliases,
            cards: Mutex::default(),
        }
    }

    /// Whom `to[at]` of an envelope is.
    pub(super) async fn target(
        &self,
        envelope: &Envelope,
        at: usize,
        node: &dyn Gateway,
    ) -> Result<Target, UampError> {
        let uri = envelope.to().get(at).map_or("", String::as_str);
        let fixed = self.fixed_target(uri);
        let (did, agent) = uri.split_once('#').unwrap_or((uri, ""));
        check_routing(envelope, (uri, at), fixed.as_ref(), did == self.own_did)?;
        if let Some(target) = fixed {
            return Ok(target);
        }
        let agent = match agent {
            "" => envelope.extension(AGENT_EXT).unwrap_or_default(),
            agent => agent,
        };
        if did == self.own_did {
            return Ok(match envelope.extension(SKILL_EXT) {
                Some(skill) => Target::Skill(skill.to_owned()),
                None => Target::from_peer_and_agent(OWN_NODE, agent),
            });
        }
        if peer_of_did_key(did).is_some() {
            return Ok(Target::from_peer_and_agent(did, agent));
        }
        match self.by_card(did, node).await {
            Some(address) if agent.is_empty() => Ok(Target::parse_agent(&address)),
            Some(address) => {
                let (peer, _) = address.split_once('/').unwrap_or((&address, ""));
                Ok(Target::from_peer_and_agent(peer, agent))
            }
            None => Err(UampError::field(
                format!("to.{at}"),
                format!(
                    "{} is not known here; did:key, {SKILL_URN}ID and aliases are",
                    shown(uri)
                ),
            )),
        }
    }

    /// The target of a receiver that is the name of a skill or an alias.
    fn fixed_target(&self, uri: &str) -> Option<Target> {
        if let Some(skill) = uri.strip_prefix(SKILL_URN) {
            return Some(Target::Skill(skill.to_owned()));
        }
        let alias = self.aliases.iter().find(|alias| alias.name == uri)?;
        Some(alias.mesh_target())
    }

    async fn by_card(&self, did: &str, node: &dyn Gateway) -> Option<String> {
        let lookup = |cards: &CardDids| {
            let fresh = cards.read.is_some_and(|read| read.elapsed() < CARDS_FOR);
            fresh.then(|| cards.agents.get(did).cloned())
        };
        let known = lookup(&self.cards.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(known) = known {
            return known;
        }
        let mut agents = HashMap::new();
        if let Ok(own) = node.did_web().await
            && !own.is_empty()
        {
            agents.insert(own, OWN_NODE.to_owned());
        }
        let listed = node.agents(None).await.unwrap_or_default();
        for agent in listed.iter().filter(|agent| !agent.own).take(MOST_CARDS) {
            if let Ok(card) = node.card(&agent.peer_id).await
                && let Some(named) = card.p2p_extension
            {
                for did in [named.did_web, named.did_dns] {
                    if !did.is_empty() {
                        agents.entry(did).or_insert_with(|| address_of(agent));
                    }
                }
            }
        }
        let found = agents.get(did).cloned();
        *self.cards.lock().unwrap_or_else(PoisonError::into_inner) = CardDids {
            read: Some(Instant::now()),
            agents,
        };
        found
    }
}
