//! DirectoryService: which peers and agents this node knows, for people who call them by name.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use agentanycast_identity::peer_of_did_key;
use agentanycast_proto::v1::{
    KnownPeer, ListAgentsRequest, ListAgentsResponse, ListKnownPeersRequest, ListKnownPeersResponse,
    ListedAgent, ResolveDidRequest, ResolveDidResponse, directory_service_server::DirectoryService,
};
use tonic::{Request, Response, Status};

use super::{Api, node_service::peer_info, status_for_asker};
use crate::{
    anycast::{AgentOnNode, DirectoryEntry},
    identity_resolver::DidWebLookupError,
};

#[tonic::async_trait]
impl DirectoryService for Api {
    async fn list_known_peers(
        &self,
        _: Request<ListKnownPeersRequest>,
    ) -> Result<Response<ListKnownPeersResponse>, Status> {
        let me = self.net().local_peer();
        let connected = self.net().peers();
        let is_connected: HashSet<_> = connected.iter().map(|peer| peer.peer).collect();
        let (own, named) = self
            .engine()
            .known_names()
            .await
            .map_err(|error| status_for_asker(&error))?;
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
        Ok(Response::new(ListKnownPeersResponse { peers }))
    }

    async fn list_agents(
        &self,
        request: Request<ListAgentsRequest>,
    ) -> Result<Response<ListAgentsResponse>, Status> {
        let request = request.into_inner();
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
        Ok(Response::new(ListAgentsResponse {
            agents: agents.collect(),
            unanswered: directory.unanswered,
            skills: directory.skills,
        }))
    }

    async fn resolve_did(
        &self,
        request: Request<ResolveDidRequest>,
    ) -> Result<Response<ResolveDidResponse>, Status> {
        let did = request.into_inner().did;
        if let Some(peer) = peer_of_did_key(&did) {
            let peer_ids = vec![peer.to_string()];
            return Ok(Response::new(ResolveDidResponse { peer_ids }));
        }
        let peers = self.node.did_web.peers(&did).await.map_err(|error| {
            let text = error.to_string();
            match error {
                DidWebLookupError::Invalid(_) => Status::invalid_argument(text),
                _ => Status::unavailable(text),
            }
        })?;
        Ok(Response::new(ResolveDidResponse {
            peer_ids: peers.iter().map(ToString::to_string).collect(),
        }))
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
