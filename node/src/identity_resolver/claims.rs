//! What a card claims of its peer, read and bounded. PURE. Nothing of it counts as it stands here.

use std::fmt;

use agentanycast_core::policy::RequiredProofs;
use agentanycast_daemon_kit::error_chain::one_line;
use agentanycast_identity::{
    DidDns, DidWeb, MAX_ROTATIONS, PeerId,
    credential::{Credential, StatusEntry},
    did_key_of,
    rotation::Rotation,
};
use agentanycast_proto::v1::P2pExtension;

/// Credentials of a card that are looked at; they are in the order of its owner.
const MAX_CREDENTIALS: usize = 8;

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IdentityClaims {
    pub(super) web: Option<DidWeb>,
    pub(super) dns: Option<DidDns>,
    /// Those that are about this peer, by one of its names.
    pub(super) credentials: Vec<Credential>,
    /// Their signatures hold; whether they count now, and lead to this peer, is not said.
    pub(super) rotations: Vec<Rotation>,
}

/// Whom one has to ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClaimSource {
    /// The document of a did:web.
    Web(DidWeb),
    /// The records of a domain.
    Dns(DidDns),
    /// The status list at this URL.
    StatusList(String),
}

/// Longest URL that is shown whole, in bytes.
const MAX_SHOWN: usize = 300;

impl fmt::Display for ClaimSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web(did) => did.fmt(f),
            Self::Dns(did) => did.fmt(f),
            // It is of somebody's credential, and may be any text.
            Self::StatusList(url) => f.write_str(&one_line(url, MAX_SHOWN)),
        }
    }
}

impl IdentityClaims {
    /// What cannot be read is left out: whoever wrote it proves nothing by it.
    pub(super) fn from_extension(peer: PeerId, extension: &P2pExtension) -> Self {
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
    pub(super) fn is_any(&self, asks: &RequiredProofs) -> bool {
        !self.rotations.is_empty()
            || (asks.names && (self.web.is_some() || self.dns.is_some()))
            || self.credentials_by(asks).next().is_some()
    }

    /// The credentials of issuers that count.
    pub(super) fn credentials_by<'a>(
        &'a self,
        asks: &'a RequiredProofs,
    ) -> impl Iterator<Item = &'a Credential> {
        let counts = |one: &&Credential| asks.issuers.contains(&one.grant().issuer);
        self.credentials.iter().filter(counts)
    }

    /// Whom one has to ask about them.
    pub(super) fn sources(&self, asks: &RequiredProofs) -> Vec<ClaimSource> {
        let mut sources = Vec::new();
        // The subject of a credential may be the name of the web.
        if asks.names || self.credentials_by(asks).next().is_some() {
            sources.extend(self.web.clone().map(ClaimSource::Web));
        }
        if asks.names {
            sources.extend(self.dns.clone().map(ClaimSource::Dns));
        }
        for credential in self.credentials_by(asks) {
            let grant = credential.grant();
            sources.extend(grant.issuer.parse().ok().map(ClaimSource::Web));
            sources.extend(
                grant
                    .status
                    .iter()
                    .map(|StatusEntry { list, .. }| ClaimSource::StatusList(list.clone())),
            );
        }
        sources
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_shown_by_its_name_or_url_in_one_line() {
        let web = ClaimSource::Web("did:web:localhost".parse().unwrap());
        let dns = ClaimSource::Dns("did:dns:nope.example".parse().unwrap());
        let list = ClaimSource::StatusList(format!("https://a.example/\n{}", "x".repeat(1 << 10)));
        assert_eq!(
            (web.to_string(), dns.to_string()),
            ("did:web:localhost".to_owned(), "did:dns:nope.example".to_owned())
        );
        assert!(list.to_string().starts_with("https://a.example/ x") && list.to_string().len() == MAX_SHOWN);
    }
}
