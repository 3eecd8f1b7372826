//! Which peers and agents this node knows, by name and by skill.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use agentanycast_identity::peer_of_did_key;
use agentanycast_proto::v1::{
    DiscoverRequest, DiscoverResponse, DiscoveredAgent, KnownPeer, ListAgentsRequest, ListAgentsResponse,
    ListKnownPeersRequest, ListKnownPeersResponse, ListedAgent, ResolveDidRequest, ResolveDidResponse,
};

use super::{Service, ServiceError, ServiceResult, peers::peer_info};
use crate::{
    anycast::{AgentOnNode, DEFAULT_RESULTS, DirectoryEntry, MAX_RESULTS},
    identity_resolver::DidWebLookupError,
};

impl Service {
    pub(crate) async fn list_known_peers(
        &self,
        _: ListKnownPeersRequest,
    ) -> ServiceResult<ListKnownPeersResponse> {
        let me = self.net().local_peer();
        let connected = self.net().peers();
        let is_connected: HashSet<_> = connected.iter().map(|peer| peer.peer).collect();
        let (own, named) = self.engine().known_names().await?;
        let known = |peer, name, connected| KnownPeer {
            peer_id: agentanycast_identity::PeerId::to_string(&peer),
            name,
            own: peer == me,
            connected,
        };
        let mut peers = vec![known(me, own, false)];
        let named = named.into_iter().filter(|(peer, _)| *peer != me);
        let (here, before): (Vec<_>, Vec<_>) = named.partition(|(peer, _)| is_connected.contains(peer));
        let has_name: HashSet<_> = here.iter().map(|(peer, _)| *peer).collect();
        let nameless = connected.iter().map(|peer| peer.peer);
        let nameless = nameless.filter(|peer| !has_name.contains(peer));
        peers.extend(here.into_iter().map(|(peer, name)| known(peer, name, true)));
        peers.extend(nameless.map(|peer| known(peer, String::new(), true)));
        peers.extend(before.into_iter().map(|(peer, name)| known(peer, name, false)));
        Ok(ListKnownPeersResponse { peers })
    }

    pub(crate) async fn list_agents(&self, request: ListAgentsRequest) -> ServiceResult<ListAgentsResponse> {
        let skill = Some(request.skill_id.as_str()).filter(|skill| !skill.is_empty());
        let directory = self.anycast().directory(skill, request.nearby).await;
        let me = self.net().local_peer();
        let connected = self.net().peers();
        let own: Vec<IpAddr> = self
            .net()
            .listen_addrs()
            .iter()
            .filter_map(|one| ip_of(one))
            .collect();
        let listed = |agent: DirectoryEntry| {
            let at = connected.iter().find(|peer| peer.peer == agent.agent.peer);
            let kind = at.map_or(0, |peer| peer_info(peer).connection_type);
            ListedAgent {
                peer_id: agent.agent.peer.to_string(),
                own: agent.agent.peer == me,
                connection_type: kind,
                lan: at.is_some_and(|peer| peer.direct && peer.addresses.iter().any(|one| is_lan(one, &own))),
                registered: agent.registered,
                name: agent.agent.name,
                description: agent.agent.description,
                skills: agent.agent.skills,
                verified: agent.agent.verified,
                agent: String::new(),
            }
        };
        let agents = directory.agents.into_iter().flat_map(|mut entry| {
            let agents = std::mem::take(&mut entry.agent.agents);
            each_agent(listed(entry), agents, skill)
        });
        Ok(ListAgentsResponse {
            agents: agents.collect(),
            unanswered: directory.unanswered,
            skills: directory.skills,
        })
    }

