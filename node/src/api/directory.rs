//! DirectoryService: which peers and agents this node knows, for people who call them by name.

use agentanycast_proto::v1::{
    KnownPeer, ListKnownPeersRequest, ListKnownPeersResponse, ResolveDidRequest, ResolveDidResponse,
    directory_service_server::DirectoryService,
};
use tonic::{Request, Response, Status};

use super::{Api, status_for_asker};
use crate::names::WhoisError;

#[tonic::async_trait]
impl DirectoryService for Api {
    async fn list_known_peers(
        &self,
        _: Request<ListKnownPeersRequest>,
    ) -> Result<Response<ListKnownPeersResponse>, Status> {
        let me = self.net().local_peer();
        let connected = self.net().peers();
        let is_connected: std::collections::HashSet<_> = connected.iter().map(|peer| peer.peer).collect();
        let (own, named) = self
            .engine()
            .call(|core, _| {
                let own = core.card().map(|card| card.name).unwrap_or_default();
                let named = core.named_peers().map(|(peer, name)| (peer, name.to_owned()));
                Ok((own, named.collect::<Vec<_>>()))
            })
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
        let nameless = connected.iter().map(|peer| peer.peer);
        let nameless = nameless.filter(|peer| here.iter().all(|(named, _)| named != peer));
        let nameless: Vec<_> = nameless.map(|peer| (peer, String::new())).collect();
        peers.extend(here.into_iter().map(|(peer, name)| known(peer, name, true)));
        peers.extend(nameless.into_iter().map(|(peer, name)| known(peer, name, true)));
        peers.extend(before.into_iter().map(|(peer, name)| known(peer, name, false)));
        Ok(Response::new(ListKnownPeersResponse { peers }))
    }

    async fn resolve_did(
        &self,
        request: Request<ResolveDidRequest>,
    ) -> Result<Response<ResolveDidResponse>, Status> {
        let did = request.into_inner().did;
        let peers = self.node.web_names.peers(&did).await.map_err(|error| {
            let text = error.to_string();
            match error {
                WhoisError::Invalid(_) => Status::invalid_argument(text),
                _ => Status::unavailable(text),
            }
        })?;
        Ok(Response::new(ResolveDidResponse {
            peer_ids: peers.iter().map(ToString::to_string).collect(),
        }))
    }
}
