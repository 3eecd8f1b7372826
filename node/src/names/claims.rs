//! What a card claims of its peer, read and bounded. PURE. Nothing of it counts as it stands here.

use agentanycast_identity::{
    DidDns, DidWeb, MAX_ROTATIONS, PeerId,
    credential::{Credential, Entry},
    did_key_of,
    rotation::Rotation,
};
use agentanycast_proto::v1::P2pExtension;

use super::Asks;

/// Credentials of a card that are looked at; they are in the order of its owner.
const MAX_CREDENTIALS: usize = 8;

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claims {
    pub(super) web: Option<DidWeb>,
    pub(super) dns: Option<DidDns>,
    /// Those that are about this peer, by one of its names.
    pub(super) credentials: Vec<Credential>,
    /// Their signatures hold; whether they count now, and lead to this peer, is not said.
    pub(super) rotations: Vec<Rotation>,
}

/// Whom one has to ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// The document of a did:web.
    Web(DidWeb),
    /// The records of a domain.
    Dns(DidDns),
    /// The status list at this URL.
    List(String),
}

impl Claims {
    /// What cannot be read is left out: whoever wrote it proves nothing by it.
    pub(super) fn of(peer: PeerId, extension: &P2pExtension) -> Self {
        let web: Option<DidWeb> = extension.did_web.parse().ok();
        let rotations = extension.key_rotations.iter().take(MAX_ROTATIONS);
        let rotations: Vec<Rotation> = rotations.filter_map(|bytes| Rotation::read(bytes).ok()).collect();
        let mut names: Vec<String> = did_key_of(peer).into_iter().collect();
        names.extend(rotations.iter().filter_map(|rotation| did_key_of(rotation.old())));
        names.extend(web.as_ref().map(ToString::to_string));
        let read = |text: &String| Credential::read(text.as_bytes()).ok();
        let credentials = extension.verifiable_credentials.iter().take(MAX_CREDENTIALS);
        Self {
            credentials: credentials
                .filter_map(read)
                .filter(|one| names.contains(&one.grant().subject))
                .collect(),
            dns: extension.did_dns.parse().ok(),
            web,
            rotations,
        }
    }

    /// Whether there is anything that these rules ask for.
    pub(super) fn is_any(&self, asks: &Asks) -> bool {
        !self.rotations.is_empty()
            || (asks.names && (self.web.is_some() || self.dns.is_some()))
            || self.credentials_by(asks).next().is_some()
    }

    /// The credentials of issuers that count.
    pub(super) fn credentials_by<'a>(&'a self, asks: &'a Asks) -> impl Iterator<Item = &'a Credential> {
        let counts = |one: &&Credential| asks.issuers.contains(&one.grant().issuer);
        self.credentials.iter().filter(counts)
    }

    /// Whom one has to ask about them.
    pub(super) fn sources(&self, asks: &Asks) -> Vec<Source> {
        let mut sources = Vec::new();
        // The subject of a credential may be the name of the web.
        if asks.names || self.credentials_by(asks).next().is_some() {
            sources.extend(self.web.clone().map(Source::Web));
        }
        if asks.names {
            sources.extend(self.dns.clone().map(Source::Dns));
        }
        for credential in self.credentials_by(asks) {
            let grant = credential.grant();
            sources.extend(grant.issuer.parse().ok().map(Source::Web));
            sources.extend(
                grant
                    .status
                    .iter()
                    .map(|Entry { list, .. }| Source::List(list.clone())),
            );
        }
        sources
    }
}
