//! The secret of an invite that a peer shows on its card.

use agentanycast_proto::v1::{AgentCard, P2pExtension};
use bytes::Bytes;
use prost::Message as _;

/// A peer's card without the secret on it, if there is more on it than who shows it, and the secret.
pub(crate) fn split(card: Bytes) -> (Option<Bytes>, Vec<u8>) {
    let Ok(mut read) = AgentCard::decode(card.clone()) else {
        return (Some(card), Vec::new()); // Whoever passed it on has decoded it.
    };
    let apart = read.p2p_extension.as_mut().map(|extension| {
        let refused = std::mem::take(&mut extension.invite_refused);
        (std::mem::take(&mut extension.invite), !refused.is_empty())
    });
    let (secret, had_refusal) = apart.unwrap_or_default();
    if secret.is_empty() && !had_refusal {
        return (Some(card), secret);
    }
    let says_only_who = {
        let mut rest = read.clone();
        if let Some(extension) = &mut rest.p2p_extension {
            extension.peer_id.clear();
            extension.did_key.clear();
            extension.instance.clear();
            extension.instances_seen.clear();
        }
        rest.p2p_extension
            .take_if(|extension| *extension == P2pExtension::default());
        rest == AgentCard::default()
    };
    ((!says_only_who).then(|| read.encode_to_vec().into()), secret)
}
