//! What the answers prove of a peer: its names, who it was, and whether somebody vouches for it. PURE.

use agentanycast_core::Now;
use agentanycast_core::policy::PeerAttributes;
use agentanycast_identity::{
    Document, PeerId,
    credential::{Credential, StatusList, issuer_keys},
    did_key_of,
    rotation::former,
};

use super::{ClaimSource, IdentityCache, SourceAnswer};

/// Longest reason, in characters.
const MAX_REASON: usize = 300;

impl IdentityCache {
    /// What is proven of a peer by the answers that are there, and when that changes by itself.
    pub(super) fn attributes_of(&self, now: Now, peer: PeerId) -> Option<(PeerAttributes, Option<u64>)> {
        let claims = &self.peers.peek(&peer)?.claims;
        let mut standing = PeerAttributes {
            former: former(peer, &claims.rotations, now.unix),
            ..PeerAttributes::default()
        };
        let mut look_at: Option<u64> = None;
        let mut sooner = |at: u64| {
            if at > now.unix {
                look_at = Some(look_at.map_or(at, |known| known.min(at)));
            }
        };
        claims
            .rotations
            .iter()
            .for_each(|rotation| sooner(rotation.ends_ms()));
        if let Some(did) = &claims.web
            && self
                .document(&did.to_string())
                .is_some_and(|document| document.names(peer))
        {
            standing.names.push(did.to_string());
        }
        if let Some(did) = &claims.dns
            && let Some(SourceAnswer::Peers(peers)) = self.said(&ClaimSource::Dns(did.clone()))
            && peers.contains(&peer)
        {
            standing.names.push(did.to_string());
        }
        for credential in claims.credentials_by(&self.required) {
            let grant = credential.grant();
            sooner(grant.from_ms);
            grant.until_ms.iter().for_each(|until| sooner(*until));
            standing.vouched |=
                is_called(peer, &standing, &grant.subject) && self.check(now, credential).is_ok();
        }
        Some((standing, look_at))
    }

    /// Whether a source had said that a name is another's before this peer has shown that it is its own.
    pub(super) fn predates_claim(&self, peer: PeerId, source: &ClaimSource) -> bool {
        let (Some(known), Some(entry)) = (self.peers.peek(&peer), self.sources.peek(source)) else {
            return false;
        };
        let claims = &known.claims;
        let denies = match (source, &entry.answer) {
            (ClaimSource::Web(did), Some(SourceAnswer::Document(document))) => {
                claims.web.as_ref() == Some(did) && !document.names(peer)
            }
            (ClaimSource::Dns(did), Some(SourceAnswer::Peers(peers))) => {
                claims.dns.as_ref() == Some(did) && !peers.contains(&peer)
            }
            _ => false,
        };
        denies && !entry.is_asked && entry.answered_at < known.shown_at
    }

    /// What a peer says of itself and does not count, with the reasons.
    pub(super) fn unproven_claims(&self, now: Now, peer: PeerId) -> Vec<String> {
        let (Some(known), Some((standing, _))) = (self.peers.peek(&peer), self.attributes_of(now, peer))
        else {
            return Vec::new();
        };
        let claims = &known.claims;
        let mut unproven = Vec::new();
        if self.required.names {
            let web = claims
                .web
                .as_ref()
                .map(|did| (did.to_string(), ClaimSource::Web(did.clone())));
            let dns = claims
                .dns
                .as_ref()
                .map(|did| (did.to_string(), ClaimSource::Dns(did.clone())));
            for (did, source) in web.into_iter().chain(dns) {
                let why = match self.said(&source) {
                    Some(SourceAnswer::Document(document)) if document.names(peer) => continue,
                    Some(SourceAnswer::Peers(peers)) if peers.contains(&peer) => continue,
                    Some(_) => "what is published for it does not have the key of this peer".to_owned(),
                    None => self.missing("what is published for it", Some(&source)),
                };
                unproven.push(format!("{did}: {why}"));
            }
        }
        for credential in claims.credentials_by(&self.required) {
            let grant = credential.grant();
            let why = match self.check(now, credential) {
                Err(why) => why,
                Ok(()) if is_called(peer, &standing, &grant.subject) => continue,
                Ok(()) => format!("it is about {}, which is not proven", grant.subject),
            };
            unproven.push(format!("the credential of {}: {why}", grant.issuer));
        }
        let short = |text: String| text.chars().take(MAX_REASON).collect();
        unproven.into_iter().map(short).collect()
    }

    /// Whether a credential counts, by its issuer, its time and its status; else why not.
    fn check(&self, now: Now, credential: &Credential) -> Result<(), String> {
        let grant = credential.grant();
        let document = self.document(&grant.issuer);
        let keys = issuer_keys(&grant.issuer, document);
        if keys.is_empty() && document.is_none() {
            let source = grant.issuer.parse().ok().map(ClaimSource::Web);
            return Err(self.missing("the document of its issuer", source.as_ref()));
        }
        credential
            .check(&keys, now.unix)
            .map_err(|error| error.to_string())?;
        let Some(entry) = &grant.status else { return Ok(()) };
        let source = ClaimSource::StatusList(entry.list.clone());
        let Some(SourceAnswer::List(list)) = self.said(&source) else {
            return Err(self.missing("its status list", Some(&source)));
        };
        StatusList::read(list, &grant.issuer, &keys, now.unix)
            .and_then(|list| list.check(entry))
            .map_err(|error| error.to_string())
    }

    fn document(&self, did: &str) -> Option<&Document> {
        match self.said(&ClaimSource::Web(did.parse().ok()?))? {
            SourceAnswer::Document(document) => Some(document),
            _ => None,
        }
    }

    /// That a source says nothing, and why.
    fn missing(&self, what: &str, source: Option<&ClaimSource>) -> String {
        let entry = source.and_then(|source| self.sources.peek(source));
        match entry.map_or("", |entry| &*entry.why) {
            "" => format!("{what} cannot be had"),
            why => format!("{what} cannot be had: {why}"),
        }
    }

    fn said(&self, source: &ClaimSource) -> Option<&SourceAnswer> {
        self.sources.peek(source)?.answer.as_ref()
    }
}

/// Whether this is a name of a peer of whom so much is proven.
fn is_called(peer: PeerId, standing: &PeerAttributes, name: &String) -> bool {
    let mut keys = std::iter::once(peer).chain(standing.former.iter().copied());
    keys.any(|key| did_key_of(key).as_ref() == Some(name)) || standing.names.contains(name)
}

/// Whether something counted before and does not now.
pub(super) fn has_lost(before: &PeerAttributes, now: &PeerAttributes) -> bool {
    before.names.iter().any(|name| !now.names.contains(name))
        || before.former.iter().any(|peer| !now.former.contains(peer))
        || (before.vouched && !now.vouched)
}