    pub(crate) async fn discover(&self, request: DiscoverRequest) -> ServiceResult<DiscoverResponse> {
        if request.skill_id.is_empty() {
            return Err(ServiceError::invalid("skill_id is empty"));
        }
        let limit = match usize::try_from(request.limit) {
            Ok(0) | Err(_) => DEFAULT_RESULTS,
            Ok(limit) => limit.min(MAX_RESULTS),
        };
        let found = self
            .anycast()
            .discover(&request.skill_id, &request.tags, limit)
            .await?;
        let nobody = found.agents.is_empty();
        let meant_skill = nobody
            .then(|| self.anycast().closest_skill(&request.skill_id))
            .flatten();
        let agents = found.agents.into_iter().map(|found| DiscoveredAgent {
            agent: found.agent_with(&request.skill_id).to_owned(),
            peer_id: found.peer.to_string(),
            agent_name: found.name,
            agent_description: found.description,
            skills: found.skills,
            verified: found.verified,
        });
        Ok(DiscoverResponse {
            agents: agents.collect(),
            remembered: found.from_cache,
            unanswered: found.unanswered,
            meant_skill: meant_skill.unwrap_or_default(),
        })
    }

    pub(crate) async fn resolve_did(&self, request: ResolveDidRequest) -> ServiceResult<ResolveDidResponse> {
        if let Some(peer) = peer_of_did_key(&request.did) {
            let peer_ids = vec![peer.to_string()];
            return Ok(ResolveDidResponse { peer_ids });
        }
        let peers = self.node.did_web.peers(&request.did).await.map_err(|error| {
            let text = error.to_string();
            match error {
                DidWebLookupError::Invalid(_) => ServiceError::invalid(text),
                _ => ServiceError::unavailable(text),
            }
        })?;
        Ok(ResolveDidResponse {
            peer_ids: peers.iter().map(ToString::to_string).collect(),
        })
    }
}

/// A node as its agents, where it has several: those that have the skill.
fn each_agent(node: ListedAgent, agents: Vec<AgentOnNode>, skill: Option<&str>) -> Vec<ListedAgent> {
    if agents.is_empty() {
        return vec![node];
    }
    let has_it = |agent: &AgentOnNode| skill.is_none_or(|skill| agent.skills.iter().any(|id| id == skill));
    let each = agents.into_iter().filter(has_it).map(|agent| ListedAgent {
        name: agent.name,
        description: agent.description,
        skills: node
            .skills
            .iter()
            .filter(|skill| agent.skills.contains(&skill.skill_id))
            .cloned()
            .collect(),
        agent: agent.agent,
        ..node.clone()
    });
    each.collect()
}

/// Whether a peer at this multiaddr is on this host or its network: its address is private, or of the same /24 (IPv4) or
/// /64 (IPv6) as one of this node's.
fn is_lan(address: &str, own: &[IpAddr]) -> bool {
    match ip_of(address) {
        Some(IpAddr::V4(ip)) => {
            let net = |ip: Ipv4Addr| ip.octets()[..3].to_vec();
            let is_near = |own: &IpAddr| matches!(own, IpAddr::V4(own) if net(*own) == net(ip));
            ip.is_private() || ip.is_loopback() || ip.is_link_local() || own.iter().any(is_near)
        }
        Some(IpAddr::V6(ip)) => {
            let net = |ip: Ipv6Addr| ip.segments()[..4].to_vec();
            let is_near = |own: &IpAddr| matches!(own, IpAddr::V6(own) if net(*own) == net(ip));
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local() || own.iter().any(is_near)
        }
        None => false,
    }
}

/// The IP address that a multiaddr begins with.
fn ip_of(address: &str) -> Option<IpAddr> {
    agentanycast_limits::ip_of(&address.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::is_lan;

    #[test]
    fn a_lan_is_told_by_its_addresses() {
        let own = ["203.0.113.7".parse().unwrap(), "2001:db8:1::7".parse().unwrap()];
        for here in [
            "/ip4/127.0.0.1/tcp/1",
            "/ip4/192.168.1.2/udp/1/quic-v1",
            "/ip4/203.0.113.9/tcp/1",
            "/ip6/fe80::1/tcp/1",
            "/ip6/fd00::1/tcp/1",
            "/ip6/2001:db8:1::9/tcp/1",
        ] {
            assert!(is_lan(here, &own), "{here}");
        }
        for there in [
            "/ip4/192.0.2.1/tcp/1",
            "/ip6/2001:db8:2::1/tcp/1",
            "/dns4/a.example/tcp/1",
            "/p2p-circuit",
            "",
        ] {
            assert!(!is_lan(there, &own), "{there}");
        }
    }
}
